//! `weir doctor`.

use insta::assert_snapshot;

use crate::weir::Weir;

/// The report without what depends on the machine.
fn shown(weir: &Weir, args: &[&str]) -> String {
    let text = weir.show(args);
    let differs = ["ok    identity", "ok    sandbox", "ok    file system", "ok    journal", "ok    log"];
    let lines = text.lines().map(|line| match differs.iter().find(|start| line.starts_with(**start)) {
        Some(start) => format!("{start}  […]"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_journal_passes() {
    let weir = Weir::with_notes();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &[7; 100_000]);
    assert_snapshot!(shown(&weir, &["doctor"]), @"
    exit 0
    -- stdout
    ok    identity  […]
    ok    sandbox  […]
    ok    data directory  `.weir`, writable
    ok    file system  […]
    ok    in use by       nobody else
    ok    access          only this user
    ok    journal  […]
    ok    log  […]
    ok    newest events   of 2 streams read and checked; `weir verify` checks all
    ok    damage          none found
    ok    blobs           1 stored
    ok    left-overs      none
    ");
    let document = weir.json(&["doctor"]);
    assert_eq!(document["healthy"], true);
    let checks: Vec<_> =
        document["checks"].as_array().unwrap().iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert_eq!(
        checks,
        [
            "identity",
            "sandbox",
            "data directory",
            "file system",
            "in use by",
            "access",
            "journal",
            "log",
            "newest events",
            "damage",
            "blobs",
            "left-overs"
        ]
    );
}

#[test]
fn whoever_uses_the_journal_is_named() {
    let weir = Weir::with_notes();
    let mut follower = weir
        .command()
        .args(["cat", "--stream", "notes", "--follow"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Its first output shows that it holds the lock.
    let mut byte = [0];
    std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut byte).unwrap();
    let report = weir.ok(&["doctor"]);
    let pid = follower.id();
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(report.contains(&format!("1 process: {pid} (")), "{report}");
    assert!(report.contains("weir cat --stream"), "{report}");
}

#[test]
fn trouble_is_found_with_the_next_step() {
    let weir = Weir::new();
    assert_snapshot!(shown(&weir, &["doctor"]), @"
    exit 1
    -- stdout
    ok    identity  […]
    ok    sandbox  […]
    fail  data directory  there is no `.weir`
                          help: name the right directory with `--data-dir DIR`, or begin a journal here with `weir append`
    -- stderr
    error: 1 check failed
    help: take the steps named above, then run `weir doctor` again
    ");
    std::fs::write(weir.path().join("file"), "").unwrap();
    assert_snapshot!(shown(&weir, &["doctor", "--data-dir", "file"]), @"
    exit 1
    -- stdout
    ok    identity  […]
    ok    sandbox  […]
    fail  data directory  `file` is not a directory
                          help: name a directory with `--data-dir DIR`
    -- stderr
    error: 1 check failed
    help: take the steps named above, then run `weir doctor` again
    ");
    std::fs::create_dir(weir.data()).unwrap();
    assert_snapshot!(shown(&weir, &["doctor"]), @"
    exit 1
    -- stdout
    ok    identity  […]
    ok    sandbox  […]
    ok    data directory  `.weir`, writable
    ok    file system  […]
    ok    in use by       nobody else
    fail  journal         there is no journal at `.weir`
                          help: go to the project, or name it with `--project DIR`; `--data-dir DIR` names the data itself, and `weir chat AGENT` or `weir append` begins a journal
    ok    damage          none found
    ok    blobs           none stored
    ok    left-overs      none
    -- stderr
    error: 1 check failed
    help: take the steps named above, then run `weir doctor` again
    ");

    let weir = Weir::with_notes();
    let sql = "UPDATE events SET ts = ts + 1 WHERE position = 3";
    rusqlite::Connection::open(weir.journal()).unwrap().execute(sql, []).unwrap();
    let stray = weir.data().join("blobs/tmp/stray");
    std::fs::create_dir_all(stray.parent().unwrap()).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 60 * 60);
    std::fs::File::create(stray).unwrap().set_modified(long_ago).unwrap();
    assert_snapshot!(shown(&weir, &["doctor"]), @"
    exit 1
    -- stdout
    ok    identity  […]
    ok    sandbox  […]
    ok    data directory  `.weir`, writable
    ok    file system  […]
    ok    in use by       nobody else
    ok    access          only this user
    ok    journal  […]
    ok    log  […]
    fail  newest events   event 3 of notes@main is damaged: its hash chain does not fit
                          help: run `weir verify --stream 'notes'`, then restore the data from a backup
    ok    damage          none found
    ok    blobs           0 stored
    warn  left-overs      1 temporary file of writers that died
                          help: remove them with `weir blob gc`
    -- stderr
    error: 1 check failed
    help: take the steps named above, then run `weir doctor` again
    ");
    assert_eq!(weir.error(&["doctor"]), (1, "cli::unhealthy".to_owned()));
}

//! `weir verify`: sound journals, damaged ones, and anchors.

use insta::assert_snapshot;
use rusqlite::Connection;
use serde_json::Value;

use crate::weir::Weir;

/// Changes the file behind the journal's back.
fn tamper(weir: &Weir, sql: &str) {
    let changed = Connection::open(weir.journal()).unwrap().execute(sql, []).unwrap();
    assert!(changed > 0, "{sql} changed nothing");
}

#[test]
fn a_sound_journal_is_said_to_be_sound_and_no_more() {
    let weir = Weir::with_notes();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &[7; 100_000]);
    assert_snapshot!(weir.show(&["verify"]), @"
    exit 0
    -- stdout
    checked 2 streams, 3 branches, 5 events, 1 blob: sound
    -- stderr
    note: checked: every page, table and index; every event against its hash chain; blobs and builds against their hashes
    note: not known without an anchor: whether the newest events were removed without a trace, or the file was rewritten as a whole; keep what `weir verify --print-anchor` prints elsewhere
    ");
    assert_snapshot!(weir.show(&["verify", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"sound":true,"checked":["pages","tables","indexes","events","blobs","builds"],"not_known":["names-of-empty-forks","owners","removed-tail","rewritten-journal"],"streams":2,"branches":3,"events":5,"blobs":1,"problems":[]}
    "#);
    assert_snapshot!(weir.show(&["verify", "--stream", "notes"]), @"
    exit 0
    -- stdout
    checked 1 stream, 2 branches, 4 events, 0 blobs: sound
    -- stderr
    note: checked: the events of this stream against their hash chains, their blobs, and the tables that find them
    note: not known without an anchor: whether the newest events were removed without a trace, or the file was rewritten as a whole; keep what `weir verify --print-anchor` prints elsewhere
    ");
}

#[test]
fn damage_is_named_and_reading_it_is_refused() {
    let weir = Weir::with_notes();
    tamper(&weir, "UPDATE events SET ts = ts + 1 WHERE position = 2");
    assert_snapshot!(weir.show(&["verify"]), @"
    exit 1
    -- stdout
    damaged  stream `notes`, branch `main`, seq 2: its hash chain does not fit
    checked 1 stream, 2 branches, 4 events, 0 blobs
    -- stderr
    error: the journal is damaged: 1 problem found
    help: stop writing to it, keep a copy, and restore a `weir backup`; streams not named above can still be exported
    ");
    assert_snapshot!(weir.show(&["verify", "--json"]), @r#"
    exit 1
    -- stdout
    {"version":1,"sound":false,"checked":["pages","tables","indexes","events","blobs","builds"],"not_known":["names-of-empty-forks","owners","removed-tail","rewritten-journal"],"streams":1,"branches":2,"events":4,"blobs":0,"problems":[{"stream":"notes","branch":"main","seq":2,"what":"its hash chain does not fit"}]}
    -- stderr
    {"error":{"code":"journal::damaged","message":"the journal is damaged: 1 problem found","help":"stop writing to it, keep a copy, and restore a `weir backup`; streams not named above can still be exported"}}
    "#);
    assert_snapshot!(weir.show(&["cat", "--stream", "notes", "--after", "1"]), @"
    exit 1
    -- stderr
    error: event 2 of notes@main is damaged: its hash chain does not fit
    help: run `weir verify --stream 'notes'`, then restore the data from a backup
    ");
    assert_eq!(weir.error(&["export"]), (1, "journal::export-incomplete".to_owned()));
}

#[test]
fn a_cut_tail_and_a_lost_blob_are_found() {
    let weir = Weir::with_notes();
    tamper(&weir, "DELETE FROM events WHERE position = 3");
    // The second finding is the gap in the positions of the file.
    assert_eq!(
        problems(&weir, &["verify"]),
        [("notes".into(), "main".into(), 3), (String::new(), String::new(), 0)]
    );

    let weir = Weir::with_notes();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &[7; 100_000]);
    let hash = weir_types::Hash::of(&[7; 100_000]).to_string();
    std::fs::remove_file(weir.data().join("blobs").join(&hash[..2]).join(&hash[2..])).unwrap();
    assert_eq!(problems(&weir, &["verify"]), [("big".into(), "main".into(), 1)]);
    assert_eq!(weir.error(&["cat", "--stream", "big"]), (1, "blobs::missing".to_owned()));
}

/// Stream, branch and seq of everything found. The command must fail, and say so as a program expects.
fn problems(weir: &Weir, args: &[&str]) -> Vec<(String, String, u64)> {
    let ran = weir.run(&[args, &["--json"]].concat());
    assert_eq!(ran.error(), (1, "journal::damaged".to_owned()));
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["sound"], false);
    let place = |problem: &serde_json::Value| {
        let text = |field: &str| problem[field].as_str().unwrap_or_default().to_owned();
        (text("stream"), text("branch"), problem["seq"].as_u64().unwrap_or_default())
    };
    document["problems"].as_array().unwrap().iter().map(place).collect()
}

#[test]
fn an_anchor_is_data_and_the_rest_is_not() {
    let weir = Weir::with_notes();
    assert_snapshot!(weir.show(&["verify", "--print-anchor"]), @r#"
    exit 0
    -- stdout
    {"weir_anchor":1}
    {"stream":"notes","branch":"main","seq":3,"chain":"[hash]"}
    {"stream":"notes","branch":"draft","seq":3,"chain":"[hash]"}
    -- stderr
    note: checked 1 stream, 2 branches, 4 events, 0 blobs: sound
    note: keep this anchor where a person who can change the journal cannot write
    "#);
    let printed = weir.ok(&["verify", "--print-anchor"]);
    let document = weir.json(&["verify", "--print-anchor"]);
    assert_eq!(document["anchor"], printed);

    std::fs::write(weir.path().join("anchor"), &printed).unwrap();
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added"]);
    assert_snapshot!(weir.show(&["verify", "--anchor", "anchor"]), @"
    exit 0
    -- stdout
    checked 1 stream, 2 branches, 5 events, 0 blobs: sound
    -- stderr
    note: checked: every page, table and index; every event against its hash chain; blobs and builds against their hashes
    note: everything that the anchor covers is there, unchanged
    ");
    assert_eq!(weir.run_with(&["verify", "--anchor", "-"], printed.as_bytes()).code, 0);
}

#[test]
fn an_anchor_finds_a_journal_that_was_rewritten_as_a_whole() {
    let weir = Weir::with_notes();
    std::fs::write(weir.path().join("anchor"), weir.ok(&["verify", "--print-anchor"])).unwrap();
    std::fs::remove_dir_all(weir.data()).unwrap();
    for n in ["1", "2", "\"forged\""] {
        weir.ok(&["append", "--stream", "notes", "--kind", "note.added", "--payload", n]);
    }
    assert_eq!(weir.run(&["verify"]).code, 0);
    assert_snapshot!(weir.show(&["verify", "--anchor", "anchor"]), @"
    exit 1
    -- stdout
    damaged  stream `notes`, branch `main`, seq 3: the chain is not the anchored one
    damaged  stream `notes`, branch `draft`, seq 3: the anchored event cannot be read: stream `notes` has no branch `draft`
    checked 1 stream, 1 branch, 3 events, 0 blobs
    -- stderr
    error: the journal is damaged: 2 problems found
    help: stop writing to it, keep a copy, and restore a `weir backup`; streams not named above can still be exported
    ");
    assert_eq!(
        problems(&weir, &["verify", "--anchor", "anchor"]),
        [("notes".to_owned(), "main".to_owned(), 3), ("notes".to_owned(), "draft".to_owned(), 3)]
    );
}

#[test]
fn a_damaged_journal_gives_no_anchor() {
    let weir = Weir::with_notes();
    tamper(&weir, "UPDATE events SET ts = ts + 1 WHERE position = 2");
    let ran = weir.run(&["verify", "--print-anchor"]);
    assert_eq!(ran.code, 1);
    assert!(!ran.stdout.contains("weir_anchor"), "{ran}");
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let weir = Weir::with_notes();
    std::fs::write(weir.path().join("text"), "hello\n").unwrap();
    std::fs::write(weir.path().join("bytes"), [0xff, 0xfe]).unwrap();
    assert_snapshot!(weir.show(&["verify", "--anchor", "text"]), @r#"
    exit 2
    -- stderr
    error: this is not an anchor: its first line is not {"weir_anchor":1}
    help: pass the file that `weir verify --print-anchor` printed, unchanged
    "#);
    assert_eq!(weir.error(&["verify", "--anchor", "bytes"]), (2, "journal::bad-anchor".to_owned()));
    assert_eq!(weir.error(&["verify", "--anchor", "nowhere"]), (2, "cli::unreadable".to_owned()));
    assert_eq!(weir.error(&["verify", "--stream", "nowhere"]), (1, "journal::no-stream".to_owned()));
    assert_eq!(weir.error(&["verify", "--stream", "notes", "--print-anchor"]), (2, "cli::usage".to_owned()));
}

/// Streams, branches and keys that an index hides are found, whatever the events say.
#[test]
fn what_finds_streams_and_keys_is_checked() {
    for (sql, place) in [
        ("DELETE FROM heads WHERE branch = 2", "table `heads`"),
        ("UPDATE branches SET at = 1 WHERE name = 'draft'", "table `branches`"),
        ("INSERT INTO kinds (name) VALUES ('forged.kind')", "table `kinds`"),
        ("INSERT INTO attrs (branch, status) VALUES (9, 'idle')", "table `attrs`"),
        ("INSERT INTO snapshots VALUES (1, 'session', 1, 3, zeroblob(32), x'7b7d')", "table `snapshots`"),
    ] {
        let weir = Weir::with_notes();
        tamper(&weir, sql);
        let ran = weir.run(&["verify", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let places: Vec<_> =
            document["problems"].as_array().unwrap().iter().map(|one| &one["place"]).collect();
        assert!(places.contains(&&serde_json::Value::from(place)), "{sql}: {ran}");
    }
}

#[test]
fn the_quick_check_says_what_it_leaves_out() {
    let weir = Weir::with_notes();
    assert_snapshot!(weir.show(&["verify", "--quick"]), @"
    exit 0
    -- stdout
    checked 1 stream, 2 branches, 4 events, 0 blobs: sound
    -- stderr
    note: checked: pages, the places of all events, heads of branches; not their content: that takes `weir verify`
    note: not known without an anchor: whether the newest events were removed without a trace, or the file was rewritten as a whole; keep what `weir verify --print-anchor` prints elsewhere
    ");
    tamper(&weir, "DELETE FROM events WHERE position = 2");
    assert_eq!(weir.error(&["verify", "--quick"]), (1, "journal::damaged".to_owned()));
}

#[test]
fn blobs_without_a_journal_are_checked() {
    let weir = Weir::new();
    let put = weir.run_with(&["blob", "put", "-", "--json"], b"content");
    assert_eq!(put.code, 0, "{put}");
    assert_snapshot!(weir.show(&["verify"]), @"
    exit 0
    -- stdout
    checked 1 blob: sound
    -- stderr
    note: there is no journal here: which blobs there should be is not known, only that these are whole
    ");
    let hash = weir_types::Hash::of(b"content").to_string();
    let path = weir.data().join("blobs").join(&hash[..2]).join(&hash[2..]);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ran = weir.run(&["verify"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains(&format!("file `blobs/{}/{}`", &hash[..2], &hash[2..])), "{ran}");
}

/// A blob that no event names, and a build, are checked beside a journal.
#[test]
fn other_files_of_the_data_directory_are_checked() {
    let weir = Weir::with_notes();
    let builds = weir.data().join("build");
    std::fs::create_dir_all(&builds).unwrap();
    let name = format!("{}.json", weir_types::Hash::of(b"{}"));
    std::fs::write(builds.join(&name), "{}").unwrap();
    std::fs::write(builds.join("latest"), format!("{}\n", weir_types::Hash::of(b"{}"))).unwrap();
    let put = weir.run_with(&["blob", "put", "-", "--json"], b"content");
    assert_eq!(put.code, 0, "{put}");
    weir.ok(&["verify"]);

    std::fs::write(builds.join(&name), "[]").unwrap();
    let hash = weir_types::Hash::of(b"content").to_string();
    std::fs::write(weir.data().join("blobs").join(&hash[..2]).join(&hash[2..]), "cut").unwrap();
    let ran = weir.run(&["verify"]);
    assert_eq!(ran.code, 1, "{ran}");
    for file in [format!("file `build/{name}`"), format!("file `blobs/{}/{}`", &hash[..2], &hash[2..])] {
        assert!(ran.stdout.contains(&file), "{file}: {ran}");
    }
    std::fs::remove_file(builds.join(&name)).unwrap();
    let ran = weir.run(&["verify"]);
    assert!(ran.stdout.contains("file `build/latest`"), "{ran}");

    // Names that no file here has, a pointer that points nowhere, and a manifest larger than any.
    std::fs::write(builds.join("latest"), "nowhere\n").unwrap();
    std::fs::write(builds.join("odd.json"), "{}").unwrap();
    std::fs::File::create(builds.join(&name)).unwrap().set_len(1 << 30).unwrap();
    std::fs::write(weir.data().join("blobs").join(&hash[..2]).join("odd"), "").unwrap();
    let ran = weir.run(&["verify", "--json"]);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let problems: Vec<_> = told["problems"].as_array().unwrap().iter().map(|p| p.to_string()).collect();
    for (file, what) in [
        ("build/latest", "it does not hold the hash of a manifest"),
        ("build/odd.json", "its name is not the hash of a manifest"),
        (&format!("build/{name}"), "it is larger than any manifest"),
        (&format!("blobs/{}/odd", &hash[..2]), "its name is not the hash of a blob"),
    ] {
        let is_said =
            |problem: &String| problem.contains(&format!("file `{file}`")) && problem.contains(what);
        assert!(problems.iter().any(is_said), "{file}: {problems:#?}");
    }
}

/// What a list shows of a session is what its events say.
#[test]
fn attributes_that_the_events_do_not_say_are_found() {
    let project = crate::outside::Project::new();
    let write = serde_json::json!([{"tool": "edit_write", "input": {"path": "a.txt", "content": "one"}}]);
    let replies = crate::outside::script(&[("^write", write)]);
    project.agent("helper", "tools:\n  - { name: edit, access: write }\n", &replies);
    project.chat("helper", "write", &[]);
    project.ok(&["verify"]);
    for (sql, what) in [
        ("UPDATE attrs SET status = 'waiting'", "the status is waiting, its events say idle"),
        ("UPDATE attrs SET principal = 'user:eve'", "the principal is `user:eve`"),
        ("UPDATE attrs SET agent = 'other'", "the agent is `other`"),
        ("UPDATE attrs SET title = 'other'", "the title is `other`, its events say none"),
        ("UPDATE attrs SET due = 1", "the time when something is due"),
        ("DELETE FROM attrs", "it has no attributes"),
    ] {
        let connection = Connection::open(project.weir.journal()).unwrap();
        connection.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM attrs").unwrap();
        assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
        let ran = project.run(&["verify"]);
        assert_eq!(ran.code, 1, "{sql}: {ran}");
        assert!(ran.stdout.contains(what), "{sql}: {ran}");
        connection.execute_batch("DELETE FROM attrs; INSERT INTO attrs SELECT * FROM kept").unwrap();
    }
    project.ok(&["verify"]);
}

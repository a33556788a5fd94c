//! A damaged journal is explained: what is damaged, and what to do; never in a circle, and never as something foreign.

use std::fs;
use std::os::unix::fs::FileExt;

use insta::assert_snapshot;

use crate::weir::Weir;

/// Writes over a part of a file.
fn overwrite(weir: &Weir, file: &str, at: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(weir.data().join(file)).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

const COMMANDS: &[&[&str]] = &[
    &["append", "--stream", "notes", "--kind", "note.added"],
    &["streams"],
    &["cat", "--stream", "notes"],
    &["verify"],
    &["export"],
    &["doctor"],
    &["session", "list"],
];

/// No advice may lead back to where it came from, or to throwing the journal away.
fn check_advice(weir: &Weir, what: &str) {
    let before = fs::read(weir.journal()).unwrap_or_default();
    for args in COMMANDS {
        let ran = weir.run(args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, 1, "{what}: {args:?}: {ran}");
        assert!(said.contains("damaged"), "{what}: {args:?}: {ran}");
        assert!(said.contains("weir backup"), "{what}: {args:?}: {ran}");
        assert!(!said.contains("move that file away"), "{what}: {args:?}: {ran}");
        assert!(!said.contains("cannot rollback"), "{what}: {args:?}: {ran}");
        assert!(args[0] != "doctor" || !said.contains("with `weir doctor`"), "{what}: {ran}");
    }
    assert_eq!(fs::read(weir.journal()).unwrap_or_default(), before, "{what}: it was changed");
}

#[test]
fn a_file_that_is_no_database_any_more_is_damaged_and_not_foreign() {
    let weir = Weir::with_notes();
    overwrite(&weir, "journal.db", 0, b"no database");
    assert_snapshot!(weir.show(&["streams"]), @"
    exit 1
    -- stderr
    error: the journal at `.weir/journal.db` is damaged: the beginning of the file is not that of a database
    help: stop every weir process that uses it and keep a copy (`cp -a '.weir' '.weir.damaged'`); then unpack a `weir backup` into a new directory and use that with `--data-dir`. Without a backup, `weir import` of an older `weir export` into a new directory brings back what was in that export
    ");
    check_advice(&weir, "header");
    assert_eq!(weir.error(&["chat", "helper", "-m", "hi"]).0, 2, "no project, no agent");

    // An older directory has no anchor: its tables tell.
    let weir = Weir::with_notes();
    fs::remove_file(weir.data().join("anchor")).unwrap();
    overwrite(&weir, "journal.db", 0, &[0; 16]);
    check_advice(&weir, "header, no anchor");
    let weir = Weir::with_notes();
    overwrite(&weir, "journal.db", 68, &[9; 4]);
    check_advice(&weir, "marks");

    // Somebody else's file is still called that.
    let weir = Weir::new();
    weir.write(".weir/journal.db", &"x".repeat(10_000));
    assert_eq!(weir.error(&["streams"]), (2, "journal::not-a-journal".to_owned()));
}

#[test]
fn a_journal_that_is_gone_is_not_begun_anew() {
    let weir = Weir::with_notes();
    fs::write(weir.journal(), "").unwrap();
    check_advice(&weir, "empty");
    fs::remove_file(weir.journal()).unwrap();
    assert_snapshot!(weir.show(&["append", "--stream", "notes", "--kind", "note.added"]), @"
    exit 1
    -- stderr
    error: the journal at `.weir/journal.db` is damaged: the file is missing, but 4 events were acknowledged in it
    help: stop every weir process that uses it and keep a copy (`cp -a '.weir' '.weir.damaged'`); then unpack a `weir backup` into a new directory and use that with `--data-dir`. Without a backup, `weir import` of an older `weir export` into a new directory brings back what was in that export
    ");
    assert!(!weir.journal().exists());
}

/// Seven bytes in the root of a table.
#[test]
fn a_damaged_page_is_explained_without_a_circle() {
    let weir = Weir::with_notes();
    overwrite(&weir, "journal.db", 4_096, b"7 bytes");
    // Sessions are found without that table.
    for args in COMMANDS.iter().filter(|args| args[0] != "session") {
        let ran = weir.run(args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, 1, "{args:?}: {ran}");
        assert!(said.contains("damaged"), "{args:?}: {ran}");
        assert!(!said.contains("cannot rollback"), "{args:?}: {ran}");
        assert!(said.contains("backup"), "{args:?}: {ran}");
    }
}

/// A file that was cut anywhere never exports less than was appended and calls that a success.
#[test]
fn a_file_that_was_cut_does_not_export_as_a_success() {
    for in_log in [false, true] {
        let weir = Weir::with_notes();
        for n in 0..40 {
            let payload = format!("{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(n * 50));
            weir.ok(&["append", "--stream", "more", "--kind", "a.b", "--payload", &payload]);
        }
        if in_log {
            // Another process has it open: what it appends stays in the log.
            let mut follow = weir.command();
            follow.args(["cat", "--stream", "notes", "--follow"]).stdout(std::process::Stdio::piped());
            let mut follow = follow.spawn().unwrap();
            std::io::Read::read_exact(follow.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            weir.ok(&["append", "--stream", "more", "--kind", "a.b", "--payload", "1"]);
            follow.kill().unwrap();
            follow.wait().unwrap();
        }
        let files: Vec<_> = fs::read_dir(weir.data()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let files: Vec<_> = files.into_iter().filter(|path| path.is_file()).collect();
        let saved: Vec<_> = files.iter().map(|path| (path, fs::read(path).unwrap())).collect();
        let whole = fs::read(weir.journal()).unwrap();
        let expected = {
            let ran = weir.run(&["export"]);
            assert_eq!(ran.code, 0, "{ran}");
            ran.stdout
        };
        let step = if std::env::var_os("WEIR_SOAK").is_some() { 512 } else { whole.len() / 20 };
        for length in (0..whole.len()).step_by(step).chain([1, 2, 100, 4_096, whole.len() - 1]) {
            for (path, content) in &saved {
                fs::write(path, content).unwrap();
            }
            fs::write(weir.journal(), &whole[..length]).unwrap();
            let ran = weir.run(&["export"]);
            assert!(ran.code != 0 || ran.stdout == expected, "cut at {length} of {}: {ran}", whole.len());
        }
    }
}

#[test]
fn damage_is_told_by_every_command_until_a_person_accepts_it() {
    let weir = Weir::with_notes();
    // An older copy is put back.
    let older = fs::read(weir.journal()).unwrap();
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added"]);
    fs::write(weir.journal(), older).unwrap();
    assert_snapshot!(weir.show(&["count", "--stream", "notes"]), @"
    exit 0
    -- stdout
    4
    -- stderr
    warning: the journal is damaged: file `journal.db`: it ends at position 4, but event 4 of notes@main (position 5) was acknowledged: 1 event at its end are missing (found [time])
    warning: `weir doctor` says what to do; it is repeated until a person accepts it
    ");
    assert_eq!(weir.error(&["verify"]), (1, "journal::damaged".to_owned()));
    let doctor = weir.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{doctor}");
    assert!(doctor.stdout.contains("fail  damage"), "{doctor}");
    assert!(doctor.stdout.contains("`weir doctor --accept-damage`"), "{doctor}");
    let accepted = weir.run(&["doctor", "--accept-damage"]);
    assert_eq!(accepted.code, 0, "{accepted}");
    assert!(accepted.stderr.contains("accepted 1 finding"), "{accepted}");
    assert!(accepted.stdout.contains("1 finding accepted, the last by user:"), "{accepted}");
    let log = fs::read_to_string(weir.data().join("damage.jsonl")).unwrap();
    assert!(log.lines().nth(1).unwrap().contains("\"by\":\"user:"), "{log}");
    assert_eq!(weir.run(&["count", "--stream", "notes"]).stderr, "");
    weir.ok(&["verify"]);
}

/// What a killed export leaves is removed by the next one to the same place.
#[test]
fn leftovers_of_killed_exports_are_removed_and_files_of_live_ones_are_not() {
    let weir = Weir::with_notes();
    let dead = weir.path().join(".weir-out-abcdef.tmp");
    fs::write(&dead, "half").unwrap();
    let dead_directory = weir.path().join(".weir-out-ghijkl.tmp");
    fs::create_dir(&dead_directory).unwrap();
    fs::write(dead_directory.join("journal.db"), "half").unwrap();
    let live = weir.path().join(".weir-out-mnopqr.tmp");
    let held = fs::File::create(&live).unwrap();
    held.lock().unwrap();
    let others = weir.path().join(".weir-other");
    fs::write(&others, "").unwrap();
    weir.ok(&["export", "--output", "out.jsonl"]);
    assert!(!dead.exists() && !dead_directory.exists());
    assert!(live.exists() && others.exists());
    drop(held);
    weir.ok(&["backup", "b.tar"]);
    assert!(!live.exists());
}

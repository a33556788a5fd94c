//! `weir backup`: an archive that restores, also one made while others write.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use insta::assert_snapshot;

use crate::weir::Weir;

/// Unpacks an archive the way its note says, and returns the data directory.
fn restore(weir: &Weir, archive: &str) -> String {
    let script = format!("mkdir restored && tar -xf {archive} -C restored");
    let status = Command::new("sh").args(["-ec", &script]).current_dir(weir.path()).status().unwrap();
    assert!(status.success());
    "restored".to_owned()
}

fn masked_sizes(weir: &Weir, args: &[&str]) -> String {
    let shown = weir.show(args);
    let words = shown
        .split(' ')
        .map(|word| if word.trim_start_matches('(').parse::<f64>().is_ok() { "[n]" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_backup_restores_the_way_it_says() {
    let weir = Weir::with_notes();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &[7; 100_000]);
    assert_snapshot!(masked_sizes(&weir, &["backup", "b.tar"]), @"
    exit 0
    -- stdout
    wrote the journal [n] KB) and [n] blob to `b.tar` [n] KB)
    -- stderr
    note: restore it with `mkdir restored && tar -xf b.tar -C restored`, then use `--data-dir restored`
    ");
    let restored = restore(&weir, "b.tar");
    weir.ok(&["verify", "--data-dir", &restored]);
    assert_eq!(weir.ok(&["export", "--all", "--data-dir", &restored]), weir.ok(&["export", "--all"]));
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added", "--data-dir", &restored]);
    assert_eq!(weir.ok(&["count", "--stream", "notes", "--data-dir", &restored]), "5\n");
    // The restored journal is as safe and as shareable as the one it was copied from.
    let mode: String = rusqlite::Connection::open(weir.path().join("restored/journal.db"))
        .unwrap()
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn a_backup_says_what_it_holds() {
    let weir = Weir::with_notes();
    let document = weir.json(&["backup", "b c.tar"]);
    assert_eq!(document["file"], "b c.tar");
    assert_eq!(document["blobs"], 0);
    assert_eq!(document["bytes"], std::fs::metadata(weir.path().join("b c.tar")).unwrap().len());
    assert_eq!(document["restore"], "mkdir restored && tar -xf 'b c.tar' -C restored");
}

#[test]
fn an_archive_that_is_there_is_kept_unless_forced() {
    let weir = Weir::with_notes();
    std::fs::write(weir.path().join("b.tar"), "old").unwrap();
    assert_snapshot!(weir.show(&["backup", "b.tar"]), @"
    exit 1
    -- stderr
    error: `b.tar` already exists
    help: choose another name, or replace it with `--force`
    ");
    assert_eq!(std::fs::read_to_string(weir.path().join("b.tar")).unwrap(), "old");
    weir.ok(&["backup", "b.tar", "--force"]);
    assert_ne!(std::fs::read(weir.path().join("b.tar")).unwrap(), b"old");
    assert_eq!(weir.error(&["backup", "nowhere/b.tar"]), (1, "cli::unwritable".to_owned()));
    assert_eq!(weir.error(&["backup", "-"]), (2, "cli::backup-stdout".to_owned()));
    assert_eq!(weir.error(&["backup", ".weir/b.tar"]), (2, "cli::backup-inside".to_owned()));
    let left: Vec<_> =
        std::fs::read_dir(weir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "temporary files were left: {left:?}");
}

#[test]
fn a_backup_is_consistent_while_others_write() {
    let weir = Weir::new();
    weir.ok(&["append", "--stream", "busy", "--kind", "a.b"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u32.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                // Large enough for the blob store, and different each time.
                let payload = [&n.to_be_bytes()[..], &[9; 70_000]].concat();
                let ran = weir
                    .run_with(&["append", "--stream", "busy", "--kind", "a.b", "--payload", "-"], &payload);
                assert_eq!(ran.code, 0, "{ran}");
            }
        });
        let backups: Vec<_> = (0..5).map(|n| weir.run(&["backup", &format!("b{n}.tar")])).collect();
        done.store(true, Ordering::Relaxed);
        backups.iter().for_each(|ran| assert_eq!(ran.code, 0, "{ran}"));
    });
    for n in 0..5 {
        let restored = restore(&weir, &format!("b{n}.tar"));
        weir.ok(&["verify", "--data-dir", &restored]);
        std::fs::remove_dir_all(weir.path().join(restored)).unwrap();
    }
}

#[test]
fn a_backup_of_a_damaged_journal_says_so() {
    let weir = Weir::with_notes();
    let connection = rusqlite::Connection::open(weir.journal()).unwrap();
    connection.execute("UPDATE events SET ts = ts + 1 WHERE position = 2", []).unwrap();
    connection.close().unwrap();
    let ran = weir.run(&["backup", "b.tar", "--json"]);
    assert_eq!(ran.error(), (1, "cli::backup-damaged".to_owned()), "{ran}");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&document["file"], &document["sound"]), (&"b.tar".into(), &false.into()));
    assert!(
        ran.stderr.contains("a copy of a damaged data directory") && ran.stderr.contains("seq 2"),
        "{ran}"
    );
    let restored = restore(&weir, "b.tar");
    assert_eq!(weir.ok(&["count", "--stream", "notes", "--data-dir", &restored]), "4\n");

    // A blob that an event needs.
    let weir = Weir::new();
    weir.run_with(&["append", "--stream", "big", "--kind", "a.b", "--payload", "-"], &[7; 100_000]);
    let hash = weir_types::Hash::of(&[7; 100_000]).to_string();
    std::fs::remove_file(weir.data().join("blobs").join(&hash[..2]).join(&hash[2..])).unwrap();
    assert_eq!(weir.error(&["backup", "b.tar"]), (1, "cli::backup-damaged".to_owned()));
    assert!(weir.path().join("b.tar").exists());
}

/// A page that cannot be read at all: the files are kept as they are.
#[test]
fn a_journal_that_cannot_be_copied_is_kept_as_it_is() {
    let weir = Weir::new();
    for n in 0..40 {
        let payload = format!("{{\"n\":{n},\"text\":\"{}\"}}", weir_types::Hash::of(&[n]));
        weir.ok(&["append", "--stream", "notes", "--kind", "note.added", "--payload", &payload]);
    }
    let connection = rusqlite::Connection::open(weir.journal()).unwrap();
    // The first leaf: opening a journal reads the last one.
    let sql = "SELECT pageno FROM dbstat WHERE name = 'events' AND pagetype = 'leaf' ORDER BY path LIMIT 1";
    let page: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    connection.close().unwrap();
    let mut bytes = std::fs::read(weir.journal()).unwrap();
    bytes[(page as usize - 1) * 4096..][..100].fill(0xff);
    std::fs::write(weir.journal(), &bytes).unwrap();
    let ran = weir.run(&["backup", "b.tar"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("a copy of a damaged data directory"), "{ran}");
    let restored = restore(&weir, "b.tar");
    let copied = std::fs::read(weir.path().join(restored).join("journal.db")).unwrap();
    assert_eq!(copied.len(), bytes.len());
}

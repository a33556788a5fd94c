//! Damage in what a killed process leaves is found at the next opening, or nothing acknowledged is missing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use weir_journal::{Journal, silent};
use weir_journal_sqlite::{DamageKind, LogDamage, accept_damage, damage_records, inspect_log};
use weir_types::Seq;

use crate::child::{self, Child, Role};
use crate::support::{Chance, DataDir, append, event, main_of, soak};

/// Acknowledged events, each in a transaction of its own.
const EVENTS: u64 = 120;

/// A directory as a killed process leaves it: everything is in the log.
fn killed(test: &str) -> DataDir {
    let dir = DataDir::new();
    let mut child = Child::start(test, &dir, EVENTS);
    assert_eq!(child.line().as_deref(), Some("done"));
    child.kill();
    dir
}

#[tokio::main]
async fn append_and_wait(role: &Role) {
    let journal = role.dir.open().await;
    for n in 1..=role.number {
        append(&journal, &main_of("a"), vec![event("k", format!("{{\"event\":{n}}}"))]).await;
    }
    child::say(&["done".to_owned()]);
    // Until the test kills it.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// What opening a directory came to.
struct Reopened {
    /// Events that can be read.
    events: u64,
    /// What was said at the opening.
    kinds: Vec<DamageKind>,
}

async fn reopen(dir: &DataDir, what: &str) -> Reopened {
    let Ok(journal) = dir.try_open().await else {
        return Reopened { events: 0, kinds: vec![DamageKind::Log] };
    };
    let kinds: Vec<DamageKind> = journal.findings().damage.iter().map(|record| record.kind).collect();
    let head = journal.head(&main_of("a")).await.unwrap();
    let events = head.map_or(0, |head| head.seq.0);
    let report = journal.verify(None, silent()).await.unwrap();
    assert_eq!(report.is_sound(), kinds.is_empty(), "{what}: {:?}, {kinds:?}", report.problems);
    journal.close().await;
    Reopened { events, kinds }
}

const FRAME: usize = 4_096 + 24;

/// One way to damage a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Flip { at: usize, bit: u8 },
    Cut { at: usize },
    Zeroed { page: usize },
}

impl Damage {
    fn apply(self, log: &mut Vec<u8>) {
        match self {
            Self::Flip { at, bit } => log[at] ^= 1 << bit,
            Self::Cut { at } => log.truncate(at),
            Self::Zeroed { page } => {
                let end = log.len().min((page + 1) * 4_096);
                log[page * 4_096..end].fill(0);
            }
        }
    }

    /// Every kind at many places: all fields of the header and of some frames, and pages.
    fn catalogue(length: usize) -> Vec<Self> {
        let frames = length / FRAME;
        let step = if soak() { 1 } else { frames.div_ceil(12) };
        let mut chance = Chance::new(16);
        let mut bit = || (chance.below(8)) as u8;
        let mut all: Vec<Self> =
            (0..32).step_by(if soak() { 1 } else { 4 }).map(|at| Self::Flip { at, bit: bit() }).collect();
        for frame in (0..frames).step_by(step).chain([frames - 2, frames - 1]) {
            let start = 32 + frame * FRAME;
            let fields = [1, 6, 9, 13, 18, 22, 24, 1_000, FRAME - 1];
            let fields = fields.iter().skip(if soak() { 0 } else { frame / step % 2 });
            all.extend(
                fields
                    .step_by(if soak() { 1 } else { 2 })
                    .map(|at| Self::Flip { at: start + at, bit: bit() }),
            );
            all.extend([start, start + 12, start + 2_000].map(|at| Self::Cut { at }));
            all.push(Self::Zeroed { page: start / 4_096 + 1 });
        }
        all.retain(|damage| !matches!(damage, Self::Zeroed { page } if page * 4_096 >= length));
        all.extend([0, 16, 31].map(|at| Self::Cut { at }));
        all
    }
}

#[test]
fn damage_in_a_log_is_found_or_loses_nothing() {
    match child::role() {
        Some(role) => append_and_wait(&role),
        None => try_catalogue("damaged_log::damage_in_a_log_is_found_or_loses_nothing"),
    }
}

#[tokio::main]
async fn try_catalogue(test: &str) {
    let dir = killed(test);
    let log = fs::read(dir.root.join("journal.db-wal")).unwrap();
    assert!(log.len() > 100 * FRAME, "everything was to be in the log: {}", log.len());
    let untouched = reopen(&dir.copy(), "untouched").await;
    assert_eq!((untouched.events, untouched.kinds), (EVENTS, vec![]));
    let mut found = BTreeMap::new();
    for damage in Damage::catalogue(log.len()) {
        let copy = dir.copy();
        let mut damaged = log.clone();
        damage.apply(&mut damaged);
        fs::write(copy.root.join("journal.db-wal"), &damaged).unwrap();
        let with_anchor = reopen(&copy, &format!("{damage:?}")).await;
        assert!(
            with_anchor.events == EVENTS || !with_anchor.kinds.is_empty(),
            "{damage:?}: {} of {EVENTS} events, and no word",
            with_anchor.events
        );
        // The log alone tells, if more than two transactions follow; a cut leaves nothing to tell.
        let copy = dir.copy();
        fs::remove_file(copy.root.join("anchor")).unwrap();
        fs::write(copy.root.join("journal.db-wal"), &damaged).unwrap();
        let without = reopen(&copy, &format!("{damage:?}, no anchor")).await;
        let is_cut = matches!(damage, Damage::Cut { .. });
        if !is_cut && without.events + 3 < EVENTS {
            assert_eq!(without.kinds, [DamageKind::Log], "{damage:?}: {} events", without.events);
        }
        let name = format!("{damage:?}").split(' ').next().unwrap().to_owned();
        *found.entry((name, with_anchor.kinds.len())).or_insert(0) += 1;
    }
    println!("{found:?}");
}

#[test]
fn a_finding_stays_until_it_is_accepted() {
    match child::role() {
        Some(role) => append_and_wait(&role),
        None => find_and_accept("damaged_log::a_finding_stays_until_it_is_accepted"),
    }
}

#[tokio::main]
async fn find_and_accept(test: &str) {
    let dir = killed(test);
    let path = dir.root.join("journal.db-wal");
    let mut log = fs::read(&path).unwrap();
    let half = 32 + log.len() / FRAME / 2 * FRAME + 500;
    log[half] ^= 1;
    fs::write(&path, &log).unwrap();
    for life in 0..3 {
        let journal = dir.open().await;
        let kinds: Vec<_> = journal.findings().damage.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [DamageKind::Log, DamageKind::TailLost], "life {life}");
        // What is appended afterwards hides nothing, and leaves the log in use if there was no close.
        append(&journal, &main_of("b"), vec![event("k", "{}")]).await;
        assert!(!journal.verify(None, silent()).await.unwrap().is_sound());
        if life == 1 {
            journal.close().await;
        }
    }
    // The copy is the log as it was found.
    assert_eq!(fs::read(dir.root.join("journal.db-wal.damaged-1")).unwrap(), log);
    assert!(!dir.root.join("journal.db-wal.damaged-2").exists());
    assert_eq!(accept_damage(&dir.root, "user:ada").unwrap(), 2);
    assert_eq!(accept_damage(&dir.root, "user:ada").unwrap(), 0);
    let journal = dir.open().await;
    assert_eq!(journal.findings().damage, []);
    assert!(journal.verify(None, silent()).await.unwrap().is_sound());
    journal.close().await;
    let records = damage_records(&dir.root).unwrap();
    assert!(records.iter().all(|record| record.accepted.as_ref().is_some_and(|by| by.by == "user:ada")));
}

/// What was put back from an earlier time is told from what grew.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_under_a_newer_anchor_is_found() {
    let dir = DataDir::new();
    let journal = dir.open().await;
    append(&journal, &main_of("a"), vec![event("k", "1")]).await;
    journal.close().await;
    let older = fs::read(dir.file()).unwrap();
    let journal = dir.open().await;
    append(&journal, &main_of("a"), vec![event("k", "2"), event("k", "3")]).await;
    journal.close().await;
    fs::write(dir.file(), &older).unwrap();
    let opened = reopen(&dir, "an older copy").await;
    assert_eq!((opened.events, opened.kinds), (1, vec![DamageKind::TailLost]));
    let what = &damage_records(&dir.root).unwrap()[0].what;
    assert_eq!(
        what,
        "it ends at position 1, but event 3 of a@main (position 3) was acknowledged: 2 events at its end are missing"
    );

    // A directory without an anchor is one of an older version, or a restored backup.
    let copy = dir.copy();
    fs::remove_file(copy.root.join("anchor")).unwrap();
    fs::remove_file(copy.root.join("damage.jsonl")).unwrap();
    fs::write(copy.file(), &older).unwrap();
    assert_eq!(reopen(&copy, "a restored copy").await.kinds, []);

    // Another event at the same place.
    accept_damage(&dir.root, "user:ada").unwrap();
    let connection = rusqlite::Connection::open(dir.file()).unwrap();
    connection.execute("UPDATE events SET chain = zeroblob(32) WHERE position = 1", []).unwrap();
    drop(connection);
    let journal = dir.open().await;
    let kinds: Vec<_> = journal.findings().damage.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [DamageKind::TailChanged]);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_anchor_is_reported_and_made_anew() {
    let dir = DataDir::new();
    let journal = dir.open().await;
    for n in 0..3 {
        append(&journal, &main_of("a"), vec![event("k", n.to_string())]).await;
    }
    journal.close().await;
    let anchor = dir.root.join("anchor");
    let whole = fs::read(&anchor).unwrap();
    for (name, content) in [("garbage", vec![0xa5; 1_024]), ("short", whole[..100].to_vec())] {
        fs::write(&anchor, content).unwrap();
        assert_eq!(reopen(&dir, name).await.kinds, [DamageKind::Anchor], "{name}");
        accept_damage(&dir.root, "user:ada").unwrap();
        assert_eq!(reopen(&dir, name).await.kinds, [], "{name}");
        // It protects again.
        assert_eq!(fs::read(&anchor).unwrap().len(), 1_024);
        let shorter = dir.copy();
        rusqlite::Connection::open(shorter.file())
            .unwrap()
            .execute("DELETE FROM events WHERE position = 3", [])
            .unwrap();
        let journal = shorter.open().await;
        assert_eq!(journal.findings().damage[0].kind, DamageKind::TailLost, "{name}");
    }
    // A write that was torn by a power cut costs one slot, and is no damage.
    let mut torn = fs::read(&anchor).unwrap();
    torn[600] ^= 1;
    fs::write(&anchor, torn).unwrap();
    assert_eq!(reopen(&dir, "torn").await.kinds, []);
}

/// An anchor that cannot be written is behind; the journal is none the worse for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_anchor_that_cannot_be_written_fails_nothing() {
    let dir = DataDir::new();
    // Every write to this device fails, as on a full disk.
    std::os::unix::fs::symlink("/dev/full", dir.root.join("anchor")).unwrap();
    let journal = dir.open().await;
    append(&journal, &main_of("a"), vec![event("k", "1")]).await;
    journal.close().await;
    assert_eq!(dir.open().await.head(&main_of("a")).await.unwrap().unwrap().seq, Seq(1));
}

/// The log of another program, as SQLite writes it, in the middle of all that a log goes through.
#[test]
fn logs_that_are_in_order_are_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 5; CREATE TABLE t (x)",
    )
    .unwrap();
    let (mut chance, rounds) = (Chance::new(1), if soak() { 2_000 } else { 200 });
    for round in 0..rounds {
        let rows = 1 + chance.below(20) * chance.below(20);
        db.execute_batch("BEGIN").unwrap();
        for _ in 0..rows {
            db.execute("INSERT INTO t VALUES (randomblob(1500))", []).unwrap();
        }
        // A small cache: what is rolled back has been written, and lies behind what is written next.
        db.execute_batch(if chance.below(3) == 0 { "ROLLBACK" } else { "COMMIT" }).unwrap();
        if chance.below(9) == 0 {
            db.execute_batch("PRAGMA wal_checkpoint(RESTART)").unwrap();
        }
        assert_eq!(inspected(directory.path()), None, "round {round}");
    }
}

fn inspected(directory: &Path) -> Option<LogDamage> {
    let log = fs::read(directory.join("a.db-wal")).unwrap();
    let database = fs::read(directory.join("a.db")).unwrap();
    inspect_log(&mut Cursor::new(log), &mut Cursor::new(database)).unwrap().damage
}

//! Many streams with hostile names, and one stream with a million events.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use weir_journal::{Fork, Journal, Part, silent};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{BranchId, BranchName, EventId, Seq, StreamName};

use crate::child::{self, Child, Role};
use crate::promises::everything;
use crate::support::{Chance, DataDir, event, main_of, read_whole};

const THREADS: u64 = 8;
const STREAMS: usize = 1_000;
const FORKED: usize = 20;

/// Names that a careless engine would cut, fold, normalise, split, escape or execute.
#[rustfmt::skip]
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "main", "main@main", "a@main", "a@b@main", "@", "@main", "HEAD", "refs/heads/main", "a/main",
        "a:main", ".", "..", "../..", "../../etc/passwd", "/etc/passwd", "C:\\Windows\\x",
        "\\\\host\\share", "a/b", "a//b", "a/./b", "journal.db", "journal.db-wal", "lock", "blobs", "-",
        "--", "--help", "-rf /", "~", "~root", "$HOME", "$(id)", "`id`", "'", "''", "\"", "\"\"", "`", ";",
        "'; DROP TABLE events; --", "\" OR 1=1 --", "a' OR 'a'='a", "%", "%%", "_", "__", "a%", "a_", "*",
        "?", "[a-z]", "{}", "NULL", "null", "nil", "true", "0", "00", "1", "01", "1.0", "1e3", "-1", "+1",
        "0x1", "9223372036854775807", "9223372036854775808", "18446744073709551616", "NaN", "rowid",
        "position", "sqlite_master", "%2e%2e%2f", "%00", "a%00b", "%61", "&amp;", "<a>", "a&b=c", "a?b#c",
        "session:", "session:01J", "loop:", "a b", "a  b", "A", "a", "À", "à", "A\u{300}", "a\u{300}",
        "\u{212b}", "\u{c5}", "ß", "ss", "SS", "ı", "I", "i", "İ", "ﬁ", "fi", "Σ", "σ", "ς", "日本語", "にほんご",
        "ﾆﾎﾝｺﾞ", "한국어", "\u{1112}\u{1161}\u{11ab}", "العربية", "עברית", "ไทย", "👩‍🚀", "👩🚀", "🇩🇪", "é́́́́",
        "\u{e000}", "\u{10ffff}", "\u{fffd}", "\u{a0}x\u{a0}".trim(), "x\u{a0}y", "x\u{3000}y",
    ]
    .map(str::to_owned)
    .into();
    // Prefixes of one another, up to the longest name there is; and long ones that differ only in the end.
    names.extend((1..=255).map(|length| "p".repeat(length)));
    names.extend((1..=127).map(|length| "é".repeat(length)));
    names.extend((0..200).map(|n| format!("{}{n:03}", "long/".repeat(50))));
    names.extend((0..).map(|n| format!("{}{n}", "stream-".repeat(n % 30))).take(STREAMS));
    names
}

/// Distinct hostile names that are names.
fn names<N: std::str::FromStr + Ord>(count: usize) -> Vec<N> {
    let mut seen = BTreeSet::new();
    let names = hostile().into_iter().filter(|name| seen.insert(name.clone()));
    let names: Vec<N> = names.filter_map(|name| name.parse().ok()).take(count).collect();
    assert_eq!(names.len(), count);
    names
}

#[test]
fn hostile_names_are_never_confused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dir = DataDir::new();
    let journal = Arc::new(runtime.block_on(dir.open()));
    let streams: Vec<StreamName> = names(STREAMS);
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (journal, mut streams) = (journal.clone(), streams.clone());
            std::thread::spawn(move || {
                shuffle(&mut streams, number);
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(append_everywhere(&journal, &streams, number));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    runtime.block_on(async {
        check_streams(&journal, &streams).await;
        check_branches(&journal, &streams[..FORKED]).await;
        let report = journal.verify(None, silent()).await.unwrap();
        assert_eq!((report.streams, report.problems), (STREAMS as u64, vec![]));
        journal.close().await;
    });
}

fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut chance = Chance::new(seed);
    for n in (1..items.len()).rev() {
        items.swap(n, chance.below(n as u64 + 1) as usize);
    }
}

/// Two appends to each stream, of two events and one; each event says where it belongs.
async fn append_everywhere(journal: &SqliteJournal, streams: &[StreamName], thread: u64) {
    for count in [2, 1] {
        for stream in streams {
            let branch = BranchId::main(stream.clone());
            let events = (0..count).map(|n| belongs_to(&branch, &format!("{thread} {count} {n}"))).collect();
            let appended = journal.append(vec![Part::new(branch, events)]).await.unwrap()[0];
            assert_eq!(appended.last.0 - appended.first.0 + 1, count);
        }
    }
}

fn belongs_to(branch: &BranchId, what: &str) -> weir_journal::NewEvent {
    event("k", format!("{}\n{}\n{what}", branch.stream, branch.branch))
}

async fn check_streams(journal: &SqliteJournal, streams: &[StreamName]) {
    let mut listed = Vec::new();
    loop {
        let page = journal.streams(listed.last().cloned(), 300).await.unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|summary| summary.stream));
    }
    let mut sorted = streams.to_vec();
    sorted.sort_unstable();
    assert_eq!(listed, sorted);
    for stream in streams {
        let events = read_whole(journal, &BranchId::main(stream.clone())).await;
        assert!(events.iter().map(|event| event.seq.0).eq(1..=THREADS * 3), "{stream:?}");
        let mut appended = BTreeSet::new();
        for event in &events {
            let text = std::str::from_utf8(&event.payload).unwrap();
            let lines: Vec<&str> = text.split('\n').collect();
            assert_eq!((lines[0], lines[1]), (stream.as_str(), "main"));
            assert_eq!((&event.stream, event.branch.as_str()), (stream, "main"));
            appended.insert(lines[2].to_owned());
        }
        assert_eq!(appended.len() as u64, THREADS * 3, "{stream:?} has an event twice");
    }
    assert_eq!(everything(journal).await.len() as u64, STREAMS as u64 * THREADS * 3);
}

/// Forks some streams under every hostile name, appends to each fork, and finds each event where it belongs.
async fn check_branches(journal: &SqliteJournal, streams: &[StreamName]) {
    // One of every kind, `main` among them.
    let branches: Vec<BranchName> = names(600).into_iter().step_by(6).collect();
    let fork_point = Seq(THREADS);
    for stream in streams {
        let forks = branches.iter().filter(|name| name.as_str() != "main").map(|name| {
            journal.fork(Fork { from: BranchId::main(stream.clone()), at: fork_point, name: name.clone() })
        });
        join_all(forks).await.into_iter().for_each(|fork| drop(fork.unwrap()));
        let ids: Vec<BranchId> =
            branches.iter().map(|name| BranchId { stream: stream.clone(), branch: name.clone() }).collect();
        let parts = ids.iter().map(|id| Part::new(id.clone(), vec![belongs_to(id, "forked")])).collect();
        journal.append(parts).await.unwrap();
        let listed = journal.branches(stream).await.unwrap();
        let listed: BTreeSet<BranchName> = listed.into_iter().map(|branch| branch.name).collect();
        assert_eq!(listed, branches.iter().cloned().collect());
        for id in &ids {
            let events = read_whole(journal, id).await;
            let shared = if id.branch.as_str() == "main" { THREADS * 3 } else { fork_point.0 };
            assert!(events.iter().map(|event| event.seq.0).eq(1..=shared + 1), "{id}");
            let last = events.last().unwrap();
            assert_eq!((&last.stream, &last.branch), (&id.stream, &id.branch));
            assert_eq!(last.payload, belongs_to(id, "forked").payload());
        }
    }
}

/// Short, middling and long. All of them end ten events after a full block of 64, so that nothing but the length differs.
const LENGTHS: [u64; 3] = [10, 64 * 16 + 10, 64 * 15_625 + 10];

/// The most a look-up may read from the file, whatever its stream's length: far less than a scan would.
const LOOK_UP_BYTES_MAX: u64 = 1024 * 1024;

/// The most memory the process may ever have had, in a build without optimisation.
const RESIDENT_KIB_MAX: u64 = 100 * 1024;

#[test]
fn look_ups_do_not_depend_on_the_length_of_a_stream() {
    match child::role() {
        Some(role) => look_up(&role),
        // In a process of its own, for its memory to be its own.
        None => {
            let test = "scale::look_ups_do_not_depend_on_the_length_of_a_stream";
            Child::start(test, &DataDir::new(), 0).finish().iter().for_each(|line| println!("{line}"));
        }
    }
}

/// What a look-up needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    rows: u64,
    bytes: u64,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn look_up(role: &Role) {
    let dir = &role.dir;
    let mut middles = Vec::new();
    let journal = dir.open().await;
    for length in LENGTHS {
        middles.push(load(&journal, length).await);
    }
    journal.close().await;
    for what in LOOK_UPS {
        let mut costs = Vec::new();
        for (length, middle) in LENGTHS.into_iter().zip(&middles) {
            costs.push(cost(dir, *what, length, *middle).await);
        }
        child::say(&[format!("{what:?}: {costs:?}")]);
        let rows: Vec<u64> = costs.iter().map(|cost| cost.rows).collect();
        assert_ne!(rows[2], 0, "{what:?} was not counted");
        assert_eq!(rows[1], rows[2], "{what:?}");
        // In the short stream there is no full block to look into.
        assert!(
            rows[0] == rows[1] || !matches!(what, LookUp::Head | LookUp::ForkAtHead),
            "{what:?}: {rows:?}"
        );
        assert!(costs[2].bytes < LOOK_UP_BYTES_MAX, "{what:?}: {costs:?}");
    }
    let resident = proc_number("/proc/self/status", "VmHWM:");
    child::say(&[format!("at most {resident} KiB resident")]);
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB");
}

fn long(length: u64) -> BranchId {
    main_of(&format!("of-{length}"))
}

/// Makes a stream with three events of a rare kind, and returns the id of its middle event.
async fn load(journal: &SqliteJournal, length: u64) -> EventId {
    let mut middle = None;
    let mut seq = 0;
    while seq < length {
        let count = (length - seq).min(10_000);
        let events: Vec<_> = (seq + 1..=seq + count)
            .map(|seq| {
                let rare = [1, length / 2, length - 1].contains(&seq);
                event(if rare { "k.rare" } else { "k.common" }, seq.to_string())
            })
            .collect();
        if (seq + 1..=seq + count).contains(&(length / 2)) {
            middle = Some(events[(length / 2 - seq - 1) as usize].id());
        }
        journal.append(vec![Part::new(long(length), events)]).await.unwrap();
        seq += count;
    }
    middle.unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookUp {
    Head,
    ForkAtHead,
    ForkInTheMiddle,
    ById,
    ByKind,
    Read,
    ReadBack,
}

const LOOK_UPS: &[LookUp] = &[
    LookUp::Head,
    LookUp::ForkAtHead,
    LookUp::ForkInTheMiddle,
    LookUp::ById,
    LookUp::ByKind,
    LookUp::Read,
    LookUp::ReadBack,
];

/// What a look-up costs a journal that was just opened, and so remembers nothing.
async fn cost(dir: &DataDir, what: LookUp, length: u64, middle: EventId) -> Cost {
    let journal = dir.open().await;
    let (branch, half) = (long(length), Seq(length / 2));
    // Opening connections is not looking up.
    let _ = journal.head(&main_of("nowhere")).await.unwrap();
    let (rows, bytes) = (journal.stats().reads, bytes_read());
    match what {
        LookUp::Head => assert_eq!(journal.head(&branch).await.unwrap().unwrap().seq, Seq(length)),
        LookUp::ForkAtHead | LookUp::ForkInTheMiddle => {
            let at = if what == LookUp::ForkAtHead { Seq(length) } else { half };
            let fork = Fork { from: branch, at, name: format!("{what:?}").parse().unwrap() };
            assert_eq!(journal.fork(fork).await.unwrap().head.seq, at);
        }
        LookUp::ById => assert_eq!(journal.by_id(middle).await.unwrap().unwrap().seq, half),
        LookUp::ByKind => {
            let found = journal.by_kind(&branch, &"k.rare".parse().unwrap(), Seq(0), 10).await.unwrap();
            let seqs: Vec<u64> = found.iter().map(|event| event.seq.0).collect();
            assert_eq!(seqs, [1, length / 2, length - 1]);
        }
        LookUp::Read => assert_eq!(journal.read(&branch, half, 5).await.unwrap().len(), 5),
        LookUp::ReadBack => assert_eq!(journal.read_back(&branch, None, 10).await.unwrap().len(), 10),
    }
    let cost = Cost { rows: journal.stats().reads - rows, bytes: bytes_read() - bytes };
    journal.close().await;
    cost
}

/// What this process has read from files so far.
fn bytes_read() -> u64 {
    proc_number("/proc/self/io", "rchar:")
}

fn proc_number(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

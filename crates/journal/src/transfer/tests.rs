//! What an import refuses, skips and drops. That the round trip is exact, for every engine and at every byte, is shown
//! by the conformance suite.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_types::{BranchId, Explain, Hash, PAYLOAD_INLINE_MAX, Position, RESERVED_STREAMS, Seq};

use super::*;
use crate::lines::{BLOB_PIECE_MAX, LineError, Positions, to_line};
use crate::{
    Attrs, EVENTS_MAX, Fork, Journal, KeyedPart, ListFilter, Listed, MemoryJournal, NewEvent, PAGE_MAX, Part,
    Status, StreamSummary,
};

struct Store {
    journal: MemoryJournal,
    blobs: Arc<dyn Blobs>,
}

impl Store {
    fn new() -> Self {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        Self { journal: MemoryJournal::new(Arc::clone(&blobs)), blobs }
    }

    async fn append(&self, branch: &BranchId, key: Option<&str>, events: Vec<NewEvent>) {
        let key = key.map(|key| key.parse().unwrap());
        let part = Part { key, ..Part::new(branch.clone(), events) };
        self.journal.append(vec![part]).await.unwrap();
    }

    async fn export(&self) -> String {
        self.export_of(Selection::Everything).await.0
    }

    async fn export_of(&self, selection: Selection) -> (String, Exported) {
        let mut sink = Vec::new();
        let exported = export(&self.journal, &*self.blobs, selection, &mut sink).await.unwrap();
        (String::from_utf8(sink).unwrap(), exported)
    }

    async fn import(&self, text: &str) -> Result<Imported, ImportError> {
        import(&self.journal, &*self.blobs, &mut text.as_bytes(), RuntimeStreams::Refuse).await
    }

    async fn import_without(&self, text: &str) -> Result<Imported, ImportError> {
        import(&self.journal, &*self.blobs, &mut text.as_bytes(), RuntimeStreams::LeaveOut).await
    }

    async fn events(&self) -> u64 {
        let streams = self.journal.streams(None, 100).await.unwrap();
        streams.iter().map(|summary: &StreamSummary| summary.events).sum()
    }
}

fn main_of(stream: &str) -> BranchId {
    BranchId::main(stream.parse().unwrap())
}

fn notes(payloads: &[&'static str]) -> Vec<NewEvent> {
    payloads.iter().map(|payload| NewEvent::new("note.made".parse().unwrap(), *payload)).collect()
}

/// A blob in three pieces.
const PIECES_BYTES: usize = 2 * BLOB_PIECE_MAX + 1;

async fn sample() -> Store {
    sample_with_blob(PIECES_BYTES).await
}

/// A stream with a keyed part, a fork with an event, a fork without one, and a blob.
async fn sample_with_blob(blob_bytes: usize) -> Store {
    let store = Store::new();
    let a = main_of("a");
    store.append(&a, None, notes(&["1"])).await;
    store.append(&a, Some("k"), notes(&["2", "3"])).await;
    for name in ["empty", "side"] {
        let fork = Fork { from: a.clone(), at: Seq(2), name: name.parse().unwrap() };
        store.journal.fork(fork).await.unwrap();
    }
    let side = BranchId { branch: "side".parse().unwrap(), ..a };
    let content = vec![7; blob_bytes];
    let hash = store.blobs.put_bytes(content.into()).await.unwrap().hash;
    let with_blob = notes(&["4"]).remove(0).with_refs(vec![hash]);
    let large = NewEvent::new("note.made".parse().unwrap(), vec![b'x'; PAYLOAD_INLINE_MAX + 1]);
    store.append(&side, None, vec![with_blob, large]).await;
    store
}

/// Which line of the sample is which.
fn shape(export: &str) -> Vec<&str> {
    let shape = |line: &str| match line {
        line if line.starts_with("{\"weir_export\"") => "header",
        line if line.starts_with("{\"fork\"") => "fork",
        line if line.starts_with("{\"key\"") => "key",
        line if line.starts_with("{\"blob\"") => "blob",
        _ => "event",
    };
    export.lines().map(shape).collect()
}

#[tokio::test]
async fn everything_stands_before_what_needs_it() {
    let store = sample().await;
    let export = store.export().await;
    let expected = [
        "header", "event", "key", "event", "event", "fork", "blob", "blob", "blob", "event", "event", "fork",
    ];
    assert_eq!(shape(&export), expected);
    let copy = Store::new();
    let report = Imported { events: 5, skipped: 0, forks: 2, blobs: 1, dropped_tail: None, left_out: 0 };
    assert_eq!(copy.import(&export).await.unwrap(), report);
    assert_eq!(copy.export().await, export);
    let k = KeyedPart { key: "k".parse().unwrap(), first: Seq(2), last: Seq(3) };
    assert_eq!(copy.journal.keys(&main_of("a"), Seq(1), Seq(9)).await.unwrap(), [k]);
}

#[tokio::test]
async fn an_import_can_be_repeated_and_gone_on_with() {
    let export = sample_with_blob(10).await.export().await;
    let lines: Vec<&str> = export.split_inclusive('\n').collect();
    for cut in 0..=lines.len() {
        let copy = Store::new();
        let first = copy.import(&lines[..cut].concat()).await.unwrap();
        let second = copy.import(&export).await.unwrap();
        assert_eq!((first.events + second.events, second.skipped), (5, first.events), "cut after line {cut}");
        assert_eq!((first.forks + second.forks, second.dropped_tail), (2, None), "cut after line {cut}");
        assert!(copy.journal.verify(None, crate::silent()).await.unwrap().is_sound());
        let again = copy.import(&export).await.unwrap();
        let nothing_new =
            Imported { events: 0, skipped: 5, forks: 0, blobs: 1, dropped_tail: None, left_out: 0 };
        assert_eq!(again, nothing_new, "cut after line {cut}");
    }
}

/// A key must never be forgotten by a cut: a repetition is refused rather than done a second time.
#[tokio::test]
async fn a_cut_inside_a_keyed_part_keeps_the_key() {
    let export = sample_with_blob(10).await.export().await;
    let lines: Vec<&str> = export.split_inclusive('\n').collect();
    let copy = Store::new();
    assert_eq!(copy.import(&lines[..4].concat()).await.unwrap().events, 2);
    copy.import(&export).await.unwrap();
    let part = Part { key: Some("k".parse().unwrap()), ..Part::new(main_of("a"), notes(&["2", "3"])) };
    let refused = copy.journal.append(vec![part]).await.unwrap_err();
    assert_eq!(refused.to_string(), "key `k` was already used on a@main for other content");
}

#[tokio::test]
async fn the_end_of_a_cut_file_is_dropped_and_reported() {
    let export = sample().await.export().await;
    let lines: Vec<&str> = export.split_inclusive('\n').collect();
    let half = &lines[2][..20];
    let blob_bytes = (lines[6].len() + lines[7].len()) as u64;
    let cases = [
        (String::new(), 0, None),
        ("{\"weir_ex".into(), 0, Some(9)),
        (lines[0].trim_end().into(), 0, None),
        (lines[..2].concat(), 1, None),
        (lines[..2].concat().trim_end().into(), 1, None),
        (lines[..2].concat() + half, 1, Some(20)),
        (lines[..8].concat(), 3, Some(blob_bytes)),
        (lines[..8].concat() + "{", 3, Some(blob_bytes + 1)),
    ];
    for (text, events, dropped_tail) in cases {
        let copy = Store::new();
        let report = copy.import(&text).await.unwrap();
        assert_eq!((report.events, report.dropped_tail), (events, dropped_tail), "{}", text.len());
        assert_eq!(copy.events().await, events);
    }
}

#[tokio::test]
async fn a_bad_line_is_named_and_what_is_before_it_stays() {
    let export = sample().await.export().await;
    let lines: Vec<&str> = export.split_inclusive('\n').collect();
    let swap = |n: usize, from: &str, to: &str| {
        assert!(lines[n].contains(from), "{from}");
        let mut changed = lines.clone();
        let line = changed[n].replacen(from, to, 1);
        changed[n] = &line;
        changed.concat()
    };
    let without = |n: usize| [&lines[..n], &lines[n + 1..]].concat().concat();
    let zeros = "0".repeat(64);
    let chain_of = |n: usize| lines[n].rsplit('"').nth(1).unwrap();
    let blob = Hash::of(&vec![7; PIECES_BYTES]);
    #[rustfmt::skip]
    let cases = [
        ("hello\n".to_owned(), 0, "this is not an export: its first line is not {\"weir_export\":1}".to_owned()),
        ("hello".to_owned(), 0, "this is not an export: its first line is not {\"weir_export\":1}".to_owned()),
        (without(0), 0, "this is not an export: its first line is not {\"weir_export\":1}".into()),
        (swap(0, "1", "9"), 0, "line 1 of the export is wrong".into()),
        (swap(3, "{", ""), 1, "line 4 of the export is wrong".into()),
        (swap(3, "\"payload\":2", "\"payload\":3"), 1, "line 4 of the export was altered: event 2 of a@main: its payload does not match its hash".into()),
        (swap(3, "note.made", "note.forged"), 1, "line 4 of the export was altered: event 2 of a@main: its chain does not follow from the event before it".into()),
        (swap(3, chain_of(3), &zeros), 1, "line 4 of the export was altered: event 2 of a@main: its chain does not follow from the event before it".into()),
        (without(1), 0, "line 3 of the export does not follow from what is before it: event 2 comes after event 0 of a@main".into()),
        (without(5), 3, "line 9 of the export does not follow from what is before it: nothing says where a@side was forked".into()),
        (swap(5, chain_of(3), &zeros), 3, "line 6 of the export was altered: a@side was not forked from event 2 of a@main as it is here".into()),
        (swap(5, "\"at\":2", "\"at\":9"), 3, "line 6 of the export was altered: a@side was not forked from event 9 of a@main as it is here".into()),
        (swap(2, "\"last\":3", "\"last\":99999"), 1, "line 3 of the export does not follow from what is before it: no part has key `k`".into()),
        (swap(2, "\"first\":2", "\"first\":3"), 1, "line 4 of the export does not follow from what is before it: events 3 to 3 of a@main come first".into()),
        (without(7), 3, format!("line 8 of the export was altered: the content of blob {blob} does not match its hash")),
        (without(8), 3, format!("line 9 of the export does not follow from what is before it: the next piece of blob {blob} is missing")),
        (swap(6, "BwcH", "BwcI"), 3, format!("line 9 of the export was altered: the content of blob {blob} does not match its hash")),
        ([&lines[..6], &lines[9..]].concat().concat(), 3, format!("line 7 of the export needs blob {blob}, which is not in the export")),
    ];
    for (text, events, expected) in cases {
        let copy = Store::new();
        assert_eq!(copy.import(&text).await.unwrap_err().to_string(), expected);
        assert_eq!(copy.events().await, events, "{expected}");
        if expected.contains("blob") {
            assert_eq!(copy.blobs.stat(blob).await.unwrap(), None, "{expected}");
        }
    }
}

#[tokio::test]
async fn a_journal_that_went_another_way_is_not_changed() {
    let export = sample_with_blob(10).await.export().await;
    let other = Store::new();
    other.append(&main_of("a"), None, notes(&["another"])).await;
    let refused = other.import(&export).await.unwrap_err().to_string();
    assert_eq!(refused, "line 2 of the export: event 1 of a@main already exists here and is another one");

    let forked = Store::new();
    let lines: Vec<&str> = export.split_inclusive('\n').collect();
    forked.import(&lines[..5].concat()).await.unwrap();
    let fork = Fork { from: main_of("a"), at: Seq(1), name: "side".parse().unwrap() };
    forked.journal.fork(fork).await.unwrap();
    let refused = forked.import(&export).await.unwrap_err().to_string();
    assert_eq!(refused, "line 6 of the export: branch a@side already exists here and is another one");

    let whole = Store::new();
    whole.import(&export).await.unwrap();
    let refused = whole.import(&export.replacen("\"payload\":2", "\"payload\":9", 1)).await.unwrap_err();
    let expected =
        "line 4 of the export was altered: event 2 of a@main differs from the one with the same chain";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test]
async fn an_imported_session_is_halted() {
    let store = Store::new();
    store.append(&main_of("session:1"), None, notes(&["1"])).await;
    store.append(&main_of("other"), None, notes(&["1"])).await;
    let copy = Store::new();
    copy.import(&store.export().await).await.unwrap();
    let listed: Vec<Listed> = copy.journal.list(ListFilter::default(), None, 10).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|row| (row.branch, row.attrs)).collect();
    assert_eq!(listed, [(main_of("session:1"), Attrs::new(Status::Halted))]);
}

#[tokio::test]
async fn long_streams_and_long_keyed_parts_pass_in_batches() {
    const COUNT: u64 = 999 + EVENTS_MAX as u64 + 3 + 420;
    let store = Store::new();
    let many = |count: usize| {
        (0..count).map(|n| NewEvent::new("n".parse().unwrap(), n.to_string())).collect::<Vec<_>>()
    };
    store.append(&main_of("a"), None, many(999)).await;
    store.append(&main_of("a"), Some("long"), many(EVENTS_MAX)).await;
    store.append(&main_of("a"), None, many(3)).await;
    for (n, stream) in ["b", "b", "c"].into_iter().cycle().take(60).enumerate() {
        store.append(&main_of(stream), (n % 3 == 0).then_some(n.to_string()).as_deref(), many(7)).await;
    }
    let export = store.export().await;
    let copy = Store::new();
    assert_eq!(copy.import(&export).await.unwrap().events, COUNT);
    assert_eq!(copy.export().await, export);
    for branch in ["a", "b", "c"].map(main_of) {
        let keys = async |store: &Store| store.journal.keys(&branch, Seq(0), Seq(u64::MAX)).await.unwrap();
        assert_eq!(keys(&copy).await, keys(&store).await);
    }
    assert_eq!(copy.import(&export).await.unwrap().skipped, COUNT);
}

/// Lines that hash and chain as they should, and that no journal would write all the same.
#[tokio::test]
async fn forged_lines_with_good_chains_are_refused() {
    let store = Store::new();
    let forged = |n: u64, ts: i64, payload: Vec<u8>, after: Hash| {
        let event = weir_types::Event {
            position: Position(0),
            stream: "a".parse().unwrap(),
            branch: weir_types::BranchName::main(),
            seq: Seq(n),
            id: crate::mint(),
            ts: weir_types::Timestamp::from_micros(ts).unwrap(),
            kind: "n".parse().unwrap(),
            payload_hash: Hash::of(&payload),
            payload: payload.into(),
            meta: Default::default(),
            refs: vec![],
            chain: Hash::ZERO,
        };
        weir_types::Event { chain: event.chain_after(after), ..event }
    };
    let first = forged(1, 10, b"1".to_vec(), Hash::ZERO);
    let early = forged(2, 9, b"2".to_vec(), first.chain);
    let without_ref = forged(2, 10, vec![b'x'; PAYLOAD_INLINE_MAX + 1], first.chain);
    let line = |event: &weir_types::Event| to_line(event, Positions::Hidden) + "\n";
    for bad in [early, without_ref] {
        let file = format!("{{\"weir_export\":1}}\n{}{}", line(&first), line(&bad));
        let expected = "line 3 of the export was altered: event 2 of a@main: no journal can have written it";
        assert_eq!(store.import(&file).await.unwrap_err().to_string(), expected);
        assert_eq!(store.events().await, 1);
    }

    let store = Store::new();
    let key = |first| {
        format!(
            "{{\"key\":{{\"stream\":\"a\",\"branch\":\"main\",\"key\":\"k\",\"first\":{first},\"last\":{first}}}}}\n"
        )
    };
    let second = forged(2, 10, b"1".to_vec(), first.chain);
    let once = format!("{{\"weir_export\":1}}\n{}{}", key(1), line(&first));
    store.import(&once).await.unwrap();
    let twice = format!("{once}{}{}", key(2), line(&second));
    let expected = "line 6 of the export: one of the keys already exists here and is another one";
    assert_eq!(store.import(&twice).await.unwrap_err().to_string(), expected);
    assert_eq!(store.events().await, 1);
}

#[tokio::test]
async fn lines_that_come_twice_are_skipped_once() {
    let export = sample_with_blob(10).await.export().await;
    let twice: String = export.split_inclusive('\n').flat_map(|line| [line, line]).collect();
    // A key line that comes twice is refused: nothing says which part it starts.
    let twice = twice.replacen(export.lines().nth(2).unwrap(), "", 1);
    let copy = Store::new();
    let report = Imported { events: 5, skipped: 5, forks: 2, blobs: 2, dropped_tail: None, left_out: 0 };
    assert_eq!(copy.import(&twice).await.unwrap(), report);
    assert_eq!(
        copy.export().await.replace(",\"last\":2", ",\"last\":3"),
        export,
        "but for the part that was cut"
    );
}

#[tokio::test]
async fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let endless = tokio::io::BufReader::new(tokio::io::repeat(b' '));
    let mut input = b"{\"weir_export\":1}\n{".chain(endless);
    let store = Store::new();
    let refused =
        import(&store.journal, &*store.blobs, &mut input, RuntimeStreams::Refuse).await.unwrap_err();
    assert!(matches!(refused, ImportError::Line { line: 2, source: LineError::TooLong }), "{refused}");
}

/// An export shows one moment, though the journal goes on while it is written.
#[tokio::test]
async fn what_is_appended_during_an_export_is_not_in_it() {
    let store = Store::new();
    let many = |count: usize| (0..count).map(|_| notes(&["1"]).remove(0)).collect();
    store.append(&main_of("a"), None, many(PAGE_MAX + 5)).await;
    for selection in [Selection::Everything, Selection::Portable, Selection::Stream(main_of("a").stream)] {
        let before = store.events().await;
        // The pipe is small, so the export waits for us on its first page.
        let (mut sink, mut pipe) = tokio::io::duplex(1_024);
        let export = async {
            let written = export(&store.journal, &*store.blobs, selection, &mut sink).await.unwrap();
            drop(sink);
            written
        };
        let meanwhile = async {
            let mut file = vec![0; 100];
            pipe.read_exact(&mut file).await.unwrap();
            store.append(&main_of("a"), None, many(3)).await;
            let head = store.journal.head(&main_of("a")).await.unwrap().unwrap().seq;
            let name = format!("at {head}").parse().unwrap();
            store.journal.fork(Fork { from: main_of("a"), at: head, name }).await.unwrap();
            pipe.read_to_end(&mut file).await.unwrap();
            file
        };
        let (written, file) = tokio::join!(export, meanwhile);
        assert_eq!(written, Exported { events: before, forks: written.forks, ..Exported::default() });
        let copy = Store::new();
        let report = copy.import(std::str::from_utf8(&file).unwrap()).await.unwrap();
        assert_eq!((report.events, report.forks), (before, written.forks));
        let branches = store.journal.branches(&main_of("a").stream).await.unwrap().len() as u64;
        assert_eq!(written.forks, branches - 2, "the fork of a moment ago and main are not in it");
    }
}

/// The reserved streams that no import takes, as somebody could name them.
fn authority() -> Vec<BranchId> {
    let rests =
        ["tokens", "deployments", "requests", "memory:a:user:eve", "day:2026-01-01", "run:1", "nightly", "x"];
    let prefixes = RESERVED_STREAMS.into_iter().filter(|prefix| *prefix != "session:");
    prefixes.flat_map(|prefix| rests.map(|rest| main_of(&format!("{prefix}{rest}")))).collect()
}

/// In every reserved stream, as every kind of line and at every place of a file: refused, before anything is written by whoever
/// looks first; and never written by whoever does not.
#[tokio::test]
async fn an_import_takes_no_stream_of_the_runtime() {
    let valid = sample_with_blob(10).await.export().await;
    let lines: Vec<&str> = valid.split_inclusive('\n').collect();
    for branch in authority() {
        let forger = Store::new();
        forger.append(&branch, Some("k"), notes(&["1", "2"])).await;
        let fork = Fork { from: branch.clone(), at: Seq(1), name: "side".parse().unwrap() };
        forger.journal.fork(fork).await.unwrap();
        let forged = forger.export().await;
        let forged: Vec<&str> = forged.split_inclusive('\n').skip(1).collect();
        assert_eq!(shape(&forged.concat()), ["key", "event", "event", "fork"]);
        for line in &forged {
            for at in [1, lines.len() / 2, lines.len()] {
                let file = [&lines[..at], &[*line], &lines[at..]].concat().concat();
                let looked = check_streams(&mut file.as_bytes()).await.unwrap_err();
                assert_eq!(looked.code(), "journal::import-authority", "{line} at {at}");
                let expected = format!(
                    "line {} of the export is of stream `{}`, which only the runtime of this data directory writes",
                    at + 1,
                    branch.stream
                );
                assert_eq!(looked.to_string(), expected);
                let store = Store::new();
                assert_eq!(store.import(&file).await.unwrap_err().code(), "journal::import-authority");
                let streams = store.journal.streams(None, 100).await.unwrap();
                assert!(streams.iter().all(|found| found.stream.as_str() == "a"), "{streams:?}");
            }
        }
    }
    check_streams(&mut valid.as_bytes()).await.unwrap();
}

/// Whatever the runtime keeps for itself, a portable export has everything else, and the import takes it as it is.
#[tokio::test]
async fn a_portable_export_is_imported_without_streams_of_the_runtime() {
    let (own, plain) = (sample_with_blob(10).await, sample_with_blob(10).await);
    let secret = own.blobs.put_bytes("of the runtime".into()).await.unwrap().hash;
    for branch in authority() {
        let named = NewEvent::new("n".parse().unwrap(), "1").with_refs(vec![secret]);
        own.append(&branch, Some("k"), [notes(&["1"]), vec![named]].concat()).await;
        let fork = Fork { from: branch.clone(), at: Seq(1), name: "side".parse().unwrap() };
        own.journal.fork(fork).await.unwrap();
    }
    own.append(&main_of("session:x"), None, notes(&["1"])).await;
    plain.append(&main_of("session:x"), None, notes(&["1"])).await;
    let (portable, exported) = own.export_of(Selection::Portable).await;
    let streams = authority().len() as u64;
    assert_eq!(exported.left_out, LeftOut { streams, events: 2 * streams });
    assert_eq!(shape(&portable), shape(&plain.export().await));
    let copy = Store::new();
    let done = copy.import(&portable).await.unwrap();
    assert_eq!((done.events, done.left_out), (plain.events().await, 0));
    assert_eq!(copy.export().await, portable);

    // The export of everything comes to the same when they are left out by who imports.
    let everything = own.export().await;
    let copy = Store::new();
    let done = copy.import_without(&everything).await.unwrap();
    assert_eq!((done.events, done.left_out), (plain.events().await, 2 * streams));
    assert_eq!(copy.export().await, portable);
    // One stream that was asked for by name is exported, whatever it is.
    let (one, exported) = own.export_of(Selection::Stream(authority()[0].stream.clone())).await;
    assert_eq!((exported.events, exported.left_out), (2, LeftOut::default()));
    assert_eq!(copy.import(&one).await.unwrap_err().code(), "journal::import-authority");
}

#[tokio::test]
async fn a_restore_takes_everything_and_needs_an_empty_journal() {
    let own = sample_with_blob(10).await;
    for branch in authority() {
        own.append(&branch, None, notes(&["1"])).await;
    }
    let export = own.export().await;
    let restored = Store::new();
    let done = restore(&restored.journal, &*restored.blobs, &mut export.as_bytes()).await.unwrap();
    assert_eq!(done.events, own.events().await);
    assert_eq!(restored.export().await, export);
    let again = restore(&restored.journal, &*restored.blobs, &mut export.as_bytes()).await.unwrap_err();
    assert_eq!(again.code(), "journal::restore-not-empty");
}

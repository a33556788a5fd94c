//! Export, import and anchors, over any engine.

use weir_types::{Meta, PAYLOAD_INLINE_MAX, Seq, StreamName};

use super::kit::*;
use super::{Fixture, Make};
use crate::anchor;
use crate::append::Part;
use crate::port::Journal;
use crate::transfer::{Imported, RuntimeStreams, Selection, export, import};

async fn exported(fixture: &Fixture, stream: Option<StreamName>) -> Vec<u8> {
    let mut sink = Vec::new();
    let selection = stream.map_or(Selection::Everything, Selection::Stream);
    export(&*fixture.journal, &*fixture.blobs, selection, &mut sink).await.unwrap();
    sink
}

async fn imported(fixture: &Fixture, mut file: &[u8]) -> Imported {
    import(&*fixture.journal, &*fixture.blobs, &mut file, RuntimeStreams::Refuse).await.unwrap()
}

/// Two streams with interleaved branches, keys, blobs, a large payload and bytes that are not JSON.
async fn fill(fixture: &Fixture) {
    let (journal, a) = (&*fixture.journal, at("a"));
    let blob = fixture.blobs.put_bytes("some content".into()).await.unwrap().hash;
    grow(journal, &a, 2).await;
    let side = fork(journal, &a, 2, "side \"1\"").await;
    fork(journal, &side, 1, "without events").await;
    let keyed = |to: &str, name: &str, from, count| Part {
        key: Some(key(name)),
        ..Part::new(at(to), notes(from, count))
    };
    let parts = vec![keyed("b", "k", 1, 2), Part::new(a.clone(), notes(3, 1)), keyed("a", "k", 4, 3)];
    journal.append(parts).await.unwrap();
    let meta = Meta::new("{ \"causation\" : \"01J9ZDQ8M3E4F5G6H7J8K9MNPQ\" }").unwrap();
    let odd = vec![
        event("odd", vec![0, 159, 146, 150]).with_refs(vec![blob]).with_meta(meta),
        event("large", vec![b'x'; PAYLOAD_INLINE_MAX + 1]).with_refs(vec![blob]),
    ];
    append(journal, &side, odd).await;
    let deep = fork(journal, &side, 4, "deep").await;
    grow(journal, &at("b"), 1).await;
    grow(journal, &deep, 1).await;
    fork(journal, &at("b"), 1, "also without").await;
}

/// Events apart from their positions.
async fn contents(journal: &dyn Journal) -> Vec<String> {
    let lines = |event| crate::lines::to_line(&event, crate::lines::Positions::Hidden);
    everything(journal).await.into_iter().map(lines).collect()
}

/// All streams: same order, same bytes, same branches and keys; and again into a journal that has it all.
pub async fn an_export_of_an_import_is_the_same(make: Make) {
    let (source, copy) = (make().await, make().await);
    fill(&source).await;
    let file = exported(&source, None).await;
    let report = Imported { events: 12, skipped: 0, forks: 4, blobs: 1, dropped_tail: None, left_out: 0 };
    assert_eq!(imported(&copy, &file).await, report);
    assert_eq!(exported(&copy, None).await, file);
    assert_eq!(contents(&*copy.journal).await, contents(&*source.journal).await);
    for branch in ["a", "b", "a@side \"1\""].map(at) {
        let of = async |fixture: &Fixture| {
            (
                fixture.journal.keys(&branch, Seq(0), Seq(99)).await.unwrap(),
                texts(&lineage(&*fixture.journal, &branch).await),
            )
        };
        assert_eq!(of(&copy).await, of(&source).await);
    }
    assert_sound(&*copy.journal).await;
    let again = Imported { events: 0, skipped: 12, forks: 0, blobs: 1, dropped_tail: None, left_out: 0 };
    assert_eq!(imported(&copy, &file).await, again);
    assert_eq!(exported(&copy, None).await, file);
}

/// One stream of several: its branches and nothing else, again byte for byte.
pub async fn an_import_of_one_stream_is_exact(make: Make) {
    let (source, copy) = (make().await, make().await);
    fill(&source).await;
    let a = at("a").stream;
    let file = exported(&source, Some(a.clone())).await;
    let report = Imported { events: 9, skipped: 0, forks: 3, blobs: 1, dropped_tail: None, left_out: 0 };
    assert_eq!(imported(&copy, &file).await, report);
    assert_eq!(exported(&copy, Some(a.clone())).await, file);
    let branches = async |fixture: &Fixture| {
        let branches = fixture.journal.branches(&a).await.unwrap();
        branches.into_iter().map(|branch| (branch.name, branch.parent, branch.head.chain)).collect::<Vec<_>>()
    };
    assert_eq!(branches(&copy).await, branches(&source).await);
    assert_eq!(copy.journal.streams(None, 9).await.unwrap().len(), 1);
    assert_sound(&*copy.journal).await;
    // What it is missing of the other stream comes with the whole.
    let rest = imported(&copy, &exported(&source, None).await).await;
    assert_eq!((rest.events, rest.skipped, rest.forks), (3, 9, 1));
}

/// Cut at every byte, an export imports all its whole lines and says what was dropped.
pub async fn an_import_cut_at_any_byte_keeps_whole_lines(make: Make) {
    let source = make().await;
    let (journal, a) = (&*source.journal, at("a"));
    let blob = source.blobs.put_bytes("b".into()).await.unwrap().hash;
    journal.append(vec![Part { key: Some(key("k")), ..Part::new(a.clone(), notes(1, 2)) }]).await.unwrap();
    let side = fork(journal, &a, 1, "side").await;
    append(journal, &side, vec![event("n", "\u{1F40E}").with_refs(vec![blob])]).await;
    let file = exported(&source, None).await;
    let all = contents(journal).await;
    let copy = make().await;
    for cut in 0..=file.len() {
        // Each import goes on where the one before ended, and so must see every whole line.
        let report = imported(&copy, &file[..cut]).await;
        let whole = file[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let is_line = crate::lines::parse(&file[whole..cut]).is_ok();
        let dropped = (whole < cut && !is_line).then_some((cut - whole) as u64);
        assert_eq!(report.dropped_tail, dropped, "cut at {cut}");
        let end = if is_line { cut } else { whole };
        let lines: Vec<_> = std::str::from_utf8(&file[..end]).unwrap().lines().collect();
        let events = lines.into_iter().filter(|line| line.starts_with("{\"stream\"")).count();
        assert_eq!(report.events + report.skipped, events as u64, "cut at {cut}");
        assert_eq!(contents(&*copy.journal).await, all[..events], "cut at {cut}");
    }
    assert_sound(&*copy.journal).await;
}

/// An anchor holds for the journal it was taken from, however it grows, and for no other.
pub async fn an_anchor_holds_while_the_journal_grows(make: Make) {
    let (source, other) = (make().await, make().await);
    fill(&source).await;
    let taken = anchor::take(&*source.journal).await.unwrap();
    assert_eq!(taken.lines().count(), 7);
    grow(&*source.journal, &at("a"), 3).await;
    grow(&*source.journal, &at("c"), 1).await;
    assert_eq!(anchor::check(&*source.journal, &taken).await.unwrap(), []);
    fill(&other).await;
    let problems = anchor::check(&*other.journal, &taken).await.unwrap();
    assert_eq!(problems.len(), 6, "the same events appended again have other ids and times");
}

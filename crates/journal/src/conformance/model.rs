//! Random operations against the engine and, beside it, against a model that is only lists and maps.

mod ops;
mod reference;

use proptest::test_runner::{Config, TestRunner};
use weir_types::{BranchId, Kind, Position, Seq};

use super::Make;
use super::kit::{assert_sound, everything, lineage};
use crate::append::{Appended, KeyedPart, Part};
use crate::listing::ListFilter;
use crate::port::Journal;

use ops::Op;
use reference::Model;

/// Cases without `PROPTEST_CASES`.
const CASES: u32 = 64;

/// Multi-part appends with keys, expectations and owners, repetitions, forks and reads, in random order: the engine
/// and the model always answer the same.
pub fn model(make: Make) {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = Config { failure_persistence: None, ..Config::default() };
    let config = if asked { config } else { Config { cases: CASES, ..config } };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = TestRunner::new(config).run(&ops::ops(), |ops| {
        runtime.block_on(async {
            let fixture = make().await;
            run(&*fixture.journal, ops).await;
        });
        Ok(())
    });
    if let Err(failed) = outcome {
        panic!("{failed}");
    }
}

async fn run(journal: &dyn Journal, ops: Vec<Op>) {
    let mut model = Model::default();
    let mut done: Vec<Vec<ops::PartSpec>> = Vec::new();
    for op in ops {
        match op {
            Op::Append(specs) => {
                append(journal, &mut model, &specs).await;
                done.push(specs);
            }
            Op::Repeat(n) => {
                if let Some(specs) = (!done.is_empty()).then(|| done[n % done.len()].clone()) {
                    append(journal, &mut model, &specs).await;
                }
            }
            Op::Fork { from, at, name } => {
                let fork = ops::fork(&from, &name, model.head(&from), at);
                let expected = model.fork(&fork).map_err(|error| error.to_string());
                let actual = journal.fork(fork).await.map_err(|error| error.to_string());
                let actual = actual.map(|branch| (branch.head.seq, branch.parent.unwrap().at));
                assert_eq!(actual, expected.map(|at| (at, at)));
            }
            Op::Read { branch, place, limit } => read(journal, &model, &branch, place, limit).await,
        }
    }
    compare(journal, &model).await;
}

async fn append(journal: &dyn Journal, model: &mut Model, specs: &[ops::PartSpec]) {
    let parts: Vec<Part> = specs.iter().map(|spec| ops::part(spec, model)).collect();
    let newest = model.newest_position();
    let actual = journal.append(parts.clone()).await.map_err(|error| error.to_string());
    // The engine chooses positions; the model only insists that they are new, increasing and contiguous.
    let start = match actual.as_ref().map(|appended| appended[0]) {
        Ok(Appended { position, replayed: false, .. }) => position.0 + 1 - parts[0].events.len() as u64,
        _ => newest + 1,
    };
    assert!(start > newest, "positions increase");
    let expected = model.append(&parts, start).map_err(|error| error.to_string());
    assert_eq!(actual, expected);
}

async fn read(journal: &dyn Journal, model: &Model, branch: &BranchId, place: u64, limit: usize) {
    let Some(all) = model.lineage(branch) else {
        assert!(journal.read(branch, Seq(place), limit).await.is_err());
        return;
    };
    let ids = |events: Vec<weir_types::Event>| events.into_iter().map(|event| event.id).collect::<Vec<_>>();
    let numbered = || (1..=all.len() as u64).zip(all);
    let after: Vec<_> =
        numbered().filter(|(seq, _)| *seq > place).take(limit).map(|(_, event)| event.id).collect();
    assert_eq!(ids(journal.read(branch, Seq(place), limit).await.unwrap()), after);
    let mut before: Vec<_> = numbered().filter(|(seq, _)| *seq < place).map(|(_, event)| event.id).collect();
    before.reverse();
    before.truncate(limit);
    assert_eq!(ids(journal.read_back(branch, Some(Seq(place)), limit).await.unwrap()), before);
    let kind: Kind = ops::KINDS[place as usize % ops::KINDS.len()].parse().unwrap();
    let of_kind = numbered().filter(|(seq, event)| *seq > place && event.kind == kind);
    let of_kind: Vec<_> = of_kind.take(limit).map(|(_, event)| event.id).collect();
    assert_eq!(ids(journal.by_kind(branch, &kind, Seq(place), limit).await.unwrap()), of_kind);
}

/// Everything that can be asked, at the end.
async fn compare(journal: &dyn Journal, model: &Model) {
    let all: Vec<_> = everything(journal).await;
    let places: Vec<_> = all.iter().map(|event| (event.position.0, event.branch_id(), event.seq)).collect();
    assert_eq!(places, model.places());
    assert_eq!(journal.read_all(Position(model.newest_position()), 1).await.unwrap(), []);
    let summaries = journal.streams(None, 100).await.unwrap();
    let summaries: Vec<_> =
        summaries.into_iter().map(|sum| (sum.stream, sum.branches, sum.events, sum.owner)).collect();
    assert_eq!(summaries, model.summaries());
    for (stream, ..) in &summaries {
        let branches = journal.branches(stream).await.unwrap();
        let branches: Vec<_> = branches
            .into_iter()
            .map(|branch| {
                (branch.name, branch.parent.map(|parent| (parent.branch, parent.at)), branch.head.seq)
            })
            .collect();
        assert_eq!(branches, model.branches(stream));
        for (name, ..) in branches {
            let branch = BranchId { stream: stream.clone(), branch: name };
            let read = lineage(journal, &branch).await;
            let read: Vec<_> = read.into_iter().map(|e| (e.branch, e.id, e.kind, e.payload)).collect();
            let expected = model.lineage(&branch).unwrap();
            let expected: Vec<_> = expected
                .iter()
                .map(|e| (e.branch.clone(), e.id, e.kind.clone(), e.payload.clone()))
                .collect();
            assert_eq!(read, expected, "{branch}");
            let keys: Vec<KeyedPart> = journal.keys(&branch, Seq(0), Seq(u64::MAX)).await.unwrap();
            assert_eq!(keys, model.keys(&branch), "{branch}");
        }
    }
    let listed = journal.list(ListFilter::default(), None, 100).await.unwrap();
    let mut listed: Vec<_> = listed.into_iter().map(|row| (row.branch, row.attrs, row.owner)).collect();
    listed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    assert_eq!(listed, model.listed());
    assert_sound(journal).await;
}

//! Several processes on one journal: they take turns without losing, doubling or refusing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;
use weir_journal::{AppendError, Appended, Attrs, Expected, Journal, ListFilter, Part, Status};
use weir_journal_sqlite::SqliteJournal;
use weir_types::Seq;

use crate::child::{self, Child, Role};
use crate::promises::{Promise, Session, Shape, broken};
use crate::support::{DataDir, event, main_of, read_whole, soak};

const PROCESSES: u64 = 3;
const SESSIONS: u64 = 6;

fn rounds() -> u64 {
    if soak() { 4_000 } else { 300 }
}

/// Runs `session` several times at once on one journal, and tells the test what each of them returns. Whatever a
/// session is refused, such as a locked database, fails the child.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn together<F, S>(role: &Role, session: S)
where
    F: Future<Output = Vec<String>> + Send + 'static,
    S: Fn(Arc<SqliteJournal>, u64) -> F,
{
    let journal = Arc::new(role.dir.open().await);
    child::wait_for_go();
    let mut sessions = JoinSet::new();
    for n in 0..SESSIONS {
        sessions.spawn(session(journal.clone(), role.number * SESSIONS + n));
    }
    while let Some(lines) = sessions.join_next().await {
        child::say(&lines.unwrap());
    }
    journal.close().await;
}

/// What the children of a test say, all together.
fn said(test: &str, dir: &DataDir) -> Vec<String> {
    let children = Child::start_together(test, dir, PROCESSES);
    children.into_iter().flat_map(Child::finish).collect()
}

#[test]
fn three_processes_append_to_one_stream() {
    match child::role() {
        Some(role) => together(&role, append_freely),
        None => check_free_appends("processes::three_processes_append_to_one_stream"),
    }
}

async fn append_freely(journal: Arc<SqliteJournal>, number: u64) -> Vec<String> {
    let (one, other, mut session) = (main_of("one"), main_of("other"), Session::new(number.to_string()));
    let mut lines = Vec::new();
    for round in 0..rounds() {
        let counts: &[_] = if round % 4 == 0 { &[(&one, 2), (&other, 1), (&one, 1)] } else { &[(&one, 1)] };
        let promises = session.append(&journal, counts, Shape::SMALL).await.unwrap();
        lines.extend(promises.iter().map(Promise::to_line));
    }
    lines
}

#[tokio::main]
async fn check_free_appends(test: &str) {
    let dir = DataDir::new();
    let promises: Vec<Promise> = said(test, &dir).iter().map(|line| Promise::from_line(line)).collect();
    let journal = dir.open().await;
    assert_eq!(broken(&journal, &promises).await, Vec::<String>::new());
    // Every place was promised once: what is kept is then neither lost nor doubled.
    let mut places = BTreeSet::new();
    for promise in &promises {
        let Promise::Event { branch, seq, .. } = promise else { panic!("{promise:?}") };
        assert!(places.insert((branch, *seq)), "{promise:?} was promised twice");
    }
    let (one, other) = (main_of("one"), main_of("other"));
    let head = |branch| journal.head(branch);
    let events = head(&one).await.unwrap().unwrap().seq.0 + head(&other).await.unwrap().unwrap().seq.0;
    assert_eq!(events, PROCESSES * SESSIONS * (rounds() + 3 * rounds().div_ceil(4)));
    assert_eq!(places.len() as u64, events);
    journal.close().await;
}

#[test]
fn each_expected_seq_has_one_winner() {
    match child::role() {
        Some(role) => together(&role, append_exactly),
        None => check_winners("processes::each_expected_seq_has_one_winner"),
    }
}

/// Appends behind the newest event it knows of until the stream is long enough.
async fn append_exactly(journal: Arc<SqliteJournal>, number: u64) -> Vec<String> {
    let branch = main_of("one");
    let (mut newest, mut conflicts, mut lines) = (Seq(0), 0, Vec::new());
    while newest.0 < rounds() * 4 {
        let expected = if newest == Seq(0) { Expected::NoStream } else { Expected::Exactly(newest) };
        let mine = event("k", number.to_string());
        let id = mine.id();
        let part = Part { expected, ..Part::new(branch.clone(), vec![mine]) };
        newest = match journal.append(vec![part]).await {
            Ok(appended) => {
                assert_eq!((appended[0].first, appended[0].last), (newest.next(), newest.next()));
                lines.push(format!("won {} {id}", newest.next()));
                newest.next()
            }
            Err(AppendError::Conflict { expected, actual, .. }) => {
                assert_eq!(expected, newest);
                assert!(actual > newest, "{actual} is in the way of {newest}");
                conflicts += 1;
                actual
            }
            Err(error) => panic!("{error:?}"),
        };
    }
    lines.push(format!("conflicts {conflicts}"));
    lines
}

#[tokio::main]
async fn check_winners(test: &str) {
    let dir = DataDir::new();
    let lines = said(test, &dir);
    let journal = dir.open().await;
    let events = read_whole(&journal, &main_of("one")).await;
    let mut winners: Vec<String> =
        events.iter().map(|event| format!("won {} {}", event.seq, event.id)).collect();
    let (mut won, conflicts): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.starts_with("won"));
    winners.sort_unstable();
    won.sort_unstable();
    assert_eq!(won, winners);
    let conflicts: u64 =
        conflicts.iter().map(|line| line["conflicts ".len()..].parse::<u64>().unwrap()).sum();
    assert_ne!(conflicts, 0, "nobody raced");
    println!("{} places, {conflicts} conflicts", winners.len());
    journal.close().await;
}

#[test]
fn each_key_is_appended_once() {
    match child::role() {
        Some(role) => together(&role, append_keyed),
        None => check_keys("processes::each_key_is_appended_once"),
    }
}

/// Appends the same keyed parts as everybody else.
async fn append_keyed(journal: Arc<SqliteJournal>, _: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for key in 0..rounds() * 2 {
        let events = vec![event("k", format!("first of {key}")), event("k", format!("second of {key}"))];
        let part = Part { key: Some(key.to_string().parse().unwrap()), ..Part::new(main_of("one"), events) };
        let Appended { first, last, replayed, .. } = journal.append(vec![part]).await.unwrap()[0];
        lines.push(format!("{key} {first} {last} {replayed}"));
    }
    lines
}

#[tokio::main]
async fn check_keys(test: &str) {
    let dir = DataDir::new();
    let mut answers: BTreeMap<u64, Vec<(u64, u64, bool)>> = BTreeMap::new();
    for line in said(test, &dir) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse().unwrap();
        answers.entry(number(0)).or_default().push((number(1), number(2), words[3] == "true"));
    }
    let journal = dir.open().await;
    let events = read_whole(&journal, &main_of("one")).await;
    assert_eq!(events.len() as u64, rounds() * 2 * 2);
    assert_eq!(answers.len() as u64, rounds() * 2);
    for (key, answers) in answers {
        let (first, last, _) = answers[0];
        assert_eq!(answers.len() as u64, PROCESSES * SESSIONS);
        assert!(answers.iter().all(|answer| (answer.0, answer.1) == (first, last)), "{key}: {answers:?}");
        assert_eq!(answers.iter().filter(|(_, _, replayed)| !replayed).count(), 1, "{key}: {answers:?}");
        assert_eq!(last, first + 1);
        assert_eq!(events[first as usize - 1].payload, format!("first of {key}"));
        assert_eq!(events[last as usize - 1].payload, format!("second of {key}"));
    }
    journal.close().await;
}

/// Attributes are remembered by the one that wrote them, but not longer than they are true.
#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_the_last_writers() {
    let dir = DataDir::new();
    let (ours, theirs, branch) = (dir.open().await, dir.open().await, main_of("a"));
    let attrs = |status, agent: &str| Attrs {
        principal: Some("user:p".to_owned()),
        agent: Some(agent.to_owned()),
        ..Attrs::new(status)
    };
    let (mine, done, other) =
        (attrs(Status::Running, "mine"), attrs(Status::Idle, "mine"), attrs(Status::Running, "other"));
    for (journal, attrs) in
        [(&ours, &mine), (&ours, &done), (&ours, &mine), (&theirs, &other), (&ours, &mine)]
    {
        let part = Part::new(branch.clone(), vec![event("k", "")]);
        journal.append(vec![Part { attrs: Some(attrs.clone()), ..part }]).await.unwrap();
        for status in [Status::Running, Status::Idle] {
            let filter = ListFilter { status: Some(status), ..ListFilter::default() };
            let listed = ours.list(filter, None, 10).await.unwrap();
            let found: Vec<&Attrs> = listed.iter().map(|listed| &listed.attrs).collect();
            let expected: Vec<&Attrs> =
                Some(attrs).into_iter().filter(|attrs| attrs.status == status).collect();
            assert_eq!(found, expected);
        }
    }
    ours.close().await;
    theirs.close().await;
}

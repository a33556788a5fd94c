//! A thousand readers follow while 64 writers append: each sees every event once and in order, and none is in the way.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_journal::{Fork, Journal, Part, Tail};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{BranchId, Event, Hasher, Position, Seq};

use crate::child::{self, Child, Role};
use crate::promises::{Session, Shape, everything};
use crate::support::{Chance, DataDir, append, branch_of, event, main_of, read_whole, soak};

const STREAMS: u64 = 16;
const FORKS: u64 = 8;
const WRITERS: u64 = 64;
const READERS: u64 = 900;
const READERS_PER_CHILD: u64 = 50;
const CHILDREN: u64 = 2;

/// The kind of the last event of each branch.
const END: &str = "the.end";

fn appends_per_writer() -> u64 {
    if soak() { 400 } else { 40 }
}

/// Each append has one event to three.
fn events_in_all() -> u64 {
    WRITERS * (0..appends_per_writer()).map(|n| n % 3 + 1).sum::<u64>()
}

fn stream(n: u64) -> BranchId {
    main_of(&format!("stream-{n}"))
}

fn fork_of(n: u64) -> BranchId {
    branch_of(&format!("stream-{n}"), "fork")
}

fn branches() -> Vec<BranchId> {
    (0..STREAMS).map(stream).chain((0..FORKS).map(fork_of)).collect()
}

/// What a reader follows, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Branch(BranchId, Seq),
    All(Position),
}

/// What a reader saw, or should have seen: how many events, and their ids in order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    events: u64,
    digest: String,
}

impl Seen {
    fn of<'a>(events: impl Iterator<Item = &'a Event>) -> Self {
        let (mut hasher, mut count) = (Hasher::default(), 0);
        for event in events {
            hasher.update(&event.id.to_bytes());
            hasher.update(event.payload_hash.as_bytes());
            count += 1;
        }
        Self { events: count, digest: hasher.finish().to_string() }
    }
}

/// Joins when so many events have been appended, at some event that is already there, and reads to the end.
async fn follow(
    journal: Arc<SqliteJournal>,
    mut progress: watch::Receiver<u64>,
    seed: u64,
) -> (Subject, Seen) {
    let mut chance = Chance::new(seed);
    let moment = chance.below(events_in_all());
    progress.wait_for(|appended| *appended >= moment).await.unwrap();
    let all = branches();
    let subject = if chance.below(50) == 0 {
        Subject::All(Position(chance.below(moment + 1)))
    } else {
        let branch = all[chance.below(all.len() as u64) as usize].clone();
        // A fork may not be there yet: it is waited for.
        let head = journal.head(&branch).await.unwrap().map_or(1, |head| head.seq.0);
        Subject::Branch(branch, Seq(chance.below(head)))
    };
    let (mut tail, mut ends) = match &subject {
        Subject::Branch(branch, after) => (journal.tail(branch, *after), 1),
        Subject::All(after) => (journal.tail_all(*after), all.len()),
    };
    let mut events = Vec::new();
    while ends > 0 {
        let event = tail.next().await.expect("tails never end").unwrap();
        ends -= usize::from(event.kind.as_str() == END);
        events.push(event);
    }
    assert!(tail.next().now_or_never().is_none(), "{subject:?} goes on after the end");
    (subject, Seen::of(events.iter().map(AsRef::as_ref)))
}

/// Appends to one stream; one writer in eight forks it half-way, and goes on in the fork.
async fn write(journal: Arc<SqliteJournal>, number: u64, progress: watch::Sender<u64>) {
    let mut branch = stream(number % STREAMS);
    for n in 0..appends_per_writer() {
        let events = (0..=n % 3).map(|i| event("k", format!("{number} {n} {i}"))).collect();
        let appended = journal.append(vec![Part::new(branch.clone(), events)]).await.unwrap()[0];
        progress.send_modify(|events| *events += n % 3 + 1);
        if number < FORKS && n == appends_per_writer() / 2 {
            let fork = fork_of(number);
            let name = fork.branch.clone();
            journal.fork(Fork { from: branch, at: appended.last, name }).await.unwrap();
            branch = fork;
        }
    }
}

#[test]
fn a_thousand_readers_see_every_event_once() {
    match child::role() {
        Some(role) => follow_elsewhere(&role),
        None => follow_and_write("tails::a_thousand_readers_see_every_event_once"),
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn follow_and_write(test: &str) {
    let (dir, seed) = (DataDir::new(), Chance::surprise());
    let journal = Arc::new(dir.open().await);
    let children = Child::start_together(test, &dir, CHILDREN);
    let progress = watch::Sender::new(0);
    let mut readers = JoinSet::new();
    for n in 0..READERS {
        readers.spawn(follow(journal.clone(), progress.subscribe(), seed.wrapping_add(n)));
    }
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        writers.spawn(write(journal.clone(), n, progress.clone()));
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    for branch in branches() {
        append(&journal, &branch, vec![event(END, "")]).await;
    }
    let events = everything(&journal).await;
    assert_eq!(events.len() as u64, events_in_all() + STREAMS + FORKS);
    let mut seen = 0;
    while let Some(reader) = readers.join_next().await {
        let (subject, found) = reader.unwrap();
        assert_eq!(found, expected(&journal, &events, &subject).await, "{subject:?}, seed {seed}");
        seen += found.events;
    }
    for line in children.into_iter().flat_map(Child::finish) {
        let (subject, found) = parse(&line);
        assert_eq!(found, expected(&journal, &events, &subject).await, "{subject:?}, in another process");
        seen += found.events;
    }
    println!("{} events seen by {} readers", seen, READERS + CHILDREN * READERS_PER_CHILD);
    journal.close().await;
}

async fn expected(journal: &SqliteJournal, events: &[Event], subject: &Subject) -> Seen {
    match subject {
        Subject::All(after) => Seen::of(events.iter().filter(|event| event.position > *after)),
        Subject::Branch(branch, after) => {
            let lineage = read_whole(journal, branch).await;
            assert!(lineage.iter().map(|event| event.seq.0).eq(1..=lineage.len() as u64));
            Seen::of(lineage.iter().filter(|event| event.seq > *after))
        }
    }
}

/// Readers in a process of their own; one more tells the others how far the writers are.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn follow_elsewhere(role: &Role) {
    let journal = Arc::new(role.dir.open().await);
    let progress = watch::Sender::new(0);
    let mut readers = JoinSet::new();
    for n in 0..READERS_PER_CHILD {
        let seed = Chance::surprise();
        readers.spawn(follow(journal.clone(), progress.subscribe(), seed.wrapping_add(n)));
    }
    let mut clock = journal.tail_all(Position(0));
    let clock = tokio::spawn(async move {
        while let Some(event) = clock.next().await {
            event.unwrap();
            progress.send_modify(|events| *events += 1);
        }
    });
    child::wait_for_go();
    while let Some(reader) = readers.join_next().await {
        let (subject, seen) = reader.unwrap();
        child::say(&[line(&subject, &seen)]);
    }
    clock.abort();
    journal.close().await;
}

fn line(subject: &Subject, Seen { events, digest }: &Seen) -> String {
    match subject {
        Subject::Branch(BranchId { stream, branch }, after) => {
            format!("{stream} {branch} {after} {events} {digest}")
        }
        Subject::All(after) => format!("all {after} {events} {digest}"),
    }
}

fn parse(line: &str) -> (Subject, Seen) {
    let words: Vec<&str> = line.split(' ').collect();
    let (subject, rest) = match words[..] {
        ["all", after, ..] => (Subject::All(Position(after.parse().unwrap())), &words[2..]),
        [stream, branch, after, ..] => {
            (Subject::Branch(branch_of(stream, branch), Seq(after.parse().unwrap())), &words[3..])
        }
        _ => panic!("{line}"),
    };
    (subject, Seen { events: rest[0].parse().unwrap(), digest: rest[1].to_owned() })
}

/// What the log may grow to: where it starts over, a batch, and slack.
const LOG_BYTES_MAX: u64 = 24 * 1024 * 1024;

const BULK_WRITERS: u64 = 8;
const BULK_BYTES: usize = 60_000;

#[test]
fn a_reader_that_stops_reading_is_in_nobodys_way() {
    match child::role() {
        Some(role) => stall(&role),
        None => write_beside_stalled("tails::a_reader_that_stops_reading_is_in_nobodys_way"),
    }
}

/// Reads one event and then nothing, until the test says so.
#[tokio::main]
async fn stall(role: &Role) {
    let journal = role.dir.open().await;
    let mut tail = journal.tail(&stream(0), Seq(0));
    tail.next().await.unwrap().unwrap();
    child::wait_for_go();
    journal.close().await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn write_beside_stalled(test: &str) {
    let dir = DataDir::new();
    let journal = Arc::new(dir.open().await);
    let mut first = Session::new("first".to_owned());
    first.append(&journal, &[(&stream(0), 1)], Shape::of_bytes(BULK_BYTES)).await.unwrap();
    let mut elsewhere = Child::start(test, &dir, 0);
    assert_eq!(elsewhere.line().as_deref(), Some("ready"));
    let mut stalled = [journal.tail(&stream(0), Seq(0)), journal.tail_all(Position(0))];
    for tail in &mut stalled {
        tail.next().await.unwrap().unwrap();
    }
    let never_read = journal.tail_all(Position(0));

    let log = dir.root.join("journal.db-wal");
    let dropped = journal.tail(&stream(1), Seq(0));
    let half = fill(&journal, &log, "a").await;
    drop(dropped);
    let whole = fill(&journal, &log, "b").await;
    let bytes = 2 * BULK_WRITERS * appends_of_bulk() * BULK_BYTES as u64;
    println!("{bytes} bytes appended; the log has had at most {} bytes", half.max(whole));
    assert!(half.max(whole) < LOG_BYTES_MAX, "the log has grown to {} bytes", half.max(whole));
    assert!(bytes > 55_000_000, "{bytes} bytes are not much");

    let [branch, all] = stalled;
    drop(never_read);
    let lineage = read_whole(&*journal, &stream(0)).await;
    assert_eq!(rest(branch, lineage.len() - 1).await, Seen::of(lineage[1..].iter()));
    let events = everything(&journal).await;
    assert_eq!(rest(all, events.len() - 1).await, Seen::of(events[1..].iter()));
    elsewhere.go();
    elsewhere.finish();
    journal.close().await;
}

fn appends_of_bulk() -> u64 {
    if soak() { 1_000 } else { 60 }
}

/// Has several writers append for a while; returns the largest log that any of them saw.
async fn fill(journal: &Arc<SqliteJournal>, log: &std::path::Path, name: &str) -> u64 {
    let mut writers = JoinSet::new();
    for n in 0..BULK_WRITERS {
        let (journal, log) = (journal.clone(), log.to_owned());
        let mut session = Session::new(format!("{name}{n}"));
        writers.spawn(async move {
            let mut largest = 0;
            for _ in 0..appends_of_bulk() {
                session.append(&journal, &[(&stream(n % 2), 1)], Shape::of_bytes(BULK_BYTES)).await.unwrap();
                largest = largest.max(std::fs::metadata(&log).unwrap().len());
            }
            largest
        });
    }
    let mut largest = 0;
    while let Some(seen) = writers.join_next().await {
        largest = largest.max(seen.unwrap());
    }
    largest
}

async fn rest(tail: Tail, count: usize) -> Seen {
    let events: Vec<Arc<Event>> = tail.take(count).map(Result::unwrap).collect().await;
    Seen::of(events.iter().map(AsRef::as_ref))
}

/// A follower is polled when somebody listens. Those that are not, however many, are in nobody's way.
#[tokio::test]
async fn followers_that_nobody_polls_keep_nobody_from_reading() {
    let data = DataDir::new();
    let journal = data.open().await;
    let branch = main_of("notes");
    append(&journal, &branch, vec![event("note.made", "1")]).await;
    // Begins to read, or to wait for its turn, and is left there; unless it was quicker than that.
    let left = |mut tail: Tail| tail.next().now_or_never().is_none().then_some(tail);
    let mut tails: Vec<Tail> = (0..64).filter_map(|_| left(journal.tail(&branch, Seq(0)))).collect();
    assert!(!tails.is_empty());
    let head = journal.head(&branch);
    let head = tokio::time::timeout(std::time::Duration::from_secs(60), head).await.expect("a read in time");
    assert_eq!(head.unwrap().unwrap().seq, Seq(1));
    for tail in &mut tails {
        assert_eq!(tail.next().await.unwrap().unwrap().seq, Seq(1));
    }
}

//! Whoever was told that an event is stored finds it after `kill -9`.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_journal_sqlite::SqliteJournal;
use weir_types::{BranchId, PAYLOAD_INLINE_MAX, Seq};

use crate::child::{self, Child, Role};
use crate::promises::{Promise, Session, Shape, broken, repeat};
use crate::support::{Chance, DataDir, main_of, soak};

const SESSIONS: u64 = 8;
const STREAMS: u64 = 4;

/// Kills in one directory; then the next begins, since everything in it is checked after each.
const LIVES: u64 = 25;

/// Two tests, so that two cores have something to do.
#[test]
fn promises_are_kept_after_a_kill() {
    match child::role() {
        Some(role) => live(&role),
        None => kill_again_and_again("crash::promises_are_kept_after_a_kill", Others::None),
    }
}

#[test]
fn promises_are_kept_after_a_kill_beside_another_process() {
    match child::role() {
        Some(role) => live(&role),
        None => {
            let name = "crash::promises_are_kept_after_a_kill_beside_another_process";
            kill_again_and_again(name, Others::OneReader);
        }
    }
}

/// Who has the journal open while the writer is killed. The last one to leave tidies up; without one, the next to
/// come has to recover the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    None,
    OneReader,
}

#[tokio::main]
async fn kill_again_and_again(test: &str, others: Others) {
    let seed = Chance::surprise();
    let mut chance = Chance::new(seed);
    let directories = if soak() { 24 } else { 4 };
    let mut kept = 0;
    for _ in 0..directories {
        let dir = DataDir::new();
        let mut promises = Vec::new();
        let mut open = None;
        for life in 0..LIVES {
            if others == Others::None {
                close(open.take()).await;
            }
            promises.extend(kill_one(test, &dir, life, Duration::from_millis(20 + chance.below(100))));
            let journal = match open.take() {
                Some(journal) => journal,
                None => dir.open().await,
            };
            let wrong = broken(&journal, &promises).await;
            assert_eq!(wrong, Vec::<String>::new(), "life {life}, seed {seed}");
            if let Some(keyed) = promises.iter().rev().find(|promise| matches!(promise, Promise::Key { .. }))
            {
                repeat(&journal, keyed).await;
            }
            open = Some(journal);
        }
        close(open).await;
        kept += promises.len();
    }
    println!("{} kills, {kept} promises kept", directories * LIVES);
}

async fn close(journal: Option<SqliteJournal>) {
    if let Some(journal) = journal {
        journal.close().await;
    }
}

/// Lets a writer live for a while after its first promise.
fn kill_one(test: &str, dir: &DataDir, life: u64, span: Duration) -> Vec<Promise> {
    let mut child = Child::start(test, dir, life);
    let first = child.line().expect("a promise");
    // Not to synchronise: the moment of death is arbitrary, and this is how it is drawn.
    std::thread::sleep(span);
    let mut said = vec![first];
    said.extend(child.kill());
    said.iter().map(|line| Promise::from_line(line)).collect()
}

/// The life of a child: several sessions at once, until it is killed.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn live(role: &Role) {
    let journal = Arc::new(role.dir.open().await);
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let (journal, life) = (journal.clone(), role.number);
        sessions.spawn(async move {
            let mut writer = Writer::new(life, session);
            loop {
                let promises = writer.step(&journal).await;
                child::say(&promises.iter().map(Promise::to_line).collect::<Vec<_>>());
            }
        });
    }
    // Only a session that fails comes to an end.
    sessions.join_next().await.unwrap().unwrap();
}

/// A session that does something else each time.
struct Writer {
    session: Session,
    chance: Chance,
    branches: Vec<BranchId>,
    /// Where it has appended last.
    newest: Option<(BranchId, Seq)>,
}

impl Writer {
    fn new(life: u64, session: u64) -> Self {
        Self {
            session: Session::new(format!("{life}.{session}")),
            chance: Chance::new(life * SESSIONS + session),
            branches: (0..STREAMS).map(|n| main_of(&format!("stream-{n}"))).collect(),
            newest: None,
        }
    }

    async fn step(&mut self, journal: &SqliteJournal) -> Vec<Promise> {
        let (mains, any) = (STREAMS, self.branches.len() as u64);
        let branch = self.branches[self.chance.below(any) as usize].clone();
        let other = self.branches[self.chance.below(mains) as usize].clone();
        let count = 1 + self.chance.below(3) as usize;
        let large = Shape::of_bytes(PAYLOAD_INLINE_MAX + 1 + self.chance.below(30_000) as usize);
        let (counts, shape) = match self.chance.below(10) {
            0..4 => (vec![(&branch, 1)], Shape::SMALL),
            4 => (vec![(&branch, count)], Shape::of_bytes(5_000)),
            5 | 6 => (vec![(&branch, count), (&other, 2), (&branch, 1)], Shape::SMALL),
            7 => (vec![(&branch, count)], Shape::KEYED),
            8 => (vec![(&branch, 1), (&other, 1)], large),
            _ => return self.fork(journal).await,
        };
        let promises = self.session.append(journal, &counts, shape).await.unwrap();
        if let Some(Promise::Event { branch, seq, .. }) = promises.first() {
            self.newest = Some((branch.clone(), *seq));
        }
        promises
    }

    async fn fork(&mut self, journal: &SqliteJournal) -> Vec<Promise> {
        let Some((from, at)) = self.newest.clone() else { return Vec::new() };
        let (branch, promise) = self.session.fork(journal, &from, at).await.unwrap();
        self.branches.push(branch);
        vec![promise]
    }
}

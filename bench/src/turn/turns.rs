//! Turns per second and syncs per turn, beside what the disk and the journal can do at the same moment.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::Engine;
use weir_journal::{Attrs, Journal, NewEvent, Part, Status, mint_session};
use weir_journal_sqlite::SqliteJournal;
use weir_types::BranchId;

use crate::world::{World, turn};
use weir_bench::Error;
use weir_bench::findings::Round;

/// A session is replaced by a new one after so many turns: what a long conversation costs to send is the model's
/// affair, and a snapshot, which is a commit of its own, comes only every 256 events.
const TURNS_MAX: usize = 4;

/// Sessions at once.
const SESSIONS: usize = 64;

/// How long the disk, the engine and a thread with the disk take their turns. A shared disk is fast at one moment and slow at
/// the next; what is compared has to see the same one.
const SLICE: Duration = Duration::from_millis(100);

/// An event of the usual size.
const PAYLOAD: &str = r#"{"call":"01M7GXXECT8EBAG7RBPKRCEBF0","content":[{"type":"text","text":"2026-11-16T01:02:03Z"}],"stub":false}"#;

pub(crate) async fn alone(data: &Path, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let world = World::scripted(data, 200_000).await?;
    turn(&world.engine, &world.engine.new_address(), 0).await?;
    let before = world.journal.stats();
    let (mut plain, mut turns, mut handed) = (Pace::default(), Pace::default(), Pace::default());
    let (bare_world, mut bare) = (World::scripted(data, 200_000).await?, Pace::default());
    let began = Instant::now();
    while began.elapsed() < duration * 4 {
        plain.add(|| fdatasyncs(data, SLICE))?;
        let slice = Instant::now();
        let done = tokio::spawn(talk(world.engine.clone(), slice + SLICE)).await??;
        turns.count(done, slice.elapsed());
        let slice = Instant::now();
        let done = handed_over(data, SLICE).await?;
        handed.count(done, slice.elapsed());
        let slice = Instant::now();
        let done = tokio::spawn(commits(bare_world.journal.clone(), slice + SLICE)).await??;
        bare.count(done, slice.elapsed());
    }
    bare_world.remove().await?;
    let after = world.journal.stats();
    let total = turns.done as f64;
    found.insert("alone_turns_per_second", turns.per_second());
    found.insert("alone_fdatasyncs_per_second", plain.per_second());
    found.insert("alone_turns_per_fdatasync", turns.per_second() / plain.per_second());
    found.insert("alone_commits_of_a_turn_per_second", bare.per_second());
    found.insert("alone_commits_of_a_turn_per_fdatasync", bare.per_second() / plain.per_second());
    found.insert("alone_handed_over_fdatasyncs_per_second", handed.per_second());
    found.insert("alone_turns_per_handed_over_fdatasync", turns.per_second() / handed.per_second());
    found.insert("alone_commits_per_turn", (after.commits - before.commits) as f64 / total);
    found.insert("alone_events_per_turn", (after.events - before.events) as f64 / total);
    world.remove().await
}

/// What the journal takes for a turn, without anybody who takes it: the same events in the same four commits.
async fn commits(journal: Arc<SqliteJournal>, until: Instant) -> Result<usize, Error> {
    let mut turns = 0;
    while Instant::now() < until {
        let branch = BranchId::main(format!("bench:{}", mint_session()).parse()?);
        for _ in 0..TURNS_MAX {
            for (events, status) in
                [(5, Status::Running), (4, Status::Running), (3, Status::Running), (2, Status::Idle)]
            {
                let event = || Ok::<_, Error>(NewEvent::new("tool.completed".parse()?, PAYLOAD));
                let events = (0..events).map(|_| event()).collect::<Result<Vec<_>, _>>()?;
                let attrs = Some(Attrs { agent: Some("bench".into()), ..Attrs::new(status) });
                journal.append(vec![Part { attrs, ..Part::new(branch.clone(), events) }]).await?;
            }
            turns += 1;
        }
    }
    Ok(turns)
}

/// How much was done in how much time, over all slices.
#[derive(Default)]
struct Pace {
    done: usize,
    seconds: f64,
}

impl Pace {
    fn count(&mut self, done: usize, took: Duration) {
        self.done += done;
        self.seconds += took.as_secs_f64();
    }

    fn add(&mut self, work: impl FnOnce() -> Result<usize, Error>) -> Result<(), Error> {
        let began = Instant::now();
        let done = work()?;
        self.count(done, began.elapsed());
        Ok(())
    }

    fn per_second(&self) -> f64 {
        self.done as f64 / self.seconds
    }
}

/// How many times turns and bare appends take turns in one measurement, for the same reason.
const TIMES: u32 = 4;

pub(crate) async fn together(data: &Path, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let bare = World::scripted(data, 200_000).await?;
    let world = World::scripted(data, 200_000).await?;
    turn(&world.engine, &world.engine.new_address(), 0).await?;
    let before = world.journal.stats();
    let (mut turns, mut appended) = (Pace::default(), Pace::default());
    for _ in 0..TIMES {
        let slice = Instant::now();
        let done = appends(&bare, slice + duration / TIMES).await?;
        appended.count(done, slice.elapsed());
        let slice = Instant::now();
        let done = talk_all(&world, slice + duration / TIMES).await?;
        turns.count(done, slice.elapsed());
    }
    let after = world.journal.stats();
    let total = turns.done as f64;
    let events = (after.events - before.events) as f64;
    found.insert("together_turns_per_second", turns.per_second());
    found.insert("together_events_per_second", events / turns.seconds);
    found.insert("together_appends_per_second", appended.per_second());
    found.insert("together_events_to_appends", events / turns.seconds / appended.per_second());
    found.insert("together_commits_per_turn", (after.commits - before.commits) as f64 / total);
    found.insert("together_events_per_turn", events / total);
    bare.remove().await?;
    world.remove().await
}

/// Many clients at once, each with a session of its own; how many turns they had.
async fn talk_all(world: &World, until: Instant) -> Result<usize, Error> {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..SESSIONS {
        clients.spawn(talk(world.engine.clone(), until));
    }
    let mut turns = 0;
    while let Some(client) = clients.join_next().await {
        turns += client??;
    }
    Ok(turns)
}

/// A client: a task of the runtime, as the handler of a request is one.
async fn talk(engine: Engine, until: Instant) -> Result<usize, Error> {
    let mut turns = 0;
    while Instant::now() < until {
        let address = engine.new_address();
        for n in 0..TURNS_MAX {
            if Instant::now() >= until {
                break;
            }
            turn(&engine, &address, n).await?;
            turns += 1;
        }
    }
    Ok(turns)
}

/// What the disk can do: a little more of a file, synced, again and again.
fn fdatasyncs(data: &Path, duration: Duration) -> Result<usize, Error> {
    let path = data.join("fdatasync");
    let mut file = File::options().create(true).append(true).open(&path)?;
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < duration {
        file.write_all(&[7; 1024])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(count)
}

/// What a task can do that leaves the disk to a thread of its own, as every asynchronous program must.
async fn handed_over(data: &Path, duration: Duration) -> Result<usize, Error> {
    let path = data.join("handed-over");
    let mut file = File::options().create(true).append(true).open(&path)?;
    let (requests, inbox) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<std::io::Result<()>>>();
    let writer = std::thread::spawn(move || {
        while let Ok(done) = inbox.recv() {
            let _ = done.send(file.write_all(&[7; 1024]).and_then(|()| file.sync_data()));
        }
    });
    let (began, mut count) = (Instant::now(), 0);
    // A task of the runtime, as a session is one.
    let task = tokio::spawn(async move {
        while began.elapsed() < duration {
            let (done, answer) = tokio::sync::oneshot::channel();
            requests.send(done)?;
            answer.await??;
            count += 1;
        }
        Ok::<_, Error>(count)
    });
    let count = task.await??;
    writer.join().map_err(|_| "the writer broke down")?;
    Ok(count)
}

/// What the journal can do: one event at a time from as many sessions.
async fn appends(world: &World, until: Instant) -> Result<usize, Error> {
    let journal = &world.journal;
    let append = |session: usize| async move {
        let branch = BranchId::main(format!("bench:{session}").parse()?);
        let mut count = 0;
        while Instant::now() < until {
            let event = NewEvent::new("tool.completed".parse()?, PAYLOAD);
            journal.append(vec![Part::new(branch.clone(), vec![event])]).await?;
            count += 1;
        }
        Ok::<_, Error>(count)
    };
    let counts = futures_util::future::try_join_all((0..SESSIONS).map(append)).await?;
    Ok(counts.iter().sum())
}

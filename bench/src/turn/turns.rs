//! Turns per second and syncs per turn, beside what the disk and the journal can do at the same moment.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_journal::{Journal, NewEvent, Part};
use weir_types::BranchId;

use crate::world::{World, turn};
use weir_bench::Error;
use weir_bench::findings::Round;

/// A session is replaced by a new one after so many turns: what a long conversation costs to send is the model's
/// affair, and a snapshot, which is a commit of its own, comes only every 256 events.
const TURNS_MAX: usize = 4;

/// Sessions at once.
const SESSIONS: usize = 64;

pub(crate) async fn alone(data: &Path, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let syncs_per_second = fdatasyncs(data, duration)?;
    let world = World::scripted(data, 200_000).await?;
    turn(&world.engine, &world.engine.new_address(), 0).await?;
    let (before, began) = (world.journal.stats(), Instant::now());
    let turns = talk(&world, began + duration).await?;
    let (after, seconds) = (world.journal.stats(), began.elapsed().as_secs_f64());
    let turns = turns as f64;
    found.insert("alone_turns_per_second", turns / seconds);
    found.insert("alone_fdatasyncs_per_second", syncs_per_second);
    found.insert("alone_turns_per_fdatasync", turns / seconds / syncs_per_second);
    let handed_over = handed_over(data, duration).await?;
    found.insert("alone_handed_over_fdatasyncs_per_second", handed_over);
    found.insert("alone_turns_per_handed_over_fdatasync", turns / seconds / handed_over);
    found.insert("alone_commits_per_turn", (after.commits - before.commits) as f64 / turns);
    found.insert("alone_events_per_turn", (after.events - before.events) as f64 / turns);
    world.remove().await
}

pub(crate) async fn together(data: &Path, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let appends_per_second = appends(data, duration).await?;
    let world = World::scripted(data, 200_000).await?;
    turn(&world.engine, &world.engine.new_address(), 0).await?;
    let (before, began) = (world.journal.stats(), Instant::now());
    let sessions = (0..SESSIONS).map(|_| talk(&world, began + duration));
    let turns: usize = futures_util::future::try_join_all(sessions).await?.into_iter().sum();
    let (after, seconds) = (world.journal.stats(), began.elapsed().as_secs_f64());
    let turns = turns as f64;
    let events = (after.events - before.events) as f64;
    found.insert("together_turns_per_second", turns / seconds);
    found.insert("together_events_per_second", events / seconds);
    found.insert("together_appends_per_second", appends_per_second);
    found.insert("together_events_to_appends", events / seconds / appends_per_second);
    found.insert("together_commits_per_turn", (after.commits - before.commits) as f64 / turns);
    found.insert("together_events_per_turn", events / turns);
    world.remove().await
}

async fn talk(world: &World, until: Instant) -> Result<usize, Error> {
    let mut turns = 0;
    while Instant::now() < until {
        let address = world.engine.new_address();
        for n in 0..TURNS_MAX {
            if Instant::now() >= until {
                break;
            }
            turn(&world.engine, &address, n).await?;
            turns += 1;
        }
    }
    Ok(turns)
}

/// What the disk can do: a little more of a file, synced, again and again.
fn fdatasyncs(data: &Path, duration: Duration) -> Result<f64, Error> {
    let path = data.join("fdatasync");
    let mut file = File::create(&path)?;
    let (began, mut count) = (Instant::now(), 0_u32);
    while began.elapsed() < duration {
        file.write_all(&[7; 1024])?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// What a task can do that leaves the disk to a thread of its own, as every asynchronous program must.
async fn handed_over(data: &Path, duration: Duration) -> Result<f64, Error> {
    let path = data.join("handed-over");
    let mut file = File::create(&path)?;
    let (requests, inbox) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<std::io::Result<()>>>();
    let writer = std::thread::spawn(move || {
        while let Ok(done) = inbox.recv() {
            let _ = done.send(file.write_all(&[7; 1024]).and_then(|()| file.sync_data()));
        }
    });
    let (began, mut count) = (Instant::now(), 0_u32);
    // A task of the runtime, as a session is one.
    let rate = tokio::spawn(async move {
        while began.elapsed() < duration {
            let (done, answer) = tokio::sync::oneshot::channel();
            requests.send(done)?;
            answer.await??;
            count += 1;
        }
        Ok::<_, Error>(f64::from(count) / began.elapsed().as_secs_f64())
    });
    let rate = rate.await??;
    writer.join().map_err(|_| "the writer broke down")?;
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// What the journal can do: one event at a time from as many sessions.
async fn appends(data: &Path, duration: Duration) -> Result<f64, Error> {
    let world = World::scripted(data, 200_000).await?;
    let payload = r#"{"call":"01M7GXXECT8EBAG7RBPKRCEBF0","content":[{"type":"text","text":"2026-11-16T01:02:03Z"}],"stub":false}"#;
    let (began, journal) = (Instant::now(), &world.journal);
    let append = |session: usize| async move {
        let branch = BranchId::main(format!("bench:{session}").parse()?);
        let mut count = 0_u64;
        while began.elapsed() < duration {
            let event = NewEvent::new("tool.completed".parse()?, payload);
            journal.append(vec![Part::new(branch.clone(), vec![event])]).await?;
            count += 1;
        }
        Ok::<_, Error>(count)
    };
    let counts = futures_util::future::try_join_all((0..SESSIONS).map(append)).await?;
    let rate = counts.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64();
    world.remove().await?;
    Ok(rate)
}

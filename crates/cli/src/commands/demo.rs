//! `weir demo`: the journal at work, in a temporary directory, with real commands, a real `kill -9` and real damage.

mod tamper;
mod tour;
mod writer;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_journal::{Journal, PAGE_MAX};
use weir_types::{BranchId, Explain, Fault, Seq};

use self::tour::Tour;
use self::writer::{Acknowledged, Killed};
use crate::args::branch_id;
use crate::commands::Context;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::count;
use crate::store::{IfAbsent, JOURNAL, Store, blocking};
use crate::target::plain;

pub(crate) use self::writer::{WriterArgs, write};

/// The arguments of `weir demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir demo\n  weir demo --keep")]
pub(crate) struct Args {
    /// Keep the directory to look around in it.
    #[arg(long)]
    keep: bool,
}

/// The tour cannot go on.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot run the demo")]
    Io(#[from] io::Error),
    #[error("the demo did not go as it should: {0}")]
    Surprise(String),
}

impl Explain for DemoError {
    fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "cli::demo",
            Self::Surprise(_) => "cli::demo-surprise",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Io(_) => {
                "check free space and permissions of the directory for temporary files (TMPDIR)".into()
            }
            Self::Surprise(_) => {
                "please report this; run `weir demo --keep` to keep the journal for a look".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Io(_) => Fault::Storage,
            Self::Surprise(_) => Fault::Bug,
        }
    }
}

/// What was seen, for programs.
#[derive(Debug, Serialize)]
struct Seen {
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    acknowledged: u64,
    stored: u64,
    lost: u64,
    sound_after_kill: bool,
    flipped: Flipped,
    problems: serde_json::Value,
}

/// The event whose bytes were changed.
#[derive(Debug, Serialize)]
struct Flipped {
    stream: String,
    branch: String,
    seq: u64,
    byte: u64,
}

/// Gives the tour.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let temporary = tempfile::Builder::new()
        .prefix("weir-demo-")
        .tempdir()
        .map_err(|error| DemoError::Io(plain(error)))?;
    let data_dir = temporary.path().join("data");
    let seen = give(&data_dir, &mut context.out).await;
    let directory = args.keep.then(|| temporary.keep());
    let seen = Seen { directory, ..seen? };
    if context.out.json {
        return context.out.document(&seen);
    }
    farewell(&seen, &mut context.out)
}

async fn give(data_dir: &Path, out: &mut Out) -> Outcome<Seen> {
    let mut tour = Tour::new(data_dir, out)?;
    append(&mut tour).await?;
    fork(&mut tour).await?;
    let (acknowledged, stored, lost) = kill(&mut tour).await?;
    tour.step("Verify", "Every event carries a hash of itself and of the one before. Nothing is amiss:")?;
    let sound = tour.command(&["verify"]).await?.success;
    let flipped = flip(&mut tour).await?;
    let problems = find(&mut tour).await?;
    let directory = None;
    Ok(Seen { directory, acknowledged, stored, lost, sound_after_kill: sound, flipped, problems })
}

async fn append(tour: &mut Tour<'_>) -> Outcome {
    tour.step("Append", "An event is acknowledged when it is safely on the disk, and not a moment before.")?;
    let flight = ["append", "--stream", "trip", "--kind", "flight.booked", "--payload"];
    let flight = [&flight[..], &[r#"{"to":"Lisbon","eur":120}"#, "--key", "booking-1"]].concat();
    tour.succeed(&flight).await?;
    tour.succeed(&[
        "append",
        "--stream",
        "trip",
        "--kind",
        "hotel.booked",
        "--payload",
        r#"{"nights":3,"eur":240}"#,
    ])
    .await?;
    tour.succeed(&["append", "--stream", "trip", "--kind", "museum.booked", "--payload", r#"{"eur":15}"#])
        .await?;
    tour.say("Did the first one get through? Send it again: its key says that it is the same, so nothing is booked twice.")?;
    tour.succeed(&flight).await?;
    tour.succeed(&["cat", "--stream", "trip"]).await
}

async fn fork(tour: &mut Tour<'_>) -> Outcome {
    tour.step("Fork", "A branch shares the past up to an event and goes its own way. Nothing is copied.")?;
    tour.succeed(&["branch", "fork", "--stream", "trip", "--at", "2", "--name", "rainy"]).await?;
    let cinema = ["append", "--stream", "trip", "--branch", "rainy", "--kind", "cinema.booked"];
    tour.succeed(&[&cinema[..], &["--payload", r#"{"eur":9}"#]].concat()).await?;
    tour.succeed(&["branch", "list", "--stream", "trip"]).await
}

async fn kill(tour: &mut Tour<'_>) -> Outcome<(u64, u64, u64)> {
    tour.step(
        "Kill",
        "Another process appends as fast as it can and prints each acknowledgement. In the middle of it: kill -9.",
    )?;
    let (exe, data_dir) = (tour.exe.clone(), tour.data_dir.clone());
    let killed = blocking(move || writer::kill_in_the_act(&exe, &data_dir)).await?;
    let Killed { pid, acknowledged } = killed.map_err(DemoError::from)?;
    tour.line(&format!(
        "writer {pid} was killed after {}",
        count(acknowledged.len() as u64, "acknowledgement")
    ))?;
    let (stored, lost) = compare(&tour.data_dir, &acknowledged).await?;
    let shown = [
        format!("acknowledged           {:>6}", acknowledged.len()),
        format!("found in the journal   {stored:>6}"),
        format!("acknowledged but lost  {lost:>6}"),
    ];
    shown.iter().try_for_each(|line| tour.line(line))?;
    if stored > acknowledged.len() as u64 {
        tour.say("One was on the disk already, but the writer died before it could say so.")?;
    }
    if lost > 0 {
        return Err(DemoError::Surprise(format!("{lost} acknowledged events are not in the journal")).into());
    }
    Ok((acknowledged.len() as u64, stored, lost))
}

/// How many events the journal has, and how many acknowledged ones it has not.
async fn compare(data_dir: &Path, acknowledged: &[Acknowledged]) -> Outcome<(u64, u64)> {
    let store = Store::open(data_dir, IfAbsent::Fail).await?;
    let branch = branch_id(writer::STREAM, None)?;
    let found = ids(&store, &branch).await;
    store.close().await;
    let found = found?;
    let lost = acknowledged.iter().filter(|one| !found.contains(one)).count();
    Ok((found.len() as u64, lost as u64))
}

async fn ids(store: &Store, branch: &BranchId) -> Outcome<std::collections::HashSet<Acknowledged>> {
    let mut found = std::collections::HashSet::new();
    let mut after = Seq(0);
    loop {
        let page = store.journal.read(branch, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.seq;
        found.extend(page.into_iter().map(|event| Acknowledged { seq: event.seq, id: event.id }));
    }
}

async fn flip(tour: &mut Tour<'_>) -> Outcome<Flipped> {
    tour.step("Tamper", "Somebody edits the file behind our back: one bit of what event 1 of `trip` says.")?;
    let store = Store::open(&tour.data_dir, IfAbsent::Fail).await?;
    let events = store.journal.read(&branch_id("trip", None)?, Seq(0), 1).await;
    store.close().await;
    let Some(event) = events?.into_iter().next() else {
        return Err(DemoError::Surprise("the first event of `trip` is not there".to_owned()).into());
    };
    let (file, victim) = (tour.data_dir.join(JOURNAL), event.clone());
    let flipped = blocking(move || tamper::flip_record(&file, &victim)).await?.map_err(DemoError::from)?;
    let Some(byte) = flipped else {
        return Err(DemoError::Surprise(format!("event 1 was not found in {JOURNAL}")).into());
    };
    tour.line(&format!("flipped one bit at byte {byte} of {JOURNAL}"))?;
    Ok(Flipped { stream: event.stream.into(), branch: event.branch.into(), seq: event.seq.0, byte })
}

async fn find(tour: &mut Tour<'_>) -> Outcome<serde_json::Value> {
    tour.step(
        "Verify again",
        "The chain does not fit any more. The event is named, and reading it is refused.",
    )?;
    let verified = tour.command(&["verify"]).await?;
    let read = tour.command(&["cat", "--stream", "trip"]).await?;
    if verified.success || read.success {
        return Err(DemoError::Surprise("the damage was not found".to_owned()).into());
    }
    Ok(verified.problems)
}

fn farewell(seen: &Seen, out: &mut Out) -> Outcome {
    let heading = out.paint.bold("What next").into_owned();
    out.line(format_args!("\n{heading}\n"))?;
    match &seen.directory {
        Some(directory) => {
            out.line(format_args!("  The journal of this tour is still there, damaged as it is:"))?;
            out.line(format_args!(
                "    weir cat --data-dir {} --stream steps",
                directory.join("data").display()
            ))?;
        }
        None => out.line(format_args!(
            "  The journal of this tour is gone (`weir demo --keep` keeps it). Begin your own:"
        ))?,
    }
    out.line(format_args!(
        "    weir append --stream notes --kind note.added --payload '{{\"text\":\"hello\"}}'"
    ))?;
    out.line(format_args!("    weir cat --stream notes --follow"))?;
    out.line(format_args!(
        "    weir verify --print-anchor   # kept elsewhere, it even finds a file rewritten as a whole"
    ))?;
    out.line(format_args!("    weir --help"))
}

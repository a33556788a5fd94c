//! Measures what opening a journal costs in two trees: `cargo xtask bench open --against TREE`.
//!
//! The same source is built against each tree, so it only uses what both have. Each measurement is a process of
//! its own on a fresh copy of the same files: it opens the journal, reads the head of one stream, and prints the
//! milliseconds of that. The programs take turns, so that a slow minute of the machine falls on both.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use weir_blobs::MemoryBlobs;
use weir_journal::{Journal, NewEvent, Part};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_types::BranchId;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];
const STREAMS: usize = 100;
const BATCH: usize = 1_000;

/// Bytes of a full log: the journal starts its log over after 1,000 pages of 4 KiB, each with 24 bytes more.
const LOG_BYTES: u64 = 1_000 * (4_096 + 24);

#[tokio::main]
async fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill", directory, events] => fill(Path::new(directory), events.parse()?).await,
        ["fill-log", directory] => fill_log(Path::new(directory)).await,
        ["open", directory] => open(Path::new(directory)).await,
        ["compare", this, other, data, rounds] => {
            compare(&[Path::new(other), Path::new(this)], Path::new(data), rounds.parse()?)
        }
        _ => Err(
            "fill DIRECTORY EVENTS | fill-log DIRECTORY | open DIRECTORY | compare THIS OTHER DATA ROUNDS"
                .into(),
        ),
    }
}

async fn journal(directory: &Path) -> Outcome<SqliteJournal> {
    let (path, blobs) = (directory.join("journal.db"), Arc::new(MemoryBlobs::default()));
    Ok(SqliteJournal::open(Options { path, blobs, vfs: None }).await?)
}

fn stream(number: usize) -> Outcome<BranchId> {
    Ok(BranchId::main(format!("bench:{number:06}").parse()?))
}

/// An event of some 250 bytes that does not compress to nothing.
fn event(number: usize) -> Outcome<NewEvent> {
    let mut words = String::new();
    let mut state = number as u64;
    for _ in 0..12 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push_str(&format!("{:x} ", state >> 16));
    }
    Ok(NewEvent::new("bench.event".parse()?, json!({ "number": number, "words": words }).to_string()))
}

async fn append(journal: &SqliteJournal, from: usize, count: usize) -> Outcome {
    let mut parts: Vec<Vec<NewEvent>> = (0..STREAMS).map(|_| Vec::new()).collect();
    for number in from..from + count {
        parts[number % STREAMS].push(event(number)?);
    }
    let parts = parts.into_iter().enumerate().filter(|(_, events)| !events.is_empty());
    let parts =
        parts.map(|(number, events)| Ok(Part::new(stream(number)?, events))).collect::<Outcome<_>>()?;
    journal.append(parts).await?;
    Ok(())
}

async fn fill(directory: &Path, events: usize) -> Outcome {
    let journal = journal(directory).await?;
    for from in (0..events).step_by(BATCH) {
        append(&journal, from, BATCH.min(events - from)).await?;
    }
    journal.close().await;
    Ok(())
}

/// Appends until the log is full, says so, and waits to be killed. A reader keeps the log from starting over.
async fn fill_log(directory: &Path) -> Outcome {
    let journal = journal(directory).await?;
    append(&journal, 0, 1).await?;
    let reader = rusqlite::Connection::open(directory.join("journal.db"))?;
    reader.execute_batch("BEGIN; SELECT count(*) FROM kinds;")?;
    let log = directory.join("journal.db-wal");
    for from in 0.. {
        if fs::metadata(&log)?.len() >= LOG_BYTES {
            break;
        }
        append(&journal, from, 1).await?;
    }
    writeln!(std::io::stdout(), "full")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Err("it was not killed".into())
}

async fn open(directory: &Path) -> Outcome {
    let branch = stream(7)?;
    let started = Instant::now();
    let journal = journal(directory).await?;
    let head = journal.head(&branch).await?;
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
    head.ok_or("the journal has no such stream")?;
    journal.close().await;
    println!("{milliseconds}");
    Ok(())
}

/// Opens copies of each journal with both programs in turn, and prints a row of JSON for each journal.
fn compare(programs: &[&Path; 2], data: &Path, rounds: usize) -> Outcome {
    fs::create_dir_all(data)?;
    for events in SIZES {
        let clean = data.join(format!("clean-{events}"));
        let count = events.to_string();
        must(Command::new(programs[1]).args([Path::new("fill"), &clean, Path::new(&count)]))?;
        let killed = data.join(format!("killed-{events}"));
        copy(&clean, &killed)?;
        kill_with_full_log(programs[1], &killed)?;
        for (state, source) in [("closed", &clean), ("killed", &killed)] {
            let row = row(programs, source, &data.join("copy"), rounds)?;
            println!("{}", describe(events, state, log_bytes(source), &row)?);
        }
        fs::remove_dir_all(&clean)?;
        fs::remove_dir_all(&killed)?;
    }
    Ok(())
}

fn row(programs: &[&Path; 2], source: &Path, target: &Path, rounds: usize) -> Outcome<[Vec<f64>; 2]> {
    let mut found = [Vec::new(), Vec::new()];
    // One round that does not count: the first one reads the program itself from the disk.
    for round in 0..=rounds {
        // Who is first changes, too.
        for turn in 0..2 {
            let which = (round + turn) % 2;
            copy(source, target)?;
            let output = must(Command::new(programs[which]).arg("open").arg(target))?;
            if round > 0 {
                found[which].push(output.trim().parse()?);
            }
        }
    }
    fs::remove_dir_all(target)?;
    Ok(found)
}

fn describe(events: usize, state: &str, log_bytes: u64, values: &[Vec<f64>; 2]) -> Outcome<Value> {
    let [other, this] = [median(&values[0])?, median(&values[1])?];
    Ok(json!({
        "events": events, "state": state, "log_bytes": log_bytes,
        "other_ms": other, "this_ms": this, "ratio": this / other, "difference_ms": this - other,
        "values": { "other": values[0], "this": values[1] },
    }))
}

fn median(values: &[f64]) -> Outcome<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle).ok_or("there are no values")?;
    Ok(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

fn kill_with_full_log(program: &Path, directory: &Path) -> Outcome {
    let mut command = Command::new(program);
    command.arg("fill-log").arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    if line.trim() == "full" { Ok(()) } else { Err("the log was not filled".into()) }
}

fn log_bytes(directory: &Path) -> u64 {
    fs::metadata(directory.join("journal.db-wal")).map_or(0, |facts| facts.len())
}

/// Copies the files of a directory durably: opening must not pay for writing the copy.
fn copy(source: &Path, target: &Path) -> Outcome {
    if target.exists() {
        fs::remove_dir_all(target)?;
    }
    fs::create_dir(target)?;
    for entry in fs::read_dir(source)? {
        let path: PathBuf = target.join(entry?.file_name());
        fs::copy(source.join(path.file_name().unwrap_or_default()), &path)?;
        fs::File::open(&path)?.sync_all()?;
    }
    fs::set_permissions(target, fs::metadata(source)?.permissions())?;
    fs::File::open(target)?.sync_all()?;
    Ok(())
}

fn must(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        Err(output.status.to_string().into())
    }
}

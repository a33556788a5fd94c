//! The writer that is killed: a process that appends and says so, one line per acknowledged event.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_journal::{Journal, NewEvent, Part};
use weir_types::{EventId, Seq};

use crate::args::{self, branch_id};
use crate::commands::Context;
use crate::report::Outcome;

/// Where the writer appends.
pub(super) const STREAM: &str = "steps";

/// The writer is killed after so many acknowledgements, or after [`PATIENCE`] on a slow disk.
const ENOUGH: usize = 300;
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The arguments of `weir demo-writer`.
#[derive(Debug, clap::Args)]
pub(crate) struct WriterArgs {}

/// An event of which the writer said that it is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Acknowledged {
    pub(super) seq: Seq,
    pub(super) id: EventId,
}

/// A writer that is no more.
pub(super) struct Killed {
    pub(super) pid: u32,
    pub(super) acknowledged: Vec<Acknowledged>,
}

/// Appends for ever, printing `seq id` for each event once it is acknowledged.
pub(crate) async fn write(_args: &WriterArgs, context: &mut Context) -> Outcome {
    let store = context.store_or_new().await?;
    let branch = branch_id(STREAM, None)?;
    for step in 1_u64.. {
        let event = NewEvent::new(args::parse("step.done")?, format!(r#"{{"step":{step}}}"#));
        let id = event.id();
        let appended = store.journal.append(vec![Part::new(branch.clone(), vec![event])]).await?;
        for place in appended {
            context.out.line(format_args!("{} {id}", place.last))?;
        }
        context.out.flush()?;
    }
    Ok(())
}

/// Starts a writer, kills it in the act, and collects what it had acknowledged. Blocks.
pub(super) fn kill_in_the_act(exe: &Path, data_dir: &Path) -> io::Result<Killed> {
    let mut command = Command::new(exe);
    command.arg("demo-writer").env("WEIR_DATA_DIR", data_dir).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the writer has no output"))?;
    let (started, mut lines, mut acknowledged) = (Instant::now(), BufReader::new(stdout).lines(), Vec::new());
    while acknowledged.len() < ENOUGH && started.elapsed() < PATIENCE {
        match lines.next() {
            Some(line) => acknowledged.extend(parse(&line?)),
            None => return Err(io::Error::other("the writer ended by itself")),
        }
    }
    // SIGKILL: no handler, no farewell, no last flush.
    child.kill()?;
    child.wait()?;
    // What it managed to say before it died counts as well; a line cut short was not said.
    for line in lines {
        acknowledged.extend(parse(&line?));
    }
    Ok(Killed { pid: child.id(), acknowledged })
}

fn parse(line: &str) -> Option<Acknowledged> {
    let (seq, id) = line.split_once(' ')?;
    Some(Acknowledged { seq: Seq(seq.parse().ok()?), id: id.parse().ok()? })
}

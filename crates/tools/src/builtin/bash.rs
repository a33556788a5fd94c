//! Commands over the files of a session, confined by the kernel.
//!
//! A command works on a copy of the files. What it changed becomes part of the session with the call's result, or not at all: a command
//! that was stopped, cancelled or lost has changed nothing, so running it again is harmless.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use weir_types::Explain;

use super::{Running, Says};
use crate::bound::head;
use crate::call::{Done, Failed};
use crate::files::{Edit, FilesError};
use crate::sandbox::{Captured, End, Job, PATH, Ran, Room, SandboxError, Stop};

/// Longest command. The kernel takes 128 KiB of one argument; what is longer belongs into a file.
const COMMAND_BYTES_MAX: usize = 100 * 1024;

/// How long a command may take if it does not say.
const USUAL_SECONDS: u64 = 120;

/// Share of the time of a call that is kept back for its files.
const FILES_SHARE: u32 = 10;

/// How much of each stream a failure shows.
const SHOWN_OF_FAILED_BYTES: usize = 4 * 1024;

/// Most names of things that were left out.
const LEFT_OUT_MAX: usize = 20;

pub(super) fn says() -> Says {
    (
        "Runs a command with bash over the files of this session, which are its current directory. Files that it writes, changes or \
         deletes there are kept; links, and anything elsewhere, are not. It has no network, sees none of the host's files but its \
         programs, and everything it starts ends with it. The answer has the exit status, stdout and stderr.",
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "What bash runs."},
                "timeout_s": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Seconds after which it is killed; then nothing of it is kept.",
                },
            },
            "required": ["command"],
            "additionalProperties": false,
        }),
    )
}

#[derive(Deserialize)]
struct Input {
    command: String,
    timeout_s: Option<u64>,
}

pub(super) async fn run(running: &Running) -> Result<Done, Failed> {
    let input: Input = running.input()?;
    if input.command.len() > COMMAND_BYTES_MAX || input.command.contains('\0') {
        let message = format!(
            "a command is at most {COMMAND_BYTES_MAX} bytes and has no NUL; write a script to a file and run that"
        );
        return Err(Failed::new("invalid", message));
    }
    let edit = running.started.world.files.edit().await.map_err(|error| out_of_reach(&error))?;
    let room = Arc::new(running.setup.sandbox.room().await.map_err(|error| refused(&error))?);
    let answer = run_in(&room, running, input, edit).await;
    // Its job is over, so it is ours alone. A call that is dropped before it gets here leaves it to whoever ends the job.
    if let Some(room) = Arc::into_inner(room) {
        room.remove().await;
    }
    answer
}

async fn run_in(
    room: &Arc<Room>,
    running: &Running,
    input: Input,
    mut edit: Box<dyn Edit>,
) -> Result<Done, Failed> {
    edit.checkout(&room.files()).await.map_err(|error| out_of_reach(&error))?;
    let shell = Shell::find()
        .ok_or_else(|| Failed::new("sandbox", "there is neither bash nor sh on this machine"))?;
    let deadline = deadline(input.timeout_s, running.setup.deadline);
    let argv = vec![shell.path, "-c".to_owned(), input.command];
    let job = Job { argv, room: Arc::clone(room), deadline };
    let ran =
        running.setup.sandbox.run(job, &running.started.cancelled).await.map_err(|error| refused(&error))?;
    if let End::Stopped(stop) = ran.end {
        return Err(stopped(stop, deadline, &ran));
    }
    let left_out = edit.take_in(&room.files()).await.map_err(|error| {
        let said = said(&ran, SHOWN_OF_FAILED_BYTES);
        Failed::new(
            "files",
            format!("the command ran, but nothing that it changed could be kept: {error}\n{said}"),
        )
    })?;
    let text = format!("{}{}{}", said(&ran, usize::MAX), shell.note, note(&left_out));
    Ok(Done::text(text).with_traces(edit.finish()))
}

/// The shell that there is.
struct Shell {
    path: String,
    note: &'static str,
}

impl Shell {
    fn find() -> Option<Self> {
        let find = |name: &str| {
            let paths = PATH.split(':').map(|directory| format!("{directory}/{name}"));
            paths.into_iter().find(|path| Path::new(path).is_file())
        };
        let bash = find("bash").map(|path| Self { path, note: "" });
        bash.or_else(|| {
            find("sh")
                .map(|path| Self { path, note: "\n[there is no bash on this machine; sh ran the command]" })
        })
    }
}

/// What the command asks for, within what the call has.
fn deadline(asked: Option<u64>, of_call: Duration) -> Duration {
    let most = of_call.saturating_sub(of_call / FILES_SHARE);
    Duration::from_secs(asked.unwrap_or(USUAL_SECONDS)).min(most)
}

/// What the model reads of a command that ran.
fn said(ran: &Ran, bytes_max: usize) -> String {
    let end = match ran.end {
        End::Exited(status) => format!("exit status {status}"),
        End::Signalled(signal) => format!("killed by signal {signal}"),
        End::Stopped(_) => "stopped".to_owned(),
    };
    match printed(ran, bytes_max) {
        nothing if nothing.is_empty() => format!("{end}, no output"),
        printed => end + &printed,
    }
}

/// What it wrote to its two streams, each under its name.
fn printed(ran: &Ran, bytes_max: usize) -> String {
    let streams = [("stdout", &ran.stdout), ("stderr", &ran.stderr)];
    let streams = streams.into_iter().filter(|(_, stream)| stream.total() > 0);
    streams
        .map(|(name, stream)| format!("\n--- {name}\n{}", shown(stream, bytes_max).trim_end_matches('\n')))
        .collect()
}

fn shown(stream: &Captured, bytes_max: usize) -> String {
    let text = stream.text();
    let part = head(&text, bytes_max);
    match text.len() - part.len() {
        0 => text,
        rest => format!("{part}\n[{rest} bytes left out]"),
    }
}

fn note(left_out: &[String]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let more = left_out.len().saturating_sub(LEFT_OUT_MAX);
    let named = left_out.iter().take(LEFT_OUT_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("\n[not kept: {named}{more}]")
}

fn stopped(stop: Stop, deadline: Duration, ran: &Ran) -> Failed {
    let (class, why) = match stop {
        Stop::Deadline => ("timeout", format!("it took longer than {} s", deadline.as_secs_f64())),
        Stop::Tasks => ("limit", "it had too many processes at once".to_owned()),
        Stop::Memory => ("limit", "it took too much memory".to_owned()),
        Stop::MemoryLow => ("limit", "the machine's memory was almost used up".to_owned()),
        Stop::OpenFiles => ("limit", "its processes had too many open files, counted together".to_owned()),
        Stop::Disk => ("limit", "it wrote too much, too many files, or too deep".to_owned()),
        Stop::DiskFull => ("limit", "the disk was almost full".to_owned()),
        Stop::Output => {
            ("limit", "it wrote too much to its output; let it write to a file, or less".to_owned())
        }
        Stop::Cancelled => ("cancelled", "it was cancelled".to_owned()),
        Stop::Blind => ("sandbox", "it could not be watched any longer".to_owned()),
    };
    let printed = printed(ran, SHOWN_OF_FAILED_BYTES);
    Failed::new(
        class,
        format!(
            "the command was killed, with all that it had started: {why}. Nothing that it changed was kept.{printed}"
        ),
    )
}

fn refused(error: &SandboxError) -> Failed {
    let class = match error {
        SandboxError::Unconfined { .. }
        | SandboxError::NotStarted { .. }
        | SandboxError::Launch { .. }
        | SandboxError::Lost
        | SandboxError::Room { .. }
        | SandboxError::Path { .. } => "sandbox",
    };
    Failed::new(class, format!("{error}; {}", error.help()))
}

fn out_of_reach(error: &FilesError) -> Failed {
    Failed::new("files", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_less_time_than_its_call() {
        let second = Duration::from_secs;
        assert_eq!(deadline(None, second(600)), second(120));
        assert_eq!(deadline(Some(7), second(600)), second(7));
        assert_eq!(deadline(Some(u64::MAX), second(600)), second(540));
        assert_eq!(deadline(None, second(10)), second(9));
        assert_eq!(deadline(None, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn what_was_left_out_is_named_up_to_a_point() {
        assert_eq!(note(&[]), "");
        assert_eq!(note(&["`a`: a link".to_owned()]), "\n[not kept: `a`: a link]");
        let many: Vec<String> = (0..25).map(|n| n.to_string()).collect();
        assert!(note(&many).ends_with("; 19; and 5 more]"));
    }
}

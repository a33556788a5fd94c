//! A program that is asked about an event: started without a shell and without any variable, in a process group that ends with it,
//! with its time, or with this process. The event is its standard input; any end but a good one is a no.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use weir_types::Json;

/// How much of what it says is kept. The rest is read and forgotten, so that it can end.
const WORDS_BYTES_MAX: usize = 4 * 1024;

/// How long the end of its words may take once it has ended itself.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A program to ask.
#[derive(Clone, Debug)]
pub struct Asking {
    /// What starts programs, in front of their own words: see [`crate::Sandbox::supervised_prefix`].
    pub launcher: Vec<String>,
    /// The program and its arguments; one that begins with `./` is the project's.
    pub argv: Vec<String>,
    /// The project.
    pub directory: PathBuf,
    /// How long it may take.
    pub deadline: Duration,
}

/// Why it did not say yes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// It says no, in these words.
    #[error("{}", if .0.is_empty() { "it gave no reason" } else { .0.as_str() })]
    Refused(String),
    /// It could not be asked, or did not answer: that is no yes either.
    #[error("it could not be asked: {0}")]
    Broken(String),
}

impl Asking {
    /// Asks it about an event.
    ///
    /// # Errors
    /// When it does not say yes.
    ///
    /// # Cancel safety
    /// Dropping the future kills it and everything it started.
    pub async fn about(&self, event: &Json) -> Result<(), HookError> {
        let mut started = self.start().map_err(|error| {
            HookError::Broken(format!("`{}` cannot be started: {error}", self.argv.join(" ")))
        })?;
        match tokio::time::timeout(self.deadline, started.answer(event.as_str())).await {
            Ok(Ok((status, words))) => verdict(status, words),
            Ok(Err(error)) => Err(HookError::Broken(error.to_string())),
            Err(_) => {
                let seconds = self.deadline.as_secs_f64();
                Err(HookError::Broken(format!("no answer within {seconds} s")))
            }
        }
    }

    fn start(&self) -> std::io::Result<Started> {
        let (program, arguments) = self.argv.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        // A relative program is one of the project, wherever we ourselves were started.
        let file = if program.starts_with("./") { self.directory.join(program) } else { program.into() };
        let mut words = self.launcher.iter().map(|word| word.as_str().into()).chain([file.into_os_string()]);
        let child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            // An approval covers the code beside a program. Python would write compiled code there.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Started(child))
    }
}

/// A program that was started. Dropped, it and everything it started is killed.
struct Started(Child);

impl Started {
    async fn answer(&mut self, event: &str) -> std::io::Result<(ExitStatus, String)> {
        let (input, errors) = (self.0.stdin.take(), self.0.stderr.take());
        let (Some(mut input), Some(errors)) = (input, errors) else {
            return Err(std::io::Error::other("it has no standard streams"));
        };
        let telling = async move {
            // One that has heard enough need not hear the rest.
            let _ = input.write_all(event.as_bytes()).await;
        };
        let mut kept = Vec::new();
        let status = {
            let hearing = heard(errors, &mut kept);
            let mut hearing = std::pin::pin!(hearing);
            let mut telling = std::pin::pin!(telling);
            let (mut told, mut over) = (false, false);
            let status = loop {
                tokio::select! {
                    status = self.0.wait() => break status?,
                    () = &mut telling, if !told => told = true,
                    () = &mut hearing, if !over => over = true,
                }
            };
            if !over {
                let _ = tokio::time::timeout(LAST_WORDS, hearing).await;
            }
            status
        };
        Ok((status, String::from_utf8_lossy(&kept).trim().to_owned()))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // INVARIANT: nobody has waited for it if this finds an id, so the id is still its own, and its group's.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            // It fails when the group is empty, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Keeps the beginning of what is said, and reads all of it.
async fn heard(mut stream: impl tokio::io::AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let room = WORDS_BYTES_MAX.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&buffer[..room]);
    }
}

fn verdict(status: ExitStatus, words: String) -> Result<(), HookError> {
    use std::os::unix::process::ExitStatusExt;
    // The supervisor says it as a shell does.
    let signal = status.signal().or(status.code().filter(|code| *code > 128).map(|code| code - 128));
    match (status.success(), signal) {
        (true, _) => Ok(()),
        (false, Some(signal)) => Err(HookError::Broken(format!("signal {signal} ended it"))),
        (false, None) if status.code() == Some(127) => Err(HookError::Broken(words)),
        (false, None) => Err(HookError::Refused(words)),
    }
}

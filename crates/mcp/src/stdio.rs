//! A server that is a program: started, spoken to over its standard streams, and ended whatever happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::error::Error;
use crate::trouble::Trouble;
use crate::whole;

/// All that a server may write while it is asked for its tools.
pub(crate) const OUTPUT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// How much of its standard error is kept for the message.
const STDERR_BYTES_MAX: usize = 1024;

/// How much of a line that is no message is shown.
const LINE_CHARACTERS_MAX: usize = 120;

/// How long a server has, once its input is closed, to end by itself.
const GRACE: Duration = Duration::from_millis(200);

/// How a program ended.
pub(crate) struct Ending {
    /// What it left with; `None` if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    /// The end of what it wrote to its standard error, on one line.
    pub(crate) stderr: String,
}

/// A running program. Dropped, it and everything it started is killed.
pub(crate) struct Program {
    child: Child,
    stderr: Tail,
}

impl Program {
    /// Starts the program in a process group of its own, with no variable that it was not given.
    pub(crate) fn start(
        argv: &[String],
        directory: &Path,
        environment: &BTreeMap<String, String>,
        trouble: Trouble,
    ) -> Result<(Self, Pipes), Error> {
        let (program, arguments) = argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let fail = |source| Error::NotStarted { program: program.to_owned(), source };
        // A relative program is one of the project, wherever we ourselves were started.
        let file = if program.starts_with("./") { directory.join(program) } else { program.into() };
        let mut child = Command::new(file)
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let tail = Tail::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(tail.clone().follow(stderr));
        }
        let (Some(input), Some(output)) = (input, output) else {
            return Err(fail(std::io::Error::other("it has no standard streams")));
        };
        let pipes = Pipes {
            input: Arc::new(tokio::sync::Mutex::new(Some(input))),
            output: BufReader::new(output.take(OUTPUT_BYTES_MAX)),
            line: Vec::new(),
            trouble,
        };
        Ok((Self { child, stderr: tail }, pipes))
    }

    /// Ends it, kindly at first, and waits until it is gone. Its input has been closed before.
    pub(crate) async fn end(mut self) -> Ending {
        let by_itself = tokio::time::timeout(GRACE, self.stderr.ended()).await.is_ok();
        // INVARIANT: nobody has waited for the program yet, so its id is still its own, and its group's.
        self.kill_group();
        let status = self.child.wait().await.ok().filter(|_| by_itself);
        Ending { status, stderr: self.stderr.text() }
    }

    fn kill_group(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            // It fails when the group is empty, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Its standard streams, as `rmcp` wants them.
pub(crate) struct Pipes {
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    output: BufReader<Take<ChildStdout>>,
    /// A line that has not ended yet.
    line: Vec<u8>,
    trouble: Trouble,
}

impl Transport<RoleClient> for Pipes {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            match input.lock().await.as_mut() {
                Some(input) => input.write_all(&line).await,
                None => Err(std::io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// # Cancel safety
    /// A line of which only a part came stays in `self.line`.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let read = self.output.read_until(b'\n', &mut self.line).await;
            if self.output.get_ref().limit() == 0 {
                self.trouble.keep(Error::TooMuch { bytes_max: OUTPUT_BYTES_MAX });
                return None;
            }
            if !matches!(read, Ok(1..)) {
                return None;
            }
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            if let Ok(message) = serde_json::from_str(&whole::wrap(text)) {
                return Some(message);
            }
            let line = visible(text.chars().take(LINE_CHARACTERS_MAX));
            self.trouble.keep(Error::Nonsense { line, stderr: String::new() });
            return None;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input.lock().await.take();
        Ok(())
    }
}

/// The end of what a server writes to its standard error.
#[derive(Clone, Default)]
struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Arc<tokio_util::sync::CancellationToken>,
}

impl Tail {
    /// Reads until the stream ends, which it does with the program.
    async fn follow(self, mut stderr: ChildStderr) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..count]);
            let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
            kept.drain(..surplus);
        }
        self.ended.cancel();
    }

    async fn ended(&self) {
        self.ended.cancelled().await;
    }

    fn text(&self) -> String {
        let kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        visible(text.trim().chars())
    }
}

/// Foreign text on one line, with nothing in it that moves a cursor.
fn visible(text: impl Iterator<Item = char>) -> String {
    let shown = text.map(|character| match character {
        '\n' | '\t' => ' ',
        other => other,
    });
    shown.filter(|character| !character.is_control()).collect()
}

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
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::inbound::{self, Heard, MESSAGE_BYTES_MAX, Meter, UNASKED_BYTES_MAX};
use crate::ledger::{Leaving, Ledger};
use crate::plain::visible;
use crate::skim::Skim;
use crate::trouble::Trouble;
use crate::verbatim;

/// All that a server may write while it is asked for its tools.
pub(crate) const OUTPUT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Most bytes of a line that is read past, because it is too long to be kept.
const SKIMMED_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// Most lines that are no messages: a greeting, a stray print or two. A server that logs to its standard output has not
/// understood the protocol.
const NOISE_LINES_MAX: usize = 100;

/// How much of its standard error is kept for the message.
const STDERR_BYTES_MAX: usize = 1024;

/// How much of a line that is no message is shown.
const LINE_CHARACTERS_MAX: usize = 120;

/// How much is read at once. Answers can be large.
const READ_BYTES: usize = 64 * 1024;

/// How often it is looked whether a program is still there. Most often its streams say so at once.
const LOOK: Duration = Duration::from_millis(500);

/// How long a server has, once its input is closed, to end by itself.
const GRACE: Duration = Duration::from_millis(200);

/// How a program ended.
#[derive(Clone)]
pub(crate) struct Ending {
    /// What it left with; `None` if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    /// The end of what it wrote to its standard error, on one line.
    pub(crate) stderr: String,
}

/// How a program is started.
pub(crate) struct Start<'s> {
    /// What starts the program, if anything does.
    pub(crate) launcher: &'s [String],
    pub(crate) argv: &'s [String],
    pub(crate) directory: &'s Path,
    pub(crate) environment: &'s BTreeMap<String, String>,
}

/// How much of a server's output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A list of tools, once.
    Listing,
    /// As long as it runs, message after message.
    Running,
}

/// A running program. Dropped, it and everything it started is killed.
pub(crate) struct Program {
    child: Child,
    stderr: Tail,
    following: Option<AbortHandle>,
}

impl Program {
    /// Starts the program in a process group of its own, with no variable that it was not given.
    pub(crate) fn start(
        start: &Start<'_>,
        extent: Extent,
        ledger: Ledger,
        trouble: Trouble,
    ) -> Result<(Self, Pipes), Error> {
        let mut words = start.launcher.iter().chain(start.argv);
        let program = words.next().map_or("", String::as_str);
        let fail = |source| Error::NotStarted { program: program.to_owned(), source };
        // A relative program is one of the project, wherever we ourselves were started.
        let file = if program.starts_with("./") { start.directory.join(program) } else { program.into() };
        let mut child = Command::new(file)
            .args(words)
            .current_dir(start.directory)
            .env_clear()
            // An approval covers the code beside a program. Python would write compiled code there at its first start.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(start.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let tail = Tail::default();
        let stderr = child.stderr.take();
        let following = stderr.map(|stderr| tokio::spawn(tail.clone().follow(stderr)).abort_handle());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(fail(std::io::Error::other("it has no standard streams")));
        };
        let (output_bytes_max, message_bytes_max) = match extent {
            Extent::Listing => (OUTPUT_BYTES_MAX, usize::MAX),
            Extent::Running => (u64::MAX, MESSAGE_BYTES_MAX),
        };
        let pipes = Pipes {
            input: Arc::new(tokio::sync::Mutex::new(Some(input))),
            output: BufReader::with_capacity(READ_BYTES, output.take(output_bytes_max)),
            line: Line::Kept(Vec::new()),
            message_bytes_max,
            noise: 0,
            meter: Meter::default(),
            ledger,
            trouble,
        };
        Ok((Self { child, stderr: tail, following }, pipes))
    }

    /// Ends it, kindly at first, and waits until it is gone. Its input has been closed before.
    pub(crate) async fn end(mut self) -> Ending {
        let by_itself = tokio::time::timeout(GRACE, self.stderr.ended()).await.is_ok();
        // INVARIANT: nobody has waited for the program yet, so its id is still its own, and its group's.
        self.kill_group();
        let status = self.child.wait().await.ok().filter(|_| by_itself);
        Ending { status, stderr: self.stderr.text() }
    }

    /// Waits until the program itself has ended, whoever may still hold its streams open.
    pub(crate) async fn ended(&self) {
        // INVARIANT: it is only looked at. Its id stays its own until `end` or `drop`, which kill its group by it.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Some(id) = self.id() {
            match waitid(WaitId::Pid(id), look) {
                Ok(None) => tokio::time::sleep(LOOK).await,
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }

    fn id(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    fn kill_group(&self) {
        if let Some(group) = self.id() {
            // It fails when the group is empty, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill_group();
        // A grandchild that left the group may keep the stream open for ever.
        self.following.iter().for_each(AbortHandle::abort);
    }
}

/// Its standard streams, as `rmcp` wants them.
pub(crate) struct Pipes {
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    output: BufReader<Take<ChildStdout>>,
    line: Line,
    message_bytes_max: usize,
    /// Lines so far that were no messages.
    noise: usize,
    meter: Meter,
    ledger: Ledger,
    trouble: Trouble,
}

/// A line that has not ended yet.
enum Line {
    /// As far as it came.
    Kept(Vec<u8>),
    /// Too long to be kept.
    Skimmed { skim: Box<Skim>, bytes: usize },
}

/// A line that has ended.
enum Ended {
    Whole(Vec<u8>),
    /// It was too long; this is the request it answers.
    TooLong(Option<i64>),
}

impl Transport<RoleClient> for Pipes {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (input, ledger) = (Arc::clone(&self.input), self.ledger.clone());
        async move {
            let mut line = verbatim::encode(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(input) = input.as_mut() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
            match ledger.leaves(&message) {
                Leaving::Withdrawn => Err(std::io::ErrorKind::Interrupted.into()),
                Leaving::Request(id) => {
                    let sent = match input.write(&line).await {
                        Ok(0) => Err(std::io::ErrorKind::WriteZero.into()),
                        sent => sent,
                    };
                    let sent = sent.inspect_err(|_| ledger.stayed(id))?;
                    input.write_all(&line[sent..]).await
                }
                Leaving::Reply(_replied) => input.write_all(&line).await,
                Leaving::Notification => input.write_all(&line).await,
            }
        }
    }

    /// # Cancel safety
    /// A line of which only a part came stays in `self.line`.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let heard = match self.next_line().await {
                Ok(Ended::Whole(line)) => self.hear(&line),
                Ok(Ended::TooLong(id)) => self.too_long(id),
                Err(error) => Err(error),
            };
            match heard {
                Ok(None) => {}
                Ok(message) => return message,
                Err(error) => {
                    error.into_iter().for_each(|error| self.trouble.keep(error));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input.lock().await.take();
        Ok(())
    }
}

impl Pipes {
    /// The next line; an error without a reason when there is none.
    async fn next_line(&mut self) -> Result<Ended, Option<Error>> {
        loop {
            let piece = self.output.fill_buf().await.map_err(|_| None)?;
            if piece.is_empty() {
                let limit = self.output.get_ref().limit();
                return Err((limit == 0).then_some(Error::TooMuch { bytes_max: OUTPUT_BYTES_MAX }));
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            let is_bounded = self.line.push(&piece[..taken], self.message_bytes_max);
            self.output.consume(taken);
            if !is_bounded {
                return Err(Some(Error::TooMuch { bytes_max: SKIMMED_BYTES_MAX as u64 }));
            }
            if end.is_some() {
                return Ok(match std::mem::replace(&mut self.line, Line::Kept(Vec::new())) {
                    Line::Kept(line) => Ended::Whole(line),
                    Line::Skimmed { skim, .. } => Ended::TooLong(skim.id()),
                });
            }
        }
    }

    /// What a line says to `rmcp`, if anything.
    fn hear(&mut self, line: &[u8]) -> Result<Option<ServerJsonRpcMessage>, Option<Error>> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            return self.unasked(line.len());
        }
        let heard = inbound::hear(text, &self.ledger);
        let message = match &heard {
            Heard::Answer(answer) => serde_json::from_str(answer).ok(),
            Heard::Request(request) => {
                self.unasked(line.len())?;
                serde_json::from_str(request).ok()
            }
            Heard::Unasked => return self.unasked(line.len()),
            Heard::Nonsense => None,
        };
        match message {
            Some(message) => Ok(Some(message)),
            None => self.noise(text),
        }
    }

    /// Some servers greet on standard output. It is forgiven, up to a point.
    fn noise(&mut self, text: &str) -> Result<Option<ServerJsonRpcMessage>, Option<Error>> {
        let line = visible(text.chars().take(LINE_CHARACTERS_MAX));
        self.noise += 1;
        if self.noise > NOISE_LINES_MAX {
            return Err(Some(Error::Nonsense { line, stderr: String::new() }));
        }
        self.trouble.note(line);
        self.unasked(text.len())
    }

    fn unasked(&mut self, bytes: usize) -> Result<Option<ServerJsonRpcMessage>, Option<Error>> {
        match self.meter.add(bytes) {
            true => Ok(None),
            false => Err(Some(Error::TooMuch { bytes_max: UNASKED_BYTES_MAX })),
        }
    }

    /// An answer that is too long fails the request it answers and nothing else.
    fn too_long(&mut self, id: Option<i64>) -> Result<Option<ServerJsonRpcMessage>, Option<Error>> {
        let bytes_max = self.message_bytes_max as u64;
        let expected = id.filter(|id| self.ledger.answered(*id, None).is_some());
        let Some(id) = expected else { return self.unasked(self.message_bytes_max) };
        self.ledger.fail(id, Error::TooMuch { bytes_max }, true);
        Ok(serde_json::from_str(&inbound::failed(id)).ok())
    }
}

impl Line {
    /// Adds a piece; `false` when the line is too long even to be read past.
    fn push(&mut self, piece: &[u8], bytes_max: usize) -> bool {
        match self {
            Self::Kept(kept) if kept.len() + piece.len() <= bytes_max => kept.extend_from_slice(piece),
            Self::Kept(kept) => {
                let mut skim = Box::new(Skim::default());
                skim.read(kept);
                skim.read(piece);
                *self = Self::Skimmed { skim, bytes: kept.len() + piece.len() };
            }
            Self::Skimmed { skim, bytes } => {
                skim.read(piece);
                *bytes += piece.len();
                return *bytes <= SKIMMED_BYTES_MAX;
            }
        }
        true
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

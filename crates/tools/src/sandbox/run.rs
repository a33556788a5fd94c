//! The engine's side of a job: starts the supervisor, collects what the command says, and makes sure that all of it ends.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::error::SandboxError;
use super::output::{Captured, Ending};
use super::plan::{Plan, REPORT_BYTES_MAX, Report, Stop, Support};
use super::room::Room;
use super::{End, Ran};

/// How long the supervisor may take beyond the deadline: it has to start, and to wait for what it killed.
const GRACE: Duration = Duration::from_secs(10);

/// How long the ends of the output may take once everybody who could write is dead.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A job under way.
pub(super) struct Running {
    pub(super) launcher: Vec<OsString>,
    pub(super) plan: Plan,
    pub(super) output_bytes_max: u64,
    /// Ends it.
    pub(super) stop: CancellationToken,
    /// Held as long as anybody is in it.
    pub(super) room: Option<Arc<Room>>,
}

impl Running {
    /// Runs it to its end, whoever still waits for it.
    pub(super) async fn attend(mut self) -> Result<Ran, SandboxError> {
        let room = self.room.take();
        let ran = self.ran().await;
        drop(room);
        ran
    }

    async fn ran(&self) -> Result<Ran, SandboxError> {
        let (report, too_much, [stdout, stderr]) = self.supervise().await?;
        let end = match report {
            _ if too_much => End::Stopped(Stop::Output),
            Report::Exited(status) => End::Exited(status),
            Report::Signalled(signal) => End::Signalled(signal),
            Report::Stopped(stop) => End::Stopped(stop),
            Report::Unconfined(what) => return Err(SandboxError::Unconfined { what }),
            Report::NotStarted(why) => return Err(SandboxError::NotStarted { why }),
            Report::Able(_) => return Err(SandboxError::Lost),
        };
        Ok(Ran { end, stdout, stderr })
    }

    /// Asks what the kernel can do.
    pub(super) async fn probe(&self) -> Result<Support, SandboxError> {
        match self.supervise().await?.0 {
            Report::Able(support) => Ok(support),
            Report::Unconfined(what) => Err(SandboxError::Unconfined { what }),
            Report::NotStarted(why) => Err(SandboxError::NotStarted { why }),
            Report::Exited(_) | Report::Signalled(_) | Report::Stopped(_) => Err(SandboxError::Lost),
        }
    }

    async fn supervise(&self) -> Result<(Report, bool, [Captured; 2]), SandboxError> {
        let (mut supervisor, control) = self.launch().map_err(|source| SandboxError::Launch { source })?;
        let (stdout, stderr) = (supervisor.child.stdout.take(), supervisor.child.stderr.take());
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else { return Err(SandboxError::Lost) };
        let too_much = CancellationToken::new();
        let mut captured = [Captured::default(), Captured::default()];
        let report = {
            let [out, err] = &mut captured;
            let reading = async {
                tokio::join!(self.capture(out, stdout, &too_much), self.capture(err, stderr, &too_much))
            };
            let mut reading = std::pin::pin!(reading);
            let directing = self.direct(control, &too_much);
            let mut directing = std::pin::pin!(directing);
            let mut read = false;
            let report = loop {
                tokio::select! {
                    report = &mut directing => break report,
                    _ = &mut reading, if !read => read = true,
                }
            };
            supervisor.end(report.is_some()).await;
            if !read {
                let _ = tokio::time::timeout(LAST_WORDS, reading).await;
            }
            report
        };
        let report = report.ok_or(SandboxError::Lost)?;
        Ok((report, too_much.is_cancelled(), captured))
    }

    fn launch(&self) -> std::io::Result<(Supervisor, UnixStream)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let (program, arguments) = self.launcher.split_first().ok_or(std::io::ErrorKind::NotFound)?;
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok((Supervisor { child }, ours))
    }

    async fn capture(
        &self,
        captured: &mut Captured,
        stream: impl tokio::io::AsyncRead + Unpin,
        too_much: &CancellationToken,
    ) {
        if captured.read(stream, self.output_bytes_max).await == Ending::TooMuch {
            too_much.cancel();
        }
    }

    /// Says what to do, says when to stop, and hears what became of it; nothing, if the supervisor is gone or does not answer.
    async fn direct(&self, control: UnixStream, too_much: &CancellationToken) -> Option<Report> {
        let (reader, mut writer) = control.into_split();
        let mut plan = serde_json::to_vec(&self.plan).ok()?;
        plan.push(b'\n');
        let bound = self.plan.deadline.saturating_add(GRACE);
        let heard = async {
            // A supervisor that does not listen says why, or is gone.
            let _ = writer.write_all(&plan).await;
            let mut hearing = std::pin::pin!(hear(reader));
            tokio::select! {
                report = &mut hearing => return report,
                () = self.stop.cancelled() => {}
                () = too_much.cancelled() => {}
            }
            hang_up(writer).await;
            tokio::time::timeout(GRACE, hearing).await.ok().flatten()
        };
        tokio::time::timeout(bound, heard).await.ok().flatten()
    }
}

async fn hear(reader: OwnedReadHalf) -> Option<Report> {
    let mut report = Vec::new();
    reader.take(REPORT_BYTES_MAX).read_to_end(&mut report).await.ok()?;
    serde_json::from_slice(&report).ok()
}

/// The supervisor takes the end of its input for the order to stop.
async fn hang_up(mut writer: OwnedWriteHalf) {
    let _ = writer.shutdown().await;
}

/// The process that watches over the command.
struct Supervisor {
    child: Child,
}

impl Supervisor {
    /// Waits for its end. One that has not said that all is over is killed, with the whole group.
    async fn end(&mut self, has_reported: bool) {
        if !has_reported {
            self.kill_group();
        }
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.kill_group();
            let _ = self.child.wait().await;
        }
    }

    /// INVARIANT: nobody has waited for the supervisor if this finds an id, so the id is still its own, and its group's.
    fn kill_group(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            // It fails when the group is empty, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Supervisor {
    /// When the runtime ends in the middle of a job.
    fn drop(&mut self) {
        self.kill_group();
    }
}

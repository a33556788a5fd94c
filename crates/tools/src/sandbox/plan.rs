//! What the engine and the supervisor say to each other, over the control socket: one line each way. Both are the same binary,
//! so there is no version.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_types::SandboxProfile;

use super::limits::Limits;

/// The longest plan. A command is one argument, and the kernel takes 128 KiB of one.
pub(super) const PLAN_BYTES_MAX: u64 = 1024 * 1024;

/// The longest report.
pub(super) const REPORT_BYTES_MAX: u64 = 64 * 1024;

/// What to run, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Nothing to run: find out what the kernel can do.
    pub(super) argv: Vec<String>,
    pub(super) room: String,
    pub(super) files: String,
    pub(super) home: String,
    pub(super) temporary: String,
    pub(super) shared: String,
    pub(super) readable: Vec<String>,
    /// What nobody reads, should it be below something that is readable.
    pub(super) hidden: Vec<String>,
    pub(super) deadline: Duration,
    pub(super) limits: Limits,
    pub(super) confined: bool,
}

/// How a server is confined. Its words follow in the arguments, and its project is where it is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerPlan {
    pub(super) profile: SandboxProfile,
    /// Where its room is made, if it needs one.
    pub(super) rooms: PathBuf,
    /// What it does not read, should it be below something that is readable.
    pub(super) hidden: Vec<PathBuf>,
    pub(super) limits: Limits,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    Exited(i32),
    Signalled(i32),
    Stopped(Stop),
    /// The kernel cannot confine it.
    Unconfined(String),
    /// The command cannot be started.
    NotStarted(String),
    /// What the kernel can do.
    Able(Support),
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// Its time was over.
    Deadline,
    /// It had too many processes and threads.
    Tasks,
    /// It took too much memory.
    Memory,
    /// The machine's memory was almost used up.
    MemoryLow,
    /// Its processes had too many open files, counted together.
    OpenFiles,
    /// It wrote too much, too many files, or too deep.
    Disk,
    /// The disk was almost full.
    DiskFull,
    /// It said too much.
    Output,
    /// Nobody wants it any more.
    Cancelled,
    /// It could not be watched any longer.
    Blind,
}

/// How commands are confined here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    /// Whether Landlock keeps signals in; otherwise commands can send none at all.
    pub signals_scoped: bool,
    /// Whether the rest of the disk can be made read-only; otherwise commands cannot change modes, owners and times of
    /// any file, their own included.
    pub rest_read_only: bool,
    /// Whether commands have a process namespace of their own: they see no other process, and the kernel ends all of theirs at once.
    pub own_processes: bool,
    /// Whether commands have a network namespace of their own, with no way out.
    pub own_network: bool,
    /// Whether commands have namespaces of their own for System V IPC, message queues and the host name.
    pub own_ipc: bool,
    /// Whether a control group bounds memory, that of the kernel included; otherwise the supervisor counts.
    pub control_group: bool,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("commands are confined by Landlock and seccomp")?;
        let namespaces = [
            (self.rest_read_only, "mount"),
            (self.own_processes, "process"),
            (self.own_network, "network"),
            (self.own_ipc, "IPC"),
        ];
        let named = |wanted: bool| {
            let found = namespaces.iter().filter(|(is_there, _)| *is_there == wanted);
            found.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
        };
        match (named(true), named(false)) {
            (all, none) if none.is_empty() => write!(f, "; namespaces: {all}")?,
            (none, missing) if none.is_empty() => write!(f, "; no namespaces (missing: {missing})")?,
            (some, missing) => write!(f, "; namespaces: {some} (missing: {missing})")?,
        }
        f.write_str(if self.control_group {
            "; memory is bounded by a control group"
        } else {
            "; memory is counted by the supervisor (no delegated cgroup v2)"
        })?;
        if !self.signals_scoped {
            f.write_str("; they cannot send signals (that would need Linux 6.12)")?;
        }
        if !self.rest_read_only {
            f.write_str("; modes, owners and times of files stay as they are (changing them would need user namespaces)")?;
        }
        Ok(())
    }
}

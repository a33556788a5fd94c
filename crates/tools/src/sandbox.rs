//! Children that the kernel confines.
//!
//! [`Sandbox::run`] starts one process, `weir sandbox-exec`, in a process group of its own: the supervisor. One thread of it
//! gives up everything and starts the command, which inherits that; the rest of it stays as it was, watches, and
//! ends the group. So a command costs one extra program, and nothing happens between `fork` and `exec`.
//!
//! | what | by |
//! | --- | --- |
//! | files: the system's to read and run, its own room to write, nothing else | Landlock |
//! | modes, owners, times and attributes of files elsewhere, of which Landlock knows nothing | a mount namespace in which all but the writable parts of the room is read-only; where there can be none, seccomp keeps such calls from happening |
//! | network and Unix sockets, every family | seccomp, a network namespace (and Landlock, where it can) |
//! | other processes: signals, debugging, limits | Landlock's scopes and domains, a process namespace, seccomp |
//! | what root can do | no capabilities, `no_new_privs` |
//! | memory, that of the kernel included | a control group where this user may make one; else the supervisor counts pages, page tables, mappings and open files |
//! | time, processes, disk, output | the supervisor, with resource limits as a second line |
//! | what it leaves behind | the process namespace ends with its first process; without one, the group, which nothing can leave, is killed |
//!
//! Namespaces and the control group are there where the kernel lets this user have them; `weir doctor` says which are. `docs/sandbox.md` has the figures.
//!
//! The ends of a job: the command ends, its deadline passes, it takes too much, the engine closes the control socket or dies
//! (which closes it too). In each, the whole group is killed; the supervisor waits until nobody is left and then reports.
//! Should the supervisor itself be killed, the engine kills the group.
//!
//! What is left: a command can see that files exist elsewhere (`stat` is free), and how late it is.

mod error;
mod limits;
mod output;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is nobody to talk to"))]
mod plan;
mod room;
mod run;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nobody measures"))]
mod tree;

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod control_group;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod own;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod walls;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
pub use supervisor::sandbox_exec;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::sandbox_exec;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_types::SandboxProfile;

pub use error::SandboxError;
pub use limits::Limits;
pub use output::Captured;
pub use plan::{Stop, Support};
pub use room::Room;

/// Whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// A command that cannot be confined does not run.
    #[default]
    Required,
    /// `--unsafe-no-sandbox`: commands run with all rights of this user: every file, the network, every process. They still
    /// have a deadline, limits and a group that is killed.
    Off,
}

/// How children are confined.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// What to start, to which the arguments of `weir sandbox-exec` are added.
    launcher: Vec<OsString>,
    enforcement: Enforcement,
    limits: Limits,
    /// Where rooms are made.
    rooms: PathBuf,
    /// What commands may read beside the system's programs.
    readable: Vec<PathBuf>,
    /// What they may not read, wherever it is.
    hidden: Vec<PathBuf>,
    /// Jobs under way, also those whose callers have gone.
    jobs: TaskTracker,
    swept: Arc<Once>,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program, as a path, and its arguments.
    pub argv: Vec<String>,
    /// Where it runs, and all that it may change.
    pub room: Arc<Room>,
    /// How long it may take.
    pub deadline: Duration,
}

/// What a job came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended. Whatever way: nothing that it started is left.
    pub end: End,
    /// What it wrote to its standard output.
    pub stdout: Captured,
    /// What it wrote to its standard error.
    pub stderr: Captured,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, which was not ours.
    Signalled(i32),
    /// It was stopped.
    Stopped(Stop),
}

impl Default for Sandbox {
    /// Starts the program that runs; enforcement is required.
    fn default() -> Self {
        // By this name it is the same program even if another has taken its place on the disk.
        let program = Path::new("/proc/self/exe");
        let program =
            if program.exists() { program.to_owned() } else { std::env::current_exe().unwrap_or_default() };
        Self::new(vec![program.into(), SUBCOMMAND.into()])
    }
}

/// The subcommand of `weir` behind which [`sandbox_exec`] is.
pub const SUBCOMMAND: &str = "sandbox-exec";

/// Where commands find programs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Sandbox {
    /// With the argv of a program that calls [`sandbox_exec`] with whatever arguments follow.
    pub fn new(launcher: Vec<OsString>) -> Self {
        Self {
            launcher,
            enforcement: Enforcement::Required,
            limits: Limits::default(),
            rooms: std::env::temp_dir(),
            readable: Vec::new(),
            hidden: Vec::new(),
            jobs: TaskTracker::new(),
            swept: Arc::new(Once::new()),
        }
    }

    /// With or without enforcement.
    #[must_use]
    pub fn with_enforcement(mut self, enforcement: Enforcement) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With rooms in another directory than the system's for temporary files.
    #[must_use]
    pub fn with_rooms_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.rooms = directory.into();
        self
    }

    /// With more to read and run for commands: toolchains that are not below `/usr`, say.
    #[must_use]
    pub fn with_readable(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.readable.extend(paths);
        self
    }

    /// With directories that commands may not read, even below something that they may: a home or a project below `/usr`, say.
    #[must_use]
    pub fn with_hidden(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.hidden.extend(paths);
        self
    }

    /// Whether enforcement is required.
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    /// Makes a room. The first time, rooms of processes that are gone are removed.
    ///
    /// # Errors
    /// When the directory for rooms cannot be written.
    pub async fn room(&self) -> Result<Room, SandboxError> {
        let (directory, swept) = (self.rooms.clone(), Arc::clone(&self.swept));
        let made = tokio::task::spawn_blocking(move || {
            swept.call_once(|| room::sweep(&directory));
            Room::make(&directory).map_err(|source| SandboxError::Room { directory, source })
        });
        made.await.map_err(|error| SandboxError::Launch { source: std::io::Error::other(error) })?
    }

    /// Runs a command until it and everything it started is gone.
    ///
    /// # Errors
    /// When the command cannot be started, or the kernel cannot confine it.
    ///
    /// # Cancel safety
    /// Dropping the future kills the command and everything it started. The room is kept until that is done.
    pub async fn run(&self, job: Job, cancelled: &CancellationToken) -> Result<Ran, SandboxError> {
        let stop = CancellationToken::new();
        let _stops_when_dropped = stop.clone().drop_guard();
        let plan = self.plan(&job)?;
        let running = run::Running {
            launcher: self.launcher.clone(),
            plan,
            output_bytes_max: self.limits.output_bytes,
            stop: stop.clone(),
            room: Some(job.room),
        };
        let mut task = self.jobs.spawn(running.attend());
        let joined = tokio::select! {
            joined = &mut task => joined,
            () = cancelled.cancelled() => {
                stop.cancel();
                task.await
            }
        };
        joined.map_err(|error| SandboxError::Launch { source: std::io::Error::other(error) })?
    }

    /// What the kernel does for us, found out by confining a thread of a process that does nothing else.
    ///
    /// # Errors
    /// When the kernel cannot do what is needed, or the launcher cannot be started.
    pub async fn support(&self) -> Result<Support, SandboxError> {
        let room = Arc::new(self.room().await?);
        let job = Job { argv: Vec::new(), room: Arc::clone(&room), deadline: Duration::from_secs(10) };
        let running = run::Running {
            launcher: self.launcher.clone(),
            plan: self.plan(&job)?,
            output_bytes_max: self.limits.output_bytes,
            stop: CancellationToken::new(),
            room: Some(room),
        };
        running.probe().await
    }

    /// What to put before the argv of a child that has the streams of this process: it and what it starts live in one process group
    /// that is killed when this process dies. It is confined as the profile says, whatever the enforcement is; should that not be possible, it does not
    /// start, and its standard error says why. Of no use to other processes than this one.
    pub fn supervised_prefix(&self, profile: SandboxProfile) -> Vec<String> {
        let mut words: Vec<String> =
            self.launcher.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        words.extend(["--supervise", "--parent", &std::process::id().to_string()].map(str::to_owned));
        if !profile.is_off() {
            let plan = plan::ServerPlan {
                profile,
                rooms: self.rooms.clone(),
                hidden: self.hidden.clone(),
                limits: self.limits,
            };
            // A path that is no text cannot be handed on. Without its plan, the child does not start.
            let plan = serde_json::to_string(&plan).unwrap_or_default();
            words.extend(["--confined".to_owned(), plan]);
        }
        words.push("--".to_owned());
        words
    }

    /// Waits until no job is left, those included whose callers have gone. For a process that is about to end.
    pub async fn settled(&self) {
        self.jobs.close();
        self.jobs.wait().await;
        self.jobs.reopen();
    }

    fn plan(&self, job: &Job) -> Result<plan::Plan, SandboxError> {
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| SandboxError::Path { path: path.to_owned() })
        };
        Ok(plan::Plan {
            argv: job.argv.clone(),
            room: text(job.room.path())?,
            files: text(&job.room.files())?,
            home: text(&job.room.home())?,
            temporary: text(&job.room.temporary())?,
            shared: text(&job.room.shared())?,
            readable: self.readable.iter().map(|path| text(path)).collect::<Result<_, _>>()?,
            hidden: self.hidden.iter().map(|path| text(path)).collect::<Result<_, _>>()?,
            deadline: job.deadline,
            limits: self.limits,
            confined: self.enforcement == Enforcement::Required,
        })
    }
}

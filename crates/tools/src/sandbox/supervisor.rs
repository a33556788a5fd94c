//! `weir sandbox-exec`: starts a command from a confined thread, watches over it, and ends it with all that it started.
//!
//! INVARIANT: until everything is over, this process leads the process group of the command. So the group's number cannot become anybody
//! else's, and whoever kills the group kills all of it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpgrp, getpid, getppid,
    getpriority_process, getrlimit, kill_process, kill_process_group, pidfd_open, set_child_subreaper,
    setpgid, setpriority_process, setrlimit, wait,
};

use super::confine;
use super::control_group::ControlGroup;
use super::init;
use super::limits::Limits;
use super::mounts;
use super::plan::{PLAN_BYTES_MAX, Plan, Report, Stop, Support};
use super::serve;
use super::tree;
use super::walls::Walls;
use super::watch::{self, Pace, Watch};

/// What a shell answers for a program that is not there.
pub(super) const NOT_FOUND: u8 = 127;

/// Wrong usage, and a parent that is gone.
pub(super) const USAGE: u8 = 2;

/// Processes that a user who is not root may have beside those of the whole machine now. A second line: [`Watch`] counts exactly.
const TASKS_BESIDE: u64 = 1024;

/// Most timers and queued signals of a user. The kernel has half a kilobyte for each.
const SIGNALS_MAX: u64 = 4096;

/// How much longer than its deadline one process may compute, should nobody be left to end it.
const CPU_BEYOND: Duration = Duration::from_secs(5);

/// How long what was killed may take to be gone. A process that waits for a dead disk may take for ever.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// How often to look whether it is, and how often for those that the group's end did not reach.
const GONE_EVERY: Duration = Duration::from_micros(200);
const STRAGGLERS_EVERY: Duration = Duration::from_millis(20);

/// The priority of a supervisor, where it is allowed: the one who has to stop a thousand processes must get to run among them. Where it is not, the
/// command gets less of it.
const SUPERVISOR_NICE: i32 = -20;
const COMMAND_NICER: i32 = 5;

const HELP: &str = "weir sandbox-exec is how weir starts commands; it is not for people.

  weir sandbox-exec                                    run what the control socket on standard input says, confined
  weir sandbox-exec --supervise --parent PID -- ARGV   run ARGV until it or the parent ends; its files and network stay
  weir sandbox-exec --supervise --parent PID --confined PLAN -- ARGV   the same, confined
";

/// The argument with which a program is supervised that has the streams of this process.
const SUPERVISE: &str = "--supervise";

/// What `weir sandbox-exec` does with its arguments.
///
/// Must be called before anything else in the process has started a thread or opened a file.
pub fn sandbox_exec(arguments: &[OsString]) -> ExitCode {
    // A supervisor that breaks must not leave the command behind.
    std::panic::set_hook(Box::new(|_| {
        if getpgrp() == getpid() {
            let _ = kill_process_group(getpid(), Signal::KILL);
        }
    }));
    let words: Vec<&str> = arguments.iter().take(4).filter_map(|word| word.to_str()).collect();
    match words[..] {
        [] if arguments.is_empty() => run_plan(),
        [init::ARGUMENT] if arguments.len() == 1 => init::run(),
        [SUPERVISE, "--parent", parent, "--"] => match process(parent) {
            Some(parent) => supervise(parent, &arguments[4..]),
            None => usage(),
        },
        [SUPERVISE, "--parent", parent, "--confined"] => {
            let plan = arguments.get(4).and_then(|plan| serde_json::from_slice(plan.as_encoded_bytes()).ok());
            match (process(parent), plan, arguments.get(5)) {
                (Some(parent), Some(plan), Some(end)) if end == "--" => {
                    serve::run(parent, &plan, &arguments[6..])
                }
                _ => usage(),
            }
        }
        _ => usage(),
    }
}

fn process(id: &str) -> Option<Pid> {
    id.parse().ok().and_then(Pid::from_raw)
}

pub(super) fn usage() -> ExitCode {
    let _ = std::io::stderr().write_all(HELP.as_bytes());
    ExitCode::from(USAGE)
}

/// Runs what the control socket says, and reports there. It cannot fail in another way: somebody listens, or nobody does.
fn run_plan() -> ExitCode {
    let closed = close_inherited();
    let Ok(control) = std::io::stdin().as_fd().try_clone_to_owned() else { return usage() };
    if rustix::net::getpeername(&control).is_err() {
        return usage();
    }
    let mut control = UnixStream::from(control);
    let Some(plan) = read_plan(&control) else { return ExitCode::from(USAGE) };
    let report = match closed {
        Ok(()) => carry_out(&plan, &control),
        Err(error) => Report::Unconfined(format!("/proc is needed to look after processes ({error})")),
    };
    if let Ok(report) = serde_json::to_vec(&report) {
        let _ = control.write_all(&report);
    }
    let _ = control.shutdown(Shutdown::Both);
    ExitCode::SUCCESS
}

/// Whatever we were started with, the command must not have. Nothing here has opened anything yet.
pub(super) fn close_inherited() -> std::io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The directory that was read is closed by now, and its number among them.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

fn read_plan(control: &UnixStream) -> Option<Plan> {
    let mut line = Vec::new();
    BufReader::new(control.take(PLAN_BYTES_MAX)).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

fn carry_out(plan: &Plan, control: &UnixStream) -> Report {
    // Before anything becomes read-only.
    let control_group = ControlGroup::make(&plan.limits).filter(|_| plan.confined);
    let walls = plan.confined.then(|| Walls::of_command(plan));
    let start = Start {
        walls: walls.as_ref(),
        limits: &plan.limits,
        seconds: Some(plan.deadline.saturating_add(CPU_BEYOND).as_secs()),
        control_group: control_group.as_ref(),
    };
    let report = match start.start(|| command(plan)) {
        Ok(Started::Command(command, _ends_when_closed)) => {
            let mut watch = Watch::new(getpgrp(), Some(Path::new(&plan.room)), plan.limits, Pace::OfCommand);
            let deadline = Instant::now() + plan.deadline;
            let report = attend(command, control, deadline, &mut watch);
            end_group();
            report
        }
        Ok(Started::Nothing(support)) => Report::Able(support),
        Err(report) => {
            end_group();
            report
        }
    };
    let was_out_of_memory = control_group.as_ref().is_some_and(ControlGroup::was_out_of_memory);
    control_group.into_iter().for_each(ControlGroup::remove);
    let report = if was_out_of_memory { Report::Stopped(Stop::Memory) } else { report };
    if report == Report::Stopped(Stop::Cancelled) {
        // Perhaps nobody is left who would do it. The directory itself cannot be removed from here.
        let _ =
            [&plan.files, &plan.home, &plan.temporary, &plan.shared].map(|path| tree::empty(Path::new(path)));
    }
    report
}

/// What is there once a command was started.
pub(super) enum Started {
    /// The command, and what its process namespace ends with.
    Command(Pid, Option<ChildStdin>),
    Nothing(Support),
}

/// How something is started.
pub(super) struct Start<'s> {
    /// What it is confined by, if by anything.
    pub(super) walls: Option<&'s Walls>,
    pub(super) limits: &'s Limits,
    /// The processor time that each process may use.
    pub(super) seconds: Option<u64>,
    pub(super) control_group: Option<&'s ControlGroup>,
}

impl Start<'_> {
    /// Starts a command; without one, only finds out whether it could. In this order: what concerns the whole process, then what a single thread does.
    pub(super) fn start(&self, command: impl FnOnce() -> Option<Command> + Send) -> Result<Started, Report> {
        let failed = |what: &str, error: rustix::io::Errno| Report::NotStarted(format!("{what}: {error}"));
        if getpgrp() != getpid() {
            setpgid(None, None).map_err(|error| failed("no process group", error))?;
        }
        // What a command leaves behind becomes our child, so that we can wait for it.
        set_child_subreaper(Some(getpid())).map_err(|error| failed("no orphans", error))?;
        let mut support = None;
        if let Some(walls) = self.walls {
            let signals_scoped = confine::signals_scoped().map_err(Report::Unconfined)?;
            let namespaces = mounts::enter(walls);
            support = Some(Support {
                signals_scoped,
                rest_read_only: namespaces.mounts,
                own_processes: false,
                own_network: namespaces.network,
                own_ipc: namespaces.ipc,
                control_group: self.control_group.is_some(),
            });
        }
        limit(self.limits, self.seconds).map_err(|error| failed("no limits", error))?;
        let usual = getpriority_process(None).map_err(|error| failed("no priority", error))?;
        let is_raised = setpriority_process(None, SUPERVISOR_NICE).is_ok();
        let nice = if is_raised { usual } else { usual + COMMAND_NICER };
        // The thread is gone before the command can look for it: a confined one could be killed by it, and this process with it.
        if let Some(group) = self.control_group {
            group.join().map_err(|error| Report::NotStarted(format!("no control group: {error}")))?;
        }
        let started =
            std::thread::scope(|scope| scope.spawn(|| self.start_here(support, nice, command)).join());
        if let Some(group) = self.control_group {
            // Should it fail, the supervisor counts among what it watches over, and is ended with it.
            let _ = group.leave();
        }
        started.unwrap_or_else(|_| Err(Report::NotStarted("a thread was lost".to_owned())))
    }

    fn start_here(
        &self,
        mut support: Option<Support>,
        nice: i32,
        command: impl FnOnce() -> Option<Command>,
    ) -> Result<Started, Report> {
        // On Linux, this is about the thread, and what it starts.
        setpriority_process(None, nice)
            .map_err(|error| Report::NotStarted(format!("no priority: {error}")))?;
        let mut ends_when_closed = None;
        if let (Some(walls), Some(support)) = (self.walls, &mut support) {
            ends_when_closed =
                own_processes().map_err(|error| Report::NotStarted(format!("no first process: {error}")))?;
            support.own_processes = ends_when_closed.is_some();
            confine::confine(walls, *support).map_err(Report::Unconfined)?;
        }
        let Some(mut command) = command() else {
            return match support {
                Some(support) => Ok(Started::Nothing(support)),
                None => Err(Report::Unconfined("confinement is switched off".to_owned())),
            };
        };
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| Report::NotStarted(format!("`{program}`: {error}")))?;
        Ok(Started::Command(Pid::from_child(&child), ends_when_closed))
    }
}

/// The command of a plan, if it has one.
fn command(plan: &Plan) -> Option<Command> {
    let (program, arguments) = plan.argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&plan.files).env_clear().envs(environment(plan)).stdin(Stdio::null());
    Some(command)
}

/// What this thread starts from now on is in a process namespace, if this user may have one. The answer is what keeps its first process alive.
fn own_processes() -> std::io::Result<Option<ChildStdin>> {
    if unshare(CloneFlags::CLONE_NEWPID).is_err() {
        return Ok(None);
    }
    // Whatever starts `sandbox-exec` is among the arguments, before those of its own.
    let launcher = std::env::args_os().skip(1).take_while(|word| word != SUPERVISE);
    let mut first = Command::new("/proc/self/exe")
        .args(launcher)
        .arg(init::ARGUMENT)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(first.stdin.take())
}

/// All that a command has: nothing of ours.
fn environment(plan: &Plan) -> [(&'static str, &str); 5] {
    [
        ("HOME", &plan.home),
        ("LANG", "C.UTF-8"),
        ("PATH", super::PATH),
        ("PWD", &plan.files),
        ("TMPDIR", &plan.temporary),
    ]
}

/// Limits of each process, ours included. They are a second line behind [`Watch`].
fn limit(limits: &Limits, seconds: Option<u64>) -> rustix::io::Result<()> {
    set_limit(Resource::Core, 0)?;
    if let Some(seconds) = seconds {
        set_limit(Resource::Cpu, seconds)?;
    }
    set_limit(Resource::As, limits.address_bytes)?;
    set_limit(Resource::Fsize, limits.file_bytes)?;
    set_limit(Resource::Nofile, limits.open_files)?;
    set_limit(Resource::Msgqueue, 0)?;
    set_limit(Resource::Sigpending, SIGNALS_MAX)?;
    // The kernel counts all processes of a user, and a desktop has thousands.
    set_limit(Resource::Nproc, watch::tasks_of_machine().saturating_add(TASKS_BESIDE))
}

fn set_limit(resource: Resource, value: u64) -> rustix::io::Result<()> {
    // Nobody but root may raise one.
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let value = Some(value.min(most));
    setrlimit(resource, Rlimit { current: value, maximum: value })
}

/// Waits for the first of the ends a command can have.
fn attend(command: Pid, control: &UnixStream, deadline: Instant, watch: &mut Watch) -> Report {
    let ended = pidfd_open(command, PidfdFlags::empty());
    loop {
        if let Some(status) = reap(command) {
            return report_of(status);
        }
        let now = Instant::now();
        if now >= deadline {
            return Report::Stopped(Stop::Deadline);
        }
        if let Some(stop) = watch.look() {
            return Report::Stopped(stop);
        }
        let until = watch.due().min(deadline).saturating_duration_since(Instant::now());
        let hung_up = wait_for(control.as_fd(), ended.as_ref().ok(), Some(until));
        if hung_up {
            return Report::Stopped(Stop::Cancelled);
        }
    }
}

/// Waits until one of the two can be read, or the time is over. The answer: the first can.
pub(super) fn wait_for(first: BorrowedFd<'_>, second: Option<&OwnedFd>, until: Option<Duration>) -> bool {
    let mut files = vec![PollFd::from_borrowed_fd(first, PollFlags::IN | PollFlags::RDHUP)];
    files.extend(second.map(|second| PollFd::new(second, PollFlags::IN)));
    // Rounded up, so that what is waited for is due.
    let until = until.map(|until| Timespec::try_from(until + Duration::from_millis(1)).unwrap_or_default());
    match poll(&mut files, until.as_ref()) {
        Ok(_) => !files[0].revents().is_empty(),
        Err(_) => false,
    }
}

/// Takes leave of all that have ended. The answer is about one of them.
pub(super) fn reap(of: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((ended, status))) = wait(WaitOptions::NOHANG) {
        if ended == of {
            found = Some(status);
        }
    }
    found
}

fn report_of(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited(code),
        (None, Some(signal)) => Report::Signalled(signal),
        (None, None) => Report::Stopped(Stop::Blind),
    }
}

/// Kills the whole group but us, and waits until nobody is left.
///
/// We leave the group just before, for the group of our parent, so that one call kills all others, however quickly they multiply. When the parent is
/// gone there may be no such group: then they are killed one by one, and if that does not end, we die with them.
pub(super) fn end_group() {
    let group = getpid();
    let elsewhere = getppid().and_then(watch::group_of).filter(|elsewhere| *elsewhere != group);
    let has_left = elsewhere.is_some_and(|elsewhere| setpgid(None, Some(elsewhere)).is_ok());
    if has_left {
        // It fails when the group is empty, which is what we want.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let began = Instant::now();
    let mut stragglers_due = if has_left { began + STRAGGLERS_EVERY } else { began };
    // Every process of the group is our child, or becomes it when its own parent is gone.
    while began.elapsed() < GONE_WITHIN {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            Ok(None) => {}
            Err(_) => return,
        }
        if Instant::now() >= stragglers_due {
            // Those that left the group, too: a supervised program may.
            for process in watch::children_and_group_of(group) {
                let _ = kill_process(process, Signal::KILL);
            }
            stragglers_due = Instant::now() + STRAGGLERS_EVERY;
        }
        std::thread::sleep(GONE_EVERY);
    }
    let _ = kill_process_group(group, Signal::KILL);
}

/// Runs a program that keeps its rights, in a group that ends with it or with the parent.
fn supervise(parent: Pid, argv: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = argv.split_first() else { return usage() };
    let Some(watched) = hold_on_to(parent) else { return ExitCode::from(USAGE) };
    let _ = set_child_subreaper(Some(getpid()));
    let _ = set_limit(Resource::Core, 0);
    let command = match Command::new(program).args(arguments).spawn() {
        Ok(child) => Pid::from_child(&child),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{}: {error}", program.to_string_lossy());
            return ExitCode::from(NOT_FOUND);
        }
    };
    let ended = pidfd_open(command, PidfdFlags::empty()).ok();
    loop {
        if let Some(status) = reap(command) {
            end_group();
            return code_of(status);
        }
        if wait_for(watched.as_fd(), ended.as_ref(), Some(Duration::from_secs(60))) {
            end_group();
            return ExitCode::from(USAGE);
        }
    }
}

/// Makes this process the leader of a group, and holds on to its parent; nothing, if that has died before.
pub(super) fn hold_on_to(parent: Pid) -> Option<OwnedFd> {
    let ours = getpgrp() == getpid() || setpgid(None, None).is_ok();
    pidfd_open(parent, PidfdFlags::empty()).ok().filter(|_| ours && getppid() == Some(parent))
}

/// A status as a shell says it.
pub(super) fn code_of(status: WaitStatus) -> ExitCode {
    let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

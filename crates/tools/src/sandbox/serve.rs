//! `weir sandbox-exec --supervise … --confined`: a program that speaks over the streams of this process, for as long as both want, confined as its
//! profile says.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, getpgrp, pidfd_open};

use super::control_group::ControlGroup;
use super::mounts;
use super::own;
use super::plan::{Report, ServerPlan, Stop};
use super::room::{self, Room};
use super::supervisor::{
    NOT_FOUND, Start, Started, USAGE, close_inherited, code_of, end_group, hold_on_to, reap, usage, wait_for,
};
use super::walls::{Files, Walls};
use super::watch::{Pace, Watch};

/// Variables that lead to files of the user, who has other ones.
const OF_THE_USER: &[&str] =
    &["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];

/// A place to write, and the directory that it is in.
struct Place {
    room: Room,
    rooms: File,
}

impl Place {
    fn make(plan: &ServerPlan) -> std::io::Result<Self> {
        room::sweep(&plan.rooms);
        Ok(Self { room: Room::make(&plan.rooms)?, rooms: File::open(&plan.rooms)? })
    }
}

/// Runs a program until it or the parent ends, or it takes too much.
pub(super) fn run(parent: Pid, plan: &ServerPlan, argv: &[OsString]) -> ExitCode {
    let words: Option<Vec<String>> = argv.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words.filter(|words| !words.is_empty()) else { return usage() };
    if let Err(error) = close_inherited() {
        return refuse(&format!("it cannot be looked after without /proc ({error})"), USAGE);
    }
    let Some(parent) = hold_on_to(parent) else { return ExitCode::from(USAGE) };
    let place = match plan.profile.confines_files().then(|| Place::make(plan)).transpose() {
        Ok(place) => place,
        Err(error) => {
            let message = format!(
                "no directory can be made for it in `{}`: {error}; set TMPDIR to another one",
                plan.rooms.display()
            );
            return refuse(&message, USAGE);
        }
    };
    let code = serve(&parent, plan, &words, place.as_ref());
    if let Some(Place { room, rooms }) = place {
        room.remove_through(&rooms);
    }
    code
}

fn serve(parent: &OwnedFd, plan: &ServerPlan, argv: &[String], place: Option<&Place>) -> ExitCode {
    let walls = walls(plan, argv, place);
    // Before anything becomes read-only.
    let control_group = ControlGroup::make(&plan.limits);
    let start = Start {
        walls: Some(&walls),
        limits: &plan.limits,
        seconds: None,
        control_group: control_group.as_ref(),
    };
    let code = match start.start(|| Some(command(argv, place))) {
        Ok(Started::Command(command, _ends_when_closed)) => {
            let room = place.map(|place| place.room.path());
            let mut watch = Watch::new(getpgrp(), room, plan.limits, Pace::OfServer);
            let code = attend(command, parent, &mut watch);
            end_group();
            code
        }
        Ok(Started::Nothing(_)) => ExitCode::from(USAGE),
        Err(report) => {
            end_group();
            not_started(report, plan)
        }
    };
    control_group.into_iter().for_each(ControlGroup::remove);
    mounts::leave(&walls);
    code
}

/// What the profile leaves open.
fn walls(plan: &ServerPlan, argv: &[String], place: Option<&Place>) -> Walls {
    let files = place.map(|Place { room, .. }| {
        let mut files = Files {
            writable: vec![room.files(), room.home(), room.temporary(), room.shared()],
            shared: room.shared(),
            hidden: plan.hidden.clone(),
            ..Files::default()
        };
        let project = std::env::current_dir().unwrap_or_default();
        let search = std::env::var("PATH").unwrap_or_default();
        own::add(&mut files, argv, &project, &search);
        files
    });
    Walls { files, network: !plan.profile.closes_network() }
}

/// The program, with the variables of this process. Its home is its own, if files are confined.
fn command(argv: &[String], place: Option<&Place>) -> Command {
    let mut command = Command::new(argv.first().map_or("", String::as_str));
    command.args(argv.iter().skip(1));
    if let Some(Place { room, .. }) = place {
        OF_THE_USER.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env("HOME", room.home());
        ["TMPDIR", "TMP", "TEMP"].iter().for_each(|name| {
            command.env(name, room.temporary());
        });
    }
    command
}

/// Waits for the first of the ends that a server can have.
fn attend(command: Pid, parent: &OwnedFd, watch: &mut Watch) -> ExitCode {
    let ended = pidfd_open(command, PidfdFlags::empty()).ok();
    loop {
        if let Some(status) = reap(command) {
            return code_of(status);
        }
        if let Some(stop) = watch.look() {
            return refuse(&format!("it was killed, with all that it had started: {}", why(stop)), 1);
        }
        let until = watch.due().saturating_duration_since(Instant::now());
        if wait_for(parent.as_fd(), ended.as_ref(), Some(until)) {
            return ExitCode::from(USAGE);
        }
    }
}

fn why(stop: Stop) -> &'static str {
    match stop {
        Stop::Tasks => "it had too many processes at once",
        Stop::Memory | Stop::MemoryLow => "it took too much memory",
        Stop::OpenFiles => "its processes had too many open files, counted together",
        Stop::Disk | Stop::DiskFull => "it wrote too much to its temporary directories",
        Stop::Deadline | Stop::Output | Stop::Cancelled | Stop::Blind => "it could not be watched any longer",
    }
}

fn not_started(report: Report, plan: &ServerPlan) -> ExitCode {
    match report {
        Report::Unconfined(what) => {
            let message = format!(
                "this machine cannot do what `sandbox: {}` asks for: {what}; use Linux 6.2 or newer with Landlock among its `lsm=` modules, or \
                 write `sandbox: off`, which gives the program all rights of this user",
                plan.profile.as_str()
            );
            refuse(&message, USAGE)
        }
        Report::NotStarted(why) => refuse(&format!("it cannot be started: {why}"), NOT_FOUND),
        Report::Exited(_) | Report::Signalled(_) | Report::Stopped(_) | Report::Able(_) => {
            ExitCode::from(USAGE)
        }
    }
}

/// Says on the standard error of the program, whose end is shown, what became of it.
fn refuse(message: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "weir: {message}");
    ExitCode::from(code)
}

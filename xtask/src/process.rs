//! Runs other programs, with a limit to how long they may take.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly(String),
    /// It was ended, after this long.
    Overran(Duration),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well => f.write_str("ok"),
            Self::Badly(how) => write!(f, "failed ({how})"),
            Self::Overran(cap) => write!(f, "ended: not done after its cap of {} s", cap.as_secs()),
        }
    }
}

/// The cargo that runs us, or the one on the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The line a person would type for `command`.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(|argument| format!(" {}", argument.to_string_lossy()));
    program.into_owned() + &arguments.collect::<String>()
}

/// Runs `command` to its end or to `cap`, whichever comes first.
pub(crate) fn run(command: &mut Command, cap: Duration) -> Outcome<Ended> {
    let started = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).spawn().map_err(|e| format!("cannot run `{}`: {e}", shown(command)))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ended(status));
        }
        if started.elapsed() >= cap {
            end_with_descendants(&mut child)?;
            return Ok(Ended::Overran(cap));
        }
        std::thread::sleep(Duration::from_millis(50).min(cap));
    }
}

fn ended(status: ExitStatus) -> Ended {
    if status.success() { Ended::Well } else { Ended::Badly(status.to_string()) }
}

/// Cargo is the parent of compilers and tests, which would live on without it. They stay in our process group, so that
/// the terminal's Ctrl-C reaches them; hence they are looked up one by one.
fn end_with_descendants(child: &mut Child) -> Outcome {
    let mut family = vec![child.id()];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(children(parent));
        next += 1;
    }
    for pid in family {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended by itself in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    child.wait()?;
    Ok(())
}

/// Processes started by any thread of `parent`; none on a system that does not tell.
fn children(parent: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// The first line `program --version` prints, if there is such a program.
pub(crate) fn version(program: &Path) -> Option<String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.lines().next().map(str::to_owned)
}

/// Where builds go.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn the_way_a_program_ends_is_told() {
        assert_eq!(run(&mut shell("exit 0"), SOON).unwrap(), Ended::Well);
        assert_eq!(run(&mut shell("exit 3"), SOON).unwrap(), Ended::Badly("exit status: 3".into()));
        assert!(run(&mut Command::new("no-such-program-anywhere"), SOON).is_err());
    }

    #[test]
    fn a_program_that_overruns_is_ended_with_its_children() {
        let cap = Duration::from_millis(300);
        // The child's output is a pipe held by its own child as well: reading it to its end proves both are gone.
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = shell("sleep 600 & wait");
        command.stdout(writer);
        assert_eq!(run(&mut command, cap).unwrap(), Ended::Overran(cap));
        drop(command);
        assert_eq!(std::io::copy(&mut reader, &mut std::io::sink()).unwrap(), 0);
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["fmt", "--all"]);
        assert_eq!(shown(&command), "cargo fmt --all");
    }
}

//! A `weir` that runs while the test does something else. Nothing here sleeps to be on time: what is awaited is looked
//! for until it is there.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::weir::Ran;

/// Longer than any healthy machine needs; only a hang is cut off.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A running `weir` whose lines are awaited, not slept for.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    stderr: JoinHandle<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut pipe = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        });
        Self { child, lines: receiver, stderr }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line it prints.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line in time")
    }

    /// Ctrl-C, and what it comes to.
    pub(crate) fn interrupt(self) -> Ran {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.wait(DEADLINE)
    }

    /// `kill -9`, and what it had said.
    pub(crate) fn kill(mut self) -> Ran {
        self.child.kill().unwrap();
        self.wait(DEADLINE)
    }

    /// Waits for its end; one that takes too long is killed.
    pub(crate) fn wait(mut self, deadline: Duration) -> Ran {
        let until = Instant::now() + deadline;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = self.child.kill();
                    panic!("still running after {deadline:?}");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let stdout: String = self.lines.iter().map(|line| line + "\n").collect();
        Ran { code: status.code().unwrap_or(-1), stdout, stderr: self.stderr.join().unwrap() }
    }
}

/// Looks until there is something to see.
pub(crate) fn eventually<T>(look: impl Fn() -> Option<T>) -> T {
    eventually_or(look, || "nothing to see".to_owned())
}

/// Looks until there is something to see, or tells what was looked for.
pub(crate) fn eventually_or<T>(look: impl Fn() -> Option<T>, missing: impl FnOnce() -> String) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        if Instant::now() > until {
            panic!("not in time: {}", missing());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! A test that needs other processes starts this binary again with its own name, and finds a role there.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::DataDir;

const DIRECTORY: &str = "WEIR_SQLITE_TEST_CHILD";
const NUMBER: &str = "WEIR_SQLITE_TEST_CHILD_NUMBER";

/// Marks the lines that a child says, among those that the test harness prints.
const MARK: &str = "> ";

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

/// Longest silence of a child that is not stuck.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// What this process is to do for the test that started it.
pub(crate) struct Role {
    pub(crate) dir: DataDir,
    /// Tells the children of a test apart.
    pub(crate) number: u64,
}

/// The role of this process; `None` in the test itself.
pub(crate) fn role() -> Option<Role> {
    let directory = std::env::var_os(DIRECTORY)?;
    let number = std::env::var(NUMBER).unwrap().parse().unwrap();
    // The harness may have begun a line of its own.
    println!();
    Some(Role { dir: DataDir::at(directory.as_ref()), number })
}

/// Tells the test something, in one write: whoever is killed has said a line or has not.
pub(crate) fn say(lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{MARK}{line}\n")).collect();
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).unwrap();
    stdout.flush().unwrap();
}

/// Waits until the test says [`Child::go`].
pub(crate) fn wait_for_go() {
    say(&["ready".to_owned()]);
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Another process, seen from the test. It is killed when it is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
}

impl Child {
    /// Starts this binary again, as a child of the test with this full name.
    pub(crate) fn start(test: &str, dir: &DataDir, number: u64) -> Self {
        let command = Command::new(std::env::current_exe().unwrap());
        Self::spawn(command, test, dir, number)
    }

    /// Starts a child that may not do everything: as another user, if this one is root. The child, too, must be allowed
    /// to enter `dir`.
    pub(crate) fn start_unprivileged(test: &str, dir: &DataDir) -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::start(test, dir, 0);
        }
        // Where this binary is, nobody else may be allowed to go.
        let binary = dir.root.join("it");
        std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        let mut command = Command::new(binary);
        command.uid(NOBODY).gid(NOBODY).current_dir(&dir.root);
        Self::spawn(command, test, dir, 0)
    }

    fn spawn(mut command: Command, test: &str, dir: &DataDir, number: u64) -> Self {
        let mut process = command
            .args(["--exact", test, "--nocapture"])
            .env(DIRECTORY, &dir.root)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                // A line without an end was cut by a kill: it was not said.
                if let Some(said) = line.strip_prefix(MARK).and_then(|line| line.strip_suffix('\n')) {
                    let _ = sender.send(said.to_owned());
                }
                line.clear();
            }
        });
        Self { process, lines }
    }

    /// Starts `count` children, numbered from 0, and lets them go when all of them are ready.
    pub(crate) fn start_together(test: &str, dir: &DataDir, count: u64) -> Vec<Self> {
        let mut children: Vec<Self> = (0..count).map(|number| Self::start(test, dir, number)).collect();
        for child in &mut children {
            assert_eq!(child.line().as_deref(), Some("ready"));
        }
        children.iter_mut().for_each(Self::go);
        children
    }

    /// The next line it says; `None` when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("a child process is stuck"),
        }
    }

    /// Ends its [`wait_for_go`].
    pub(crate) fn go(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// `kill -9`; returns what it had still said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        assert_eq!(status.code(), None, "it was to be killed, and had ended before");
        self.rest()
    }

    /// Waits for its end, which must be a success; returns what it had still said.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let lines = self.rest();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "a child process failed: {status}");
        lines
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

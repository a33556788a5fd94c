//! A test that needs a process of its own starts this binary again with its own name, and finds a role there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROLE: &str = "WEIR_BLOBS_TEST_CHILD";

/// The directory a child works in; `None` in the test itself.
pub(crate) fn role() -> Option<PathBuf> {
    std::env::var_os(ROLE).map(PathBuf::from)
}

/// This binary, running the test `name` as a child that works in `directory`.
pub(crate) fn command(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", name, "--nocapture"]).env(ROLE, directory);
    command
}

/// The child ran the test, and it passed.
pub(crate) fn check(output: &Output) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
}

//! `weir sandbox-exec`: how weir starts commands. Not for people, so it is not in the help.

use std::ffi::OsString;
use std::process::ExitCode;

/// Does what it was started for, if it was started for that. It comes before everything else: a command waits for it, and it must have no
/// thread yet.
pub(crate) fn run(args: &[OsString]) -> Option<ExitCode> {
    let [_, command, rest @ ..] = args else { return None };
    (command == weir_tools::SUBCOMMAND).then(|| weir_tools::sandbox_exec(rest))
}

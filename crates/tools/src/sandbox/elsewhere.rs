//! Where there is no Linux, nothing is confined, and so nothing runs.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use super::plan::Report;

/// What `weir sandbox-exec` does: it refuses.
pub fn sandbox_exec(_arguments: &[OsString]) -> ExitCode {
    use std::os::fd::AsFd;
    let report = Report::Unconfined("only Linux has what it takes (Landlock and seccomp)".to_owned());
    let control = std::io::stdin().as_fd().try_clone_to_owned();
    if let (Ok(control), Ok(report)) = (control, serde_json::to_vec(&report)) {
        let _ = std::os::unix::net::UnixStream::from(control).write_all(&report);
    }
    ExitCode::from(2)
}

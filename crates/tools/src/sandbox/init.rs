//! The first process of a command's process namespace. When it ends, the kernel ends every other one in there; so it ends with the supervisor, whatever happened
//! to that. Until then it does what is a first process's: it waits for orphans.

use std::os::fd::AsFd;
use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitOptions, wait};

/// The argument that makes `weir sandbox-exec` be this.
pub(super) const ARGUMENT: &str = "--init";

/// Waits for orphans until standard input ends, which the supervisor holds.
pub(super) fn run() -> ExitCode {
    let children = SigSet::from(Signal::SIGCHLD);
    let blocked = children.thread_block();
    let Ok(ended) = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC) else {
        return ExitCode::FAILURE;
    };
    if blocked.is_err() {
        return ExitCode::FAILURE;
    }
    let supervisor = std::io::stdin();
    loop {
        while let Ok(Some(_)) = ended.read_signal() {}
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let mut files =
            [PollFd::from_borrowed_fd(supervisor.as_fd(), PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) if !files[0].revents().is_empty() => return ExitCode::SUCCESS,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

//! How a command ends. The only place that knows the exit codes.

use std::process::ExitCode;

use weir_types::Fault;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It ran, and failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A policy denied it.
    Denied = 3,
    /// A service cannot be reached.
    Unreachable = 4,
    /// It waits for an approval, a budget or a limit.
    Parked = 5,
    /// A bug of ours.
    Bug = 70,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Denied,
        Self::Unreachable,
        Self::Parked,
        Self::Bug,
        Self::Interrupted,
    ];

    fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "it ran and failed",
            Self::Usage => "wrong usage or configuration",
            Self::Denied => "denied by policy",
            Self::Unreachable => "a service cannot be reached",
            Self::Parked => "parked: waits for an approval, a budget or a limit",
            Self::Bug => "a bug in weir",
            Self::Interrupted => "interrupted",
        }
    }

    /// The codes as `weir --help` lists them.
    pub(crate) fn table() -> String {
        let lines = Self::ALL.map(|exit| format!("  {:>3}  {}", exit as u8, exit.meaning()));
        lines.join("\n")
    }
}

impl From<Fault> for Exit {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Input => Self::Usage,
            Fault::Denied => Self::Denied,
            Fault::Missing | Fault::Conflict | Fault::Storage | Fault::Damaged => Self::Failed,
            Fault::Unreachable => Self::Unreachable,
            Fault::Bug => Self::Bug,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_fault_it_is_decides_the_code() {
        let faults = [
            Fault::Input,
            Fault::Denied,
            Fault::Missing,
            Fault::Conflict,
            Fault::Storage,
            Fault::Unreachable,
            Fault::Damaged,
            Fault::Bug,
        ];
        assert_eq!(faults.map(|fault| Exit::from(fault) as u8), [2, 3, 1, 1, 1, 4, 1, 70]);
    }
}

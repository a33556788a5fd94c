//! Where a session is: its id and a branch of it.

use std::fmt;

use weir_types::{BranchId, BranchName, SessionId, StreamName};

/// What every session's stream is called before its id.
const PREFIX: &str = "session:";

/// A branch of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The session.
    pub session: SessionId,
    /// The branch.
    pub branch: BranchName,
}

impl Address {
    /// The main branch of a session.
    pub fn main(session: SessionId) -> Self {
        Self { session, branch: BranchName::main() }
    }

    /// The branch in the journal.
    pub fn branch_id(&self) -> BranchId {
        BranchId { stream: stream_of(self.session), branch: self.branch.clone() }
    }

    /// The session that a branch in the journal belongs to, if it does to one.
    pub fn of(branch: &BranchId) -> Option<Self> {
        let session = branch.stream.as_str().strip_prefix(PREFIX)?.parse().ok()?;
        Some(Self { session, branch: branch.branch.clone() })
    }
}

/// The stream of a session.
pub fn stream_of(session: SessionId) -> StreamName {
    #[expect(clippy::expect_used, reason = "a prefix and a ULID are a valid name")]
    format!("{PREFIX}{session}").parse().expect("a prefix and a ULID are a valid name")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.branch == BranchName::main() {
            write!(f, "{}", self.session)
        } else {
            write!(f, "{}@{}", self.session, self.branch)
        }
    }
}

//! What an agent remembers across sessions. The engine implements it on the journal.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use weir_types::Timestamp;

use crate::call::Trace;

/// The memory of the agent that makes a call, on behalf of the one it is made for: nobody else sees it.
pub trait Memory: Send + Sync {
    /// Keeps a note. It is there for later calls once its trace is journaled with the call's result.
    fn store(&self, note: Note) -> BoxFuture<'_, Result<Trace, MemoryError>>;

    /// All notes, the newest first; of those under one name, the newest.
    fn notes(&self) -> BoxFuture<'_, Result<Arc<[Remembered]>, MemoryError>>;

    /// How many notes there are that [`Memory::notes`] leaves out, because they are older than so many others.
    fn older(&self) -> BoxFuture<'_, Result<usize, MemoryError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Whether there is a note of that name, however old.
    fn knows<'a>(&'a self, doc: &'a str) -> BoxFuture<'a, Result<bool, MemoryError>> {
        Box::pin(async move { Ok(self.notes().await?.iter().any(|known| known.note.doc == doc)) })
    }
}

/// Something to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name it is kept under; the same name again replaces it.
    pub doc: String,
    /// What it is about.
    pub title: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What it says.
    pub text: String,
}

/// A note that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The note.
    pub note: Note,
    /// When.
    pub at: Timestamp,
}

/// Why memory does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory cannot be reached: {0}")]
pub struct MemoryError(pub String);

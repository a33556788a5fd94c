//! What went wrong on the wire, kept where the library above it cannot lose it.
//!
//! A transport that fails tells `rmcp` only that it closed. The reason is put here first, and whoever sees a failed
//! request looks here for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Error;

/// The first thing that went wrong on a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    error: Option<Error>,
    /// The first line that was no message. It was forgiven, but may explain what comes after it.
    noise: Option<String>,
}

impl Trouble {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the error, unless an earlier one is known: what follows is often only its consequence.
    pub(crate) fn keep(&self, error: Error) {
        self.known().error.get_or_insert(error);
    }

    /// Keeps a line that was no message.
    pub(crate) fn note(&self, line: String) {
        self.known().noise.get_or_insert(line);
    }

    /// What went wrong, if anything did.
    pub(crate) fn take(&self) -> Option<Error> {
        self.known().error.take()
    }

    /// The error, or what was heard instead of the answer it misses.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let noise = self.known().noise.take();
        match (error, noise) {
            (Error::Late { stderr, .. }, Some(line)) => Error::Nonsense { line, stderr },
            (Error::Ended { stderr, .. }, Some(line)) if stderr.is_empty() => {
                Error::Nonsense { line, stderr }
            }
            (error, _) => error,
        }
    }
}

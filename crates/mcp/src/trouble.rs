//! What went wrong on the wire, kept where the library above it cannot lose it.
//!
//! A transport that fails tells `rmcp` only that it closed. The reason is put here first, and whoever sees a failed
//! request looks here for it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// The first thing that went wrong on a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<Error>>>);

impl Trouble {
    /// Keeps the error, unless an earlier one is known: what follows is often only its consequence.
    pub(crate) fn keep(&self, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// What went wrong, if anything did.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

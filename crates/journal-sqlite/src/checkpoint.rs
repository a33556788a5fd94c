//! The checkpoint thread: copies the log into the file, on a connection of its own, off the commit path.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use crate::commit::Counters;
use crate::connection::{Location, Role};

/// Runs until the commit thread is gone. A checkpoint that fails loses nothing: the log keeps what it could not copy,
/// and the next one tries again.
pub(crate) fn run(location: &Location, wakes: &Receiver<()>, counters: &Arc<Counters>) {
    let mut connection = None;
    while wakes.recv().is_ok() {
        if connection.is_none() {
            connection = location.connect(Role::Checkpoint).ok();
        }
        if let Some(connection) = &connection {
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        }
    }
}

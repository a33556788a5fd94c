//! The checkpoint thread: copies the log into the file, on a connection of its own, off the commit path, and makes the
//! anchor durable from time to time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::anchor_file::AnchorFile;
use crate::commit::Counters;
use crate::connection::{Location, Role};

/// How long an anchor may wait for its sync. A power cut takes what was anchored since then.
const SYNC_INTERVAL: Duration = Duration::from_secs(2);

/// Why the thread is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The log is long.
    Checkpoint,
    /// The anchor has changed.
    Anchor,
}

/// Runs until the commit thread is gone. A checkpoint that fails loses nothing: the log keeps what it could not copy,
/// and the next one tries again.
pub(crate) fn run(
    location: &Location,
    wakes: &Receiver<Wake>,
    counters: &Arc<Counters>,
    anchor: Option<&AnchorFile>,
) {
    let mut connection = None;
    let mut sync_at: Option<Instant> = None;
    loop {
        let wake = match sync_at {
            None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => wakes.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match wake {
            Ok(Wake::Checkpoint) => {
                if connection.is_none() {
                    connection = location.connect(Role::Checkpoint).ok();
                }
                if let Some(connection) = &connection {
                    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
                    counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(Wake::Anchor) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let Some(anchor) = anchor.filter(|anchor| anchor.is_dirty()) else { continue };
        let at = *sync_at.get_or_insert_with(|| Instant::now() + SYNC_INTERVAL);
        if Instant::now() >= at {
            anchor.sync();
            sync_at = None;
        }
    }
    if let Some(anchor) = anchor {
        anchor.sync();
    }
}

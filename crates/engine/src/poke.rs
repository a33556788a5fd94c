//! Telling a session's task that its stream has grown.
//!
//! Most of what grows a stream comes from its own task, and comes back to it through the journal's followers. Only what
//! the task does not know yet is worth waking it, and a look at the journal.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use weir_types::Seq;

/// What a session's task has been told, and what it knows.
#[derive(Debug, Default)]
pub(crate) struct Poke {
    told: AtomicU64,
    known: AtomicU64,
    news: Notify,
}

impl Poke {
    /// Somebody has seen this event of the stream.
    pub(crate) fn tell(&self, seq: Seq) {
        self.told.fetch_max(seq.0, Ordering::SeqCst);
        if self.has_news() {
            self.news.notify_one();
        }
    }

    /// The task has folded everything up to this event.
    pub(crate) fn know(&self, seq: Seq) {
        self.known.store(seq.0, Ordering::SeqCst);
    }

    /// Waits until somebody tells something that the task does not know. Each thing told is waited for once.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the next one is told.
    pub(crate) async fn told(&self) {
        loop {
            self.news.notified().await;
            if self.has_news() {
                return;
            }
        }
    }

    /// Whether the task was told what it does not know.
    pub(crate) fn has_news(&self) -> bool {
        self.told.load(Ordering::SeqCst) > self.known.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn only_news_is_waited_for_and_each_piece_once() {
        let poke = Poke::default();
        let told = || poke.told().now_or_never().is_some();
        poke.know(Seq(3));
        poke.tell(Seq(3));
        assert!(!told(), "the task wrote it itself");
        poke.tell(Seq(4));
        assert!(told());
        assert!(!told(), "it has been told");
        poke.tell(Seq(2));
        assert!(told(), "4 is still unknown");
        poke.tell(Seq(4));
        poke.know(Seq(4));
        assert!(!told(), "known by the time it looks");
        poke.tell(Seq(5));
        assert!(told());
    }
}

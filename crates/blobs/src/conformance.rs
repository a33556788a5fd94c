//! What every store must do, as tests. [`conformance_tests!`](crate::conformance_tests) makes one of each case.

mod content;
mod sweeping;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, ReadBuf};
use weir_types::Hash;

use crate::Blobs;

pub use content::*;
pub use sweeping::*;

/// A store under test.
pub trait Fixture: Send + Sync + 'static {
    /// The store, empty at first.
    fn blobs(&self) -> Arc<dyn Blobs>;

    /// Makes a blob look as if it had been put `by` earlier.
    fn age(&self, hash: Hash, by: Duration) -> BoxFuture<'_, ()>;
}

/// Makes a module `$name` with one test per case of the suite, each with a fresh fixture from the expression `$make`.
#[macro_export]
macro_rules! conformance_tests {
    ($name:ident, $make:expr) => {
        $crate::conformance_tests! { @cases $name, $make,
            round_trips
            same_content_has_one_name
            concurrent_writers_of_the_same_content
            stat_agrees_with_put
            what_was_never_put_is_missing
            bytes_are_limited
            a_failing_source_stores_nothing
            a_slow_source_is_read_to_its_end
            a_sweep_keeps_what_is_live
            a_sweep_keeps_what_is_young
            a_sweep_removes_what_is_old_and_unreferenced
            a_dry_run_removes_nothing
            a_put_makes_an_old_blob_young
            doubt_keeps_a_blob
            a_blob_put_during_a_sweep_is_there_after_it
            a_lease_keeps_what_it_was_taken_for
            what_is_put_under_a_lease_outlives_every_sweep
        }
    };
    (@cases $name:ident, $make:expr, $($case:ident)*) => {
        mod $name {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::conformance::$case($make).await;
                }
            )*
        }
    };
}

/// Bytes that do not compress, the same for the same `seed`.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes()
    });
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(words.next().unwrap_or_default());
    }
    bytes.truncate(length);
    bytes
}

/// Hands out its content at most `step` bytes at a time, making the reader wait before each, and then ends as told.
pub struct SlowSource {
    content: Vec<u8>,
    sent: usize,
    step: usize,
    waited: bool,
    end: io::Result<()>,
}

impl SlowSource {
    /// Ends well.
    pub fn new(content: Vec<u8>, step: usize) -> Self {
        Self { content, sent: 0, step, waited: false, end: Ok(()) }
    }

    /// Breaks off with an error.
    #[must_use]
    pub fn failing(self) -> Self {
        Self { end: Err(io::Error::other("the pipe broke")), ..self }
    }
}

impl AsyncRead for SlowSource {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.waited = !self.waited;
        if self.waited {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rest = &self.content[self.sent..];
        if rest.is_empty() {
            return Poll::Ready(std::mem::replace(&mut self.end, Ok(())));
        }
        let length = rest.len().min(self.step).min(into.remaining());
        into.put_slice(&rest[..length]);
        self.sent += length;
        Poll::Ready(Ok(()))
    }
}

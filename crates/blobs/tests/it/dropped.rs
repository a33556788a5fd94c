//! A put that is dropped, at any moment, stores nothing or everything, and leaves no temporary file.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tempfile::TempDir;
use weir_blobs::conformance::{SlowSource, noise};
use weir_blobs::{Blobs, DirBlobs};
use weir_types::Hash;

/// Polls a future that many times, then gives it up.
struct GiveUp<F> {
    future: F,
    polls_left: usize,
}

impl<F: Future + Unpin> Future for GiveUp<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls_left == 0 {
            return Poll::Ready(None);
        }
        self.polls_left -= 1;
        let polled = Pin::new(&mut self.future).poll(context);
        match polled {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls_left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn files_in(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn at_every_poll() {
    let content = noise(1, 700_000);
    let hash = Hash::of(&content);
    let (mut dropped, mut stored) = (0, 0);
    for polls in 0.. {
        let root = TempDir::new().expect("a directory");
        let blobs = DirBlobs::open(root.path().to_owned()).expect("a store");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let source = Box::new(SlowSource::new(content.clone(), 200_000));
        let future = GiveUp { future: blobs.put(source), polls_left: polls };
        let finished = runtime.block_on(future);
        // This waits for what still runs on blocking threads, and drops what has not started.
        drop(runtime);

        assert_eq!(files_in(&root.path().join("tmp")), 0, "after {polls} polls");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let found = runtime.block_on(blobs.stat(hash)).expect("nothing or a whole blob");
        match finished {
            Some(put) => {
                assert_eq!(found, Some(put.expect("stored")));
                break;
            }
            None => dropped += 1,
        }
        stored += usize::from(found.is_some());
    }
    // It really was dropped in every phase: while reading, while writing, and once it could no longer be stopped.
    assert!(dropped > 8, "dropped {dropped} times");
    assert!(stored <= 2, "stored {stored} times");
}

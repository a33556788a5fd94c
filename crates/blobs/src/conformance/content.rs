//! Content goes in and comes out again.
#![expect(clippy::expect_used, reason = "a suite of tests: a broken promise is a panic")]

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use weir_types::Hash;

use super::{Fixture, SlowSource, noise};
use crate::{CHUNK_BYTES, GetError, PutError, Stored};

const MIB: usize = 1024 * 1024;

/// Content of every awkward length, compressible or not, comes back as it was.
pub async fn round_trips(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    let lengths = [
        0,
        1,
        CHUNK_BYTES - 1,
        CHUNK_BYTES,
        CHUNK_BYTES + 1,
        2 * CHUNK_BYTES,
        MIB - 1,
        MIB,
        MIB + 1,
        5 * MIB,
        20 * CHUNK_BYTES + 7,
    ];
    for length in lengths {
        for content in [noise(length as u64, length), b"low dam\n".repeat(length / 8 + 1)[..length].to_vec()]
        {
            let content = Bytes::from(content);
            let stored = blobs.put_bytes(content.clone()).await.expect("stored");
            assert_eq!((stored.hash, stored.bytes), (Hash::of(&content), length as u64));
            let read = blobs.get_bytes(stored.hash, length as u64).await.expect("read");
            assert!(read == content, "content of {length} bytes came back as {} others", read.len());
        }
    }
}

/// Putting content again changes nothing about it.
pub async fn same_content_has_one_name(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    let first = blobs.put_bytes("once".into()).await.expect("stored");
    let again = blobs.put_bytes("once".into()).await.expect("stored");
    let other = blobs.put_bytes("twice".into()).await.expect("stored");
    assert_eq!(first, again);
    assert_ne!(first.hash, other.hash);
    assert_eq!(blobs.get_bytes(first.hash, 100).await.expect("read"), "once");
}

/// Sixteen writers of one content, and readers between them, do not disturb one another.
pub async fn concurrent_writers_of_the_same_content(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    let content = Bytes::from(noise(16, 3 * MIB));
    let mut writers = JoinSet::new();
    for _ in 0..16 {
        let (blobs, content) = (Arc::clone(&blobs), content.clone());
        writers.spawn(async move {
            let stored = blobs.put_bytes(content.clone()).await.expect("stored");
            let read = blobs.get_bytes(stored.hash, u64::MAX).await.expect("read");
            assert!(read == content, "a writer read something else");
            stored
        });
    }
    let stored = writers.join_all().await;
    let expected = blobs.stat(Hash::of(&content)).await.expect("sizes").expect("there");
    assert_eq!(stored, vec![expected; 16]);
}

/// `stat` says what `put` said.
pub async fn stat_agrees_with_put(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    for length in [0, 1, 100_000, 2 * MIB] {
        let stored = blobs.put_bytes(vec![b'a'; length].into()).await.expect("stored");
        assert_eq!(stored.bytes, length as u64);
        assert_eq!(blobs.stat(stored.hash).await.expect("sizes"), Some(stored));
    }
}

/// A name without content is an error when read, and nothing when asked for.
pub async fn what_was_never_put_is_missing(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    let hash = Hash::of(b"never put");
    assert_eq!(blobs.stat(hash).await.expect("an answer"), None);
    match blobs.get(hash).await.map(|_| ()) {
        Err(GetError::Missing(missing)) => assert_eq!(missing, hash),
        other => panic!("expected a missing blob, got {other:?}"),
    }
}

/// `get_bytes` takes what fits, and refuses one byte more.
pub async fn bytes_are_limited(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    for length in [1, 1000, 3 * MIB] {
        let content = Bytes::from(noise(7, length));
        let Stored { hash, bytes, .. } = blobs.put_bytes(content.clone()).await.expect("stored");
        assert!(blobs.get_bytes(hash, bytes).await.expect("read") == content);
        match blobs.get_bytes(hash, bytes - 1).await {
            Err(GetError::TooLarge { hash: refused, bytes_max }) => {
                assert_eq!((refused, bytes_max), (hash, bytes - 1));
            }
            other => panic!("expected a refusal, got {:?}", other.map(|read| read.len())),
        }
    }
}

/// Content that breaks off is not stored, and neither is the part that came.
pub async fn a_failing_source_stores_nothing(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    for length in [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1] {
        let content = noise(9, length);
        let hash = Hash::of(&content);
        let source = SlowSource::new(content, 100_000).failing();
        match blobs.put(Box::new(source)).await {
            Err(PutError::Source(error)) => assert_eq!(error.to_string(), "the pipe broke"),
            other => panic!("expected the source's error, got {other:?}"),
        }
        assert_eq!(blobs.stat(hash).await.expect("an answer"), None);
    }
}

/// Content that trickles in, and a reader that takes it in sips.
pub async fn a_slow_source_is_read_to_its_end(fixture: impl Fixture) {
    let blobs = fixture.blobs();
    let content = noise(11, MIB + 4321);
    let stored = blobs.put(Box::new(SlowSource::new(content.clone(), 4099))).await.expect("stored");
    assert_eq!((stored.hash, stored.bytes), (Hash::of(&content), content.len() as u64));

    let mut reader = blobs.get(stored.hash).await.expect("opened");
    let (mut read, mut sip) = (Vec::new(), [0; 4097]);
    loop {
        match reader.read(&mut sip).await.expect("read") {
            0 => break,
            length => read.extend_from_slice(&sip[..length]),
        }
    }
    assert!(read == content, "{} bytes came back", read.len());
    assert_eq!(reader.read(&mut sip).await.expect("read"), 0, "the end stays the end");
}

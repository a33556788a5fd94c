//! Any content, arriving in any pieces, comes back.

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;
use weir_blobs::conformance::{SlowSource, noise};
use weir_blobs::{Blobs, DirBlobs, MemoryBlobs};
use weir_types::Hash;

/// Pieces that compress well, badly or not at all, put together.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..200),
        (any::<u8>(), 0..600_000_usize).prop_map(|(byte, length)| vec![byte; length]),
        (any::<u64>(), 0..600_000_usize).prop_map(|(seed, length)| noise(seed, length)),
    ];
    vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trips(content in content(), step in 1..400_000_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let root = TempDir::new().expect("a directory");
        let dir = DirBlobs::open(root.path().to_owned()).expect("a store");
        let memory = MemoryBlobs::new();
        for blobs in [&dir as &dyn Blobs, &memory] {
            // At most about a thousand steps, so that long content does not arrive byte by byte.
            let source = SlowSource::new(content.clone(), step.max(1 + content.len() / 1_000));
            let stored = runtime.block_on(blobs.put(Box::new(source))).expect("stored");
            prop_assert_eq!((stored.hash, stored.bytes), (Hash::of(&content), content.len() as u64));
            prop_assert_eq!(runtime.block_on(blobs.stat(stored.hash)).expect("sizes"), Some(stored));
            let read = runtime.block_on(blobs.get_bytes(stored.hash, stored.bytes)).expect("read");
            prop_assert!(read == content);
        }
        let file = std::fs::read(dir.path(Hash::of(&content))).expect("a file");
        prop_assert!(zstd::decode_all(&file[..]).expect("zstd") == content, "zstd reads something else");
    }
}

//! Memory does not follow the size of the content, not even of content that was forged.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use weir_blobs::conformance::noise;
use weir_blobs::{Blobs, DirBlobs, GetError};
use weir_types::{Hash, Hasher};

use crate::child;

const MIB: usize = 1024 * 1024;
const CONTENT_BYTES: usize = 256 * MIB;

/// Generous: what is needed is a few buffers and two windows of at most 8 MiB.
const MEMORY_MAX: usize = 64 * MIB;

/// The same noise over and over, with a period beyond the window of the compressor.
struct Endless {
    block: Vec<u8>,
    sent: usize,
}

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.block[self.sent % self.block.len()..];
        let length = rest.len().min(into.remaining());
        into.put_slice(&rest[..length]);
        self.sent += length;
        Poll::Ready(Ok(()))
    }
}

/// The most memory this process ever had.
fn memory_peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// Runs `work` in a child and there looks at the memory it took; `prepare` runs here.
fn run(name: &str, prepare: impl FnOnce(&Path), work: impl AsyncFnOnce(&Path)) {
    if let Some(directory) = child::role() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(work(&directory));
        let peak = memory_peak();
        assert!(peak < MEMORY_MAX, "{name} took {} MiB", peak / MIB);
        return;
    }
    let root = TempDir::new().expect("a directory");
    prepare(root.path());
    child::check(&child::command(name, root.path()).output().expect("a child"));
}

#[test]
fn streaming_content_in_and_out() {
    run(
        "constant_memory::streaming_content_in_and_out",
        |_| {},
        async |root| {
            let blobs = DirBlobs::open(root.to_owned()).expect("a store");
            let source = Endless { block: noise(1, 3 * MIB), sent: 0 }.take(CONTENT_BYTES as u64);
            let stored = blobs.put(Box::new(source)).await.expect("stored");
            assert_eq!(stored.bytes, CONTENT_BYTES as u64);
            assert!(stored.stored_bytes > stored.bytes, "the noise was compressed, so this shows nothing");

            let mut reader = blobs.get(stored.hash).await.expect("opened");
            let mut hasher = Hasher::default();
            let mut buffer = vec![0; 100_000];
            loop {
                match reader.read(&mut buffer).await.expect("read") {
                    0 => break,
                    length => hasher.update(&buffer[..length]),
                }
            }
            assert_eq!(hasher.finish(), stored.hash);
        },
    );
}

/// A file that claims to be the blob `name` with `bytes` of content, and is not found out by its trailer.
fn forge(blobs: &DirBlobs, name: Hash, bytes: u64, frame: &[u8]) {
    let start = |hash: Hash| hash.as_bytes()[..8].to_vec();
    let fields = [bytes.to_le_bytes().to_vec(), start(Hash::of(frame))].concat();
    let seal = start(Hash::of(&[name.as_bytes(), &fields[..]].concat()));
    let magic = 0x184D_2A50_u32.to_le_bytes();
    let file = [frame, &magic, &24_u32.to_le_bytes(), &fields, &seal].concat();
    fs::create_dir_all(blobs.path(name).parent().expect("a shard")).expect("a shard");
    fs::write(blobs.path(name), file).expect("forged");
}

/// A frame with nothing but zeros in it.
fn zeros(window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.window_log(window_log).expect("a window");
    let block = vec![0; MIB];
    (0..CONTENT_BYTES / MIB).for_each(|_| encoder.write_all(&block).expect("compressed"));
    encoder.finish().expect("a frame")
}

#[test]
fn a_bomb_in_the_place_of_a_blob() {
    let prepare = |root: &Path| {
        fs::write(root.join("bomb"), zeros(21)).expect("a bomb");
        fs::write(root.join("window"), zeros(27)).expect("a bomb");
    };
    run("constant_memory::a_bomb_in_the_place_of_a_blob", prepare, async |root| {
        let blobs = DirBlobs::open(root.join("blobs")).expect("a store");
        let name = Hash::of(b"what was stored");
        let explode = async |bytes: u64, bomb: &str| {
            forge(&blobs, name, bytes, &fs::read(root.join(bomb)).expect("a bomb"));
            match blobs.get(name).await.map(|_| ()).expect_err("a bomb") {
                GetError::Mismatch { hash, what } if hash == name => what,
                other => panic!("expected a mismatch, got {other:?}"),
            }
        };
        let whole = CONTENT_BYTES as u64;
        let hash = "a6d72ac7690f53be6ae46ba88506bd97302a093f7108472bd9efc3cefda06484";
        assert_eq!(explode(10, "bomb").await, "it has more than 10 bytes");
        assert_eq!(explode(whole, "bomb").await, format!("its hash is {hash}"));
        assert_eq!(explode(u64::MAX, "bomb").await, "it ends too early");
        assert_eq!(explode(whole, "window").await, "Frame requires too much memory for decoding");
    });
}

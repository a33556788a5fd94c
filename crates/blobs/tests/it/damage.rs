//! Damaged files end in an error, whatever is damaged, and a new put repairs them.

use std::fs;
use std::io::Write;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use weir_blobs::conformance::noise;
use weir_blobs::{Blobs, DirBlobs, GetError, Stored};
use weir_types::Hash;

const MIB: usize = 1024 * 1024;

/// One blob and the file it is in.
struct Victim {
    blobs: DirBlobs,
    content: Vec<u8>,
    stored: Stored,
    file: Vec<u8>,
    _root: TempDir,
}

impl Victim {
    async fn new(content: Vec<u8>) -> Self {
        let root = TempDir::new().expect("a directory");
        let blobs = DirBlobs::open(root.path().to_owned()).expect("a store");
        let stored = as_port(&blobs).put_bytes(content.clone().into()).await.expect("stored");
        let file = fs::read(blobs.path(stored.hash)).expect("a file");
        Self { blobs, content, stored, file, _root: root }
    }

    fn overwrite(&self, file: &[u8]) {
        fs::write(self.blobs.path(self.stored.hash), file).expect("damaged");
    }

    /// A file with this in it is found to be damaged before the first byte is handed out.
    async fn check(&self, file: &[u8], what: &str) {
        self.overwrite(file);
        match self.blobs.get(self.stored.hash).await.map(|_| ()) {
            Err(GetError::Mismatch { hash, .. }) => assert_eq!(hash, self.stored.hash),
            other => panic!("{what}: expected a mismatch, got {other:?}"),
        }
        match self.blobs.stat(self.stored.hash).await {
            Ok(Some(stored)) => assert_eq!(stored.bytes, self.stored.bytes, "{what}: a wrong length"),
            Err(GetError::Mismatch { hash, .. }) => assert_eq!(hash, self.stored.hash),
            other => panic!("{what}: expected sizes or a mismatch, got {other:?}"),
        }
    }

    async fn repair(&self) {
        let blobs = as_port(&self.blobs);
        assert_eq!(blobs.put_bytes(self.content.clone().into()).await.expect("stored"), self.stored);
        assert!(blobs.get_bytes(self.stored.hash, u64::MAX).await.expect("repaired") == self.content);
    }
}

fn as_port(blobs: &DirBlobs) -> &dyn Blobs {
    blobs
}

fn flipped(file: &[u8], at: usize, bits: u8) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at] ^= bits;
    file
}

#[tokio::test]
async fn every_bit_of_a_small_file_counts() {
    // Words and noise: literals, matches and a window, everything a frame can have.
    let content = [b"over the weir, under the weir, ".repeat(3), noise(1, 40)].concat();
    let victim = Victim::new(content).await;
    for at in 0..victim.file.len() {
        for bits in (0..8).map(|bit| 1 << bit).chain([0xFF]) {
            victim
                .check(&flipped(&victim.file, at, bits), &format!("byte {at} changed by {bits:#04x}"))
                .await;
        }
    }
    victim.repair().await;
}

#[tokio::test]
async fn a_small_file_cannot_be_cut_or_added_to() {
    let victim = Victim::new(b"a low dam at the outlet of a lake".to_vec()).await;
    for length in 0..victim.file.len() {
        victim.check(&victim.file[..length], &format!("cut to {length} bytes")).await;
        victim.check(&victim.file[length + 1..], &format!("without the first {} bytes", length + 1)).await;
    }
    let (frame, trailer) = victim.file.split_at(victim.file.len() - 32);
    let empty_frame = zstd::encode_all(&[][..], 3).expect("a frame");
    for extra in [&b"\0"[..], b"garbage", trailer, &victim.file, &empty_frame] {
        victim.check(&[&victim.file, extra].concat(), "bytes after the trailer").await;
        victim.check(&[frame, extra, trailer].concat(), "bytes before the trailer").await;
        victim.check(&[extra, &victim.file].concat(), "bytes before the frame").await;
    }
    victim.repair().await;
}

#[tokio::test]
async fn a_file_of_another_blob_is_damage() {
    let (victim, other) = (Victim::new(b"one".to_vec()).await, Victim::new(b"two".to_vec()).await);
    victim.check(&other.file, "the file of another blob").await;
    match victim.blobs.stat(victim.stored.hash).await {
        Err(GetError::Mismatch { .. }) => {}
        other => panic!("expected a mismatch, got {other:?}"),
    }
    victim.repair().await;
}

#[tokio::test]
async fn a_directory_in_the_place_of_a_file_is_damage() {
    let victim = Victim::new(b"one".to_vec()).await;
    let path = victim.blobs.path(victim.stored.hash);
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a directory");
    let expected = format!(
        "hash mismatch: the stored content of blob {} is damaged (it is not a file)",
        victim.stored.hash
    );
    let error = victim.blobs.get(victim.stored.hash).await.map(|_| ()).expect_err("no file");
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn damage_to_a_large_file_is_found_before_the_first_byte() {
    let content = [noise(2, 2 * MIB), vec![0; MIB], noise(3, MIB / 2 + 1)].concat();
    let victim = Victim::new(content).await;
    let length = victim.file.len();
    let places = (0..length).step_by(length / 24).chain(length - 34..length);
    for at in places {
        victim.check(&flipped(&victim.file, at, 0x10), &format!("byte {at}")).await;
        victim.check(&victim.file[..at], &format!("cut to {at} bytes")).await;
    }
    victim.repair().await;
}

#[tokio::test]
async fn a_file_that_changes_between_the_passes_hands_out_no_changed_byte() {
    let victim = Victim::new(noise(4, 3 * MIB)).await;
    for (at, name) in [(victim.file.len() - MIB, "inside"), (victim.file.len() - 40, "in the last chunk")] {
        let mut reader = victim.blobs.get(victim.stored.hash).await.expect("all is well");
        victim.overwrite(&flipped(&victim.file, at, 1));
        let mut read = Vec::new();
        let error = reader.read_to_end(&mut read).await.expect_err("the change");
        match GetError::from_reader(victim.stored.hash, error) {
            GetError::Mismatch { hash, .. } => assert_eq!(hash, victim.stored.hash),
            other => panic!("{name}: expected a mismatch, got {other:?}"),
        }
        assert!(!read.is_empty() && victim.content.starts_with(&read), "{name}: {} bytes", read.len());
        reader.read(&mut [0; 8]).await.expect_err("still an error, not the end");
        victim.repair().await;
    }
}

#[tokio::test]
async fn a_file_cut_between_the_passes_is_an_error() {
    let victim = Victim::new(noise(5, 3 * MIB)).await;
    let mut reader = victim.blobs.get(victim.stored.hash).await.expect("all is well");
    victim.overwrite(&victim.file[..MIB]);
    let mut read = Vec::new();
    let error = reader.read_to_end(&mut read).await.expect_err("the cut");
    let hash = victim.stored.hash;
    let expected = format!("hash mismatch: the stored content of blob {hash} is damaged (it ends too early)");
    assert_eq!(GetError::from_reader(hash, error).to_string(), expected);
    assert!(victim.content.starts_with(&read));
}

#[tokio::test]
async fn a_blob_removed_or_replaced_while_it_is_read_is_read_to_its_end() {
    let victim = Victim::new(noise(6, 3 * MIB)).await;
    let path = victim.blobs.path(victim.stored.hash);
    let mut reader = victim.blobs.get(victim.stored.hash).await.expect("all is well");
    fs::remove_file(&path).expect("removed");
    fs::File::create_new(&path).expect("a new file").write_all(b"other").expect("written");
    let mut read = Vec::new();
    reader.read_to_end(&mut read).await.expect("the file that was opened");
    assert_eq!(Hash::of(&read), victim.stored.hash);
}

//! A stored blob: one zstd frame with the content, then a trailer in a skippable frame.
//!
//! Any zstd tool can read such a file: `zstd -d < root/ab/cdef…` prints the content. The trailer is for us:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | magic number of a skippable frame, `0x184D2A50` little-endian |
//! | 4 | length of the rest, 24, little-endian |
//! | 8 | length of the content, little-endian |
//! | 8 | start of the SHA-256 of the zstd frame |
//! | 8 | seal: start of the SHA-256 of the blob's name and the two fields before |
//!
//! The content's own hash already rules out wrong bytes. The frame's digest finds the rest: a zstd frame has bits
//! that do not matter to the content, and damage is worth knowing about before it reaches one that does. The seal
//! lets `stat` trust the length without reading the content.

use weir_types::{Hash, Hasher};

/// Level of compression: the default of zstd, the last one that keeps up with a disk.
pub(super) const LEVEL: i32 = 3;

/// Window of what we write: 2 MiB, as level 3 would choose; fixed, so that memory does not follow the library's taste.
pub(super) const WINDOW_LOG: u32 = 21;

/// Largest window we read: 8 MiB, which RFC 8878 asks of every decoder. A forged file cannot make us take more.
pub(super) const WINDOW_LOG_MAX: u32 = 23;

/// What follows the zstd frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Length of the content.
    pub(super) bytes: u64,
    /// Start of the SHA-256 of the zstd frame.
    pub(super) frame: [u8; 8],
}

impl Trailer {
    pub(super) const BYTES: usize = 32;

    const MAGIC: u32 = 0x184D_2A50;

    pub(super) fn new(bytes: u64, frame: Hasher) -> Self {
        Self { bytes, frame: start(frame.finish()) }
    }

    pub(super) fn encode(self, name: Hash) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&Self::MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&(Self::BYTES as u32 - 8).to_le_bytes());
        out[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.frame);
        out[24..].copy_from_slice(&self.seal(name));
        out
    }

    /// The trailer of the blob `name`, if these bytes are one.
    pub(super) fn decode(name: Hash, from: &[u8; Self::BYTES]) -> Option<Self> {
        let [_, _, _, _, _, _, _, _, b0, b1, b2, b3, b4, b5, b6, b7, f0, f1, f2, f3, f4, f5, f6, f7, ..] =
            *from;
        let bytes = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        let trailer = Self { bytes, frame: [f0, f1, f2, f3, f4, f5, f6, f7] };
        // Encoding it again compares the magic number, the length and the seal in one go.
        (trailer.encode(name) == *from).then_some(trailer)
    }

    fn seal(self, name: Hash) -> [u8; 8] {
        let mut hasher = Hasher::default();
        hasher.update(name.as_bytes());
        hasher.update(&self.bytes.to_le_bytes());
        hasher.update(&self.frame);
        start(hasher.finish())
    }
}

/// The first eight bytes of a hash: enough to find damage, which is all they are for.
pub(super) fn start(hash: Hash) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    [a, b, c, d, e, f, g, h]
}

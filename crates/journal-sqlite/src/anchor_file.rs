//! `anchor`: which event was acknowledged last.
//!
//! A small file beside the journal, written after each commit is durable and before its callers are answered, so it is
//! never ahead of the journal. A write without a sync survives the death of the process; the checkpoint thread syncs it
//! from time to time. At the next opening, a journal without that event has lost its tail.
//!
//! Two slots of one sector each are written in turn, so that a torn write costs one slot. The newest valid slot counts.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_types::{BranchId, Hash};

use crate::private;

/// The file's name in the data directory.
pub(crate) const FILE: &str = "anchor";

/// One sector: disks write it whole or not at all.
const SLOT: usize = 512;
const BYTES: usize = 2 * SLOT;
const MAGIC: &[u8; 8] = b"WEIRANC1";
/// The magic and the checksum over what follows.
const PREFIX: usize = 40;
/// Position, seq, chain and the lengths of two names.
const FIXED: usize = 52;
/// Names are for people only: the chain proves the branch. A longer one is cut.
const NAME_MAX: usize = (SLOT - PREFIX - FIXED) / 2;

/// How often a process asks for the lock, which others hold for microseconds, before it leaves the anchor for its next commit.
const LOCK_TRIES: usize = 50;

/// The newest acknowledged event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnchorRecord {
    pub(crate) position: u64,
    pub(crate) seq: u64,
    pub(crate) chain: Hash,
    pub(crate) stream: String,
    pub(crate) branch: String,
}

impl AnchorRecord {
    pub(crate) fn new(position: u64, seq: u64, chain: Hash, id: &BranchId) -> Self {
        let (stream, branch) = (id.stream.as_str().to_owned(), id.branch.as_str().to_owned());
        Self { position, seq, chain, stream, branch }
    }

    fn encode(&self) -> [u8; SLOT] {
        let cut = |name: &str| name.as_bytes()[..name.floor_char_boundary(NAME_MAX)].to_vec();
        let (stream, branch) = (cut(&self.stream), cut(&self.branch));
        let mut body = Vec::with_capacity(SLOT - PREFIX);
        body.extend(self.position.to_le_bytes());
        body.extend(self.seq.to_le_bytes());
        body.extend(self.chain.as_bytes());
        // Names have at most 210 bytes here.
        body.extend((stream.len() as u16).to_le_bytes());
        body.extend((branch.len() as u16).to_le_bytes());
        body.extend(stream);
        body.extend(branch);
        let mut slot = [0; SLOT];
        slot[..8].copy_from_slice(MAGIC);
        slot[PREFIX..PREFIX + body.len()].copy_from_slice(&body);
        let sum = Hash::of(&slot[PREFIX..]);
        slot[8..PREFIX].copy_from_slice(sum.as_bytes());
        slot
    }

    fn decode(slot: &[u8]) -> Slot {
        if slot.iter().all(|byte| *byte == 0) {
            return Slot::Empty;
        }
        let valid = || {
            let sum = Hash::from_slice(slot.get(8..PREFIX)?)?;
            let body = slot.get(PREFIX..SLOT)?;
            (slot.starts_with(MAGIC) && Hash::of(body) == sum).then_some(())?;
            let number = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
            let length =
                |at: usize| Some(usize::from(u16::from_le_bytes([*body.get(at)?, *body.get(at + 1)?])));
            let (stream, branch) = (length(48)?, length(50)?);
            let name = |from: usize, length: usize| {
                Some(String::from_utf8_lossy(body.get(from..from + length)?).into_owned())
            };
            Some(Self {
                position: number(0)?,
                seq: number(8)?,
                chain: Hash::from_slice(body.get(16..48)?)?,
                stream: name(FIXED, stream)?,
                branch: name(FIXED + stream, branch)?,
            })
        };
        valid().map_or(Slot::Damaged, Slot::Record)
    }
}

/// What one half of the file holds.
#[derive(Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    Damaged,
    Record(AnchorRecord),
}

impl Slot {
    fn position(&self) -> u64 {
        match self {
            Self::Record(record) => record.position,
            Self::Empty | Self::Damaged => 0,
        }
    }
}

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AnchorState {
    /// No event has been anchored yet.
    Empty,
    /// The newest record.
    Anchored(AnchorRecord),
    /// Neither slot can be read.
    Damaged,
}

fn parse(bytes: &[u8]) -> [Slot; 2] {
    let slot = |at: usize| bytes.get(at..at + SLOT).map_or(Slot::Damaged, AnchorRecord::decode);
    [slot(0), slot(SLOT)]
}

/// Reads an anchor.
pub(crate) fn read(path: &Path) -> io::Result<AnchorState> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AnchorState::Empty),
        opened => opened?,
    };
    let mut bytes = Vec::with_capacity(BYTES);
    file.take(BYTES as u64).read_to_end(&mut bytes)?;
    // An empty file was made a moment ago, and not filled.
    Ok(if bytes.is_empty() { AnchorState::Empty } else { newest(parse(&bytes)) })
}

fn newest(slots: [Slot; 2]) -> AnchorState {
    let is_damaged = slots.contains(&Slot::Damaged);
    match slots.into_iter().max_by_key(Slot::position) {
        Some(Slot::Record(record)) => AnchorState::Anchored(record),
        _ if is_damaged => AnchorState::Damaged,
        _ => AnchorState::Empty,
    }
}

/// The open anchor of a journal; shared by the desk, which writes it, and the checkpoint thread, which syncs it.
#[derive(Clone, Debug)]
pub(crate) struct AnchorFile {
    file: Arc<File>,
    is_dirty: Arc<AtomicBool>,
}

/// Held while the file is read and written; others wait.
struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl AnchorFile {
    /// Opens or makes the file, with all the room that it will ever need: a full disk does not matter to it later.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = private::open_or_create(path)?;
        if file.metadata()?.len() == 0 {
            file.write_all_at(&[0; BYTES], 0)?;
        }
        Ok(Self { file: Arc::new(file), is_dirty: Arc::default() })
    }

    /// Names a newer event. Never goes back: another process may have named a still newer one. Returns whether the file
    /// has changed and was not waiting for its sync already.
    pub(crate) fn advance(&self, record: &AnchorRecord) -> io::Result<bool> {
        let Some(_locked) = self.lock()? else { return Ok(false) };
        let slots = self.slots()?;
        let known = slots.iter().map(Slot::position).max().unwrap_or_default();
        if known >= record.position {
            return Ok(false);
        }
        // The older one is given up; a damaged one is no loss at all.
        let older = usize::from(slots[1].position() < slots[0].position());
        self.file.write_all_at(&record.encode(), (older * SLOT) as u64)?;
        Ok(!self.is_dirty.swap(true, Ordering::Relaxed))
    }

    /// Names this event whatever was named before, if that is still `known`.
    pub(crate) fn reset(&self, known: &AnchorState, record: Option<&AnchorRecord>) -> io::Result<()> {
        let Some(_locked) = self.lock()? else { return Ok(()) };
        if newest(self.slots()?) != *known {
            return Ok(());
        }
        let mut bytes = [0; BYTES];
        if let Some(record) = record {
            bytes[..SLOT].copy_from_slice(&record.encode());
        }
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(BYTES as u64)?;
        self.file.sync_all()
    }

    /// Makes durable what was written.
    pub(crate) fn sync(&self) {
        if self.is_dirty.swap(false, Ordering::Relaxed) {
            // Best effort: without it, a power cut may take the newest anchors, and the journal does not depend on them.
            let _ = self.file.sync_data();
        }
    }

    /// Whether something waits for [`AnchorFile::sync`].
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Relaxed)
    }

    fn slots(&self) -> io::Result<[Slot; 2]> {
        let mut bytes = [0; BYTES];
        let mut filled = 0;
        while filled < BYTES {
            match self.file.read_at(&mut bytes[filled..], filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(parse(&bytes[..filled]))
    }

    /// The lock, unless another process holds it for unusually long: one that was stopped in the middle must not stop
    /// everybody's appends.
    fn lock(&self) -> io::Result<Option<Locked<'_>>> {
        for _ in 0..LOCK_TRIES {
            match self.file.try_lock() {
                Ok(()) => return Ok(Some(Locked(&self.file))),
                Err(std::fs::TryLockError::WouldBlock) => {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(position: u64) -> AnchorRecord {
        let id = BranchId::main("notes".parse().unwrap());
        AnchorRecord::new(position, position, Hash::of(&position.to_le_bytes()), &id)
    }

    fn anchor() -> (tempfile::TempDir, std::path::PathBuf, AnchorFile) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let anchor = AnchorFile::open(&path).unwrap();
        (directory, path, anchor)
    }

    #[test]
    fn the_newest_record_counts_and_it_never_goes_back() {
        let (_directory, path, anchor) = anchor();
        assert_eq!(read(&path).unwrap(), AnchorState::Empty);
        for (position, expected) in [(5, 5), (7, 7), (6, 7), (8, 8), (8, 8), (1, 8)] {
            anchor.advance(&record(position)).unwrap();
            assert_eq!(read(&path).unwrap(), AnchorState::Anchored(record(expected)));
        }
        anchor.reset(&AnchorState::Anchored(record(8)), Some(&record(3))).unwrap();
        assert_eq!(read(&path).unwrap(), AnchorState::Anchored(record(3)));
        // What was known has changed meanwhile: another process has done it.
        anchor.reset(&AnchorState::Anchored(record(8)), None).unwrap();
        assert_eq!(read(&path).unwrap(), AnchorState::Anchored(record(3)));
    }

    #[test]
    fn a_torn_write_costs_one_slot_and_two_damaged_slots_are_damage() {
        let (_directory, path, anchor) = anchor();
        anchor.advance(&record(1)).unwrap();
        anchor.advance(&record(2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut torn = whole.clone();
        torn[SLOT + 100] ^= 1;
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(read(&path).unwrap(), AnchorState::Anchored(record(1)));
        anchor.advance(&record(3)).unwrap();
        assert_eq!(read(&path).unwrap(), AnchorState::Anchored(record(3)));
        torn[100] ^= 1;
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(read(&path).unwrap(), AnchorState::Damaged);
        std::fs::write(&path, &whole[..300]).unwrap();
        assert_eq!(read(&path).unwrap(), AnchorState::Damaged);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let (_directory, path, anchor) = anchor();
        let id = BranchId::main("ä".repeat(127).parse().unwrap());
        anchor.advance(&AnchorRecord::new(1, 1, Hash::ZERO, &id)).unwrap();
        let AnchorState::Anchored(found) = read(&path).unwrap() else { panic!() };
        assert_eq!(found.stream, "ä".repeat(105));
    }

    #[test]
    fn a_lock_that_is_not_given_back_stops_nobody() {
        let (_directory, path, anchor) = anchor();
        let stopped = File::open(&path).unwrap();
        stopped.lock().unwrap();
        assert!(!anchor.advance(&record(1)).unwrap());
        drop(stopped);
        assert!(anchor.advance(&record(1)).unwrap());
    }
}

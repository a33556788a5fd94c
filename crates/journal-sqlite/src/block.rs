//! Where the events of a branch are: blocks of 64 entries, each a position and a kind.
//!
//! An index row per event would dirty one page per session and commit; a block is written once per 64 events, and the
//! one being filled travels in the head row that every commit rewrites anyway.

/// Events per block.
pub(crate) const BLOCK: u64 = 64;

/// Where one event is, and its kind's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) position: i64,
    pub(crate) kind: i64,
}

/// Adds an entry to an encoded block. `previous` is the position of the entry before it; 0 in an empty block.
pub(crate) fn push(block: &mut Vec<u8>, entry: Entry, previous: i64) {
    // INVARIANT: positions increase along a branch, and numbers are never negative.
    write_varint(block, (entry.position - previous) as u64);
    write_varint(block, entry.kind as u64);
}

/// The entries of an encoded block; `None` if it is damaged.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::with_capacity(BLOCK as usize);
    let mut position = 0_i64;
    while !bytes.is_empty() {
        let delta = i64::try_from(read_varint(&mut bytes)?).ok()?;
        let kind = i64::try_from(read_varint(&mut bytes)?).ok()?;
        position = position.checked_add(delta).filter(|_| delta > 0)?;
        entries.push(Entry { position, kind });
    }
    (entries.len() as u64 <= BLOCK).then_some(entries)
}

/// Seven bits a byte, least significant first.
pub(crate) fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a varint off the front; `None` if there is none.
pub(crate) fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_decode_to_what_was_pushed(steps in proptest::collection::vec((1..1_i64 << 40, 0..500_i64), 0..64)) {
            let (mut bytes, mut entries, mut previous) = (Vec::new(), Vec::new(), 0);
            for (step, kind) in steps {
                let entry = Entry { position: previous + step, kind };
                push(&mut bytes, entry, previous);
                entries.push(entry);
                previous = entry.position;
            }
            prop_assert_eq!(decode(&bytes), Some(entries));
        }

        #[test]
        fn damaged_blocks_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}

//! Damage, done the way an intruder or a failing disk would: to the bytes of the file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use weir_types::Event;

/// A row holds, in this order, the event's id, its time and kind, its chain, and its record (the schema of
/// `journal-sqlite`). Between the end of the id and the chain there are at most so many bytes.
const ID_TO_CHAIN_MAX: usize = 24;

/// How far behind the chain the record is well under way.
const INTO_RECORD: usize = 12;

/// The first byte of a page of SQLite's that holds rows of a table.
const TABLE_LEAF: u8 = 0x0d;

/// Flips one bit in the record of `event`, and says at which byte of the file. `None` if it is not in there. Blocks.
pub(super) fn flip_record(file: &Path, event: &Event) -> io::Result<Option<u64>> {
    let content = fs::read(file)?;
    let Some(at) = find_record(&content, &event.id.to_bytes(), event.chain.as_bytes()) else {
        return Ok(None);
    };
    let file = File::options().write(true).open(file)?;
    file.write_all_at(&[content[at] ^ 1], at as u64)?;
    file.sync_all()?;
    Ok(Some(at as u64))
}

/// Where the record of the event with this id and chain is.
fn find_record(content: &[u8], id: &[u8], chain: &[u8]) -> Option<usize> {
    // A big-endian number at byte 16; 1 stands for 65,536, which does not fit.
    let page_size = match u16::from_be_bytes(content.get(16..18)?.try_into().ok()?) {
        0 => return None,
        1 => 65_536,
        size => usize::from(size),
    };
    // A page that became an index of others keeps old rows in its unused middle; those do not count.
    let mut rows = content
        .windows(id.len())
        .enumerate()
        .filter(|(start, window)| *window == id && content[start / page_size * page_size] == TABLE_LEAF);
    rows.find_map(|(start, _)| {
        let after_id = start + id.len();
        let near = content.get(after_id..after_id + ID_TO_CHAIN_MAX + chain.len())?;
        let chain_at = near.windows(chain.len()).position(|window| window == chain)?;
        let at = after_id + chain_at + chain.len() + INTO_RECORD;
        (at < content.len()).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page 1 names the page size; page 2 is no leaf, page 3 has the chain and the id apart, page 4 has the row.
    #[test]
    fn only_a_row_in_a_leaf_is_a_row() {
        let (id, chain) = ([7; 16], [9; 32]);
        let row = [&id[..], b"time and kind", &chain, &[1; 20]].concat();
        let mut content = vec![0; 4 * 512];
        content[16..18].copy_from_slice(&512_u16.to_be_bytes());
        let mut place = |at: usize, bytes: &[u8]| content[at..at + bytes.len()].copy_from_slice(bytes);
        place(512, &[0x05]);
        place(600, &row);
        place(1024, &[TABLE_LEAF]);
        place(1100, &[&chain[..], &id].concat());
        place(1536, &[TABLE_LEAF]);
        place(1600, &row);
        let record = 1600 + id.len() + b"time and kind".len() + chain.len();
        assert_eq!(find_record(&content, &id, &chain), Some(record + INTO_RECORD));
        assert_eq!(find_record(&content, &id, &[8; 32]), None);
        assert_eq!(find_record(b"short", &id, &chain), None);
    }
}

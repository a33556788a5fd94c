//! Source maps: from a place in what runs to the place in what was written.

use serde::Deserialize;

/// A source map of one module with one source.
pub(super) struct SourceMap {
    /// For each line of what runs: where a piece begins, and the line and column it comes from. All from 0.
    lines: Vec<Vec<Piece>>,
}

#[derive(Clone, Copy)]
struct Piece {
    column: i64,
    from_line: i64,
    from_column: i64,
}

#[derive(Deserialize)]
struct Raw {
    mappings: String,
}

impl SourceMap {
    /// Reads a map; `None` if it is none.
    pub(super) fn parse(json: &str) -> Option<Self> {
        let raw: Raw = serde_json::from_str(json).ok()?;
        let (mut from_line, mut from_column) = (0, 0);
        let mut lines = Vec::new();
        for line in raw.mappings.split(';') {
            let mut column = 0;
            let mut pieces = Vec::new();
            for segment in line.split(',').filter(|segment| !segment.is_empty()) {
                let numbers = decoded(segment)?;
                column = i64::checked_add(column, *numbers.first()?)?;
                if let [_, _source, line, character, ..] = numbers[..] {
                    from_line = i64::checked_add(from_line, line)?;
                    from_column = i64::checked_add(from_column, character)?;
                    pieces.push(Piece { column, from_line, from_column });
                }
            }
            pieces.sort_by_key(|piece| piece.column);
            lines.push(pieces);
        }
        Some(Self { lines })
    }

    /// Where a place comes from; lines and columns count from 1.
    pub(super) fn original(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let pieces = self.lines.get(line.checked_sub(1)? as usize)?;
        let column = i64::from(column) - 1;
        let after = pieces.partition_point(|piece| piece.column <= column);
        let piece = pieces.get(after.saturating_sub(1))?;
        let one_based = |number: i64| u32::try_from(number + 1).ok();
        Some((one_based(piece.from_line)?, one_based(piece.from_column)?))
    }
}

/// The numbers of a segment: base 64 digits of 5 bits each, the lowest first, the sign in the lowest bit of all.
fn decoded(segment: &str) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0_i64, 0);
    for byte in segment.bytes() {
        let digit = i64::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        });
        // No number of a map has more than 32 bits.
        if shift > 30 {
            return None;
        }
        value |= (digit & 31) << shift;
        if digit & 32 != 0 {
            shift += 5;
            continue;
        }
        numbers.push(if value & 1 == 1 { -(value >> 1) } else { value >> 1 });
        (value, shift) = (0, 0);
    }
    (shift == 0).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again() {
        let map =
            SourceMap::parse(r#"{"version": 3, "sources": ["a.ts"], "mappings": "AAAA,SAASA;;ICGT;EAHA"}"#)
                .unwrap();
        assert_eq!(map.original(1, 1), Some((1, 1)));
        assert_eq!(map.original(1, 9), Some((1, 1)));
        assert_eq!(map.original(1, 10), Some((1, 10)));
        assert_eq!(map.original(1, 99), Some((1, 10)));
        assert_eq!(map.original(2, 1), None);
        assert_eq!(map.original(3, 5), Some((4, 1)));
        assert_eq!(map.original(3, 1), Some((4, 1)), "before the first piece: that one");
        assert_eq!(map.original(4, 3), Some((1, 1)));
        assert_eq!(map.original(9, 1), None);
        assert_eq!(map.original(0, 0), None);
    }

    #[test]
    fn numbers_have_signs_and_ends() {
        assert_eq!(decoded("ACDgBhB"), Some(vec![0, 1, -1, 16, -16]));
        for broken in ["g", "=", "A=", "gggggggggA", "é"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
    }

    #[test]
    fn what_is_no_map_is_none() {
        for broken in ["", "[]", "{}", r#"{"mappings": 1}"#, r#"{"mappings": "!"}"#] {
            assert!(SourceMap::parse(broken).is_none(), "{broken}");
        }
    }
}

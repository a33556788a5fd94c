//! Source maps: from a place in what runs to the place in what was written.

use oxc_sourcemap::SourceMap;

/// Where a place comes from, by the source map of its module; lines and columns count from 1.
///
/// A place before the first entry of its line belongs to that entry. `None` if the map has nothing for the line or is malformed.
pub(super) fn original(map: &str, line: u32, column: u32) -> Option<(u32, u32)> {
    let (line, column) = (line.checked_sub(1)?, column.checked_sub(1)?);
    let map = SourceMap::from_json_string(map).ok()?;
    let token = map.lookup_token_approx(&map.generate_lookup_table(), line, column)?;
    token.get_source_id()?;
    Some((token.get_src_line().checked_add(1)?, token.get_src_col().checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(mappings: &str) -> String {
        format!(r#"{{"version": 3, "sources": ["a.ts"], "names": ["a"], "mappings": "{mappings}"}}"#)
    }

    #[test]
    fn places_are_found_again() {
        let check = |line, column, expected| {
            assert_eq!(original(&with("AAAA,SAASA;;IAGT;EAHA"), line, column), expected, "{line}:{column}");
        };
        check(1, 1, Some((1, 1)));
        check(1, 9, Some((1, 1)));
        check(1, 10, Some((1, 10)));
        check(1, 99, Some((1, 10)));
        check(2, 1, None);
        check(3, 5, Some((4, 1)));
        check(3, 1, Some((4, 1)));
        check(4, 3, Some((1, 1)));
        check(9, 1, None);
        check(0, 0, None);
    }

    #[test]
    fn a_malformed_map_knows_no_place() {
        let check = |map: &str| assert_eq!(original(map, 1, 1), None, "{map}");
        for map in ["", "[]", "{}", r#"{"mappings": 1}"#, r#"{"mappings": "!"}"#] {
            check(map);
        }
        for mappings in ["g", "=", "A=", "gggggggggggggA", "é", "D", "AADA", "AAAD", "A", "AA"] {
            check(&with(mappings));
        }
    }

    proptest! {
        /// A map may come with a manifest that somebody else made.
        #[test]
        fn no_map_panics(mappings in "[A-Za-z0-9+/,;]{0,60}", line in 0..9_u32, column: u32) {
            let _ = original(&with(&mappings), line, column);
        }
    }
}

//! Results that were too long to be shown, in parts.

use serde::Deserialize;
use serde_json::json;
use weir_types::{Block, Hash};

use super::{Running, Says};
use crate::call::{Done, Failed};

/// How much is shown if nobody says, and at most. With the note it is below what is shown of any result, so that a part is
/// never itself cut.
const BYTES: usize = 16 * 1024;
const BYTES_MAX: usize = 28 * 1024;

/// The least that can be asked for: each part has a character at least.
const BYTES_MIN: usize = 4;

pub(super) fn says() -> Says {
    (
        "Reads on in a result of this session that was too long to be shown whole. The shortened result names its hash and the \
         offset to go on at.",
        json!({
            "type": "object",
            "properties": {
                "result": {"type": "string", "description": "The hash that the shortened result names: 64 hex digits."},
                "offset": {"type": "integer", "minimum": 0, "description": "The first byte to show. Default: 0."},
                "bytes": {"type": "integer", "minimum": BYTES_MIN, "maximum": BYTES_MAX, "description": format!("How many bytes to show. Default: {BYTES}.")},
            },
            "required": ["result"],
            "additionalProperties": false,
        }),
    )
}

#[derive(Deserialize)]
struct Input {
    result: String,
    #[serde(default)]
    offset: usize,
    bytes: Option<usize>,
}

pub(super) async fn read(running: &Running) -> Result<Done, Failed> {
    let input: Input = running.input()?;
    let hash: Hash = input.result.trim().parse().map_err(|error| {
        Failed::new("invalid", format!("{error}; the shortened result names the hash to give"))
    })?;
    let whole = running.started.world.results.whole(hash).await;
    let whole = whole.map_err(|why| Failed::new("storage", format!("the result cannot be read: {why}")))?;
    let Some(whole) = whole else {
        let message =
            format!("there is no result `{hash}` here; only long results of this session can be read");
        return Err(Failed::new("missing", message));
    };
    let Ok(text) = std::str::from_utf8(&whole) else {
        return Err(Failed::new("binary", format!("the result is not text: {} bytes", whole.len())));
    };
    let (part, note) = part(text, input.offset, input.bytes.unwrap_or(BYTES))?;
    Ok(Done { content: vec![Block::text(part), Block::text(note)], ..Done::default() })
}

/// A part of a text, cut between characters, and where it is in it. Parts that follow one another's offsets make the whole.
fn part(text: &str, offset: usize, bytes: usize) -> Result<(&str, String), Failed> {
    if offset >= text.len() && offset > 0 {
        let message = format!("the result has {} bytes, so there is nothing at offset {offset}", text.len());
        return Err(Failed::new("invalid", message));
    }
    let back = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = back(offset);
    let end = back(start.saturating_add(bytes.max(BYTES_MIN)));
    let total = text.len();
    let note = match total - end {
        0 => format!("\n[bytes {start} to {end} of {total}: the end]"),
        left => format!("\n[bytes {start} to {end} of {total}; {left} left: read on with offset {end}]"),
    };
    Ok((&text[start..end], note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_say_where_they_are() {
        assert_eq!(
            part("abcdefgh", 0, 4).unwrap(),
            ("abcd", "\n[bytes 0 to 4 of 8; 4 left: read on with offset 4]".into())
        );
        assert_eq!(part("abcdefgh", 4, 9).unwrap(), ("efgh", "\n[bytes 4 to 8 of 8: the end]".into()));
        assert_eq!(part("abcdefghij", 1, 8).unwrap().0, "bcdefghi");
        assert_eq!(part("", 0, 4).unwrap(), ("", "\n[bytes 0 to 0 of 0: the end]".into()));
        assert_eq!(part("aé", 2, 4).unwrap().0, "é");
        assert!(part("abc", 3, 4).unwrap_err().message.contains("nothing at offset 3"));
        assert_eq!(part("abc", 1, usize::MAX).unwrap().0, "bc");
    }

    proptest! {
        #[test]
        fn parts_make_the_whole(text in "\\PC{1,200}", bytes in BYTES_MIN..50) {
            let (mut offset, mut read) = (0, String::new());
            while offset < text.len() {
                let (next, _) = part(&text, offset, bytes).unwrap();
                prop_assert!(!next.is_empty() && next.len() <= bytes);
                read.push_str(next);
                offset += next.len();
            }
            prop_assert_eq!(read, text);
        }
    }
}

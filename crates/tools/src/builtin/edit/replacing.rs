//! One exact replacement.

use std::borrow::Cow;

use serde::Deserialize;

use super::nearest::nearest;
use crate::builtin::fs::content::{LineEnds, line_ends, lines_in};
use crate::call::Failed;

/// How many places are named when there are several.
const PLACES_MAX: usize = 10;

/// A text, and what to put in its place.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Replacement {
    pub(super) old: String,
    pub(super) new: String,
    #[serde(default)]
    pub(super) all: bool,
}

/// The text after a replacement, and how many occurrences it replaced.
pub(super) fn replaced(text: &str, edit: &Replacement) -> Result<(String, usize), Failed> {
    let Replacement { old, new, all } = edit;
    if old == new {
        return Err(Failed::new("invalid", "`old` and `new` are the same"));
    }
    let is_crlf = line_ends(text) == LineEnds::Crlf;
    let (old, new) = (adapted(old, is_crlf), adapted(new, is_crlf));
    let places: Vec<usize> = text.match_indices(&*old).map(|(at, _)| at).collect();
    match places.as_slice() {
        [] => Err(Failed::new("not_found", format!("`old` is not in the file. {}", nearest(text, &old)))),
        [_, _, ..] if !all => Err(Failed::new("ambiguous", several(text, &places))),
        places => Ok((text.replace(&*old, &new), places.len())),
    }
}

/// A text with the line ends of its file.
fn adapted(text: &str, is_crlf: bool) -> Cow<'_, str> {
    match is_crlf && text.contains('\n') && !text.contains('\r') {
        true => text.replace('\n', "\r\n").into(),
        false => text.into(),
    }
}

fn several(text: &str, places: &[usize]) -> String {
    let line = |at: &usize| {
        (lines_in(&text[..*at]) + usize::from(text[..*at].ends_with('\n') || *at == 0)).to_string()
    };
    let mut lines: Vec<String> = places.iter().take(PLACES_MAX).map(line).collect();
    lines.dedup();
    let more = if places.len() > PLACES_MAX { ", …" } else { "" };
    format!(
        "`old` is in the file {} times, at lines {}{more}. Take more of the text around the one you mean, or give `all`: true.",
        places.len(),
        lines.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
        let edit = Replacement { old: old.into(), new: new.into(), all };
        replaced(text, &edit).map(|(text, _)| text).map_err(|failed| failed.message)
    }

    #[test]
    fn an_exact_text_is_replaced() {
        let check = |text: &str, old: &str, new: &str, all: bool, expected: &str| {
            assert_eq!(edit(text, old, new, all).as_deref(), Ok(expected), "{text:?} {old:?}");
        };
        check("a b c", "b", "x", false, "a x c");
        check("a\nb\n", "a\nb", "", false, "\n");
        check("aaa", "a", "b", true, "bbb");
        check("$1 .*", ".*", "$1", false, "$1 $1");
        check("a\r\nb\r\n", "a\nb\n", "x\ny\n", false, "x\r\ny\r\n");
        check("a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n");
        check("a\r\nb\nc\n", "b\nc", "x\ny", false, "a\r\nx\ny\n");
    }

    #[test]
    fn several_occurrences_are_named() {
        let words = edit("a\nx\nb x\n", "x", "y", false).unwrap_err();
        assert!(words.starts_with("`old` is in the file 2 times, at lines 2, 3. Take more"), "{words}");
        let words = edit("x x\nx", "x", "y", false).unwrap_err();
        assert!(words.starts_with("`old` is in the file 3 times, at lines 1, 2."), "{words}");
        let words = edit(&"x\n".repeat(50), "x", "y", false).unwrap_err();
        assert!(words.contains("50 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …."), "{words}");
        assert_eq!(edit("x", "x", "x", false).unwrap_err(), "`old` and `new` are the same");
        // What would be found in a mixed file with other line ends is not: which ones are meant is not for us to say.
        assert!(edit("a\r\nb\nc", "a\nb", "x", false).is_err());
    }
}

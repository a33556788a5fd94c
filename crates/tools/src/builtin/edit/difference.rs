//! What changed in a text, as a short excerpt in the manner of a unified diff.
//!
//! The comparison is that of `imara-diff`: its cost is bounded by heuristics that do not depend on a clock, so the same texts
//! always give the same excerpt.

use std::fmt::Write as _;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

use crate::bound::head;

/// Lines around a change.
const CONTEXT: usize = 2;

/// Most lines of an excerpt, and the longest of them.
const SHOWN_MAX: usize = 60;
const LINE_BYTES_MAX: usize = 200;

/// Lines of the old text that became lines of the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

/// What changed, with the numbers of lines.
pub(super) fn difference(old: &str, new: &str) -> String {
    let changes = changes(old, new);
    let (old, new): (Vec<&str>, Vec<&str>) = (split(old), split(new));
    let mut excerpt = Excerpt { text: String::new(), lines: 0 };
    let mut left = changes.len();
    for hunk in hunks(&changes) {
        if excerpt.lines >= SHOWN_MAX {
            break;
        }
        left -= hunk.len();
        excerpt.hunk(&old, &new, hunk);
    }
    if left > 0 {
        let _ = writeln!(excerpt.text, "[{left} more places changed]");
    }
    excerpt.text.truncate(excerpt.text.trim_end_matches('\n').len());
    excerpt.text
}

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Changes that are near one another are shown together.
fn hunks(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(|one, next| next.old.start - one.old.end <= 2 * CONTEXT)
}

struct Excerpt {
    text: String,
    lines: usize,
}

impl Excerpt {
    fn hunk(&mut self, old: &[&str], new: &[&str], hunk: &[Change]) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
        let before = first.old.start.min(CONTEXT);
        let after = (old.len() - last.old.end).min(CONTEXT);
        let (from, to) = (first.old.start - before, last.old.end + after);
        let (new_from, new_to) = (first.new.start - before, last.new.end + after);
        // Lines count from 1; where there are none, the line before is named.
        let start = |range: Range<usize>| range.start + usize::from(!range.is_empty());
        let (old_start, new_start) = (start(from..to), start(new_from..new_to));
        let _ = writeln!(self.text, "@@ -{old_start},{} +{new_start},{} @@", to - from, new_to - new_from);
        let mut at = from;
        for change in hunk {
            self.add(' ', &old[at..change.old.start]);
            self.add('-', &old[change.old.clone()]);
            self.add('+', &new[change.new.clone()]);
            at = change.old.end;
        }
        self.add(' ', &old[at..to]);
    }

    fn add(&mut self, sign: char, lines: &[&str]) {
        // A long block is shown by its beginning; half of the room is kept for what comes instead of it.
        let room = SHOWN_MAX.saturating_sub(self.lines).max(2 * CONTEXT);
        let room = if sign == '-' { room.div_ceil(2) } else { room };
        for line in lines.iter().take(room) {
            let line = line.trim_end_matches(['\r', '\n']);
            let shown = head(line, LINE_BYTES_MAX);
            let more = if shown.len() < line.len() { "…" } else { "" };
            let _ = writeln!(self.text, "{sign}{shown}{more}");
        }
        if lines.len() > room {
            let _ = writeln!(self.text, "{sign}[{} more lines]", lines.len() - room);
        }
        self.lines += lines.len().min(room);
    }
}

/// What changed, in the order of the lines.
fn changes(old: &str, new: &str) -> Vec<Change> {
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let range = |lines: Range<u32>| lines.start as usize..lines.end as usize;
    diff.hunks().map(|hunk| Change { old: range(hunk.before), new: range(hunk.after) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn changes_are_shown_with_their_lines() {
        let check = |old: &str, new: &str, expected: &str| {
            assert_eq!(difference(old, new), expected, "{old:?} {new:?}");
        };
        check("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c");
        check("", "a\n", "@@ -0,0 +1,1 @@\n+a");
        check("a\n", "", "@@ -1,1 +0,0 @@\n-a");
        check("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n7\n", "@@ -5,2 +5,3 @@\n 5\n 6\n+7");
        check("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n+a");
        check("a\n", "a\n", "");
        let numbers: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        let old = numbers.join("\n");
        let new = old.replace("\n3\n", "\nthree\n").replace("\n18\n", "\n");
        check(
            &old,
            &new,
            "@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n 5\n@@ -16,5 +16,4 @@\n 16\n 17\n-18\n 19\n 20",
        );
    }

    #[test]
    fn an_excerpt_is_bounded() {
        let (old, new): (String, String) = (
            (0..5_000).map(|n| format!("{n} {}\n", "x".repeat(500))).collect(),
            (0..5_000).map(|n| format!("new {n}\n")).collect(),
        );
        let words = difference(&old, &new);
        assert!(words.lines().count() < SHOWN_MAX + 10 && words.contains("more lines]"), "{words}");
        let many: String = (0..1_000).map(|n| format!("{n}\n\n\n\n\n\n\n\n")).collect();
        let words = difference(&many, &many.replace("7\n", "x\n"));
        assert!(words.contains(" more places changed]") && words.lines().count() < SHOWN_MAX + 20, "{words}");
    }

    proptest! {
        /// Whatever the texts, the changes turn one into the other.
        #[test]
        fn changes_make_the_new_text(old in "([abc]\n){0,40}", new in "([abc]\n){0,40}") {
            let changes = changes(&old, &new);
            let (old, new) = (split(&old), split(&new));
            let (mut made, mut at) = (Vec::new(), 0);
            for change in changes {
                made.extend_from_slice(&old[at..change.old.start]);
                prop_assert_eq!(made.len(), change.new.start);
                made.extend_from_slice(&new[change.new]);
                at = change.old.end;
            }
            made.extend_from_slice(&old[at..]);
            prop_assert_eq!(made, new);
        }
    }
}

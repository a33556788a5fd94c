//! Where in a file a text that is not there was probably meant to be.

use std::fmt::Write as _;

use crate::bound::head;

/// How many lines of the file are shown.
const SHOWN_MAX: usize = 10;

/// The longest line that is shown whole.
const LINE_BYTES_MAX: usize = 200;

/// How many lines of the text are looked for, and in how many lines of the file: their product bounds the work.
const SOUGHT_MAX: usize = 50;
const SEARCHED_MAX: usize = 100_000;

/// How many lines are compared letter by letter, which is slow, and how much of each.
const COMPARED_MAX: usize = 5_000;
const COMPARED_CHARACTERS: usize = 200;

/// How much two lines must have in common to be worth showing.
const SIMILARITY_MIN: f64 = 0.5;

/// The lines of `text` that most resemble `old`, and what may be wrong with it.
pub(super) fn nearest(text: &str, old: &str) -> String {
    if let Some(hint) = numbered(old) {
        return hint;
    }
    let lines: Vec<&str> = text.lines().take(SEARCHED_MAX).collect();
    let sought: Vec<&str> = old.lines().take(SOUGHT_MAX).collect();
    let (start, equal) = by_lines(&lines, &sought);
    if equal > 0 {
        let hint = if equal == sought.iter().filter(|line| !line.trim().is_empty()).count() {
            "Only white space differs from these lines:"
        } else {
            "The nearest lines are:"
        };
        return format!("{hint}\n{}", shown(&lines, start, sought.len()));
    }
    match by_letters(&lines, &sought) {
        Some(start) => format!("The nearest lines are:\n{}", shown(&lines, start, sought.len())),
        None => "Nothing in it resembles it; read it again with fs_read.".to_owned(),
    }
}

/// Whether every line begins with a number and a tab, as in the answers of `fs_read`.
fn numbered(old: &str) -> Option<String> {
    let is_numbered = |line: &str| {
        line.split_once('\t').is_some_and(|(number, _)| {
            let number = number.trim_start();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    old.lines().all(is_numbered).then(|| "Leave out the line numbers and tabs that fs_read shows.".to_owned())
}

/// Where most lines are the same but for the white space around them, and how many.
fn by_lines(lines: &[&str], sought: &[&str]) -> (usize, usize) {
    let sought: Vec<&str> = sought.iter().map(|line| line.trim()).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let equal = |start: usize| {
        let pairs = lines[start..].iter().zip(&sought);
        pairs.filter(|(line, sought)| !sought.is_empty() && line == sought).count()
    };
    let best = (0..lines.len())
        .map(|start| (equal(start), start))
        .max_by_key(|(equal, start)| (*equal, usize::MAX - start));
    best.map_or((0, 0), |(equal, start)| (start, equal))
}

/// Where the longest line has its likeness.
fn by_letters(lines: &[&str], sought: &[&str]) -> Option<usize> {
    let short = |line: &str| line.trim().chars().take(COMPARED_CHARACTERS).collect::<String>();
    let (offset, longest) =
        sought.iter().enumerate().max_by_key(|(index, line)| (line.trim().len(), usize::MAX - index))?;
    let longest = short(longest);
    let likeness = |line: &str| strsim::normalized_levenshtein(&short(line), &longest);
    let best = lines.iter().take(COMPARED_MAX).enumerate().map(|(index, line)| (likeness(line), index));
    let (likeness, index) = best.max_by(|(a, i), (b, j)| a.total_cmp(b).then_with(|| j.cmp(i)))?;
    (likeness >= SIMILARITY_MIN).then(|| index.saturating_sub(offset))
}

fn shown(lines: &[&str], start: usize, count: usize) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate().skip(start).take(count.clamp(1, SHOWN_MAX)) {
        let _ = writeln!(text, "{}\t{}", index + 1, head(line, LINE_BYTES_MAX));
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_that_was_meant_is_shown() {
        let text = "fn main() {\n    let a = 1;\n    let b = 2;\n}\n";
        for (old, expected) in [
            (
                "let a = 1;\nlet b = 2;",
                "Only white space differs from these lines:\n2\t    let a = 1;\n3\t    let b = 2;",
            ),
            (
                "    let a = 1;\n    let c = 3;",
                "The nearest lines are:\n2\t    let a = 1;\n3\t    let b = 2;",
            ),
            ("fn mein() {", "The nearest lines are:\n1\tfn main() {"),
            ("class Foo: pass", "Nothing in it resembles it; read it again with fs_read."),
            (
                "2\t    let a = 1;\n3\t    let b = 2;",
                "Leave out the line numbers and tabs that fs_read shows.",
            ),
        ] {
            assert_eq!(nearest(text, old), expected, "{old:?}");
        }
        assert_eq!(nearest("", "x"), "Nothing in it resembles it; read it again with fs_read.");
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let text = format!("{}\n", "x".repeat(1_000)).repeat(10_000);
        let old = format!("{}\n", "x".repeat(1_000)).repeat(100) + "y";
        let words = nearest(&text, &old);
        assert!(words.len() < 3_000 && words.lines().count() <= SHOWN_MAX + 1, "{}", words.len());
    }
}

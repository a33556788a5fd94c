//! A file, or some of its lines.

use std::fmt::Write as _;

use serde::Deserialize;

use super::content::{Content, LineEnds, content, counted, line_ends};
use super::place::{at, from_top, missing};
use super::{SHOWN_BYTES_MAX, off_the_runtime};
use crate::bound::head;
use crate::builtin::Running;
use crate::call::{Done, Failed};

/// How many lines are shown if nobody says: more than most files have.
pub(super) const LIMIT: usize = 2_000;

/// Most lines at once. The bytes of an answer are bounded as well.
pub(super) const LIMIT_MAX: usize = 10_000;

/// The largest file that is looked into. It is held in memory for as long as it is read.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The longest line that is shown whole. Longer ones are data, or code for machines.
const LINE_BYTES_MAX: usize = 2_000;

#[derive(Deserialize)]
struct Input {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

pub(in crate::builtin) async fn read(running: &Running) -> Result<Done, Failed> {
    let input: Input = running.input()?;
    let path = from_top(&input.path)?;
    let files = &running.started.world.files;
    let listed = files.list().await?;
    let Some(file) = at(&listed, &path) else { return Err(missing(listed, &path).await) };
    if file.size > FILE_BYTES_MAX {
        let message = format!(
            "`{path}` has {} bytes, and a file of more than {FILE_BYTES_MAX} is not read; take a part of it with bash",
            file.size
        );
        return Err(Failed::new("too_much", message));
    }
    let bytes = files.read(&path).await?;
    let (from, limit) = (input.offset.unwrap_or(1).max(1), input.limit.unwrap_or(LIMIT));
    off_the_runtime(move || shown(&path, &bytes, from, limit)).await?.map(Done::text)
}

/// Lines of a file with their numbers, and where they are in it.
fn shown(path: &str, bytes: &[u8], from: usize, limit: usize) -> Result<String, Failed> {
    let (text, garbled) = match content(bytes) {
        Content::Binary(kind) => return Ok(format!("`{path}` is not text: {kind}, {} bytes", bytes.len())),
        Content::Garbled(text) => (text, true),
        Content::Text(text) => (text.into(), false),
    };
    let ends = line_ends(&text);
    let (mut page, mut shown, mut total) = (String::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        total += 1;
        // Lines that do not fit are still counted. The first one always fits: a page is larger than a line can be.
        let is_next = total == from + shown;
        if is_next && shown < limit && page.len() + line.len().min(LINE_BYTES_MAX) + 100 <= SHOWN_BYTES_MAX {
            add(&mut page, total, line, ends);
            shown += 1;
        }
    }
    if total > 0 && from > total {
        let message = format!("`{path}` has {}, so there is no line {from}", counted(total, "line"));
        return Err(Failed::new("invalid", message));
    }
    let last = from + shown - usize::from(shown > 0);
    let mut notes = vec![match (total, shown) {
        (0, _) => "an empty file".to_owned(),
        (1, 1) => "the only line".to_owned(),
        (total, shown) if shown == total => format!("all {total} lines"),
        _ if last == total => format!("lines {from} to {last}; the file ends here"),
        _ => format!("lines {from} to {last} of {total}; read on with offset {}", last + 1),
    }];
    match ends {
        LineEnds::Lf => {}
        LineEnds::Crlf => notes.push("its lines end with CRLF, which edits keep".to_owned()),
        LineEnds::Mixed => {
            notes.push("some lines end with CRLF and some with LF; the CR is shown as it is".to_owned());
        }
    }
    if total > 0 && last == total && !text.ends_with('\n') {
        notes.push("no line break at the end".to_owned());
    }
    if garbled {
        notes.push("not UTF-8: what cannot be read is shown as \u{fffd}".to_owned());
    }
    Ok(format!("{page}[{}]", notes.join("; ")))
}

fn add(page: &mut String, number: usize, line: &str, ends: LineEnds) {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = if ends == LineEnds::Crlf { line.strip_suffix('\r').unwrap_or(line) } else { line };
    let shown = head(line, LINE_BYTES_MAX);
    let _ = write!(page, "{number}\t{shown}");
    if shown.len() < line.len() {
        let _ = write!(page, " [{} more bytes in this line]", line.len() - shown.len());
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(bytes: &[u8], from: usize, limit: usize) -> String {
        shown("f", bytes, from, limit).unwrap_or_else(|failed| format!("error: {}", failed.message))
    }

    #[test]
    fn lines_have_numbers_and_the_rest_is_named() {
        for (text, from, limit, expected) in [
            ("a\nb\n", 1, 10, "1\ta\n2\tb\n[all 2 lines]"),
            ("a\nb\nc\n", 2, 1, "2\tb\n[lines 2 to 2 of 3; read on with offset 3]"),
            ("a\nb\nc", 3, 10, "3\tc\n[lines 3 to 3; the file ends here; no line break at the end]"),
            ("a\n", 1, 1, "1\ta\n[the only line]"),
            ("", 1, 10, "[an empty file]"),
            ("", 7, 10, "[an empty file]"),
            ("a\n", 2, 1, "error: `f` has 1 line, so there is no line 2"),
            ("a\r\nb\r\n", 1, 9, "1\ta\n2\tb\n[all 2 lines; its lines end with CRLF, which edits keep]"),
        ] {
            assert_eq!(show(text.as_bytes(), from, limit), expected, "{text:?} {from} {limit}");
        }
        let mixed = show(b"a\r\nb\n", 1, 9);
        assert!(mixed.starts_with("1\ta\r\n2\tb\n[all 2 lines; some lines end with CRLF"), "{mixed}");
    }

    #[test]
    fn what_is_no_text_is_only_named() {
        assert_eq!(show(b"\x7fELF\0\0", 1, 9), "`f` is not text: ELF program, 6 bytes");
        let latin = show(b"caf\xe9\n", 1, 9);
        assert_eq!(
            latin,
            "1\tcaf\u{fffd}\n[the only line; not UTF-8: what cannot be read is shown as \u{fffd}]"
        );
    }

    #[test]
    fn a_page_is_bounded_and_pages_make_the_whole() {
        let line = "x".repeat(100);
        let text = format!("{line}\n").repeat(2_000);
        let (mut from, mut lines) = (1, 0);
        loop {
            let page = show(text.as_bytes(), from, LIMIT);
            assert!(page.len() <= SHOWN_BYTES_MAX + 200);
            lines += page.lines().filter(|shown| shown.ends_with(&line)).count();
            let Some((_, next)) = page.split_once("read on with offset ") else { break };
            from = next.trim_end_matches(']').parse().unwrap();
            assert_eq!(from, lines + 1);
        }
        assert_eq!(lines, 2_000);
        let long = show(format!("{}\n", "é".repeat(5_000)).as_bytes(), 1, 1);
        assert!(long.contains("[8000 more bytes in this line]") && long.len() < 2_200, "{}", long.len());
        let nothing = "\n".repeat(3_000_000);
        assert!(show(nothing.as_bytes(), 2_999_999, 1).contains("lines 2999999 to 2999999 of 3000000"));
    }
}

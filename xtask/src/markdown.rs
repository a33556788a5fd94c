//! Wraps the prose of Markdown at [`WIDTH`] columns. Tables, code, headings, quotes of other formats and lines that cannot be
//! broken stay as they are.

use std::path::Path;
use std::process::Command;

use crate::Outcome;

/// How wide a line of prose may be.
const WIDTH: usize = 100;

/// Pages that a program writes, at least in part.
const GENERATED: [&str; 3] = ["docs/api.md", "docs/commands.md", "docs/specs.md"];

/// Where Markdown is data of tests and templates.
const DATA: &str = "crates/";

/// The pages whose prose is wrapped differently; with `mend`, wraps them.
pub(crate) fn check(root: &Path, mend: bool) -> Outcome<Vec<String>> {
    let listed = Command::new("git").args(["ls-files", "-z", "--", "*.md"]).current_dir(root).output()?;
    if !listed.status.success() {
        return Err("git does not list the Markdown files".into());
    }
    let listed = String::from_utf8(listed.stdout)?;
    let mut differing = Vec::new();
    let is_page = |name: &&str| !name.is_empty() && !name.starts_with(DATA) && !GENERATED.contains(name);
    for name in listed.split('\0').filter(is_page) {
        let path = root.join(name);
        let text = std::fs::read_to_string(&path)?;
        let wrapped = wrapped(&text);
        if wrapped == text {
            continue;
        }
        if mend {
            std::fs::write(&path, wrapped)?;
        }
        differing.push(name.to_owned());
    }
    Ok(differing)
}

/// A paragraph, or an item of a list, that is being read.
struct Prose {
    /// What its first line begins with.
    first: String,
    /// What its other lines begin with.
    rest: String,
    words: Vec<String>,
}

/// The text with its prose wrapped. Wrapping twice changes nothing more.
fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut prose: Option<Prose> = None;
    let mut fence: Option<String> = None;
    let mut is_in_front_matter = text.starts_with("---\n");
    for (number, line) in text.lines().enumerate() {
        if is_in_front_matter {
            is_in_front_matter = number == 0 || line != "---";
            keep(&mut out, line);
            continue;
        }
        let trimmed = line.trim_start();
        if let Some(open) = &fence {
            if trimmed.starts_with(open.as_str()) && trimmed.trim_matches(['`', '~']).trim().is_empty() {
                fence = None;
            }
            keep(&mut out, line);
            continue;
        }
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            finish(&mut out, prose.take());
            let mark: String = trimmed.chars().take_while(|c| ['`', '~'].contains(c)).collect();
            fence = Some(mark);
            keep(&mut out, line);
            continue;
        }
        let indent = line.len() - trimmed.len();
        let is_code = indent >= 4 && prose.is_none();
        if trimmed.is_empty() || is_code || is_kept(trimmed) {
            finish(&mut out, prose.take());
            keep(&mut out, line);
            continue;
        }
        let marker = marker(trimmed);
        if prose.is_none() || marker > 0 {
            finish(&mut out, prose.take());
            let (mark, _) = trimmed.split_at(marker);
            prose = Some(Prose {
                first: format!("{}{mark}", &line[..indent]),
                rest: " ".repeat(indent + marker),
                words: Vec::new(),
            });
        }
        if let Some(prose) = &mut prose {
            prose.words.extend(words(&trimmed[marker..]));
        }
        // Two blanks or a backslash at the end are a break that is meant.
        if line.ends_with("  ") || line.ends_with('\\') {
            let hanging = prose.as_ref().map(|prose| prose.rest.clone());
            let blank = if line.ends_with("  ") { "  " } else { "" };
            finish(&mut out, prose.take());
            out.insert_str(out.len() - 1, blank);
            prose = hanging.map(|rest| Prose { first: rest.clone(), rest, words: Vec::new() });
        }
    }
    finish(&mut out, prose);
    out
}

fn keep(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Lines that mean something as they are: headings, tables, quotes, HTML, definitions of links.
fn is_kept(trimmed: &str) -> bool {
    let is_definition = trimmed.starts_with('[') && trimmed.contains("]: ");
    let is_rule = trimmed.len() >= 3 && trimmed.chars().all(|c| ['-', '=', '*', '_', ' '].contains(&c));
    trimmed.starts_with(['#', '|', '>', '<']) || is_definition || is_rule
}

/// How long the mark of an item of a list is, its blanks included.
fn marker(trimmed: &str) -> usize {
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match trimmed.as_bytes() {
        [b'-' | b'*' | b'+', b' ', ..] => 1,
        bytes if (1..=3).contains(&digits) && matches!(bytes.get(digits), Some(b'.' | b')')) => digits + 1,
        _ => return 0,
    };
    let blanks = trimmed[mark..].bytes().take_while(|byte| *byte == b' ').count();
    if blanks == 0 { 0 } else { mark + blanks }
}

/// The words of a line. Code in backticks is one word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = 0;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let mut word = words.pop().unwrap_or_default();
        if c == '`' {
            let mut ticks = 1;
            while rest.next_if_eq(&'`').is_some() {
                ticks += 1;
            }
            word.push_str(&"`".repeat(ticks));
            if quote == 0 {
                quote = ticks;
            } else if quote == ticks {
                quote = 0;
            }
            words.push(word);
        } else if c.is_whitespace() && quote == 0 {
            words.push(word);
            words.push(String::new());
        } else {
            word.push(c);
            words.push(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a line that begins with this word would be something else than prose.
fn begins_something(word: &str) -> bool {
    let numbered = word.trim_end_matches(['.', ')']);
    let is_number =
        numbered.len() < word.len() && !numbered.is_empty() && numbered.bytes().all(|b| b.is_ascii_digit());
    is_number
        || ["-", "*", "+"].contains(&word)
        || is_kept(word)
        || word.starts_with("```")
        || word.starts_with("~~~")
}

fn finish(out: &mut String, prose: Option<Prose>) {
    let Some(Prose { first, rest, words }) = prose else { return };
    if words.is_empty() {
        return;
    }
    let mut line = first;
    let mut is_empty = true;
    for (n, word) in words.iter().enumerate() {
        let next_is_bound = words.get(n + 1).is_some_and(|next| begins_something(next));
        let bound: usize = if next_is_bound { words[n + 1].chars().count() + 1 } else { 0 };
        let width = line.chars().count() + usize::from(!is_empty) + word.chars().count() + bound;
        if !is_empty && width > WIDTH && !begins_something(word) {
            keep(out, &line);
            line = rest.clone();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    keep(out, &line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_nothing_else() {
        let long = "word ".repeat(30);
        let long = long.trim_end();
        let text = format!(
            "---\ntitle: {long}\n---\n# {long}\n\n{long}\n\n- {long}\n  - {long}\n12. {long}\n\n| {long} |\n|---|\n\n\
             ```sh\n{long}\n```\n    {long}\n\n> {long}\n[a]: {long}\n"
        );
        let wrapped = wrapped(&text);
        let lines: Vec<&str> = wrapped.lines().collect();
        for (prefix, hanging) in [("", ""), ("- ", "  "), ("  - ", "    "), ("12. ", "    ")] {
            let first = lines.iter().position(|line| {
                line.strip_prefix(prefix).is_some_and(|rest| rest.starts_with("word")) && line.len() <= WIDTH
            });
            let first = first.unwrap_or_else(|| panic!("{prefix:?} in {wrapped}"));
            assert!(lines[first + 1].strip_prefix(hanging).is_some_and(|rest| rest.starts_with("word")));
        }
        for kept in ["title: ", "# ", "| ", "    ", "> ", "[a]: "] {
            assert!(lines.iter().any(|line| line.starts_with(kept) && line.len() > 140), "{kept:?}");
        }
        assert_eq!(lines.iter().filter(|line| **line == long).count(), 1, "code stays");
        assert_eq!(super::wrapped(&wrapped), wrapped);
    }

    #[test]
    fn no_line_becomes_something_else() {
        let text = format!("{} - 12. # x `a b  c` end\n", "w".repeat(97));
        let wrapped = wrapped(&text);
        assert_eq!(wrapped.lines().next().unwrap(), format!("{} - 12. #", "w".repeat(97)));
        assert!(wrapped.contains("`a b  c`"));
        assert_eq!(super::wrapped(&wrapped), wrapped);
    }

    #[test]
    fn a_break_that_is_meant_stays() {
        assert_eq!(wrapped("one  \ntwo\nthree\\\nfour\n"), "one  \ntwo three\\\nfour\n");
    }

    #[test]
    fn short_lines_are_joined() {
        assert_eq!(wrapped("one\ntwo\n- a\n  b\n- c\n"), "one two\n- a b\n- c\n");
    }
}

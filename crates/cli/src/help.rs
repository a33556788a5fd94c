//! Help texts: examples stay on one line each, so that what is copied runs; paragraphs are wrapped to the terminal once.

use std::io::{IsTerminal, Write, stdout};

use clap::Command;
use clap::builder::StyledStr;

use crate::paint::{Paint, Surroundings, When};
use crate::wrap::wrap;

/// Looks like a space and is none to whoever wraps lines. It is a space again when it is printed.
const KEPT: char = '\u{a0}';

/// Makes the texts after the options ready to be wrapped, for a command and all that it has.
pub(crate) fn tidy(command: Command) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(unwrappable(&text)),
        None => command,
    };
    command.mut_subcommands(tidy)
}

/// Lines that are indented are kept as they are; others are one paragraph up to the next empty or indented line.
fn unwrappable(text: &str) -> String {
    let mut tidied = String::new();
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_text = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        if !tidied.is_empty() {
            tidied.push(if in_paragraph && is_text { ' ' } else { '\n' });
        }
        if line.starts_with(' ') && !line.starts_with("  - ") {
            tidied.extend(line.chars().map(|c| if c == ' ' { KEPT } else { c }));
        } else {
            tidied.push_str(line);
        }
        in_paragraph = is_text;
    }
    tidied
}

/// Prints help. A pipe that is closed early is no failure.
pub(crate) fn print(text: &StyledStr, color: When) {
    let mut out = stdout();
    let is_painted =
        Paint::new(color, Surroundings::of(&out)).is_on() || (color == When::Always && out.is_terminal());
    let text = if is_painted { text.ansi().to_string() } else { text.to_string() };
    let text = text.replace(KEPT, " ");
    let columns = Surroundings::of(&out).columns;
    let lines =
        text.split('\n').map(|line| match line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            // A line of the table of exit codes.
            true => wrap(line, columns, 5),
            false => line.into(),
        });
    let _ = out.write_all(lines.collect::<Vec<_>>().join("\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_kept_and_paragraphs_are_joined() {
        let text = "Examples:\n  weir x 'a b'\n\nA mistake is shown as\n`weir build` shows it.\n  - one of many\nEnd:";
        let kept = "Examples:\n~~weir~x~'a~b'\n\nA mistake is shown as `weir build` shows it.\n  - one of many\nEnd:";
        assert_eq!(unwrappable(text), kept.replace('~', "\u{a0}"));
    }
}

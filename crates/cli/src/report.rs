//! Failures, as people and as programs read them. Errors arrive with facts, a code and a next step (`Explain`); only
//! here do they become text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;
use weir_types::{Explain, Fault};

use crate::exit::Exit;
use crate::paint::Paint;
use crate::problems::Problems;
use crate::show::{is_hazardous, printable, shorten};
use crate::wrap::wrap;

/// What a command comes to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command ended before its time.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell.
    Told(Box<Told>),
    /// Files of the project that are not as they should be.
    Problems(Box<Problems>),
    /// Everything is told; only the exit code is left to say.
    Ended(Exit),
    /// Whoever read our output has gone; nobody is left to tell.
    ClosedPipe,
}

/// An error with everything that is known about it.
#[derive(Debug)]
pub(crate) struct Told {
    exit: Exit,
    code: &'static str,
    message: String,
    causes: Vec<String>,
    help: String,
    snippet: Option<Snippet>,
}

/// The place in some text where things went wrong.
#[derive(Debug)]
pub(crate) struct Snippet {
    /// What the text is called.
    pub(crate) name: Cow<'static, str>,
    /// Line of the mistake, from 1.
    pub(crate) line: usize,
    /// Column of the mistake, from 1.
    pub(crate) column: usize,
    /// The line before, or the start of it; empty for line 1.
    pub(crate) before: String,
    /// That line, or the part of it that is worth showing.
    pub(crate) shown: String,
    /// The bytes of `shown` that are wrong.
    pub(crate) marked: Range<usize>,
    /// What is wrong with them; may be empty.
    pub(crate) label: String,
}

impl<E: Explain + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::explained(&error)
    }
}

impl Failure {
    fn explained(error: &dyn Explain) -> Self {
        let mut causes: Vec<String> = Vec::new();
        let message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some errors repeat their source's words, some put a number before them; nobody needs them twice.
            if !cause_text.ends_with(causes.last().unwrap_or(&message)) {
                causes.push(cause_text);
            }
            source = cause.source();
        }
        Self::Told(Box::new(Told {
            exit: error.fault().into(),
            code: error.code(),
            message,
            causes,
            help: error.help().into_owned(),
            snippet: None,
        }))
    }

    /// Points at the place.
    pub(crate) fn with_snippet(mut self, snippet: Snippet) -> Self {
        if let Self::Told(told) = &mut self {
            told.snippet = Some(snippet);
        }
        self
    }

    /// Message and help, for a list of findings.
    pub(crate) fn words(&self) -> (String, String) {
        match self {
            Self::Told(told) => (told.full_message(), told.help.clone()),
            Self::Problems(problems) => (problems.to_string(), problems.help()),
            Self::Ended(_) | Self::ClosedPipe => (String::new(), String::new()),
        }
    }

    /// The code to exit with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Told(told) => told.exit,
            Self::Problems(_) => Exit::Usage,
            Self::Ended(exit) => *exit,
            Self::ClosedPipe => Exit::Done,
        }
    }

    /// The text for standard error, with its last line break; empty if there is nothing to say.
    pub(crate) fn render(&self, json: bool, paint: Paint) -> String {
        match self {
            Self::Ended(_) | Self::ClosedPipe => String::new(),
            Self::Told(told) if json => told.to_json() + "\n",
            Self::Told(told) => told.to_text(paint),
            Self::Problems(problems) if json => problems.to_json() + "\n",
            Self::Problems(problems) => problems.to_text(paint),
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'a str,
    message: String,
    help: &'a str,
}

/// `{"error":{"code","message","help"}}`.
pub(crate) fn error_json(code: &str, message: String, help: &str) -> String {
    let document = Document { error: Body { code, message, help } };
    serde_json::to_string(&document).unwrap_or_else(|_| r#"{"error":{"code":"cli::bug"}}"#.to_owned())
}

impl Told {
    /// The stable name of what went wrong.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The causes are part of the message: whoever shows one line must not lose them.
    fn full_message(&self) -> String {
        let mut message = self.message.clone();
        for cause in &self.causes {
            let _ = write!(message, ": {cause}");
        }
        message
    }

    fn to_json(&self) -> String {
        error_json(self.code, self.full_message(), &self.help)
    }

    fn to_text(&self, paint: Paint) -> String {
        let mut text = sentence(&paint.error("error:"), &printable(&self.message), paint);
        for cause in &self.causes {
            text.push_str(&sentence(&format!("  {}", paint.dim("caused by:")), &printable(cause), paint));
        }
        if let Some(snippet) = &self.snippet {
            text.push_str(&snippet.draw(paint));
            if !snippet.label.is_empty() && !snippet.is_labelled(paint) {
                text.push_str(&sentence(&paint.hint("note:"), &snippet.label, paint));
            }
        }
        text.push_str(&sentence(&paint.hint("help:"), &printable(&self.help), paint));
        text
    }
}

/// What is told after a label, broken between words where the terminal is narrow.
pub(crate) fn sentence(label: &str, words: &str, paint: Paint) -> String {
    wrap(&format!("{label} {words}"), paint.columns(), 2).into_owned() + "\n"
}

/// Columns before the text of a frame, with room for the number of its line.
const FRAME_COLUMNS: usize = 9;

/// How much of a long line is shown on either side of the mistake.
const CONTEXT_MAX: usize = 40;

/// How much of a long mistake is marked.
const MARKED_MAX: usize = 60;

impl Snippet {
    /// What is worth showing of a line and the one before it; `marked` are bytes of the line.
    pub(crate) fn cut(
        name: impl Into<Cow<'static, str>>,
        (line, column): (usize, usize),
        [before, text]: [&str; 2],
        marked: Range<usize>,
        label: String,
    ) -> Self {
        let start = text.floor_char_boundary(marked.start);
        let end = marked.end.min(start + MARKED_MAX).clamp(start, text.len());
        let end = text.ceil_char_boundary(end);
        let from = text.floor_char_boundary(start.saturating_sub(CONTEXT_MAX));
        let to = text.ceil_char_boundary(end.saturating_add(CONTEXT_MAX).min(text.len()));
        // One column for each character, so that the mark stays under the mistake.
        let shown =
            |text: &str| -> String { text.chars().map(|c| if is_hazardous(c) { '·' } else { c }).collect() };
        let mark = |is_cut: bool| if is_cut { "…" } else { "" };
        let left = mark(from > 0).to_owned() + &shown(&text[from..start]);
        let middle = shown(&text[start..end]);
        let kept = before.floor_char_boundary(2 * CONTEXT_MAX);
        Self {
            name: name.into(),
            line,
            column,
            before: shown(&before[..kept]) + mark(kept < before.len()),
            marked: left.len()..left.len() + middle.len(),
            shown: left + &middle + &shown(&text[end..to]) + mark(to < text.len()),
            label,
        }
    }

    /// The marked line, as miette draws it. The message and the help around it are ours, so its heading is cut off;
    /// and as it sees only a part of the text, the place is put right.
    pub(crate) fn draw(&self, paint: Paint) -> String {
        match paint.columns().filter(|columns| self.columns() > *columns) {
            Some(columns) => self.narrowed(columns, self.is_labelled(paint)).draw_whole(paint),
            None => self.draw_whole(paint),
        }
    }

    /// Whether the label stands at the mark. Where it does not fit, it is told below.
    pub(crate) fn is_labelled(&self, paint: Paint) -> bool {
        !self.label.is_empty()
            && paint.columns().is_none_or(|columns| {
                self.columns() <= columns
                    || FRAME_COLUMNS + self.marked.len() + self.label.width() + 6 <= columns
            })
    }

    /// Columns of the frame.
    fn columns(&self) -> usize {
        let label = self.shown[..self.marked.start].width() + self.marked.len() + self.label.width() + 4;
        FRAME_COLUMNS + self.shown.width().max(self.before.width()).max(label)
    }

    /// As much of it around the mistake as there is room for.
    fn narrowed(&self, columns: usize, is_labelled: bool) -> Self {
        let label = if is_labelled { self.label.clone() } else { String::new() };
        let room = columns.saturating_sub(FRAME_COLUMNS + 2);
        let after =
            if is_labelled { (label.width() + 4).saturating_sub(self.marked.len()) } else { room / 4 };
        let (left, rest) = self.shown.split_at(self.marked.start);
        let (marked, right) = rest.split_at(self.marked.len());
        let marked_room = room.saturating_sub(after).max(1);
        let (is_long, marked) = (marked.chars().count() > marked_room, marked.chars().take(marked_room));
        let (marked, right): (String, _) = (marked.collect(), if is_long { "…" } else { right });
        let left_room = room.saturating_sub(marked.width() + after.min(room));
        let cut = left.chars().count() > left_room;
        let kept = if cut { left_room.saturating_sub(1) } else { left_room };
        let skipped = left.chars().count().saturating_sub(kept);
        let left = if cut { "…" } else { "" }.to_owned() + &left.chars().skip(skipped).collect::<String>();
        let right_room = room.saturating_sub(left.width() + marked.width());
        let shown = format!("{left}{marked}{}", shorten(right, right_room.max(1)));
        Self {
            name: self.name.clone(),
            line: self.line,
            column: self.column,
            before: shorten(&self.before, room).into_owned(),
            marked: left.len()..left.len() + marked.len(),
            shown,
            label,
        }
    }

    fn draw_whole(&self, paint: Paint) -> String {
        let theme = if paint.is_on() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false);
        let mut before = "\n".repeat(self.line.saturating_sub(2));
        if self.line > 1 {
            before = before + &self.before + "\n";
        }
        let words = (!self.label.is_empty()).then(|| self.label.clone());
        let label = LabeledSpan::new(words, before.len() + self.marked.start, self.marked.len().max(1));
        let drawing = Drawing { text: before + &self.shown, label };
        let mut drawn = String::new();
        if handler.without_syntax_highlighting().render_report(&mut drawn, &drawing).is_err() {
            return String::new();
        }
        let mut frame = drawn.lines().skip_while(|line| !line.contains('╭'));
        let Some((margin, _)) = frame.next().and_then(|line| line.split_once('╭')) else {
            return String::new();
        };
        let head = format!("{margin}╭─[{}:{}:{}]\n", self.name, self.line, self.column);
        frame.fold(head, |text, line| text + line.trim_end() + "\n")
    }
}

#[derive(Debug, thiserror::Error)]
#[error("")]
struct Drawing {
    text: String,
    label: LabeledSpan,
}

impl miette::Diagnostic for Drawing {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(self.label.clone())))
    }
}

/// What a panic is told as; the panic itself ends one command and nothing else.
#[derive(Debug, thiserror::Error)]
#[error("this is a bug in weir: {what}")]
pub(crate) struct Bug {
    /// Message and place of the panic.
    pub(crate) what: String,
}

impl Explain for Bug {
    fn code(&self) -> &'static str {
        "cli::bug"
    }

    fn help(&self) -> std::borrow::Cow<'static, str> {
        "please report this line and the command you ran; `weir verify` tells whether the journal is sound"
            .into()
    }

    fn fault(&self) -> Fault {
        Fault::Bug
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer \u{1b}[2J")]
    struct Outer(#[source] std::io::Error);

    impl Explain for Outer {
        fn code(&self) -> &'static str {
            "test::outer"
        }
        fn help(&self) -> std::borrow::Cow<'static, str> {
            "try `this`".into()
        }
        fn fault(&self) -> Fault {
            Fault::Storage
        }
    }

    #[test]
    fn causes_and_help_are_told_and_control_characters_are_not() {
        let failure = Failure::from(Outer(std::io::Error::other("inner")));
        assert_eq!(failure.exit(), Exit::Failed);
        insta::assert_snapshot!(failure.render(false, Paint::OFF), @r"
        error: outer \u{1b}[2J
          caused by: inner
        help: try `this`
        ");
        insta::assert_snapshot!(
            failure.render(true, Paint::OFF),
            @r#"{"error":{"code":"test::outer","message":"outer \u001b[2J: inner","help":"try `this`"}}"#
        );
    }

    #[test]
    fn a_snippet_of_a_long_line_keeps_the_mark_in_place() {
        let line = format!("{}x{}", "é".repeat(500), "y".repeat(500));
        let snippet = Snippet::cut("f", (1, 1001), ["", &line], 1000..1001, "here".into());
        assert_eq!(&snippet.shown[snippet.marked.clone()], "x");
        assert!(snippet.shown.len() < 3 * CONTEXT_MAX, "{}", snippet.shown.len());
    }

    #[test]
    fn a_snippet_is_as_wide_as_the_terminal() {
        let line = format!("{}bad{}", "a, ".repeat(20), ", c".repeat(20));
        for columns in [20, 40, 60] {
            for label in ["", "short", "words that are far too long to stand at the mark of a narrow one"] {
                let snippet = Snippet::cut("f", (7, 61), ["before it all", &line], 60..63, label.into());
                let drawn = snippet.draw(Paint::narrow(columns));
                let mut lines = drawn.lines();
                let shown = lines.find(|line| line.contains("bad")).expect(&drawn);
                assert!(drawn.lines().all(|line| line.width() <= columns), "{columns}\n{drawn}");
                let mark = lines.next().and_then(|line| line.find(['─', '┬'])).expect(&drawn);
                assert_eq!(
                    shown[..shown.find("bad").expect("found")].chars().count(),
                    lines_before(&drawn, mark),
                    "{columns}\n{drawn}"
                );
            }
        }
    }

    /// Characters before a byte of the line of the mark.
    fn lines_before(drawn: &str, at: usize) -> usize {
        let marked = drawn.lines().skip_while(|line| !line.contains("bad")).nth(1).unwrap_or_default();
        marked[..at].chars().count()
    }

    #[test]
    fn a_snippet_points_at_the_byte() {
        let snippet = Snippet {
            name: "--payload".into(),
            line: 3,
            column: 1_010,
            before: r#"{"b": 1,"#.into(),
            shown: r#" "a": tru}"#.into(),
            marked: 9..10,
            label: "expected ident".into(),
        };
        let failure = Failure::from(Outer(std::io::Error::other("inner"))).with_snippet(snippet);
        insta::assert_snapshot!(failure.render(false, Paint::OFF), @r#"
        error: outer \u{1b}[2J
          caused by: inner
           ╭─[--payload:3:1010]
         2 │ {"b": 1,
         3 │  "a": tru}
           ·          ┬
           ·          ╰── expected ident
           ╰────
        help: try `this`
        "#);
    }
}

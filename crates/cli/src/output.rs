//! What a command prints: data on standard output, everything else on standard error.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_types::{Explain, Fault};

use crate::paint::{Paint, Surroundings, When};
use crate::report::{Failure, Outcome};
use crate::show::{json_on_a_terminal, printable_lines};
use crate::wrap::wrap;

/// Raised when a field of a document changes its meaning; new fields do not raise it.
const DOCUMENT_VERSION: u32 = 1;

/// The two streams, and what the user wants to see on them.
#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    /// Print for programs.
    pub(crate) json: bool,
    /// Colours for standard output.
    pub(crate) paint: Paint,
    /// Colours for standard error.
    pub(crate) err: Paint,
    /// Columns of the terminal, if standard output is one.
    pub(crate) columns: Option<usize>,
    terminal: bool,
    progress: bool,
}

/// Standard output cannot be written, and not because its reader has gone.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
struct StdoutError(#[source] io::Error);

impl Explain for StdoutError {
    fn code(&self) -> &'static str {
        "cli::stdout"
    }

    fn help(&self) -> Cow<'static, str> {
        "check where the output goes (is that disk full?); what the command did stays done, see `weir session list`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Storage
    }
}

#[derive(Serialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    body: T,
}

impl Out {
    /// Output as the flags and the terminal ask for it.
    pub(crate) fn new(json: bool, color: When) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let paint = Paint::new(color, Surroundings::of(&stdout));
        Self {
            json,
            paint,
            err: Paint::new(color, Surroundings::of(&stderr)),
            columns: paint.columns(),
            terminal: stdout.is_terminal(),
            progress: stderr.is_terminal() && !json,
            stdout: BufWriter::with_capacity(64 * 1024, stdout),
        }
    }

    /// Whether somebody looks at standard output.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Stored text, safe for a terminal if there is one; else as it is.
    pub(crate) fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.terminal { printable_lines(text) } else { Cow::Borrowed(text) }
    }

    /// A line of text.
    pub(crate) fn line(&mut self, line: Arguments<'_>) -> Outcome {
        self.stdout.write_fmt(line).and_then(|()| self.stdout.write_all(b"\n")).map_err(stdout_failed)
    }

    /// A sentence, broken between words where the terminal is narrow; what follows a break is indented.
    pub(crate) fn prose(&mut self, line: Arguments<'_>, indent: usize) -> Outcome {
        let line = line.to_string();
        self.line(format_args!("{}", wrap(&line, self.columns, indent)))
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.stdout.write_all(bytes).map_err(stdout_failed)
    }

    /// One object of many, on a line of its own.
    pub(crate) fn object(&mut self, object: &impl Serialize) -> Outcome {
        let json = serde_json::to_string(object).map_err(|error| stdout_failed(error.into()))?;
        self.json_line(&json)
    }

    /// JSON on a line of its own; byte for byte, except on a terminal, where control characters are escaped.
    pub(crate) fn json_line(&mut self, json: &str) -> Outcome {
        if self.terminal {
            return self.line(format_args!("{}", json_on_a_terminal(json)));
        }
        self.line(format_args!("{json}"))
    }

    /// The one document that a command prints.
    pub(crate) fn document(&mut self, body: &impl Serialize) -> Outcome {
        self.object(&Versioned { version: DOCUMENT_VERSION, body })
    }

    /// Hands everything printed so far to whoever reads it.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.stdout.flush().map_err(stdout_failed)
    }

    /// A remark for people, on standard error. Programs get the facts in the document instead.
    pub(crate) fn note(&self, note: Arguments<'_>) {
        self.remark(&self.err.hint("note:"), note);
    }

    /// A line for people beside the data, on standard error.
    pub(crate) fn aside(&self, line: Arguments<'_>) {
        if !self.json {
            let line = line.to_string();
            let _ = writeln!(io::stderr(), "{}", wrap(&line, self.err.columns(), 0));
        }
    }

    /// A remark about something that may be wrong.
    pub(crate) fn warn(&self, warning: Arguments<'_>) {
        self.remark(&self.err.warn("warning:"), warning);
    }

    fn remark(&self, label: &str, remark: Arguments<'_>) {
        if !self.json {
            // A remark that cannot be made is no reason to fail.
            let line = format!("{label} {remark}");
            let _ = writeln!(io::stderr(), "{}", wrap(&line, self.err.columns(), 2));
        }
    }

    /// Whether somebody watches what takes long.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Shows how far a long piece of work is, if somebody watches.
    pub(crate) fn progress(&self, doing: &'static str) -> Progress {
        Progress { doing, shown: self.progress, next: Instant::now() + Progress::PATIENCE, drawn: false }
    }
}

/// What a failed write to standard output means.
pub(crate) fn stdout_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe { Failure::ClosedPipe } else { StdoutError(error).into() }
}

/// A line on a terminal that is drawn over and over, and gone when the work is done.
#[derive(Debug)]
pub(crate) struct Progress {
    doing: &'static str,
    shown: bool,
    next: Instant,
    drawn: bool,
}

impl Progress {
    /// Short work shows nothing.
    const PATIENCE: Duration = Duration::from_millis(300);
    const INTERVAL: Duration = Duration::from_millis(100);

    /// So much is done, of so much if that is known.
    pub(crate) fn at(&mut self, done: u64, total: Option<u64>, noun: &str) {
        if !self.shown || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Self::INTERVAL;
        self.drawn = true;
        let done_text = crate::show::count(done, noun);
        let share = total.filter(|total| *total > 0).map(|total| done.saturating_mul(100) / total);
        let share = share.map_or_else(String::new, |percent| format!(" ({}%)", percent.min(100)));
        let _ = write!(io::stderr(), "\r\x1b[2K{} {done_text}{share}", self.doing);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

//! Problems as data: whoever shows them decides how.

use std::fmt;

use serde::Serialize;

/// Most problems told about one file. Whoever has more has one problem.
const DIAGNOSTICS_MAX: usize = 100;

const TOO_MANY: &str = "spec::too-many";

/// One problem in a file of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// A stable name such as `spec::unknown-key`; see [`crate::CODES`].
    pub code: &'static str,
    /// Whether it stands in the way.
    pub severity: Severity,
    /// The file, as it was named to us.
    pub file: String,
    /// Where in it.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// Other places that have to do with it.
    pub related: Vec<Related>,
    /// Whether what stands at `span` may be a secret: whoever shows the line masks it. See [`crate::mask`].
    pub hide: bool,
}

/// Whether a problem stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// There is no manifest until it is mended.
    Error,
    /// Probably not what was meant.
    Warning,
}

/// A place that has to do with a problem elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// The file it is in.
    pub file: String,
    /// Where.
    pub span: Span,
    /// What is there.
    pub message: String,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
    /// The line of its first byte, from 1.
    pub line: usize,
    /// The column of its first byte in characters, from 1.
    pub column: usize,
}

/// A value, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub span: Span,
}

impl Span {
    /// The beginning of a file, for what is wrong with all of it.
    pub const START: Self = Self { start: 0, end: 0, line: 1, column: 1 };
}

impl Diagnostic {
    /// An error with nothing related to it.
    pub fn error(
        code: &'static str,
        file: &str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity: Severity::Error,
            file: file.to_owned(),
            span,
            message: message.into(),
            help: help.into(),
            related: Vec::new(),
            hide: false,
        }
    }

    /// The same, but it does not stand in the way.
    #[must_use]
    pub fn warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// The same, with another place that has to do with it.
    #[must_use]
    pub fn related(mut self, file: &str, span: Span, message: impl Into<String>) -> Self {
        self.related.push(Related { file: file.to_owned(), span, message: message.into() });
        self
    }

    /// The same, but what stands there is not to be shown.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self { hide: true, ..self }
    }

    /// Whether it stands in the way.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Puts problems into the order in which they are shown: by file, by place, by code.
pub fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by(|a, b| {
        // That there are more comes after all that are told.
        let key = |d: &Diagnostic| (d.code == TOO_MANY, d.span.start, d.span.end, d.code);
        a.file.cmp(&b.file).then_with(|| key(a).cmp(&key(b))).then_with(|| a.message.cmp(&b.message))
    });
}

/// `file:line:column: message`, for a log; a terminal deserves the source line as well.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.span.line, self.span.column, self.message)
    }
}

/// The problems of one file, as they are found.
pub(crate) struct Findings {
    file: String,
    found: Vec<Diagnostic>,
    left_out: usize,
}

impl Findings {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), found: Vec::new(), left_out: 0 }
    }

    /// The file, as it was named to us.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn add(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let problem = Diagnostic::error(code, &self.file, span, message, help);
        self.push(problem);
    }

    /// Something that is here twice, and may not be.
    pub(crate) fn twice(
        &mut self,
        code: &'static str,
        [first, again]: [Span; 2],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let problem = Diagnostic::error(code, &self.file, again, message, help);
        let problem = problem.related(&self.file, first, "first here");
        self.push(problem);
    }

    pub(crate) fn push(&mut self, problem: Diagnostic) {
        if self.found.len() >= DIAGNOSTICS_MAX {
            self.left_out += 1;
            return;
        }
        self.found.push(problem);
    }

    /// Everything found, in the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        sort(&mut self.found);
        if self.left_out > 0 {
            let span = self.found.last().map(|last| last.span).unwrap_or_default();
            let message = format!("{} more problems are not shown", self.left_out);
            let more = Diagnostic::error(TOO_MANY, &self.file, span, message, "mend these first");
            self.found.push(more);
        }
        self.found
    }

    /// The value, unless something is wrong with it.
    pub(crate) fn conclude<T>(self, value: Option<T>) -> Result<T, Vec<Diagnostic>> {
        let found = self.finish();
        match value {
            Some(value) if !found.iter().any(Diagnostic::is_error) => Ok(value),
            _ => Err(found),
        }
    }
}

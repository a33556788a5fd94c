//! Problems as data: whoever shows them decides how.

use std::fmt;

/// Most problems told about one file. Whoever has more has one problem.
const DIAGNOSTICS_MAX: usize = 100;

/// One problem in a file of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable name such as `spec::unknown-key`.
    pub code: &'static str,
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
}

/// A place that has to do with a problem elsewhere in the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// What is there.
    pub message: String,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        self.add_related(code, span, message, help, Vec::new());
    }

    pub(crate) fn add_related(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
        related: Vec<Related>,
    ) {
        if self.found.len() >= DIAGNOSTICS_MAX {
            self.left_out += 1;
            return;
        }
        let (message, help) = (message.into(), help.into());
        self.found.push(Diagnostic { code, file: self.file.clone(), span, message, help, related });
    }

    /// The value, unless something is wrong with it. Problems come in the order of the file.
    pub(crate) fn conclude<T>(mut self, value: Option<T>) -> Result<T, Vec<Diagnostic>> {
        self.found.sort_by_key(|diagnostic| diagnostic.span.start);
        if self.left_out > 0 {
            let span = self.found.last().map(|last| last.span).unwrap_or_default();
            let message = format!("{} more problems are not shown", self.left_out);
            self.found.push(Diagnostic {
                code: "spec::too-many",
                file: self.file.clone(),
                span,
                message,
                help: "mend these first".to_owned(),
                related: Vec::new(),
            });
        }
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => Err(self.found),
        }
    }
}

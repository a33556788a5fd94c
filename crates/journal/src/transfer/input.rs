//! An export, read line by line.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::ImportError;
use crate::lines::{EXPORT_VERSION, LINE_BYTES_MAX, Line, LineError, parse};

/// Where the lines come from.
pub(super) struct Input<'a> {
    reader: &'a mut (dyn AsyncBufRead + Send + Unpin),
    /// The number of the line read last, from 1.
    pub(super) line: u64,
    buffer: Vec<u8>,
    has_header: bool,
}

/// What comes next.
pub(super) enum Next {
    /// A whole line, of so many bytes.
    Line(Box<Line>, u64),
    /// Half a line of so many bytes, and then nothing: the file was cut.
    Cut(u64),
    /// Nothing.
    End,
}

impl<'a> Input<'a> {
    pub(super) fn new(reader: &'a mut (dyn AsyncBufRead + Send + Unpin)) -> Self {
        Self { reader, line: 0, buffer: Vec::new(), has_header: false }
    }

    pub(super) async fn next(&mut self) -> Result<Next, ImportError> {
        loop {
            self.line += 1;
            let line = self.line;
            self.fill().await?;
            if self.buffer.is_empty() {
                return Ok(Next::End);
            }
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            let bytes = self.buffer.len() as u64;
            let is_whole = self.buffer.ends_with(b"\n");
            return match parse(&self.buffer) {
                Ok(parsed) => {
                    self.has_header |= matches!(parsed, Line::Header { .. });
                    if self.has_header {
                        Ok(Next::Line(Box::new(parsed), bytes))
                    } else {
                        Err(ImportError::NotAnExport)
                    }
                }
                Err(source @ (LineError::TooLong | LineError::Newer { .. })) => {
                    Err(ImportError::Line { line, source })
                }
                Err(_) if !self.has_header && (is_whole || !self.is_start_of_header()) => {
                    Err(ImportError::NotAnExport)
                }
                Err(_) if !is_whole => Ok(Next::Cut(bytes)),
                Err(source) => Err(ImportError::Line { line, source }),
            };
        }
    }

    /// Whether what was read could be the start of an export that was cut in its first line.
    fn is_start_of_header(&self) -> bool {
        Line::Header { version: EXPORT_VERSION }.to_text().as_bytes().starts_with(&self.buffer)
    }

    /// Reads up to and including the next line feed, or to the end; more than a line may have is left unread.
    async fn fill(&mut self) -> Result<(), ImportError> {
        self.buffer.clear();
        loop {
            let failed = |source| ImportError::Input { line: self.line, source };
            let available = self.reader.fill_buf().await.map_err(failed)?;
            let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            self.buffer.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            if taken == 0 || end.is_some() || self.buffer.len() > LINE_BYTES_MAX {
                return Ok(());
            }
        }
    }
}

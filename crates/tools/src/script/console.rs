//! What a script writes to its console, bounded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bound::head;

/// Most lines of one call, of one line, and of all of them: a console is for a look, not for data.
const LINES_MAX: usize = 199;
const LINE_BYTES_MAX: usize = 4 * 1024;
const BYTES_MAX: usize = 64 * 1024;

/// The console of one call. It can be read from outside while the script runs.
#[derive(Clone, Default)]
pub(super) struct Console(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    lines: Vec<String>,
    bytes: usize,
    left_out: usize,
}

impl Console {
    /// One more line.
    pub(super) fn write(&self, text: &str) {
        let mut written = self.written();
        let line = match head(text, LINE_BYTES_MAX) {
            whole if whole.len() == text.len() => whole.to_owned(),
            cut => format!("{cut}… ({} bytes)", text.len()),
        };
        if written.lines.len() >= LINES_MAX || written.bytes + line.len() > BYTES_MAX {
            written.left_out += 1;
            return;
        }
        written.bytes += line.len();
        written.lines.push(line);
    }

    /// All lines so far.
    pub(super) fn lines(&self) -> Vec<String> {
        let written = self.written();
        let mut lines = written.lines.clone();
        if written.left_out > 0 {
            lines.push(format!("({} more lines were left out)", written.left_out));
        }
        lines
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

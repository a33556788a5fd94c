//! The files of a session, read: one of them, their names, or what is in them.

mod find;
mod list;
mod read;
mod search;

pub(super) mod content;
pub(super) mod glob;
pub(super) mod place;

use serde_json::json;

use super::{Builtin, Says};
use crate::call::Failed;
use crate::files::FilesError;

pub(super) use find::glob;
pub(super) use list::list;
pub(super) use read::read;
pub(super) use search::search;

/// Most bytes of an answer of ours: below what is shown of a result, so that ours are never cut a second time.
const SHOWN_BYTES_MAX: usize = 28 * 1024;

pub(super) fn says(builtin: Builtin) -> Says {
    match builtin {
        Builtin::FsList => (
            "Lists a directory: its directories with what they hold, then its files with their sizes. Use it to get an \
             overview; use fs_glob to find files by name.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The directory, from the top of the workspace, such as `src`. Left out: the top."},
                    "recursive": {"type": "boolean", "description": "Lists all files below it, too. Default: false."},
                    "limit": limit(list::LIMIT, list::LIMIT_MAX, "entries"),
                },
                "additionalProperties": false,
            }),
        ),
        Builtin::FsGlob => (
            "Finds files by name. `*` and `?` stay within one part of a path, `**` crosses directories; `[a-z]`, `[!a-z]` and \
             `{a,b}` work. A pattern without `/` is looked for in every directory. Use it when you know (part of) the name.",
            json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "minLength": 1, "description": "Such as `*.rs`, `src/**/*.{ts,tsx}` or `docs/*`."},
                    "limit": limit(find::LIMIT, find::LIMIT_MAX, "files"),
                },
                "required": ["pattern"],
                "additionalProperties": false,
            }),
        ),
        Builtin::FsSearch => (
            "Finds lines in files, shown as `path:line: text`. Give either `text`, taken as it is, or `pattern`, a regular \
             expression (no look-around, no back-references). Use it to find where something is defined, used or said.",
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1, "description": "The exact text to find."},
                    "pattern": {"type": "string", "minLength": 1, "description": "A regular expression for one line, such as `fn \\w+_test`."},
                    "ignore_case": {"type": "boolean", "description": "Takes upper and lower case for the same. Default: false."},
                    "glob": {"type": "string", "minLength": 1, "description": "Only files with such a name, as in fs_glob: `*.rs`, `src/**`."},
                    "context": {"type": "integer", "minimum": 0, "maximum": search::CONTEXT_MAX, "description": "How many lines to show before and after each match. Default: 0."},
                    "limit": limit(search::LIMIT, search::LIMIT_MAX, "matching lines"),
                },
                "additionalProperties": false,
            }),
        ),
        _ => (
            "Reads a text file, or a part of it. Each line is shown as its number, a tab and its text: leave number and tab out \
             when you quote it for an edit. Use it before you change a file. Of a file that is no text, only its size and type are told.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "minLength": 1, "description": "The file, from the top of the workspace, such as `src/main.rs`."},
                    "offset": {"type": "integer", "minimum": 1, "description": "The first line to show. Default: 1."},
                    "limit": limit(read::LIMIT, read::LIMIT_MAX, "lines"),
                },
                "required": ["path"],
                "additionalProperties": false,
            }),
        ),
    }
}

fn limit(usual: usize, most: usize, what: &str) -> serde_json::Value {
    let description = format!("How many {what} to show. Default: {usual}.");
    json!({"type": "integer", "minimum": 1, "maximum": most, "description": description})
}

impl From<FilesError> for Failed {
    fn from(error: FilesError) -> Self {
        let class = match &error {
            FilesError::Missing(_) => "missing",
            FilesError::Path(_) => "path",
            FilesError::TooMuch(_) => "too_much",
            FilesError::Unavailable(_) => "unavailable",
        };
        Self::new(class, error.to_string())
    }
}

/// Work that is too long for the async runtime. It is bounded by its input: nothing waits for it once its call is dropped.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failed> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Failed::new("internal", "the tool broke off; this is a bug in weir"))
}

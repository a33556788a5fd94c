//! The files of a session, changed: written, or texts in them replaced.
//!
//! Line ends: what is written is written as it is. In a file whose lines all end with CRLF, a line break in `old` and `new`
//! stands for CRLF, because models see and write plain line breaks; where line ends are mixed, texts are taken as they are.

mod difference;
mod nearest;
mod replacing;

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use self::difference::difference;
use self::replacing::{Replacement, replaced};
use super::fs::content::{Content, content, counted, line_ends, lines_in};
use super::fs::off_the_runtime;
use super::fs::place::{at, from_top, missing};
use super::{Builtin, Running, Says};
use crate::call::{Done, Failed};
use crate::files::Edit;

/// The largest text that is written or edited. More is data, which commands handle better than models do.
const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most replacements in one call.
const EDITS_MAX: usize = 100;

pub(super) fn says(builtin: Builtin) -> Says {
    let path = json!({"type": "string", "minLength": 1, "description": "The file, from the top of the workspace, such as `src/main.rs`."});
    let old = json!({"type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file, white space included, without line numbers. Take enough of it to be unique."});
    let new = json!({"type": "string", "description": "What to put there. May be empty."});
    let all = json!({"type": "boolean", "description": "Replaces every occurrence instead of the only one. Default: false."});
    match builtin {
        Builtin::EditReplace => (
            "Replaces a text in a file. It must be there exactly as given and only once (or give `all`). Use it for small changes, \
             after fs_read; the answer shows the lines that changed.",
            json!({
                "type": "object",
                "properties": {"path": path, "old": old, "new": new, "all": all},
                "required": ["path", "old", "new"],
                "additionalProperties": false,
            }),
        ),
        Builtin::EditMulti => (
            "Replaces several texts in one file, in order, each in what the ones before it left. All of them or none: if one does not \
             fit, the file stays as it was. Use it instead of several edit_replace of the same file.",
            json!({
                "type": "object",
                "properties": {
                    "path": path,
                    "edits": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": EDITS_MAX,
                        "description": "What to replace, in order.",
                        "items": {
                            "type": "object",
                            "properties": {"old": old, "new": new, "all": all},
                            "required": ["old", "new"],
                            "additionalProperties": false,
                        },
                    },
                },
                "required": ["path", "edits"],
                "additionalProperties": false,
            }),
        ),
        _ => (
            "Writes a whole file: makes a new one, or replaces all of one that is there. Use it for new files; to change a part of a \
             file, edit_replace is safer and shorter.",
            json!({
                "type": "object",
                "properties": {
                    "path": path,
                    "content": {"type": "string", "description": "The whole content of the file."},
                },
                "required": ["path", "content"],
                "additionalProperties": false,
            }),
        ),
    }
}

#[derive(Deserialize)]
struct WriteInput {
    path: String,
    content: String,
}

pub(super) async fn write(running: &Running) -> Result<Done, Failed> {
    let WriteInput { path, content: new } = running.input()?;
    let path = from_top(&path)?;
    within_bounds(&path, new.len())?;
    let mut edit = running.started.world.files.edit().await?;
    let before = match at(&edit.list(), &path) {
        // What is too large to be compared is only replaced.
        Some(file) if file.size <= FILE_BYTES_MAX as u64 => Some(edit.read(&path).await?),
        Some(file) => return replace_unseen(edit, &path, file.size, new).await,
        None => None,
    };
    if before.as_deref() == Some(new.as_bytes()) {
        return Ok(Done::text(format!("`{path}` already has exactly this content; nothing changed")));
    }
    let new: Arc<str> = new.into();
    edit.write(&path, Bytes::copy_from_slice(new.as_bytes())).await?;
    let words = off_the_runtime(move || told(&path, before.as_deref(), &new)).await?;
    Ok(Done::text(words).with_traces(edit.finish()))
}

async fn replace_unseen(mut edit: Box<dyn Edit>, path: &str, size: u64, new: String) -> Result<Done, Failed> {
    let words = format!("replaced `{path}`: {} (it had {size} bytes)", size_of(&new));
    edit.write(path, new.into()).await?;
    Ok(Done::text(words).with_traces(edit.finish()))
}

/// What a file was before, and what it is now.
fn told(path: &str, before: Option<&[u8]>, new: &str) -> String {
    let Some(before) = before else { return format!("created `{path}`: {}", size_of(new)) };
    let Content::Text(old) = content(before) else {
        return format!(
            "replaced `{path}`: {} (it was not text and had {} bytes)",
            size_of(new),
            before.len()
        );
    };
    let ends = match (line_ends(old), line_ends(new)) {
        (before, after) if before == after || old.is_empty() => String::new(),
        (before, after) => format!("; its line ends were {} and are {} now", before.word(), after.word()),
    };
    let difference = difference(old, new);
    format!("replaced `{path}`: {} (it had {}){ends}\n{difference}", size_of(new), size_of(old))
}

fn size_of(text: &str) -> String {
    format!("{}, {} bytes", counted(lines_in(text), "line"), text.len())
}

#[derive(Deserialize)]
struct ReplaceInput {
    path: String,
    #[serde(flatten)]
    replacement: Replacement,
}

pub(super) async fn replace(running: &Running) -> Result<Done, Failed> {
    let ReplaceInput { path, replacement } = running.input()?;
    apply(running, &path, vec![replacement]).await
}

#[derive(Deserialize)]
struct MultiInput {
    path: String,
    edits: Vec<Replacement>,
}

pub(super) async fn multi(running: &Running) -> Result<Done, Failed> {
    let MultiInput { path, edits } = running.input()?;
    apply(running, &path, edits).await
}

async fn apply(running: &Running, path: &str, edits: Vec<Replacement>) -> Result<Done, Failed> {
    let path = from_top(path)?;
    let mut edit = running.started.world.files.edit().await?;
    let listed = edit.list();
    let Some(file) = at(&listed, &path) else { return Err(missing(listed, &path).await) };
    within_bounds(&path, usize::try_from(file.size).unwrap_or(usize::MAX))?;
    let old = edit.read(&path).await?;
    let shown = path.clone();
    let (new, words) = off_the_runtime(move || edited(&shown, &old, &edits)).await??;
    edit.write(&path, new.into()).await?;
    Ok(Done::text(words).with_traces(edit.finish()))
}

/// The content with all edits, and what to say about it.
fn edited(path: &str, bytes: &[u8], edits: &[Replacement]) -> Result<(String, String), Failed> {
    let Ok(old) = std::str::from_utf8(bytes) else {
        let message = format!(
            "`{path}` is not text in UTF-8, so it is not edited as text; change it with bash, or replace it with edit_write"
        );
        return Err(Failed::new("binary", message));
    };
    let (mut text, mut count) = (old.to_owned(), 0);
    for (index, edit) in edits.iter().enumerate() {
        let (next, occurrences) = replaced(&text, edit).map_err(|failed| {
            let which = match edits.len() {
                1 => String::new(),
                many => format!("edit {} of {many}: ", index + 1),
            };
            let message = format!("{which}{}\n`{path}` was not changed.", failed.message);
            Failed::new(failed.class, message)
        })?;
        within_bounds(path, next.len())?;
        (text, count) = (next, count + occurrences);
    }
    if text == old {
        return Err(Failed::new(
            "invalid",
            format!("the edits cancel each other out; `{path}` was not changed"),
        ));
    }
    let words = format!("edited `{path}`: {}\n{}", counted(count, "replacement"), difference(old, &text));
    Ok((text, words))
}

fn within_bounds(path: &str, bytes: usize) -> Result<(), Failed> {
    if bytes <= FILE_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "`{path}` has, or would have, {bytes} bytes, and at most {FILE_BYTES_MAX} are edited as text; use bash"
    );
    Err(Failed::new("too_much", message))
}

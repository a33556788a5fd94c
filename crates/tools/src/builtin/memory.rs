//! What an agent remembers: kept under a name, found by its words, and followed from note to note.
//!
//! Ranking and following are pure functions of the notes, so the same notes and the same question give the same answer.

mod naming;
mod rank;
mod related;
mod words;

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use self::naming::{doc_of, tag_of};
use self::rank::{Query, ranked};
use self::related::near;
use super::fs::content::counted;
use super::fs::off_the_runtime;
use super::fs::place::similar;
use super::{Builtin, Running, Says};
use crate::bound::head;
use crate::call::{Done, Failed, Trace};
use crate::memory::{MemoryError, Note, Remembered};

/// The longest title, and the longest text. A note is something to find again, not a document.
const TITLE_CHARACTERS_MAX: usize = 200;
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Most tags, and the longest one.
const TAGS_MAX: usize = 20;
const TAG_CHARACTERS_MAX: usize = 50;

/// The longest question.
const QUERY_CHARACTERS_MAX: usize = 1_000;

/// How many notes are found if nobody says, and at most.
const FOUND: usize = 5;
const FOUND_MAX: usize = 20;

/// How much of each note is shown when several are.
const SHOWN_BYTES: usize = 1_200;

/// How far notes are followed, and how many are named if nobody says, and at most.
const DEPTH_MAX: usize = 3;
const RELATED: usize = 10;
const RELATED_MAX: usize = 50;

pub(super) fn says(builtin: Builtin) -> Says {
    match builtin {
        Builtin::MemorySearch => (
            "Finds notes you stored, in this session or earlier ones, the best match first. Use it before you ask the user something \
             they may have told you before. With `limit` 1 the best note is shown whole.",
            json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "minLength": 1, "maxLength": QUERY_CHARACTERS_MAX, "description": "Words to look for. `tag:rust` admits only notes with that tag."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX, "description": format!("How many notes to show. Default: {FOUND}.")},
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
        ),
        Builtin::MemoryRelated => (
            "Finds notes near a note: those it links to with [[title]], those that link to it, and those that share a tag. Use it after \
             memory_search to see what belongs to what you found.",
            json!({
                "type": "object",
                "properties": {
                    "doc": {"type": "string", "minLength": 1, "maxLength": 4 * TITLE_CHARACTERS_MAX, "description": "The name of the note as memory_search shows it, or its title."},
                    "depth": {"type": "integer", "minimum": 1, "maximum": DEPTH_MAX, "description": "How many steps to follow. Default: 1."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": RELATED_MAX, "description": format!("How many notes to name. Default: {RELATED}.")},
                },
                "required": ["doc"],
                "additionalProperties": false,
            }),
        ),
        _ => (
            "Remembers something for later sessions: a fact, a decision, a preference. One idea for each note, with a title you would \
             search for; a note with the same title is replaced. Link to other notes with [[title]]. Never store passwords or keys.",
            json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "minLength": 1, "maxLength": TITLE_CHARACTERS_MAX, "description": "What it is about, in a few words."},
                    "text": {"type": "string", "minLength": 1, "description": "What to remember."},
                    "tags": {"type": "array", "maxItems": TAGS_MAX, "items": {"type": "string", "minLength": 1, "maxLength": TAG_CHARACTERS_MAX}, "description": "Words to find it by, such as `rust` or `customer-acme`."},
                },
                "required": ["title", "text"],
                "additionalProperties": false,
            }),
        ),
    }
}

impl From<MemoryError> for Failed {
    fn from(error: MemoryError) -> Self {
        Self::new("unavailable", error.to_string())
    }
}

#[derive(Deserialize)]
struct StoreInput {
    title: String,
    text: String,
    #[serde(default)]
    tags: Vec<String>,
}

pub(super) async fn store(running: &Running) -> Result<Done, Failed> {
    let StoreInput { title, text, tags } = running.input()?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() || text.trim().is_empty() {
        return Err(Failed::new("invalid", "a note needs a title and a text"));
    }
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "the text has {} bytes, and a note has at most {TEXT_BYTES_MAX}; split it, or keep it in a file with edit_write",
            text.len()
        );
        return Err(Failed::new("too_much", message));
    }
    let mut kept: Vec<String> = Vec::new();
    for tag in tags.iter().map(|tag| tag_of(tag)) {
        if !tag.is_empty() && !kept.contains(&tag) {
            kept.push(tag);
        }
    }
    let memory = &running.started.world.memory;
    let doc = doc_of(&title);
    let replaces = memory.knows(&doc).await?;
    let words = match replaces {
        true => format!("replaced the note `{doc}`"),
        false => format!("stored as `{doc}`"),
    };
    let trace = memory.store(Note { doc, title, tags: kept, text }).await?;
    Ok(Done::text(words).with_traces([trace]))
}

#[derive(Deserialize)]
struct SearchInput {
    query: String,
    limit: Option<usize>,
}

pub(super) async fn search(running: &Running) -> Result<Done, Failed> {
    let SearchInput { query, limit } = running.input()?;
    let parsed = Query::new(&query);
    if parsed.is_empty() {
        return Err(Failed::new("invalid", "`query` has no word to look for"));
    }
    let memory = &running.started.world.memory;
    let (notes, older) = (memory.notes().await?, memory.older().await?);
    let (total, limit) = (notes.len(), limit.unwrap_or(FOUND));
    let (docs, words) = off_the_runtime(move || {
        let found = ranked(&notes, &parsed);
        let (docs, shown): (Vec<String>, Vec<String>) = found
            .iter()
            .take(limit)
            .map(|known| (known.note.doc.clone(), shown(known, &parsed, limit == 1 || found.len() == 1)))
            .unzip();
        let note = match found.len() {
            0 => format!("no note fits; there are {total} in all"),
            all if all > docs.len() => {
                format!("the best {} of {} that fit", docs.len(), counted(all, "note"))
            }
            all => counted(all, "note"),
        };
        let words = format!("{}[{note}{}]", shown.concat(), left_out(older));
        (docs, words)
    })
    .await?;
    Ok(Done::text(words).with_traces([Trace::MemoryRetrieved { query, docs }]))
}

/// What is said of notes that were not looked at.
fn left_out(older: usize) -> String {
    match older {
        0 => String::new(),
        1 => "; 1 older note was not searched".to_owned(),
        older => format!("; {} were not searched", counted(older, "older note")),
    }
}

/// A note, whole or around what was looked for.
fn shown(known: &Remembered, query: &Query, whole: bool) -> String {
    let Remembered { note, at } = known;
    let tags = if note.tags.is_empty() { String::new() } else { format!(", tags: {}", note.tags.join(", ")) };
    let text = if whole { note.text.trim_end().to_owned() } else { around(&note.text, query) };
    format!("## {} (doc: {}{tags}, stored: {at})\n{text}\n\n", note.title, note.doc)
}

/// A part of a longer text: from a little before the first line that has one of the words.
fn around(text: &str, query: &Query) -> String {
    let text = text.trim_end();
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if query.is_in(line) {
            break;
        }
        start += line.len();
    }
    // Never so late that less than a full part is shown.
    let latest = head(text, text.len() - SHOWN_BYTES).len();
    let start = if start >= text.len() { 0 } else { start.min(latest) };
    let part = head(&text[start..], SHOWN_BYTES);
    let mut shown = String::new();
    if start > 0 {
        let _ = write!(shown, "[after {start} bytes] ");
    }
    shown.push_str(part);
    let left = text.len() - start - part.len();
    if left > 0 {
        let _ = write!(shown, " [{left} more bytes; search for its title with `limit` 1 to see all]");
    }
    shown
}

#[derive(Deserialize)]
struct RelatedInput {
    doc: String,
    depth: Option<usize>,
    limit: Option<usize>,
}

pub(super) async fn related(running: &Running) -> Result<Done, Failed> {
    let RelatedInput { doc, depth, limit } = running.input()?;
    let memory = &running.started.world.memory;
    let (notes, older) = (memory.notes().await?, memory.older().await?);
    let known = |name: &str| notes.iter().position(|known| known.note.doc == name);
    let Some(start) = known(&doc).or_else(|| known(&doc_of(&doc))) else { return Err(unknown(&notes, &doc)) };
    let (depth, limit) = (depth.unwrap_or(1), limit.unwrap_or(RELATED));
    let name = notes[start].note.doc.clone();
    let (docs, words) = off_the_runtime(move || {
        let found = near(&notes, start, depth);
        let (docs, lines): (Vec<String>, Vec<String>) = found
            .iter()
            .take(limit)
            .map(|near| {
                let note = &notes[near.note].note;
                (note.doc.clone(), format!("{} (doc: {}): {}\n", note.title, note.doc, near.path))
            })
            .unzip();
        let note = match found.len() {
            0 => "no other note shares a tag or a link with it".to_owned(),
            all if all > docs.len() => format!("the nearest {} of {}", docs.len(), counted(all, "note")),
            all => counted(all, "note"),
        };
        (docs, format!("{}[{note}{}]", lines.concat(), left_out(older)))
    })
    .await?;
    let trace = Trace::MemoryRetrieved { query: format!("related to {name}"), docs };
    Ok(Done::text(words).with_traces([trace]))
}

fn unknown(notes: &Arc<[Remembered]>, doc: &str) -> Failed {
    let names = similar(notes.iter().map(|known| known.note.doc.as_str()), &doc_of(doc));
    let hint = match names.as_slice() {
        [] => "memory_search finds notes by their words".to_owned(),
        names => format!("did you mean `{}`?", names.join("`, `")),
    };
    let shown: String = doc.chars().take(100).collect();
    Failed::new("missing", format!("there is no note `{}`; {hint}", shown.escape_debug()))
}

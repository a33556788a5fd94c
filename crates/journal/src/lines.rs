//! Events as lines of JSON, in both directions: what `cat` and `export` print, and what `import` reads. The HTTP views are the same, but for
//! payloads over several lines, which stand in them as they are.
//!
//! A payload stands in its line as it is when it is JSON on one line, so that it comes back byte for byte; any other
//! payload is base64. An export is a header followed by events, with what they need (forks, keys, blobs) before them.

mod parse;
#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::IgnoredAny;
use weir_types::{BranchId, BranchName, Event, Hash, Seq};

use crate::append::Key;

pub use parse::{LineError, parse};

/// The longest line that is read or written. The largest payload fits, even as base64.
pub const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most content one blob line carries; a larger blob takes several.
pub const BLOB_PIECE_MAX: usize = 1024 * 1024;

/// The version of the export format this code writes, and the newest it reads.
pub const EXPORT_VERSION: u64 = 1;

/// Whether a line shows the event's position, which belongs to one journal and not to the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// For people and cursors.
    Shown,
    /// For export.
    Hidden,
}

/// One line of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The first line: which format this is.
    Header {
        /// [`EXPORT_VERSION`] of the writer.
        version: u64,
    },
    /// A branch, before its first event.
    Fork(ForkLine),
    /// A keyed part, before its first event.
    Key(KeyLine),
    /// A blob or a piece of one, before the first event that refers to it.
    Blob(BlobLine),
    /// An event. Its position is 0 if the line does not show one.
    Event(Event),
}

/// A branch other than `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkLine {
    /// The branch.
    pub branch: BranchId,
    /// The branch it left.
    pub parent: BranchName,
    /// The last shared event.
    pub at: Seq,
    /// That event's chain.
    pub chain: Hash,
}

/// A part that was appended with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLine {
    /// Where.
    pub branch: BranchId,
    /// The key.
    pub key: Key,
    /// The part's first event.
    pub first: Seq,
    /// The part's last event.
    pub last: Seq,
}

/// Content of a blob; the pieces of one blob follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobLine {
    /// The whole blob's name.
    pub hash: Hash,
    /// This piece of its content.
    pub data: Bytes,
    /// Whether another piece follows.
    pub more: bool,
}

impl Line {
    /// The line as text, without the line feed at its end. Events are written without their position.
    pub fn to_text(&self) -> String {
        match self {
            Self::Header { version } => Object::default().json("weir_export", &version.to_string()).end(),
            Self::Fork(fork) => {
                let inner = Object::default().branch(&fork.branch).text("parent", fork.parent.as_str());
                wrap("fork", inner.json("at", &fork.at.to_string()).text("chain", &fork.chain.to_string()))
            }
            Self::Key(KeyLine { branch, key, first, last }) => {
                let inner = Object::default().branch(branch).text("key", key.as_str());
                wrap("key", inner.json("first", &first.to_string()).json("last", &last.to_string()))
            }
            Self::Blob(BlobLine { hash, data, more }) => {
                let inner = Object::default().text("hash", &hash.to_string());
                wrap("blob", inner.text("data", &STANDARD.encode(data)).json("more", &more.to_string()))
            }
            Self::Event(event) => to_line(event, Positions::Hidden),
        }
    }
}

/// An event as one line of JSON, without the line feed at its end.
pub fn to_line(event: &Event, positions: Positions) -> String {
    written(event, positions, json_on_one_line(&event.payload))
}

/// An event as JSON for those who look at it: a payload that is JSON stands in it as it was written, on however many lines.
pub fn to_view(event: &Event, positions: Positions) -> String {
    written(event, positions, json(&event.payload))
}

/// An event as one line of JSON for programs that read it. Line breaks between the parts of a JSON payload become spaces;
/// the payload's bytes are not kept as in [`to_line`], its value is.
pub fn to_view_line(event: &Event, positions: Positions) -> String {
    let payload = json(&event.payload).map(|text| text.trim().replace(['\n', '\r'], " "));
    written(event, positions, payload.as_deref())
}

fn written(event: &Event, positions: Positions, payload: Option<&str>) -> String {
    let mut line = Object { text: String::with_capacity(event.payload.len() + 512) };
    if positions == Positions::Shown {
        line = line.json("position", &event.position.to_string());
    }
    line = line
        .text("stream", event.stream.as_str())
        .text("branch", event.branch.as_str())
        .json("seq", &event.seq.to_string())
        .text("id", &event.id.to_string())
        .text("ts", &event.ts.to_string())
        .text("kind", event.kind.as_str());
    line = match payload {
        Some(payload) => line.json("payload", payload),
        None => line.text("payload_base64", &STANDARD.encode(&event.payload)),
    };
    let refs: Vec<String> = event.refs.iter().map(|hash| format!("\"{hash}\"")).collect();
    line.json("meta", event.meta.as_str())
        .json("refs", &format!("[{}]", refs.join(",")))
        .text("payload_hash", &event.payload_hash.to_string())
        .text("chain", &event.chain.to_string())
        .end()
}

/// The payload as text, if it can stand in a line as it is and be found there again: JSON by its grammar (numbers of
/// any size, escapes of any kind, any depth), without white space around it or line breaks in it.
fn json_on_one_line(payload: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(payload).ok()?;
    if text.trim_matches([' ', '\t']).len() != text.len() || text.contains(['\n', '\r']) {
        return None;
    }
    json(payload)
}

/// The payload as text, if it is JSON by its grammar.
fn json(payload: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(payload).ok()?;
    // Skipping a value checks its grammar without recursion and without building anything.
    serde_json::from_str::<IgnoredAny>(text).ok().map(|_| text)
}

fn wrap(name: &str, inner: Object) -> String {
    Object::default().json(name, &inner.end()).end()
}

/// A JSON object under construction, its fields in the order they are given.
#[derive(Default)]
pub(crate) struct Object {
    text: String,
}

impl Object {
    pub(crate) fn json(mut self, name: &str, json: &str) -> Self {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.text.push('"');
        self.text.push_str(name);
        self.text.push_str("\":");
        self.text.push_str(json);
        self
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        let quoted = serde_json::Value::from(value).to_string();
        self.json(name, &quoted)
    }

    fn branch(self, branch: &BranchId) -> Self {
        self.text("stream", branch.stream.as_str()).text("branch", branch.branch.as_str())
    }

    pub(crate) fn end(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

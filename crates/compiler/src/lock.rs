//! `weir.lock`: what was found elsewhere when somebody last looked, so that it cannot change unseen.
//!
//! A text for people and version control: sorted, one value a line, definitions written out. A pin is believed only if
//! it fits itself, so an edited line is noticed before anything is compared with it.

mod pretty;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_spec::{Diagnostic, Span, canonical};
use weir_types::{Hash, Json};

use crate::place;

pub(crate) use self::pretty::pretty;

/// Where it is.
pub(crate) const FILE: &str = "weir.lock";

const VERSION: u32 = 1;

/// What is pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lock {
    version: u32,
    /// Skills of registries, by how agents list them.
    #[serde(default)]
    pub(crate) skills: BTreeMap<String, SkillPin>,
    /// Servers, by their addresses.
    #[serde(default)]
    pub(crate) mcp: BTreeMap<String, ServerPin>,
}

/// A pinned skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillPin {
    pub(crate) digest: Digest,
}

/// A pinned server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerPin {
    /// Its tools, by their names there.
    pub(crate) tools: BTreeMap<String, ToolPin>,
}

/// A pinned tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolPin {
    pub(crate) hash: Digest,
    pub(crate) definition: Json,
}

/// A hash that says which one it is: `sha256:…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Digest(pub(crate) Hash);

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        format!("sha256:{}", digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let hash = text.strip_prefix("sha256:").and_then(|hash| hash.parse().ok());
        hash.map(Self).ok_or_else(|| "a digest is `sha256:` and 64 hex digits".to_owned())
    }
}

impl ToolPin {
    /// A definition, pinned; `None` when it is nested too deep to have one spelling.
    pub(crate) fn of(definition: &Json) -> Option<Self> {
        let text = canonical::text(definition.as_str()).ok()?;
        let hash = Digest(Hash::of(text.as_bytes()));
        Some(Self { hash, definition: Json::parse(&text).ok()? })
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self { version: VERSION, skills: BTreeMap::new(), mcp: BTreeMap::new() }
    }
}

impl Lock {
    /// Reads a lock. What does not fit itself is left out and told.
    pub(crate) fn read(bytes: &[u8]) -> (Self, Vec<Diagnostic>) {
        let mut lock: Self = match serde_json::from_slice(bytes) {
            Ok(lock) => lock,
            Err(error) => return (Self::default(), vec![unreadable(bytes, &error)]),
        };
        if lock.version != VERSION {
            let message =
                format!("weir.lock has version {}; this program reads version {VERSION}", lock.version);
            let help = "use a newer `weir`";
            let problem = Diagnostic::error("build::lock-unreadable", FILE, Span::START, message, help);
            return (Self::default(), vec![problem]);
        }
        let text = String::from_utf8_lossy(bytes);
        let mut problems = Vec::new();
        for (server, pin) in &mut lock.mcp {
            pin.tools.retain(|name, tool| {
                // Spelled as we spell it, whatever white space the file has.
                let again = ToolPin::of(&tool.definition);
                let fits = again.as_ref().is_some_and(|again| again.hash == tool.hash);
                match again {
                    Some(again) if fits => *tool = again,
                    _ => problems.push(edited(&text, server, name)),
                }
                fits
            });
        }
        (lock, problems)
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(pretty(&canonical::of(self).ok()?) + "\n")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.mcp.is_empty()
    }
}

/// Where a key is in the text of a lock, below the keys before it.
pub(crate) fn place_of(text: &str, keys: &[&str]) -> Span {
    let mut found = 0..0;
    for key in keys {
        let quoted = serde_json::Value::from(*key).to_string();
        let Some(at) = text[found.end..].find(&format!("{quoted}:")) else { return Span::START };
        let start = found.end + at;
        found = start..start + quoted.len();
    }
    place::span(text, found.start, found.end)
}

fn edited(text: &str, server: &str, name: &str) -> Diagnostic {
    let span = place_of(text, &["mcp", server, name]);
    let message = format!("the pin of `{name}` does not fit its own definition: somebody edited it");
    let help = "restore weir.lock from version control, or make it anew with `weir lock --update`";
    Diagnostic::error("build::lock-edited", FILE, span, message, help)
}

/// Half a file, or the marks of a merge.
fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Diagnostic {
    let text = String::from_utf8_lossy(bytes);
    let line_start: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = line_start + error.column().saturating_sub(1);
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    let message = format!("weir.lock cannot be read: {words}");
    let help =
        "restore it from version control, or delete it and pin everything anew with `weir lock --update`";
    Diagnostic::error("build::lock-unreadable", FILE, place::span(&text, at, at + 1), message, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        let definition =
            Json::parse(r#"{"name":"a","inputSchema":{"maximum":1.50,"type":"object"}}"#).unwrap();
        let tools = BTreeMap::from([("a".to_owned(), ToolPin::of(&definition).unwrap())]);
        let mcp = BTreeMap::from([("mcp://npx/x".to_owned(), ServerPin { tools })]);
        Lock { mcp, ..Lock::default() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = lock().to_text().unwrap();
        assert_eq!(Lock::read(text.as_bytes()), (lock(), vec![]));
        assert_eq!(place_of(&text, &["mcp", "mcp://npx/x", "a", "inputSchema"]).line, 7);
    }

    #[test]
    fn white_space_is_no_edit_but_anything_else_is() {
        let text = lock().to_text().unwrap();
        assert_eq!(Lock::read(text.replace("  ", "\t").as_bytes()).1, []);
        let (read, problems) = Lock::read(text.replace("1.50", "1.5").as_bytes());
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].code, problems[0].span.line), ("build::lock-edited", 5));
        assert!(read.mcp["mcp://npx/x"].tools.is_empty());
    }

    #[test]
    fn half_a_lock_is_pointed_at() {
        let text = lock().to_text().unwrap();
        let half = &text[..text.len() / 2];
        let (read, problems) = Lock::read(half.as_bytes());
        assert_eq!((read.is_empty(), problems.len()), (true, 1));
        assert_eq!(
            (problems[0].code, problems[0].span.line),
            ("build::lock-unreadable", half.lines().count())
        );
    }
}

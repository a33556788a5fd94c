//! `weir.lock`: what was found at other places when the project was last built, so that nothing changes unseen.
//!
//! JSON with sorted keys and one value a line, made for reading in a diff. Whether its hashes are right is for whoever
//! can compute them to say.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_types::{Hash, Json};

use crate::canonical;
use crate::check::check;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::fields::{Fields, as_json};
use crate::format::{Format, Trouble};
use crate::node::Entry;
use crate::shape::{Choice, Kind, Shape, optional, required};
use crate::yaml::{self, Bounds};

/// The version that is read and written.
const VERSION: u64 = 1;

/// The largest lock that is read: definitions of many tools.
pub const BYTES_MAX: usize = 32 * 1024 * 1024;

/// It is written by us, and as JSON.
const BOUNDS: Bounds = Bounds { file_bytes: BYTES_MAX, nodes: 1_000_000, aliases: false };

/// Everything that is pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Skills and the digests of their content, as agents list them.
    pub skills: BTreeMap<String, Hash>,
    /// Tools of MCP servers, by server and name.
    pub mcp: BTreeMap<String, BTreeMap<String, Pin>>,
}

/// A tool as its server described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// What identifies the definition.
    pub hash: Hash,
    /// The whole of it, in canonical form.
    pub definition: Json,
}

/// A lock that was read, where its parts are, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockReading {
    /// What could be read.
    pub lock: Lock,
    /// Where that is.
    pub places: Places,
    /// What is wrong. With an error among it, parts of the lock are missing.
    pub diagnostics: Vec<Diagnostic>,
}

/// Where the parts of a lock are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The digests of skills.
    pub skills: BTreeMap<String, Span>,
    /// The names of servers.
    pub servers: BTreeMap<String, Span>,
    /// The hashes of tools, by server and name.
    pub tools: BTreeMap<(String, String), Span>,
}

pub(crate) static LOCK: Shape = Shape {
    what: "the lock",
    doc: "What was found at other places when the project was last built. Written by `weir build` and `weir lock`.",
    fields: &[
        required("version", "\"version\": 1", Kind::Whole(u64::MAX), "The version of this format."),
        optional("skills", Kind::Map(&ANYTHING, &Kind::Shape(&SKILL)), "Skills, as agents list them."),
        optional("mcp", Kind::Map(&ANYTHING, &Kind::Shape(&SERVER)), "MCP servers, as agents list them."),
    ],
    choice: Choice::Free,
    instead: &[],
};

static SKILL: Shape = Shape {
    what: "a pinned skill",
    doc: "A skill that was fetched.",
    fields: &[required(
        "digest",
        "\"digest\": \"sha256:…\"",
        Kind::Format(&DIGEST),
        "What identifies its content.",
    )],
    choice: Choice::Free,
    instead: &[],
};

static SERVER: Shape = Shape {
    what: "a pinned server",
    doc: "A server that was asked.",
    fields: &[required("tools", "\"tools\": {}", Kind::Map(&ANYTHING, &Kind::Shape(&TOOL)), "Its tools.")],
    choice: Choice::Free,
    instead: &[],
};

static TOOL: Shape = Shape {
    what: "a pinned tool",
    doc: "A tool as its server described it.",
    fields: &[
        required("hash", "\"hash\": \"sha256:…\"", Kind::Format(&DIGEST), "What identifies its definition."),
        required("definition", "\"definition\": {}", Kind::Object, "The whole of it."),
    ],
    choice: Choice::Free,
    instead: &[],
};

static ANYTHING: Format =
    Format { what: "any name", pattern: None, examples: &["name"], check: |_, _| Ok(()) };

static DIGEST: Format = Format {
    what: "a SHA-256 digest",
    pattern: Some("^sha256:[0-9a-f]{64}$"),
    examples: &["sha256:…"],
    check: |field, text| match digest(text) {
        Some(_) => Ok(()),
        None => Err(Trouble {
            code: "spec::lock",
            message: format!("`{field}` is `sha256:` and 64 digits"),
            help: "the lock is not edited; make it again with `weir lock --update`".to_owned(),
            hide: false,
        }),
    },
};

/// The digest in its one spelling.
fn digest(text: &str) -> Option<Hash> {
    let hash: Hash = text.strip_prefix("sha256:")?.parse().ok()?;
    (format!("sha256:{hash}") == text).then_some(hash)
}

impl Lock {
    /// Reads a lock. `file` is its path within the project; problems name it.
    pub fn read(file: &str, bytes: &[u8]) -> LockReading {
        let mut findings = Findings::new(file);
        let read = read(bytes, &mut findings).unwrap_or_default();
        let diagnostics = findings.finish().into_iter().map(as_lock).collect();
        LockReading { diagnostics, ..read }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// When a definition is nested too deep to be read again.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let digest = |hash: &Hash| format!("sha256:{hash}");
        let skills: BTreeMap<&String, _> = self
            .skills
            .iter()
            .map(|(name, hash)| (name, BTreeMap::from([("digest", digest(hash))])))
            .collect();
        let mut mcp = BTreeMap::new();
        for (server, tools) in &self.mcp {
            let mut all = BTreeMap::new();
            for (name, pin) in tools {
                all.insert(name, Written { definition: &pin.definition, hash: digest(&pin.hash) });
            }
            mcp.insert(server, BTreeMap::from([("tools", all)]));
        }
        let document = Document { version: VERSION, skills, mcp };
        Ok(pretty(&canonical::of(&document)?))
    }
}

#[derive(Serialize)]
struct Document<S, M> {
    version: u64,
    skills: S,
    mcp: M,
}

#[derive(Serialize)]
struct Written<'p> {
    definition: &'p Json,
    hash: String,
}

fn read(bytes: &[u8], findings: &mut Findings) -> Option<LockReading> {
    let mut root = yaml::document_within(bytes, BOUNDS, findings)?;
    check(&mut root, "", &Kind::Shape(&LOCK), findings);
    let fields = Fields::of(&root, &LOCK)?;
    let version = fields.count("version")?;
    if version != VERSION {
        let message = format!("the lock has version {version}; this program reads version {VERSION}");
        let help = "use a newer `weir`, or make the lock again with `weir lock --update`";
        findings.add("spec::lock", fields.place_of("version"), message, help);
        return None;
    }
    let mut read = LockReading::default();
    for entry in fields.entries("skills") {
        let Some((hash, span)) = pinned(entry, &SKILL, "digest") else { continue };
        read.lock.skills.insert(entry.key.value.clone(), hash);
        read.places.skills.insert(entry.key.value.clone(), span);
    }
    for server in fields.entries("mcp") {
        let name = &server.key.value;
        read.places.servers.insert(name.clone(), server.key.span);
        let tools = read.lock.mcp.entry(name.clone()).or_default();
        let Some(inner) = Fields::of(&server.value, &SERVER) else { continue };
        for entry in inner.entries("tools") {
            let definition = Fields::of(&entry.value, &TOOL).and_then(|tool| tool.get("definition"));
            let Some((hash, span)) = pinned(entry, &TOOL, "hash") else { continue };
            let Some(definition) = definition.and_then(as_json) else { continue };
            let tool = &entry.key.value;
            tools.insert(tool.clone(), Pin { hash, definition: canonical::json(&definition) });
            read.places.tools.insert((name.clone(), tool.clone()), span);
        }
    }
    Some(read)
}

/// Nobody writes a lock, so what helps is never to write something else.
fn as_lock(problem: Diagnostic) -> Diagnostic {
    let help = "the lock is not edited; make it again with `weir lock --update`".to_owned();
    match problem.code {
        "spec::secret" | "spec::too-large" | "spec::too-many" | "spec::lock" => problem,
        _ => Diagnostic { code: "spec::lock", help, ..problem },
    }
}

fn pinned(entry: &Entry, shape: &'static Shape, field: &str) -> Option<(Hash, Span)> {
    let text = Fields::of(&entry.value, shape)?.text(field)?;
    Some((digest(&text.value)?, text.span))
}

/// Canonical JSON with one value a line.
fn pretty(canonical: &str) -> String {
    let (mut out, mut depth) = (String::with_capacity(canonical.len() * 2), 0_usize);
    let mut rest = canonical.char_indices().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some((at, character)) = rest.next() {
        let next = rest.peek().map(|(_, next)| *next);
        match character {
            '"' => {
                let end = string_end(canonical, at);
                write_string(&canonical[at..end], &mut out);
                while rest.next_if(|(next, _)| *next < end).is_some() {}
            }
            '{' | '[' => {
                out.push(character);
                if next != Some(if character == '{' { '}' } else { ']' }) {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    line(&mut out, depth);
                }
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => out.push(other),
        }
    }
    out.push('\n');
    out
}

/// The byte after a string that begins at `start`.
fn string_end(json: &str, start: usize) -> usize {
    let bytes = json.as_bytes();
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Characters that cannot be read in a YAML file are escaped.
fn write_string(string: &str, out: &mut String) {
    for character in string.chars() {
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
}

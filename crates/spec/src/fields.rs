//! Mappings with known fields: what is unknown, missing or not supported yet is told with its place.

use crate::diagnostic::{Findings, Span, Spanned};
use crate::node::{Entry, Node, Value, excerpt};

/// Which fields a mapping may have.
pub(crate) struct Shape {
    /// What it describes, with its article: `an agent`.
    pub(crate) what: &'static str,
    /// Fields that have an effect.
    pub(crate) known: &'static [&'static str],
    /// Fields of the language that have none yet. Refused, because a limit that nobody keeps is worse than none.
    pub(crate) later: &'static [&'static str],
}

/// A mapping whose every field is known.
pub(crate) struct Fields<'n> {
    what: &'static str,
    /// Where to point when something is missing: the first key.
    place: Span,
    entries: &'n [Entry],
    /// Fields that an unknown key was probably meant to be: told once is enough.
    meant: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// The fields of a node that ought to be a mapping.
    pub(crate) fn of(node: &'n Node, shape: &Shape, findings: &mut Findings) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let message = format!("{} is a mapping of fields, not {}", shape.what, node.kind());
            let help = format!("its fields are: {}", shape.known.join(", "));
            findings.add("spec::wrong-value", node.span, message, help);
            return None;
        };
        let meant = entries.iter().filter_map(|entry| shape.judge(&entry.key, findings)).collect();
        let place = entries.first().map_or(node.span, |entry| entry.key.span);
        Some(Self { what: shape.what, place, entries, meant })
    }

    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key.value == name).map(|entry| &entry.value)
    }

    /// The value of a field that has to be there.
    pub(crate) fn require(&self, name: &str, example: &str, findings: &mut Findings) -> Option<&'n Node> {
        let found = self.get(name);
        if found.is_none() && !self.meant.contains(&name) {
            let message = format!("{} needs `{name}`", self.what);
            findings.add("spec::missing", self.place, message, format!("add it, for example `{example}`"));
        }
        found
    }

    /// The place of a field's name.
    pub(crate) fn place_of(&self, name: &str) -> Span {
        let found = self.entries.iter().find(|entry| entry.key.value == name);
        found.map_or(self.place, |entry| entry.key.span)
    }

    /// Where to point when the mapping as a whole is wrong.
    pub(crate) fn place(&self) -> Span {
        self.place
    }
}

impl Shape {
    /// Tells what is wrong with a key, and returns the field it was probably meant to be.
    fn judge(&self, key: &Spanned<String>, findings: &mut Findings) -> Option<&'static str> {
        let name = key.value.as_str();
        if self.known.contains(&name) {
            return None;
        }
        if self.later.contains(&name) {
            let help = format!("remove it; this version reads: {}", self.known.join(", "));
            findings.add("spec::not-supported-yet", key.span, format!("`{name}` is not supported yet"), help);
            return None;
        }
        let similar = similar(name, self.known.iter().chain(self.later).copied());
        let help = match similar {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("its fields are: {}", self.known.join(", ")),
        };
        let message = format!("{} has no field `{}`", self.what, excerpt(name));
        findings.add("spec::unknown-key", key.span, message, help);
        similar
    }
}

/// What a word may have been meant to be.
pub(crate) fn similar<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    // A very long word is no slip of the finger, and comparing it costs.
    const CHARACTERS_MAX: usize = 64;
    if word.chars().nth(CHARACTERS_MAX).is_some() {
        return None;
    }
    let scored = words.map(|known| (strsim::jaro_winkler(known, word), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > 0.8).map(|(_, known)| known)
}

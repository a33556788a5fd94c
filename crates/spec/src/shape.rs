//! What the files of a project look like, said once: the reader checks by it, the help quotes it, the JSON Schema is made
//! of it.

use crate::format::Format;

/// A mapping with known fields.
pub(crate) struct Shape {
    /// What it describes, with its article: `an agent`.
    pub(crate) what: &'static str,
    /// One sentence for whoever edits it.
    pub(crate) doc: &'static str,
    /// Its fields, in the order in which people are told about them.
    pub(crate) fields: &'static [Field],
    /// Which of them go together.
    pub(crate) choice: Choice,
    /// Fields of the reference or of habit that are spelled differently here, and what to do instead.
    pub(crate) instead: &'static [(&'static str, &'static str)],
}

/// One field of a mapping.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// How it may be written, if it has to be there.
    pub(crate) required: Option<&'static str>,
    pub(crate) kind: Kind,
    /// One sentence for whoever edits it.
    pub(crate) doc: &'static str,
    /// Whether it is planned, and does nothing in this version.
    pub(crate) is_planned: bool,
}

/// What a value may be.
pub(crate) enum Kind {
    /// Text that may be empty.
    Words,
    /// Text that says something.
    Text,
    /// Text with rules of its own.
    Format(&'static Format),
    /// One of a few words.
    Word(fn() -> Vec<&'static str>),
    /// `true` or `false`.
    Truth,
    /// A whole number, one or more.
    Count,
    /// A whole number, one or more, but not beyond counting.
    Small,
    /// A whole number up to a largest one.
    Whole(u64),
    /// A span of time, longer than none.
    Duration,
    /// A span of time, or none.
    Pause,
    /// An amount of dollars, more than none.
    Usd,
    /// An amount of dollars.
    Price,
    /// A number of any kind.
    Number,
    /// Any value.
    Json,
    /// A mapping of any values.
    Object,
    /// A list of such values.
    List(&'static Kind),
    /// A list of at least one.
    Some(&'static Kind),
    /// A mapping with keys that people choose.
    Map(&'static Format, &'static Kind),
    /// A mapping with known fields.
    Shape(&'static Shape),
    /// A mapping, or something short that stands for it.
    Either(&'static Kind, &'static Shape),
}

/// Which fields of a mapping go together.
#[derive(Clone, Copy)]
pub(crate) enum Choice {
    /// There is no rule.
    Free,
    /// Exactly one of these.
    One(&'static [&'static str]),
    /// One of these, or more.
    Some(&'static [&'static str]),
}

impl Shape {
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Kind {
    /// The shape of a mapping with known fields, also within a list.
    pub(crate) fn shape(&self) -> Option<&'static Shape> {
        match self {
            Self::Shape(shape) | Self::Either(_, shape) => Some(shape),
            Self::List(inner) | Self::Some(inner) | Self::Map(_, inner) => inner.shape(),
            _ => None,
        }
    }
}

pub(crate) const fn required(
    name: &'static str,
    example: &'static str,
    kind: Kind,
    doc: &'static str,
) -> Field {
    Field { name, required: Some(example), kind, doc, is_planned: false }
}

pub(crate) const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Field {
    Field { name, required: None, kind, doc, is_planned: false }
}

/// A field that may be written down, and does nothing in this version.
pub(crate) const fn planned(name: &'static str, kind: Kind, doc: &'static str) -> Field {
    Field { name, required: None, kind, doc, is_planned: true }
}

/// What people are told before the sentence about something planned.
pub(crate) const PLANNED: &str = "Planned, not in this version.";

/// The words of a table.
pub(crate) fn words<T>(table: &'static [(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(word, _)| *word).collect()
}

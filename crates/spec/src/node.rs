//! A YAML document as a tree: every node knows its place, every scalar its spelling.
//!
//! Scalars stay text until someone knows what they are meant to be: `0.50` is an amount of money in one field and a
//! version in another, and neither should have been a float in between.

use crate::diagnostic::{Span, Spanned};

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Text without quotes, which may stand for a number, a truth value or nothing.
    Plain(String),
    /// Text in quotes or in a block: text, whatever it looks like.
    Quoted(String),
    /// `[…]`, or lines with `-`.
    List(Vec<Node>),
    /// `{…}`, or lines with `key:`.
    Map(Vec<Entry>),
    /// Something was wrong with it, which was told. Nobody looks at it again.
    Refused,
}

/// One line of a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Spanned<String>,
    pub(crate) value: Node,
}

impl Node {
    /// The text, whatever it looks like; absent for lists, mappings and nothing.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Plain(text) if is_null(text) => None,
            Value::Plain(text) | Value::Quoted(text) => Some(text),
            Value::List(_) | Value::Map(_) | Value::Refused => None,
        }
    }

    /// What it is, for a sentence like "it is a number, not …".
    pub(crate) fn kind(&self) -> String {
        match &self.value {
            Value::Plain(text) if is_null(text) => "nothing".to_owned(),
            Value::Plain(text) | Value::Quoted(text) => format!("`{}`", excerpt(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
            Value::Refused => "this".to_owned(),
        }
    }
}

/// Whether a plain scalar stands for nothing.
pub(crate) fn is_null(plain: &str) -> bool {
    matches!(plain, "" | "~" | "null" | "Null" | "NULL")
}

/// The beginning of a text, in one line, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(CHARACTERS_MAX).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}

//! Fields of a mapping that was checked: what is right is there, what is wrong is not.

use std::time::Duration;

use weir_types::{Json, NanoUsd};

use crate::check::{as_truth, as_whole};
use crate::diagnostic::{Findings, Span, Spanned};
use crate::duration::parse_duration;
use crate::json;
use crate::node::{Entry, Node, Value};
use crate::shape::Shape;

/// A mapping with known fields.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'n> {
    shape: &'static Shape,
    /// Where to point when the mapping as a whole is wrong: its first key.
    pub(crate) place: Span,
    entries: &'n [Entry],
}

impl<'n> Fields<'n> {
    /// The fields of a node, if it is a mapping.
    pub(crate) fn of(node: &'n Node, shape: &'static Shape) -> Option<Self> {
        let Value::Map(entries) = &node.value else { return None };
        let place = entries.first().map_or(node.span, |entry| entry.key.span);
        Some(Self { shape, place, entries })
    }

    /// The value of a field. Only fields of the shape can be asked for: whatever is read is in the JSON Schema.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.field(name).is_some(), "{} has no field `{name}`", self.shape.what);
        #[cfg(test)]
        if let Some(field) = self.shape.field(name) {
            asked::note(self.shape, field.name);
        }
        self.entries.iter().find(|entry| entry.key.value == name).map(|entry| &entry.value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The place of a field's name.
    pub(crate) fn place_of(&self, name: &str) -> Span {
        let found = self.entries.iter().find(|entry| entry.key.value == name);
        found.map_or(self.place, |entry| entry.key.span)
    }

    /// Text.
    pub(crate) fn text(&self, name: &str) -> Option<Spanned<String>> {
        let node = self.get(name)?;
        Some(Spanned { value: node.as_text()?.to_owned(), span: node.span })
    }

    /// Text that has to be there. Where it is not, which was told, something empty stands for it, so that whatever else
    /// the file says can still be looked at.
    pub(crate) fn must(&self, name: &str) -> Spanned<String> {
        self.text(name).unwrap_or(Spanned { value: String::new(), span: self.place })
    }

    /// Text that was checked and has a type of its own.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<Spanned<T>> {
        let text = self.text(name)?;
        Some(Spanned { value: text.value.parse().ok()?, span: text.span })
    }

    /// Text whose place does not matter.
    pub(crate) fn words(&self, name: &str) -> Option<String> {
        self.text(name).map(|text| text.value)
    }

    /// A whole number.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        as_whole(self.get(name)?)
    }

    /// A whole number that is not beyond counting.
    pub(crate) fn small(&self, name: &str) -> Option<u32> {
        self.count(name).and_then(|number| number.try_into().ok())
    }

    pub(crate) fn truth(&self, name: &str) -> Option<bool> {
        as_truth(self.get(name)?)
    }

    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        parse_duration(self.get(name)?.as_text()?).ok()
    }

    pub(crate) fn millis(&self, name: &str) -> Option<u64> {
        self.duration(name).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn usd(&self, name: &str) -> Option<Spanned<NanoUsd>> {
        let node = self.get(name)?;
        Some(Spanned { value: node.as_text()?.parse().ok()?, span: node.span })
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let given = self.get(name)?.as_text()?;
        words.iter().find(|(known, _)| *known == given).map(|(_, found)| *found)
    }

    /// Any value.
    pub(crate) fn json(&self, name: &str) -> Option<Json> {
        as_json(self.get(name)?)
    }

    /// The items of a list; none if it is no list.
    pub(crate) fn list(&self, name: &str) -> &'n [Node] {
        match self.get(name).map(|node| &node.value) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// The texts of a list.
    pub(crate) fn texts(&self, name: &str) -> Vec<Spanned<String>> {
        let text = |node: &Node| Some(Spanned { value: node.as_text()?.to_owned(), span: node.span });
        self.list(name).iter().filter_map(text).collect()
    }

    /// The mappings of a list.
    pub(crate) fn each(&self, name: &str) -> impl Iterator<Item = Fields<'n>> + use<'n> {
        let shape = self.shape.field(name).and_then(|field| field.kind.shape());
        self.list(name).iter().filter_map(move |node| Fields::of(node, shape?))
    }

    /// The entries of a mapping whose keys people choose.
    pub(crate) fn entries(&self, name: &str) -> &'n [Entry] {
        match self.get(name).map(|node| &node.value) {
            Some(Value::Map(entries)) => entries,
            _ => &[],
        }
    }

    /// A mapping within.
    pub(crate) fn fields(&self, name: &str) -> Option<Fields<'n>> {
        Fields::of(self.get(name)?, self.shape.field(name)?.kind.shape()?)
    }
}

/// The value a node stands for; what is wrong with it was told.
pub(crate) fn as_json(node: &Node) -> Option<Json> {
    json::json(node, &mut Findings::new(""))
}

/// Which fields were ever asked for, so that a test can tell what is listed and never read.
#[cfg(test)]
pub(crate) mod asked {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use crate::shape::Shape;

    thread_local! {
        static ASKED: RefCell<BTreeSet<(usize, &'static str)>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(super) fn note(shape: &'static Shape, name: &'static str) {
        ASKED.with_borrow_mut(|asked| asked.insert((std::ptr::from_ref(shape) as usize, name)));
    }

    /// Everything that this thread asked for: the address of the shape, which two of one name do not share, and the field.
    pub(crate) fn all() -> BTreeSet<(usize, &'static str)> {
        ASKED.with_borrow(Clone::clone)
    }
}

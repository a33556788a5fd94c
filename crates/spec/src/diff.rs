//! What the agents of one build may do that those of another may not.

mod agents;
mod governance;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::Serialize;

use crate::Manifest;

/// One difference between two manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is about, such as `agent helper` or `grant bash`.
    pub subject: String,
    /// What is different there, such as `tool bash` or `limit usd`; empty when it is all of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// As it was; absent when it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// As it is; absent when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether someone may now do more than before. What cannot be compared counts as more.
    pub widens: bool,
}

/// What is different in `after`, seen from `before`. Agents come first, then loops, then what governs all of them.
pub fn diff(before: &Manifest, after: &Manifest) -> Vec<Change> {
    let mut changes = Changes::default();
    agents::agents(before, after, &mut changes);
    agents::loops(before, after, &mut changes);
    governance::compare(before, after, &mut changes);
    // It is made of everything above; on its own it changes when another version compiles it.
    if changes.found.is_empty() {
        changes.about("policy");
        changes.text("compiled text", before.policy == after.policy, true);
    }
    changes.found
}

/// The differences, as they are found.
#[derive(Default)]
struct Changes {
    subject: String,
    found: Vec<Change>,
}

impl Changes {
    /// What follows is about this.
    fn about(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    fn add(&mut self, what: impl Into<String>, before: Option<String>, after: Option<String>, widens: bool) {
        let (subject, what) = (self.subject.clone(), what.into());
        self.found.push(Change { subject, what, before, after, widens });
    }

    /// Two values that are the same or not, and `widens` if not.
    fn value<T: PartialEq>(
        &mut self,
        what: &str,
        [before, after]: [&T; 2],
        show: impl Fn(&T) -> String,
        widens: bool,
    ) {
        if before != after {
            self.add(what, Some(show(before)), Some(show(after)), widens);
        }
    }

    /// Texts that are too long to be shown: that they differ is all there is to say.
    fn text(&mut self, what: &str, same: bool, widens: bool) {
        if !same {
            self.add(what, None, None, widens);
        }
    }

    /// A limit, which without a value is none.
    fn limit<T: PartialOrd + Copy>(
        &mut self,
        what: &str,
        [before, after]: [Option<T>; 2],
        show: impl Fn(T) -> String,
    ) {
        let widens = match (before, after) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(before), Some(after)) => after > before,
        };
        if before != after {
            let shown = |value: Option<T>| Some(value.map_or_else(|| "no limit".to_owned(), &show));
            self.add(what, shown(before), shown(after), widens);
        }
    }

    /// Things that are there or not, and give something to somebody.
    fn set<T: Ord + Display>(&mut self, what: &str, before: &BTreeSet<T>, after: &BTreeSet<T>) {
        for gone in before.difference(after) {
            self.add(format!("{what} {gone}"), Some("yes".to_owned()), None, false);
        }
        for new in after.difference(before) {
            self.add(format!("{what} {new}"), None, Some("yes".to_owned()), true);
        }
    }

    /// Levels that are given to somebody; more is more.
    fn levels<K: Ord + Display, L: Ord>(
        &mut self,
        what: &str,
        [before, after]: [&BTreeMap<K, L>; 2],
        show: impl Fn(&L) -> String,
    ) {
        for (key, [before, after]) in both(before, after) {
            if before != after {
                let widens = after > before;
                self.add(format!("{what}{key}"), before.map(&show), after.map(&show), widens);
            }
        }
    }
}

/// Every key of two maps, with its values.
fn both<'m, K: Ord, V>(
    before: &'m BTreeMap<K, V>,
    after: &'m BTreeMap<K, V>,
) -> impl Iterator<Item = (&'m K, [Option<&'m V>; 2])> {
    let keys: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    keys.into_iter().map(move |key| (key, [before.get(key), after.get(key)]))
}

/// A word as it is written in files.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// A span of time for people.
fn time(millis: u64) -> String {
    match millis {
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        _ => format!("{millis}ms"),
    }
}

//! Where a reader puts what it has read, and what it leaves out.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use weir_types::Json;

use super::Heard;

/// Names that are told apart; a recording with more of them has its rest under one name.
const NAMES_MAX: usize = 200;

/// The longest name of a part.
const NAME_CHARS_MAX: usize = 80;

/// Something in a recording that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LeftOut {
    /// What it is called in the recording.
    pub part: String,
    /// How often it was there.
    pub count: u64,
    /// The first frame that has it, from 1.
    pub frame: usize,
}

/// What was left out so far.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<String, (u64, usize)>);

impl Counts {
    pub(super) fn add(&mut self, part: &str, frame: usize) {
        let known = self.0.contains_key(part) || self.0.len() < NAMES_MAX;
        let part = if known { shortened(part) } else { "others".to_owned() };
        self.0.entry(part).or_insert((0, frame)).0 += 1;
    }

    /// In the order in which they were met.
    pub(super) fn listed(&self) -> Vec<LeftOut> {
        let listed = self.0.iter();
        let listed = listed.map(|(part, &(count, frame))| LeftOut { part: part.clone(), count, frame });
        let mut listed: Vec<LeftOut> = listed.collect();
        listed.sort_by_key(|left_out| left_out.frame);
        listed
    }
}

/// What a frame becomes.
pub(super) struct Out<'a> {
    pub(super) heard: &'a mut Vec<Heard>,
    pub(super) left_out: &'a mut Counts,
    pub(super) frame: usize,
}

impl Out<'_> {
    pub(super) fn push(&mut self, heard: Heard) {
        self.heard.push(heard);
    }

    pub(super) fn extend(&mut self, heard: impl IntoIterator<Item = Heard>) {
        self.heard.extend(heard);
    }

    /// Keeps something as it stands there, if it says anything.
    pub(super) fn part(&mut self, part: &str, data: &Value) {
        if says_something(data) {
            self.push(Heard::Part { part: shortened(part), data: vec![Json::of(data)] });
        }
    }

    /// Keeps the fields of an object that are none of these.
    pub(super) fn other_parts(&mut self, of: &str, object: &Value, known: &[&str]) {
        for (name, value) in others(object, known) {
            self.part(&format!("{of}{name}"), value);
        }
    }

    /// Counts what is not taken.
    pub(super) fn leave_out(&mut self, part: &str) {
        self.left_out.add(part, self.frame);
    }

    /// Counts the fields of an object that are none of these.
    pub(super) fn leave_out_others(&mut self, of: &str, object: &Value, known: &[&str]) {
        for (name, _) in others(object, known) {
            self.leave_out(&format!("{of}{name}"));
        }
    }
}

fn shortened(part: &str) -> String {
    part.chars().take(NAME_CHARS_MAX).collect()
}

fn others<'a>(object: &'a Value, known: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, value)| !known.contains(&name.as_str()) && says_something(value))
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

//! Placeholders in what a rule says: `{{1}}`, `{{name}}`, `{{user}}`, `{{attempt}}`, `{{result}}`, `{{result.temp}}`.
//!
//! One that means nothing stays as it is written, so that a slip in a script shows.

use weir_types::Json;

use super::matching::Match;
use crate::fields::{Fields, json_text, to_json};

impl Match {
    /// `text` with its placeholders filled in.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let Some((name, behind)) = after.split_once("}}") else {
                filled.push_str("{{");
                rest = after;
                continue;
            };
            let Some(value) = self.value(name.trim()) else {
                filled.push_str("{{");
                rest = after;
                continue;
            };
            let text = serde_json::from_str(value.as_str());
            filled.push_str(&text.unwrap_or_else(|_| value.as_str().to_owned()));
            rest = behind;
        }
        filled.push_str(rest);
        filled
    }

    /// `input` with the placeholders in its text filled in. Text that is nothing but one placeholder becomes what it
    /// stands for, which may be a number or an object.
    pub(super) fn fill_json(&self, input: &Json) -> Json {
        let written = input.as_str();
        match written.as_bytes().first() {
            Some(b'{') => {
                let fields = Fields::parse(written).unwrap_or_default();
                fields
                    .iter()
                    .map(|(key, value)| (key.to_owned(), self.fill_json(value)))
                    .collect::<Fields>()
                    .to_json()
            }
            Some(b'[') => {
                let items: Vec<Json> = serde_json::from_str(written).unwrap_or_default();
                to_json(&items.iter().map(|item| self.fill_json(item)).collect::<Vec<_>>())
            }
            Some(b'"') => {
                let text: String = serde_json::from_str(written).unwrap_or_default();
                let only = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
                match only.and_then(|name| self.value(name.trim())) {
                    Some(value) => value,
                    None => json_text(&self.fill(&text)),
                }
            }
            _ => input.clone(),
        }
    }

    fn value(&self, name: &str) -> Option<Json> {
        match name {
            "user" => Some(json_text(&self.user)),
            "attempt" => Some(to_json(&self.attempt)),
            "result" => {
                self.result.as_deref().map(|text| Json::parse(text).unwrap_or_else(|_| json_text(text)))
            }
            _ => match name.strip_prefix("result.") {
                Some(path) => at(self.data.clone()?, path),
                None => {
                    let group = self.groups.iter().find(|(group, _)| group == name);
                    group.map(|(_, text)| json_text(text))
                }
            },
        }
    }
}

/// What stands at `path`, such as `days.0.temp`, in a result that is JSON.
fn at(result: Json, path: &str) -> Option<Json> {
    let step = |value: Json, key: &str| match Fields::parse(value.as_str()) {
        Some(fields) => fields.get(key).cloned(),
        None => {
            let items: Vec<Json> = serde_json::from_str(value.as_str()).ok()?;
            items.into_iter().nth(key.parse().ok()?)
        }
    };
    path.split('.').try_fold(result, step)
}

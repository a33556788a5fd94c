//! Fragments of an assistant message, and how they are put together.

use serde::Serialize;
use weir_types::{Json, View};

use crate::fields::{Fields, json_text, object, to_json};
use crate::wires::neutral::argument_text;

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: String,
}

/// An object with one field.
pub(super) fn fragment(key: &str, value: Json) -> Json {
    object([(key, value)])
}

/// The view as a fragment, if an assistant can say it. Thoughts have a different field at every server.
pub(super) fn own(view: &View) -> Option<Json> {
    match view {
        View::Text { text } => Some(fragment("content", json_text(text))),
        View::ToolUse { id, name, input } => {
            let function = Function { name, arguments: argument_text(input) };
            Some(fragment("tool_calls", to_json(&[Call { id, r#type: "function", function }])))
        }
        View::Thinking { .. }
        | View::ToolResult { .. }
        | View::Image { .. }
        | View::Document { .. }
        | View::Unknown => None,
    }
}

/// A message that grows by fragments.
#[derive(Default)]
pub(super) struct Assembly(Fields);

impl Assembly {
    pub(super) fn add(&mut self, fragment: &Json) {
        for (key, value) in Fields::parse(fragment.as_str()).unwrap_or_default().iter() {
            let joined = match self.0.get(key) {
                Some(held) => joined(held, value),
                None => value.clone(),
            };
            self.0.set(key, joined);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The message. Words come first, as `null` if there are none: that is how servers send it, and some insist.
    pub(super) fn message(self) -> Json {
        let content = self.0.get("content").cloned().unwrap_or_else(Json::null);
        let head = [("role".to_owned(), json_text("assistant")), ("content".to_owned(), content)];
        let is_call = |key: &str| key == "tool_calls";
        let field = |(key, value): (&str, &Json)| (key.to_owned(), value.clone());
        let others = self.0.iter().filter(|(key, _)| *key != "content" && !is_call(key)).map(field);
        let calls = self.0.iter().filter(|(key, _)| is_call(key)).map(field);
        head.into_iter().chain(others).chain(calls).collect::<Fields>().to_json()
    }
}

/// Texts are joined, lists too; words beside a list of parts become a part of it.
pub(super) fn joined(held: &Json, more: &Json) -> Json {
    let text = |json: &Json| serde_json::from_str::<String>(json.as_str()).ok();
    let list = |json: &Json| serde_json::from_str::<Vec<Json>>(json.as_str()).ok();
    if let (Some(held), Some(more)) = (text(held), text(more)) {
        return json_text(&(held + &more));
    }
    let parts = |json: &Json| list(json).or_else(|| text(json).map(|text| vec![text_part(&text)]));
    match (parts(held), parts(more)) {
        (Some(mut held), Some(more)) => {
            held.extend(more);
            to_json(&held)
        }
        _ => more.clone(),
    }
}

/// Words as a part.
pub(super) fn text_part(text: &str) -> Json {
    object([("type", json_text("text")), ("text", json_text(text))])
}

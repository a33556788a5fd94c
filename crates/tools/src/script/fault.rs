//! Errors of a script, with the place in its TypeScript.

use std::fmt;

use rquickjs::{Ctx, Object, Value};

use super::Bundle;
use super::map::original;
use crate::bound::head;

/// Longest message of an error. What the model needs is at its beginning.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Most places of a trace, as deep recursion has thousands.
const PLACES_MAX: usize = 8;

/// An error that a script did not catch.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where it comes from, the innermost first.
    pub(super) places: Vec<Place>,
    /// `TypeError: …`.
    pub(super) words: String,
    /// Whether there was no memory left.
    pub(super) is_memory: bool,
}

/// A place in the TypeScript.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    path: String,
    line: u32,
    column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

impl Fault {
    /// What was thrown and not caught.
    pub(super) fn pending(ctx: &Ctx<'_>, bundle: &Bundle) -> Self {
        Self::of(ctx, &ctx.catch(), bundle)
    }

    /// There is no memory left.
    pub(super) fn memory() -> Self {
        let words = format!("out of memory: a script can use {} MiB", super::vm::MEMORY_BYTES_MAX >> 20);
        Self { places: Vec::new(), words, is_memory: true }
    }

    fn of<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>, bundle: &Bundle) -> Self {
        let Some(error) = thrown.as_object().filter(|_| thrown.is_error()) else {
            // Without memory not even an error can be made, and the interpreter throws `null`. Nobody else does.
            return match thrown.is_null() {
                true => Self::memory(),
                false => Self { places: Vec::new(), words: described(ctx, thrown), is_memory: false },
            };
        };
        let name =
            text(ctx, error, "name").filter(|name| !name.is_empty()).unwrap_or_else(|| "Error".to_owned());
        let message = text(ctx, error, "message").unwrap_or_default();
        let is_memory = name == "InternalError" && message == "out of memory";
        let mut words = match (is_memory, message.is_empty()) {
            (true, _) => Self::memory().words,
            (false, true) => name,
            (false, false) => format!("{name}: {message}"),
        };
        if let Some(cause) = cause(ctx, error) {
            words = format!("{words} (because of {cause})");
        }
        let stack = text(ctx, error, "stack").unwrap_or_default();
        Self { places: places(&stack, bundle), words: head(&words, MESSAGE_BYTES_MAX).to_owned(), is_memory }
    }

    /// Where and what, in one line.
    pub(super) fn told(&self, bundle: &Bundle) -> String {
        match self.places.first() {
            Some(place) => format!("{place}: {}", self.words),
            None => format!("{}: {}", bundle.entry, self.words),
        }
    }

    /// The way to it, for the console: more than the first place, if there is more.
    pub(super) fn trace(&self) -> Option<String> {
        let places: Vec<String> = self.places.iter().map(Place::to_string).collect();
        (places.len() > 1).then(|| format!("thrown at {}", places.join(", called from ")))
    }
}

fn cause(ctx: &Ctx<'_>, error: &Object<'_>) -> Option<String> {
    let cause: Value<'_> = error.get("cause").ok()?;
    let cause = cause.as_object().filter(|_| cause.is_error())?;
    Some(format!("{}: {}", text(ctx, cause, "name")?, text(ctx, cause, "message")?))
}

/// A field, if it is text. What a getter throws is dropped.
fn text(ctx: &Ctx<'_>, object: &Object<'_>, field: &str) -> Option<String> {
    let value: Result<Value<'_>, _> = object.get(field);
    let Ok(value) = value else {
        ctx.catch();
        return None;
    };
    let text = value.as_string()?.to_string();
    text.map(|text| text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()).ok()
}

/// What is no error, and was thrown anyway.
fn described<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> String {
    if thrown.is_undefined() {
        return "`undefined` was thrown".to_owned();
    }
    if let Some(Ok(text)) = thrown.as_string().map(rquickjs::String::to_string) {
        return format!("thrown: {}", head(&text, MESSAGE_BYTES_MAX));
    }
    let json = ctx.json_stringify(thrown.clone());
    let Ok(Some(Ok(json))) = json.map(|json| json.map(|json| json.to_string())) else {
        ctx.catch();
        return format!("a {} was thrown", thrown.type_name());
    };
    format!("thrown: {}", head(&json, MESSAGE_BYTES_MAX))
}

/// The places of a stack that are in the bundle, as they are in its TypeScript.
fn places(stack: &str, bundle: &Bundle) -> Vec<Place> {
    let found = stack.lines().filter_map(|line| place(line, bundle));
    found.take(PLACES_MAX).collect()
}

/// `    at name (path:line:column)`, or without name and brackets.
fn place(line: &str, bundle: &Bundle) -> Option<Place> {
    let (rest, column) = line.trim().trim_end_matches(')').rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    let (line, column): (u32, u32) = (line.parse().ok()?, column.parse().ok()?);
    let is_it = |path: &str| {
        rest.strip_suffix(path).is_some_and(|before| before.is_empty() || before.ends_with(['(', ' ']))
    };
    let (path, module) = bundle.modules.iter().find(|(path, _)| is_it(path))?;
    let found = module.map.as_deref().and_then(|map| original(map, line, column));
    let (line, column) = found.unwrap_or((line, column));
    Some(Place { path: path.clone(), line, column })
}

//! The application's own state, which a session carries along: a JSON value that patches change.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use json_patch::PatchOperation;
use serde_json::Value;
use weir_types::{Explain, Fault, Json};

/// Most bytes of text in a state, each value counting a few beside its own.
pub const BYTES_MAX: usize = 1_000_000;

/// Most levels of a state: fewer than a reader of JSON takes.
pub const DEPTH_MAX: usize = 64;

/// Why a patch cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// It is no JSON Patch.
    #[error("the patch cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// One of its operations fails.
    #[error("the patch does not apply")]
    Inapplicable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The state would be too large or too deep.
    #[error("the state would have more than {BYTES_MAX} bytes or {DEPTH_MAX} levels")]
    TooLarge,
}

impl Explain for PatchError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "kernel::patch-unreadable",
            Self::Inapplicable(_) => "kernel::patch-inapplicable",
            Self::TooLarge => "kernel::state-too-large",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unreadable(_) => "send a JSON Patch (RFC 6902): an array of operations".into(),
            Self::Inapplicable(_) => "read the state again and make the patch for it".into(),
            Self::TooLarge => "keep large things in files and only their names in the state".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// The state after a patch, which applies as a whole or not at all.
///
/// # Errors
/// When it does not apply.
pub fn patched(app: &Value, patch: &Json) -> Result<Value, PatchError> {
    let patch: json_patch::Patch = serde_json::from_str(patch.as_str()).map_err(PatchError::Unreadable)?;
    let mut app = app.clone();
    let mut bytes = Extent::of(&app).bytes;
    for operation in &patch.0 {
        // Before each one: copying a state into itself doubles it with every operation.
        let added = added(&app, operation);
        bytes += added.bytes;
        if bytes > BYTES_MAX {
            // What operations add is counted, what they take away is not: look.
            bytes = Extent::of(&app).bytes + added.bytes;
        }
        if bytes > BYTES_MAX || added.depth > DEPTH_MAX {
            return Err(PatchError::TooLarge);
        }
        json_patch::patch_unsafe(&mut app, std::slice::from_ref(operation))
            .map_err(|source| PatchError::Inapplicable(Box::new(source)))?;
    }
    Ok(app)
}

/// How deep an operation reaches, and how much it adds at most.
fn added(app: &Value, operation: &PatchOperation) -> Extent {
    const NOTHING: Extent = Extent { depth: 0, bytes: 0 };
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, app.pointer(copy.from.as_str())),
        PatchOperation::Move(moved) => (&moved.path, app.pointer(moved.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return NOTHING,
    };
    let extent = value.map_or(NOTHING, Extent::of);
    let copied = if let PatchOperation::Move(_) = operation { 0 } else { extent.bytes };
    Extent { depth: path.count() + extent.depth, bytes: path.as_str().len() + copied }
}

/// How deep and how large a value is.
struct Extent {
    depth: usize,
    bytes: usize,
}

impl Extent {
    fn of(value: &Value) -> Self {
        /// What a value takes beside its text.
        const OVERHEAD: usize = 8;
        let mut extent = Self { depth: 0, bytes: OVERHEAD };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => extent.bytes += text.len(),
            Value::Array(items) => items.iter().for_each(|item| extent.hold("", item)),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| extent.hold(name, value)),
        }
        extent
    }

    fn hold(&mut self, name: &str, value: &Value) {
        let inner = Self::of(value);
        self.depth = self.depth.max(inner.depth + 1);
        self.bytes += name.len() + inner.bytes;
    }
}

//! JSON kept as the text it arrived as: key order, number spelling and all.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value, as text. Cheap to clone; equal when the text is.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// The value as text, if it is one.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The value, written out.
    pub fn of(value: &serde_json::Value) -> Self {
        // INVARIANT: what `serde_json` writes is JSON, and a `Value` has no map with keys that are not text.
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), |raw| Self(raw.into()))
    }

    /// `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned().into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self::of(&serde_json::Value::Object(serde_json::Map::new()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The value, to look into.
    pub fn to_value(&self) -> serde_json::Value {
        // INVARIANT: the text was checked when it was made. A number no type can hold reads as null.
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw.into())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

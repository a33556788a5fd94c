//! A JSON object that keeps its keys in order and its values as they were written.
//!
//! `serde_json::Value` sorts keys and respells numbers, which would change what must go back verbatim.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_types::Json;

/// The fields of one object, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, Json)>);

impl Fields {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The value of a text field.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.as_str()).ok()
    }

    /// Replaces a value where it stands, or appends it.
    pub(crate) fn set(&mut self, key: &str, value: Json) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    pub(crate) fn set_text(&mut self, key: &str, text: &str) {
        self.set(key, json_text(text));
    }

    pub(crate) fn to_json(&self) -> Json {
        to_json(self)
    }
}

impl FromIterator<(String, Json)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// A value of ours as JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Json {
    // INVARIANT: only types of this crate come here; their keys are text, and none of them fails to serialize.
    serde_json::value::to_raw_value(value).map_or_else(|_| Json::null(), Json::from)
}

/// An object with these fields, in this order. Not `json!`, whose order depends on how `serde_json` is built, while the
/// bytes of a request never may.
pub(crate) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Fields>().to_json()
}

/// A JSON string.
pub(crate) fn json_text(text: &str) -> Json {
    to_json(&text)
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((key, value)) = map.next_entry::<String, Json>()? {
                    fields.set(&key, value);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spelling_stay() {
        let text = r#"{"z":1.50,"a":{"y":1e2,"b":"é"},"n":null}"#;
        let mut fields = Fields::parse(text).unwrap();
        assert_eq!(fields.to_json().as_str(), text);
        fields.set_text("a", "q\"");
        fields.set("new", Json::null());
        assert_eq!(fields.to_json().as_str(), r#"{"z":1.50,"a":"q\"","n":null,"new":null}"#);
        assert_eq!(fields.text("a").as_deref(), Some("q\""));
        assert_eq!(Fields::parse("[1]"), None);
    }
}

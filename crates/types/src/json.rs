//! JSON kept as the text it arrived as: key order, number spelling and all.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
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

    /// The same on one line: as it is, or, where its parts are on several, without white space between them.
    pub fn on_one_line(&self) -> Self {
        // In texts, line breaks are escaped.
        if !self.as_str().contains(['\n', '\r']) {
            return self.clone();
        }
        let mut compact = String::with_capacity(self.as_str().len());
        let (mut in_text, mut escaped) = (false, false);
        for c in self.as_str().chars() {
            if !in_text && matches!(c, ' ' | '\t' | '\n' | '\r') {
                continue;
            }
            in_text = if in_text { escaped || c != '"' } else { c == '"' };
            escaped = in_text && !escaped && c == '\\';
            compact.push(c);
        }
        // INVARIANT: white space between the parts of a value says nothing.
        RawValue::from_string(compact).map_or_else(|_| self.clone(), Self::from)
    }

    /// A key that an object in it has more than once, if there is one: readers differ in which of them counts.
    pub fn repeated_key(&self) -> Option<String> {
        let mut found = None;
        // What is nested too deep to be read has no meaning for [`Json::to_value`] either.
        let _ = Keys(&mut found).deserialize(&mut serde_json::Deserializer::from_str(self.as_str()));
        found
    }
}

/// Walks over a value and keeps the first key that is there twice.
struct Keys<'f>(&'f mut Option<String>);

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut known = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Keys(self.0))?;
            if let Some(twice) = known.replace(key) {
                self.0.get_or_insert(twice);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Keys(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_one_line_is_the_same_value_in_the_same_spelling() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Json::parse(text).unwrap().on_one_line().as_str(), expected);
        };
        check(
            "{\n  \"city\": \"Oslo\",\r\n\t\"n\": [ 1.50 , 1e2, -0 ]\n}",
            r#"{"city":"Oslo","n":[1.50,1e2,-0]}"#,
        );
        check(
            "{\"a b\":\n\"c \\\" d \\\\\", \"e\\\\\\\"  \": \" \"}",
            r#"{"a b":"c \" d \\","e\\\"  ":" "}"#,
        );
        check("{\"to\": 1,\n \"to\": 2}", r#"{"to":1,"to":2}"#);
        check("[\r\"é 🜂\\n\"]", "[\"é 🜂\\n\"]");
        for as_it_is in [r#"{"a": 1, "b":  "\n"}"#, "[ ]", "3"] {
            check(as_it_is, as_it_is);
        }
    }

    #[test]
    fn keys_that_are_there_twice_are_found_wherever_they_are() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(Json::parse(text).unwrap().repeated_key().as_deref(), expected, "{text}");
        };
        check(r#"{"a":1,"b":{"a":2},"c":[{"a":null},{"a":true}],"d":"a","e":-1.5}"#, None);
        check(r#"{"to":"bob","to":"eve"}"#, Some("to"));
        check(r#"{"t\u006f":"bob","to":"eve"}"#, Some("to"));
        check(r#"[{"x":[{"y":{"to":1,"n":2,"to":3}}]}]"#, Some("to"));
        check("3", None);
        check(&format!("{}{}", "[".repeat(500), "]".repeat(500)), None);
    }
}

//! JSON with one spelling: keys sorted, no white space, nothing escaped that need not be. What has one spelling has one
//! hash, on every machine.
//!
//! Numbers keep the spelling they have: reading and writing a float can change its last digit.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use weir_types::{Hash, Json};

/// The one spelling of a value.
///
/// # Errors
/// When the value has keys that are no text, or is nested more than 128 deep.
pub fn of(value: &impl Serialize) -> Result<String, serde_json::Error> {
    text(&serde_json::to_string(value)?)
}

/// The one spelling of a JSON text. Of keys that are there twice, the last counts.
///
/// # Errors
/// When it is no JSON, or nested more than 128 deep.
pub fn text(json: &str) -> Result<String, serde_json::Error> {
    // INVARIANT: from here on the text is valid, and not too deep to recurse into.
    let valid: &RawValue = serde_json::from_str(json)?;
    check_depth(valid.get().as_bytes())?;
    let mut out = String::with_capacity(valid.get().len());
    Cursor { bytes: valid.get().as_bytes(), text: valid.get(), at: 0 }.value(&mut out);
    Ok(out)
}

/// The same value in its one spelling; itself, if it is nested too deep to have one.
pub fn json(value: &Json) -> Json {
    let spelled = text(value.as_str()).and_then(|text| Json::parse(&text));
    spelled.unwrap_or_else(|_| value.clone())
}

/// What identifies a value, whatever the order of its keys.
///
/// # Errors
/// As [`of`].
pub fn hash(value: &impl Serialize) -> Result<Hash, serde_json::Error> {
    of(value).map(|text| Hash::of(text.as_bytes()))
}

/// A `RawValue` may be nested without bound; what reads it into a value may not.
pub(crate) fn check_depth(json: &[u8]) -> Result<(), serde_json::Error> {
    const DEPTH_MAX: usize = 128;
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if deepest <= DEPTH_MAX {
        return Ok(());
    }
    Err(serde::ser::Error::custom(format!("nested more than {DEPTH_MAX} deep")))
}

/// Walks over JSON that is known to be valid.
struct Cursor<'t> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// Copies the next value.
    fn value(&mut self, out: &mut String) {
        self.space();
        match self.peek() {
            b'{' => self.object(out),
            b'[' => self.array(out),
            b'"' => out.push_str(&spell(self.string())),
            _ => {
                let start = self.at;
                while !matches!(self.peek(), b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | 0) {
                    self.at += 1;
                }
                out.push_str(&self.text[start..self.at]);
            }
        }
    }

    fn object(&mut self, out: &mut String) {
        let mut entries: BTreeMap<String, String> = BTreeMap::new();
        self.at += 1;
        while self.more(b'}') {
            let key = plain(self.string());
            self.space();
            self.at += 1; // The colon.
            let mut value = String::new();
            self.value(&mut value);
            entries.insert(key, value);
        }
        out.push('{');
        for (n, (key, value)) in entries.iter().enumerate() {
            out.push_str(if n > 0 { "," } else { "" });
            out.push_str(&quoted(key));
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
    }

    fn array(&mut self, out: &mut String) {
        self.at += 1;
        out.push('[');
        let mut first = true;
        while self.more(b']') {
            out.push_str(if first { "" } else { "," });
            first = false;
            self.value(out);
        }
        out.push(']');
    }

    /// Whether another item comes before `end`, which is passed if not.
    fn more(&mut self, end: u8) -> bool {
        self.space();
        if self.peek() == b',' {
            self.at += 1;
            self.space();
        }
        if self.peek() == end || self.peek() == 0 {
            self.at += 1;
            return false;
        }
        true
    }

    /// The next string, with its quotes.
    fn string(&mut self) -> &'t str {
        let start = self.at;
        self.at += 1;
        while !matches!(self.peek(), b'"' | 0) {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.bytes.len());
        &self.text[start..self.at]
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// The next byte; 0, which valid JSON does not contain, at the end.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }
}

/// The one spelling of a string with quotes. Most have it already.
fn spell(string: &str) -> std::borrow::Cow<'_, str> {
    if string.contains('\\') { quoted(&plain(string)).into() } else { string.into() }
}

/// What a string with quotes says.
fn plain(string: &str) -> String {
    let inner = string.get(1..string.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return inner.to_owned();
    }
    // INVARIANT: the string is valid, except that a lone surrogate is no character; then the escape is what it says.
    serde_json::from_str(string).unwrap_or_else(|_| inner.to_owned())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn values_have_one_spelling() {
        let check = |json: &str, expected: &str| assert_eq!(text(json).unwrap(), expected, "{json}");
        check(" { \"b\" : [ 1 , 2.50 ,{}, [ ] ] ,\n\"a\":null } ", r#"{"a":null,"b":[1,2.50,{},[]]}"#);
        check(r#"{"a":1,"a":{"z":1,"y":2}}"#, r#"{"a":{"y":2,"z":1}}"#);
        check(r#"["\u0041\/\n\u0000","é","{,]"]"#, r#"["A/\n\u0000","é","{,]"]"#);
        check(r#"{"é":1,"z":2,"\u0061":3}"#, r#"{"a":3,"z":2,"é":1}"#);
        check("-1.0e+5", "-1.0e+5");
        check("123456789012345678901234567890", "123456789012345678901234567890");
        check("\"\"", "\"\"");
    }

    #[test]
    fn what_has_no_spelling_is_refused() {
        for bad in ["", "{", "[1,]", "{\"a\"}", "1 2", "nul"] {
            assert!(text(bad).is_err(), "{bad}");
        }
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(text(&deep(100)).is_ok());
        assert!(text(&deep(100_000)).is_err());
        // A raw value is not looked into when it is read.
        let raw = format!("{{\"a\":{}}}", deep(500));
        assert!(text(&raw).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_spelling_means_the_same_and_stays(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let once = text(&pretty).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&once).unwrap(), value);
            prop_assert_eq!(text(&once).unwrap(), once);
        }

        #[test]
        fn any_text_is_spelled_or_refused(json in "[\\[\\]{}\",:0-9eE.+\\\\ua-f -]{0,40}") {
            if let Ok(once) = text(&json) {
                prop_assert_eq!(text(&once).unwrap(), once);
            }
        }
    }
}

//! What the arguments of a call say: the tests that Cedar cannot make, made by us and named to it.

use std::cmp::Ordering;

use regex::{Regex, RegexBuilder};
use serde_json::Value;
use weir_types::Json;

use crate::source::Test;

/// The largest compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// A test of an argument, ready to be made.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// How policies name it.
    pub(crate) name: String,
    path: String,
    check: Check,
}

#[derive(Clone, Debug)]
enum Check {
    Equals(Value),
    Matches(Regex),
    OneOf(Vec<Value>),
    Above(Value),
    Below(Value),
}

impl Fact {
    /// Reads a test.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(path: &str, test: &Test) -> Result<Self, String> {
        let check = match test {
            Test::Equals(value) => Check::Equals(value.to_value()),
            Test::Matches(pattern) => Check::Matches(regex(pattern)?),
            Test::OneOf(values) => Check::OneOf(values.iter().map(Json::to_value).collect()),
            Test::Above(bound) => Check::Above(number(bound)?),
            Test::Below(bound) => Check::Below(number(bound)?),
        };
        Ok(Self { name: name(path, test), path: path.to_owned(), check })
    }

    /// Whether it holds for these arguments. What is not there passes no test.
    pub(crate) fn holds(&self, input: &Value) -> bool {
        let Some(found) = at(input, &self.path) else { return false };
        match &self.check {
            Check::Equals(value) => same(found, value),
            Check::Matches(regex) => found.as_str().is_some_and(|text| regex.is_match(text)),
            Check::OneOf(values) => values.iter().any(|value| same(found, value)),
            Check::Above(bound) => compare(found, bound) == Some(Ordering::Greater),
            Check::Below(bound) => compare(found, bound) == Some(Ordering::Less),
        }
    }
}

/// How policies name a test: two have one name only if they are the same.
pub(crate) fn name(path: &str, test: &Test) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let path =
        if path.bytes().all(is_plain) { path.to_owned() } else { Value::String(path.to_owned()).to_string() };
    let [verb, value] = words(test);
    format!("{path} {verb} {value}")
}

/// Tests as the annotation of a policy, and back.
pub(crate) fn to_annotation(tests: &[(&str, &Test)]) -> String {
    let rows = tests.iter().map(|(path, test)| {
        let [verb, value] = words(test);
        let value = serde_json::from_str(&value).unwrap_or(Value::Null);
        Value::Array(vec![Value::String((*path).to_owned()), Value::String(verb), value])
    });
    Value::Array(rows.collect()).to_string()
}

/// The tests that an annotation names.
pub(crate) fn from_annotation(text: &str) -> Option<Vec<(String, Test)>> {
    let rows: Vec<(String, String, Value)> = serde_json::from_str(text).ok()?;
    let read = |(path, verb, value): (String, String, Value)| {
        let test = match (verb.as_str(), value) {
            ("equals", value) => Test::Equals(Json::of(&value)),
            ("matches", Value::String(pattern)) => Test::Matches(pattern),
            ("one_of", Value::Array(values)) => Test::OneOf(values.iter().map(Json::of).collect()),
            ("above", bound) => Test::Above(Json::of(&bound)),
            ("below", bound) => Test::Below(Json::of(&bound)),
            _ => return None,
        };
        Some((path, test))
    };
    rows.into_iter().map(read).collect()
}

/// The verb of a test, and its value as JSON.
fn words(test: &Test) -> [String; 2] {
    let (verb, value) = match test {
        Test::Equals(value) => ("equals", value.to_value()),
        Test::Matches(pattern) => ("matches", Value::String(pattern.clone())),
        Test::OneOf(values) => ("one_of", Value::Array(values.iter().map(Json::to_value).collect())),
        Test::Above(bound) => ("above", bound.to_value()),
        Test::Below(bound) => ("below", bound.to_value()),
    };
    [verb.to_owned(), value.to_string()]
}

fn regex(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|_| format!("`{pattern}` is too large, or no regular expression"))
}

fn number(bound: &Json) -> Result<Value, String> {
    let value = bound.to_value();
    if value.is_number() { Ok(value) } else { Err(format!("`{value}` is no number")) }
}

/// The value at a path: keys, and numbers in lists.
pub(crate) fn at<'v>(input: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(input, |value, part| match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// Whether two values are the same; `1` and `1.0` are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The order of two numbers. Whole ones are compared as such: a float cannot tell large ones apart.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(path: &str, test: &Test, input: &Value) -> bool {
        let again = from_annotation(&to_annotation(&[(path, test)])).unwrap();
        assert_eq!(again, [(path.to_owned(), test.clone())]);
        Fact::new(path, test).unwrap().holds(input)
    }

    #[test]
    fn arguments_are_compared_as_values() {
        let input =
            json!({"to": [{"address": "a@b.c"}], "n": 5, "big": 9_007_199_254_740_993_u64, "on": true});
        let json = |value: Value| Json::of(&value);
        for (path, test, expected) in [
            ("to.0.address", Test::Matches("@b\\.c$".to_owned()), true),
            ("to.0.address", Test::Matches("^b".to_owned()), false),
            ("to.1.address", Test::Matches(String::new()), false),
            ("to.x", Test::Equals(json(json!(null))), false),
            ("n", Test::Equals(json(json!(5.0))), true),
            ("n", Test::Equals(json(json!("5"))), false),
            ("n", Test::Matches("5".to_owned()), false),
            ("n", Test::OneOf(vec![json(json!(4)), json(json!(5))]), true),
            ("n", Test::OneOf(vec![json(json!("5"))]), false),
            ("n", Test::Above(json(json!(4.5))), true),
            ("n", Test::Above(json(json!(5))), false),
            ("n", Test::Below(json(json!(6))), true),
            ("n", Test::Below(json(json!(-1))), false),
            ("big", Test::Above(json(json!(9_007_199_254_740_992_u64))), true),
            ("on", Test::Equals(json(json!(true))), true),
            ("on", Test::Above(json(json!(0))), false),
            ("to", Test::Equals(json(json!([{"address": "a@b.c"}]))), true),
            ("to", Test::Equals(json(json!([]))), false),
        ] {
            assert_eq!(holds(path, &test, &input), expected, "{path} {test:?}");
        }
    }

    #[test]
    fn tests_that_cannot_be_made_are_told() {
        assert!(Fact::new("a", &Test::Matches("(".to_owned())).is_err());
        assert!(Fact::new("a", &Test::Above(Json::of(&json!("5")))).is_err());
    }

    #[test]
    fn no_two_tests_have_one_name() {
        let equals = |value: Value| Test::Equals(Json::of(&value));
        assert_eq!(name("a.b", &equals(json!(1))), "a.b equals 1");
        assert_ne!(name("a equals 1", &equals(json!(1))), name("a", &equals(json!("1 equals 1"))));
        assert_ne!(name("\"a\"", &equals(json!(1))), name("a", &equals(json!(1))));
    }
}

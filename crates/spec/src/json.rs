//! YAML values as JSON: the order of keys and the spelling of numbers stay.

use weir_types::Json;

use crate::diagnostic::Findings;
use crate::node::{Node, Value, is_null};

/// The value a node stands for, in the core schema of YAML 1.2.
pub(crate) fn json(node: &Node, findings: &mut Findings) -> Option<Json> {
    let mut text = String::new();
    write(node, &mut text, findings)?;
    // INVARIANT: what `write` writes is JSON; a property test shows it.
    Json::parse(&text).ok()
}

/// Recursion is bounded by the depth that a document may have.
fn write(node: &Node, out: &mut String, findings: &mut Findings) -> Option<()> {
    match &node.value {
        Value::Quoted(text) => string(text, out),
        Value::Plain(text) => return plain(text, node, out, findings),
        Value::Refused => return None,
        Value::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                comma(n, out);
                write(item, out, findings)?;
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (n, entry) in entries.iter().enumerate() {
                comma(n, out);
                string(&entry.key.value, out);
                out.push(':');
                write(&entry.value, out, findings)?;
            }
            out.push('}');
        }
    }
    Some(())
}

fn plain(text: &str, node: &Node, out: &mut String, findings: &mut Findings) -> Option<()> {
    match scalar(text) {
        Scalar::Null => out.push_str("null"),
        Scalar::Truth(truth) => out.push_str(if truth { "true" } else { "false" }),
        Scalar::Number(number) => out.push_str(&number),
        Scalar::Text => string(text, out),
        Scalar::NoNumber => {
            let help = "put it in quotes to have it as text";
            findings.add("spec::wrong-value", node.span, format!("JSON has no number `{text}`"), help);
            return None;
        }
    }
    Some(())
}

/// What text without quotes stands for, in the core schema of YAML 1.2.
pub(crate) enum Scalar {
    Null,
    Truth(bool),
    /// In the spelling of JSON.
    Number(String),
    /// Infinity, and what is no number.
    NoNumber,
    Text,
}

pub(crate) fn scalar(plain: &str) -> Scalar {
    match plain {
        "true" | "True" | "TRUE" => Scalar::Truth(true),
        "false" | "False" | "FALSE" => Scalar::Truth(false),
        null if is_null(null) => Scalar::Null,
        odd if is_no_json_number(odd) => Scalar::NoNumber,
        other => number(other).map_or(Scalar::Text, Scalar::Number),
    }
}

/// Infinity, and what is no number.
fn is_no_json_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// A YAML number in the spelling of JSON: no `+`, no leading zero, a digit on both sides of the point.
fn number(text: &str) -> Option<String> {
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) =
        unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = |part: &str| {
        let part = part.strip_prefix(['+', '-']).unwrap_or(part);
        !part.is_empty() && digits(part)
    };
    let empty = whole.is_empty() && fraction.is_empty();
    if empty || !digits(whole) || !digits(fraction) || !exponent.is_none_or(is_exponent) {
        return None;
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    };
    let mut number = format!("{sign}{whole}");
    if !fraction.is_empty() {
        number = number + "." + fraction;
    }
    Some(exponent.map_or(number.clone(), |exponent| number + "e" + exponent))
}

fn radix(digits: &str, base: u32) -> Option<String> {
    // `from_str_radix` would take a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    u64::from_str_radix(digits, base).ok().filter(|_| plain).map(|number| number.to_string())
}

fn comma(n: usize, out: &mut String) {
    if n > 0 {
        out.push(',');
    }
}

fn string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::document;

    fn check(yaml: &str, expected: &str) {
        let mut findings = Findings::new("f");
        let found = document(yaml.as_bytes(), &mut findings).and_then(|node| json(&node, &mut findings));
        let shown = match findings.conclude(found) {
            Ok(json) => json.as_str().to_owned(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(shown, expected, "{yaml}");
    }

    #[test]
    fn values_keep_order_and_spelling() {
        check("{b: 1, a: [x, 'y', \"z\\n\"]}", r#"{"b":1,"a":["x","y","z\n"]}"#);
        check(
            "[1.50, -0, 1e3, 1.5E-3, 123456789012345678901234567890]",
            "[1.50,-0,1e3,1.5e-3,123456789012345678901234567890]",
        );
        check("[+5, 007, .5, 5., 0x1F, 0o17]", "[5,7,0.5,5,31,15]");
        check("[~, null, true, False, '', 'true', \"5\"]", r#"[null,null,true,false,"","true","5"]"#);
        check(
            "[no, 1_000, 0xzz, 0x+1, 1e, ., 1.2.3, +, 2026-01-01]",
            r#"["no","1_000","0xzz","0x+1","1e",".","1.2.3","+","2026-01-01"]"#,
        );
        check("a:\n  - b: |\n      text\n    c:\n", r#"{"a":[{"b":"text\n","c":null}]}"#);
        check("a: &x {k: 1}\nb: *x\n", r#"{"a":{"k":1},"b":{"k":1}}"#);
        check("[1, -.inf]", "f:1:5: JSON has no number `-.inf`");
    }

    proptest! {
        /// What reads as YAML is JSON, or there is a word about it.
        #[test]
        fn every_document_is_json_or_refused(items in prop::collection::vec("[0-9.eExoinf+-]{1,5}|'[a-z\\\\\"é]*'", 0..8)) {
            let text = format!("[{}]", items.join(", "));
            let mut findings = Findings::new("f");
            let found = document(text.as_bytes(), &mut findings).and_then(|node| json(&node, &mut findings));
            let silent = found.is_none();
            prop_assert!(!silent || findings.conclude(Some(())).is_err());
        }
    }
}

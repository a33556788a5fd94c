//! Scalars, read as what their field is meant to be.

use std::time::Duration;

use weir_types::NanoUsd;

use crate::diagnostic::{Findings, Spanned};
use crate::duration::parse_duration;
use crate::fields::similar;
use crate::node::{Node, Value, excerpt};

/// Text that is not empty.
pub(crate) fn text(node: &Node, field: &str, findings: &mut Findings) -> Option<Spanned<String>> {
    let text = words(node, field, findings)?;
    if text.trim().is_empty() {
        return refuse(node, format!("`{field}` is empty"), "remove it, or give it a value", findings);
    }
    Some(Spanned { value: text, span: node.span })
}

/// Text that may be empty.
pub(crate) fn words(node: &Node, field: &str, findings: &mut Findings) -> Option<String> {
    let message = || format!("`{field}` is text, not {}", node.kind());
    let text = node.as_text().map(str::to_owned);
    text.or_else(|| refuse(node, message(), "write the text after the `:`", findings))
}

/// A whole number, one or more.
pub(crate) fn count(node: &Node, field: &str, findings: &mut Findings) -> Option<u64> {
    let number = whole(node, field, findings)?;
    if number == 0 {
        return refuse(node, format!("`{field}` cannot be 0"), "use 1 or more, or remove it", findings);
    }
    Some(number)
}

/// A whole number, one or more, but not beyond counting.
pub(crate) fn small_count(node: &Node, field: &str, findings: &mut Findings) -> Option<u32> {
    let number = count(node, field, findings)?;
    let small = u32::try_from(number).ok();
    small.or_else(|| refuse(node, format!("`{field}` is too large"), "use a smaller number", findings))
}

/// A whole number.
pub(crate) fn whole(node: &Node, field: &str, findings: &mut Findings) -> Option<u64> {
    let plain = match &node.value {
        Value::Plain(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    let message = || format!("`{field}` is a whole number, not {}", node.kind());
    plain.or_else(|| refuse(node, message(), "write digits only, like `4096`", findings))
}

/// `true` or `false`.
pub(crate) fn truth(node: &Node, field: &str, findings: &mut Findings) -> Option<bool> {
    match &node.value {
        Value::Plain(text) if text == "true" => Some(true),
        Value::Plain(text) if text == "false" => Some(false),
        _ => {
            let message = format!("`{field}` is `true` or `false`, not {}", node.kind());
            refuse(node, message, "write `true` or `false`", findings)
        }
    }
}

/// A span of time.
pub(crate) fn duration(node: &Node, field: &str, findings: &mut Findings) -> Option<Duration> {
    let read = node.as_text().and_then(|text| parse_duration(text).ok());
    let message = || format!("`{field}` is a span of time, not {}", node.kind());
    read.or_else(|| {
        refuse(node, message(), "write a number and a unit, like `90s`, `5m` or `1h30m`", findings)
    })
}

/// An amount of dollars. Read from its spelling: money never is a float.
pub(crate) fn usd(node: &Node, field: &str, findings: &mut Findings) -> Option<NanoUsd> {
    let read = node.as_text().and_then(|text| text.parse().ok());
    let message = || format!("`{field}` is an amount in dollars, not {}", node.kind());
    read.or_else(|| refuse(node, message(), "write it like `0.50`, with at most nine decimals", findings))
}

/// One of a few words.
pub(crate) fn word<T: Copy>(
    node: &Node,
    field: &str,
    words: &[(&str, T)],
    findings: &mut Findings,
) -> Option<T> {
    let given = node.as_text().unwrap_or_default();
    if let Some((_, found)) = words.iter().find(|(known, _)| *known == given) {
        return Some(*found);
    }
    let help = match similar(given, words.iter().map(|(known, _)| *known)) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => {
            format!("use one of: {}", words.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "))
        }
    };
    refuse(node, format!("`{field}` cannot be {}", node.kind()), help, findings)
}

/// The items of a list.
pub(crate) fn list<'n>(node: &'n Node, field: &str, findings: &mut Findings) -> Option<&'n [Node]> {
    match &node.value {
        Value::List(items) => Some(items),
        _ => {
            let message = format!("`{field}` is a list, not {}", node.kind());
            refuse(node, message, "write `[…]`, or lines that begin with `- `", findings)
        }
    }
}

/// A name that also serves as a tool's: letters, digits, `-` and `_`.
pub(crate) fn name(node: &Node, field: &str, findings: &mut Findings) -> Option<Spanned<String>> {
    const CHARACTERS_MAX: usize = 64;
    let name = text(node, field, findings)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.value.bytes().all(fits) && name.value.len() <= CHARACTERS_MAX {
        return Some(name);
    }
    let message = format!("`{}` cannot be a name", excerpt(&name.value));
    let help = "use 1 to 64 of the letters a-z and A-Z, digits, `-` and `_`";
    findings.add("spec::bad-name", node.span, message, help);
    None
}

fn refuse<T>(
    node: &Node,
    message: impl Into<String>,
    help: impl Into<String>,
    findings: &mut Findings,
) -> Option<T> {
    findings.add("spec::wrong-value", node.span, message, help);
    None
}

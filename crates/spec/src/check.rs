//! Checks a value against what it may be. Everything that is wrong is told, and taken out: whoever reads the value
//! afterwards finds what is right, and nothing where something was wrong.

use crate::diagnostic::{Diagnostic, Findings, Span, Spanned};
use crate::duration::parse_duration;
use crate::format::{Format, Trouble};
use crate::json::{self, Scalar};
use crate::node::{Entry, Node, Value, excerpt};
use crate::shape::{Choice, Kind, Shape};

/// Tells everything that is wrong with the value of `field`. Recursion is bounded by the depth of a document.
pub(crate) fn check(node: &mut Node, field: &str, kind: &Kind, findings: &mut Findings) {
    let verdict = match kind {
        _ if matches!(node.value, Value::Refused) => Ok(()),
        Kind::Words => words(node, field).map(drop),
        Kind::Text => text(node, field).map(drop),
        Kind::Format(format) => formatted(node, field, format),
        Kind::Word(all) => word(node, field, &all()),
        Kind::Truth => truth(node, field),
        Kind::Count => count(node, field, u64::MAX),
        Kind::Small => count(node, field, u64::from(u32::MAX)),
        Kind::Whole(most) => whole(node, field, *most).map(drop),
        Kind::Duration => duration(node, field, false),
        Kind::Pause => duration(node, field, true),
        Kind::Usd => usd(node, field, false),
        Kind::Price => usd(node, field, true),
        Kind::Number => number(node, field),
        Kind::Json => {
            if json::json(node, findings).is_none() {
                node.value = Value::Refused;
            }
            Ok(())
        }
        Kind::Object => object(node, field, findings),
        Kind::List(inner) => list(node, field, inner, findings).map(drop),
        Kind::Some(inner) => match list(node, field, inner, findings) {
            Ok(0) => refuse(format!("`{field}` is empty"), "add an item, or remove it"),
            other => other.map(drop),
        },
        Kind::Map(key, value) => map(node, field, key, value, findings),
        Kind::Shape(shape) => shaped(node, shape, findings),
        Kind::Either(short, shape) => match &node.value {
            Value::Map(_) => shaped(node, shape, findings),
            _ => {
                check(node, field, short, findings);
                Ok(())
            }
        },
    };
    if let Err(trouble) = verdict {
        tell(trouble, node.span, findings);
        node.value = Value::Refused;
    }
}

type Verdict<T = ()> = Result<T, Trouble>;

fn tell(trouble: Trouble, span: Span, findings: &mut Findings) {
    let Trouble { code, message, help, hide } = trouble;
    let problem = Diagnostic::error(code, findings.file(), span, message, help);
    findings.push(if hide { problem.hidden() } else { problem });
}

fn refuse<T>(message: impl Into<String>, help: impl Into<String>) -> Verdict<T> {
    Err(Trouble { code: "spec::wrong-value", message: message.into(), help: help.into(), hide: false })
}

/// A mapping with known fields.
fn shaped(node: &mut Node, shape: &Shape, findings: &mut Findings) -> Verdict {
    let (span, kind) = (node.span, node.kind());
    let Value::Map(entries) = &mut node.value else {
        let help = node.as_text().and_then(|text| bare(text, shape)).unwrap_or_else(|| its_fields(shape));
        return refuse(format!("{} is a mapping of fields, not {kind}", shape.what), help);
    };
    let mut meant = Vec::new();
    for entry in entries.iter_mut() {
        match shape.field(&entry.key.value) {
            Some(field) => {
                check(&mut entry.value, field.name, &field.kind, findings);
                if field.is_planned {
                    tell_planned(&entry.key, shape, findings);
                }
            }
            None => meant.extend(unknown(&entry.key, shape, findings)),
        }
    }
    let place = entries.first().map_or(span, |entry| entry.key.span);
    let has = |name: &str| entries.iter().any(|entry| entry.key.value == name) || meant.contains(&name);
    for field in shape.fields {
        if let Some(example) = field.required
            && !has(field.name)
        {
            let message = format!("{} needs `{}`", shape.what, field.name);
            findings.add("spec::missing", place, message, format!("add it, for example `{example}`"));
        }
    }
    choice(shape, place, entries, has, findings);
    Ok(())
}

/// A field that does nothing yet.
fn tell_planned(key: &Spanned<String>, shape: &Shape, findings: &mut Findings) {
    let message = format!("`{}` of {} is planned and not in this version", key.value, shape.what);
    let help = "remove it to run the project: `weir chat`, `weir test` and `weir run` refuse what they would not keep";
    findings.push(Diagnostic::error("spec::not-yet", findings.file(), key.span, message, help).warning());
}

/// The field that a text without one was probably meant to be.
fn bare(text: &str, shape: &Shape) -> Option<String> {
    let chosen = |name: &str| matches!(shape.choice, Choice::One(names) if names.contains(&name));
    let likely = shape.fields.iter().filter(|field| field.required.is_some() || chosen(field.name));
    let fits = |kind: &Kind| matches!(kind, Kind::Format(format) if (format.check)("", text).is_ok());
    likely.into_iter().find(|field| fits(&field.kind)).map(|field| format!("write `{}: {text}`", field.name))
}

fn choice(
    shape: &Shape,
    place: Span,
    entries: &[Entry],
    has: impl Fn(&str) -> bool,
    findings: &mut Findings,
) {
    let (names, only_one) = match shape.choice {
        Choice::Free => return,
        Choice::One(names) => (names, true),
        Choice::Some(names) => (names, false),
    };
    let any = any_of(names);
    if !names.iter().any(|name| has(name)) {
        findings.add("spec::missing", place, format!("{} needs {any}", shape.what), "add one of them");
    }
    let mut chosen = entries.iter().filter(|entry| names.contains(&entry.key.value.as_str()));
    if let (true, Some(first), Some(second)) = (only_one, chosen.next(), chosen.next()) {
        let message = format!("{} has either {any}", shape.what);
        let spans = [first.key.span, second.key.span];
        findings.twice("spec::contradiction", spans, message, "keep one of them");
    }
}

/// `a`, `b` or `c`.
fn any_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Tells about a field that is not known, and gives the one it was probably meant to be.
fn unknown(key: &Spanned<String>, shape: &Shape, findings: &mut Findings) -> Option<&'static str> {
    let name = key.value.as_str();
    if let Some((_, advice)) = shape.instead.iter().find(|(old, _)| *old == name) {
        let message = format!("{} has no field `{name}`", shape.what);
        findings.add("spec::renamed", key.span, message, *advice);
        return shape.names().find(|field| advice.contains(&format!("`{field}`")));
    }
    let similar = similar(name, shape.names());
    let help = similar.map_or_else(|| its_fields(shape), |similar| format!("did you mean `{similar}`?"));
    let message = format!("{} has no field `{}`", shape.what, excerpt(name));
    findings.add("spec::unknown-key", key.span, message, help);
    similar
}

fn its_fields(shape: &Shape) -> String {
    format!("its fields are: {}", shape.names().collect::<Vec<_>>().join(", "))
}

/// A mapping with keys that people choose. An entry whose key is wrong goes.
fn map(node: &mut Node, field: &str, key: &Format, value: &Kind, findings: &mut Findings) -> Verdict {
    let kind = node.kind();
    let Value::Map(entries) = &mut node.value else {
        let example = key.examples.first().copied().unwrap_or("name");
        return refuse(
            format!("`{field}` is a mapping, not {kind}"),
            format!("write `{field}: {{ {example}: … }}`"),
        );
    };
    entries.retain_mut(|entry| match (key.check)(field, &entry.key.value) {
        Ok(()) => {
            check(&mut entry.value, &entry.key.value, value, findings);
            true
        }
        Err(trouble) => {
            // What may be a secret cannot be the name of a field in what is told about its value.
            if !trouble.hide {
                check(&mut entry.value, &entry.key.value, value, findings);
            }
            tell(trouble, entry.key.span, findings);
            false
        }
    });
    Ok(())
}

/// The number of items.
fn list(node: &mut Node, field: &str, inner: &Kind, findings: &mut Findings) -> Verdict<usize> {
    let kind = node.kind();
    let Value::List(items) = &mut node.value else {
        return refuse(
            format!("`{field}` is a list, not {kind}"),
            "write `[…]`, or lines that begin with `- `",
        );
    };
    for item in items.iter_mut() {
        check(item, field, inner, findings);
    }
    Ok(items.len())
}

fn object(node: &mut Node, field: &str, findings: &mut Findings) -> Verdict {
    if !matches!(node.value, Value::Map(_)) {
        let message = format!("`{field}` is a mapping of arguments, not {}", node.kind());
        return refuse(message, format!("write `{field}: {{ name: value }}`"));
    }
    if json::json(node, findings).is_none() {
        node.value = Value::Refused;
    }
    Ok(())
}

fn words<'n>(node: &'n Node, field: &str) -> Verdict<&'n str> {
    match node.as_text() {
        Some(text) => Ok(text),
        None => refuse(format!("`{field}` is text, not {}", node.kind()), "write the text after the `:`"),
    }
}

fn text<'n>(node: &'n Node, field: &str) -> Verdict<&'n str> {
    match words(node, field)? {
        text if text.trim().is_empty() => {
            refuse(format!("`{field}` is empty"), "remove it, or give it a value")
        }
        text => Ok(text),
    }
}

fn formatted(node: &Node, field: &str, format: &Format) -> Verdict {
    let text = text(node, field)?;
    let verdict = (format.check)(field, text);
    // What may be a secret is not repeated, whatever else is wrong with it.
    let secret = matches!(&verdict, Err(trouble) if trouble.hide);
    if is_typed(node) && !secret {
        let message = format!("`{field}` is text, and {} is not", node.kind());
        return refuse(message, format!("put it in quotes: `\"{text}\"`"));
    }
    verdict
}

fn word(node: &Node, field: &str, words: &[&'static str]) -> Verdict {
    let given = node.as_text().unwrap_or_default();
    if words.contains(&given) {
        return Ok(());
    }
    let help = match similar(given, words.iter().copied()) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("use one of: {}", words.join(", ")),
    };
    refuse(format!("`{field}` cannot be {}", node.kind()), help)
}

fn truth(node: &Node, field: &str) -> Verdict {
    match as_truth(node) {
        Some(_) => Ok(()),
        None => {
            refuse(format!("`{field}` is `true` or `false`, not {}", node.kind()), "write `true` or `false`")
        }
    }
}

fn count(node: &Node, field: &str, most: u64) -> Verdict {
    match whole(node, field, most)? {
        0 => refuse(format!("`{field}` cannot be 0"), "use 1 or more, or remove it"),
        _ => Ok(()),
    }
}

fn whole(node: &Node, field: &str, most: u64) -> Verdict<u64> {
    match as_whole(node) {
        Some(number) if number <= most => Ok(number),
        Some(_) => refuse(format!("`{field}` is too large"), format!("use {most} or less")),
        None => refuse(
            format!("`{field}` is a whole number, not {}", node.kind()),
            "write digits only, like `4096`",
        ),
    }
}

fn number(node: &Node, field: &str) -> Verdict {
    match &node.value {
        Value::Plain(text) if matches!(json::scalar(text), Scalar::Number(_)) => Ok(()),
        _ => refuse(
            format!("`{field}` is a number, not {}", node.kind()),
            "write it without quotes, like `100` or `0.5`",
        ),
    }
}

fn duration(node: &Node, field: &str, none_is_fine: bool) -> Verdict {
    match node.as_text().map(parse_duration) {
        Some(Ok(time)) if time.is_zero() && !none_is_fine => {
            refuse(format!("`{field}` cannot be 0"), "use more, or remove it")
        }
        Some(Ok(_)) => Ok(()),
        _ => refuse(
            format!("`{field}` is a span of time, not {}", node.kind()),
            "write a number and a unit, like `90s`, `5m` or `1h30m`",
        ),
    }
}

fn usd(node: &Node, field: &str, none_is_fine: bool) -> Verdict {
    match node.as_text().map(str::parse::<weir_types::NanoUsd>) {
        Some(Ok(usd)) if usd.0 == 0 && !none_is_fine => {
            refuse(format!("`{field}` cannot be 0"), "use more, or remove it")
        }
        Some(Ok(_)) => Ok(()),
        _ => refuse(
            format!("`{field}` is an amount in dollars, not {}", node.kind()),
            "write it like `0.50`, with at most nine decimals",
        ),
    }
}

/// A whole number, as it is spelled.
pub(crate) fn as_whole(node: &Node) -> Option<u64> {
    match &node.value {
        Value::Plain(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// `true` or `false`.
pub(crate) fn as_truth(node: &Node) -> Option<bool> {
    match &node.value {
        Value::Plain(text) if text == "true" => Some(true),
        Value::Plain(text) if text == "false" => Some(false),
        _ => None,
    }
}

/// Whether YAML reads a number or a truth value where text is meant.
fn is_typed(node: &Node) -> bool {
    matches!(&node.value, Value::Plain(text) if matches!(json::scalar(text), Scalar::Number(_) | Scalar::Truth(_)))
}

/// What a word may have been meant to be.
pub(crate) fn similar<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    // A very long word is no slip of the finger, and comparing it costs.
    const CHARACTERS_MAX: usize = 64;
    if word.is_empty() || word.chars().nth(CHARACTERS_MAX).is_some() {
        return None;
    }
    let scored = words.map(|known| (strsim::jaro_winkler(known, word), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > 0.8).map(|(_, known)| known)
}

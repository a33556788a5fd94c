//! The forms in which a secret usually comes back.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::SHORT_BYTES;

/// What is never percent-encoded, and what some also leave as it is.
const UNRESERVED: &[u8] = b"-._~";
const LENIENT: &[u8] = b"-._~!'()*";
const FORM: &[u8] = b"-._*";

/// All forms of a secret; itself among them.
pub(super) fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.insert(engine.encode(secret));
        forms.extend(within(secret, engine));
    }
    // With padding they begin with the forms without; what is left of it is taken along.
    let padded: Vec<String> = [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD]
        .iter()
        .map(|engine| engine.encode(secret))
        .map(|form| format!("{form}{}", "=".repeat((4 - form.len() % 4) % 4)))
        .collect();
    forms.extend(padded);
    for kept in [UNRESERVED, LENIENT, FORM] {
        for form in [percent(secret, kept, "%20"), percent(secret, kept, "+")] {
            forms.insert(lower_hex(&form));
            forms.insert(form);
        }
    }
    let json = json(secret);
    for form in [json.replace('/', "\\/"), ascii(&json), self::json(&json), json] {
        forms.insert(form);
    }
    // A form that is too short is in every other word.
    forms.retain(|form| form.len() >= SHORT_BYTES);
    forms
}

/// What a secret looks like in the base64 of something longer, wherever it begins: the characters that depend on nothing
/// but it.
fn within(secret: &str, engine: &GeneralPurpose) -> impl Iterator<Item = String> {
    (0..3).map(move |before| {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
        let (encoded, first) = (engine.encode(&bytes), (before * 8).div_ceil(6));
        let last = bytes.len() * 8 / 6;
        encoded.get(first..last).unwrap_or_default().to_owned()
    })
}

fn percent(secret: &str, kept: &[u8], space: &str) -> String {
    let mut form = String::new();
    for byte in secret.bytes() {
        match byte {
            b' ' => form.push_str(space),
            byte if byte.is_ascii_alphanumeric() || kept.contains(&byte) => form.push(char::from(byte)),
            byte => drop(write!(form, "%{byte:02X}")),
        }
    }
    form
}

/// The same with `%2f` for `%2F`.
fn lower_hex(form: &str) -> String {
    // Two characters follow each `%`: they are hex digits, and nothing else is changed.
    let mut result = String::with_capacity(form.len());
    let mut digits = 0;
    for c in form.chars() {
        if c == '%' {
            digits = 2;
            result.push(c);
        } else if digits > 0 {
            digits -= 1;
            result.push(c.to_ascii_lowercase());
        } else {
            result.push(c);
        }
    }
    result
}

/// A text as it is within the quotes of JSON.
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// The same with escapes for what is not ASCII.
fn ascii(json: &str) -> String {
    let mut form = String::new();
    for c in json.chars() {
        if c.is_ascii() {
            form.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(form, "\\u{unit:04x}");
        }
    }
    form
}

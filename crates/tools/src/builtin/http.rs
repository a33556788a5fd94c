//! Requests to hosts that the spec lists.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use weir_types::Json;

use super::{Running, Says};
use crate::call::{Done, Failed};
use crate::net::{Limits, NetError, Request, Response, Trouble, is_safe};

/// What is kept of a call's time to tell how it ended, before everybody stops waiting.
const CLOSING_MAX: Duration = Duration::from_millis(500);

pub(super) fn says() -> Says {
    let description = "Makes an HTTP request to a host that this agent may reach, and shows the answer: its status, its type and, if it is \
         text, its body. Redirects are followed. A status of 400 or more is an answer, too.";
    let schema = json!({
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "Where to, with `https://`"},
            "method": {
                "type": "string",
                "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
                "description": "`GET` if left out; all but `GET` and `HEAD` count as changing something",
            },
            "headers": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "What else to send, such as `Accept`",
            },
            "body": {
                "type": "string",
                "description": "What to send, as text; its type is JSON if it is JSON, unless `Content-Type` says otherwise",
            },
        },
        "required": ["url"],
        "additionalProperties": false,
    });
    (description, schema)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    url: String,
    #[serde(default = "get")]
    method: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

pub(super) async fn run(running: &Running) -> Result<Done, Failed> {
    let request = request(running.input()?, &running.started.key);
    let deadline = running.setup.deadline;
    let limits = Limits::within(deadline - (deadline / 10).min(CLOSING_MAX));
    tokio::select! {
        biased;
        // Whoever cancels is told by the engine; a write that was under way is unknown.
        () = running.started.cancelled.cancelled() => Err(match reads(&running.started.input) {
            true => Failed::new("cancelled", "it was cancelled"),
            false => Failed::unknown("cancelled", "it was cancelled while it may have been under way"),
        }),
        answer = running.setup.net.fetch(request, &running.offer.hosts, &limits) => match answer {
            Ok(response) => Ok(Done::text(shown(&response))),
            Err(error) => Err(failed(&error)),
        },
    }
}

fn request(input: Input, key: &str) -> Request {
    let Input { url, method, headers, body } = input;
    let mut headers: Vec<(String, String)> = headers.into_iter().collect();
    let is_set = |headers: &[(String, String)], name: &str| {
        headers.iter().any(|(each, _)| each.eq_ignore_ascii_case(name))
    };
    if let Some(body) = &body
        && !is_set(&headers, "content-type")
    {
        headers.push(("content-type".to_owned(), type_of(body).to_owned()));
    }
    // A service that knows it does the same thing once, however often it is asked.
    if !is_safe(&method) && !is_set(&headers, "idempotency-key") {
        headers.push(("idempotency-key".to_owned(), key.to_owned()));
    }
    Request { method, url, headers, body: body.map(Into::into) }
}

fn type_of(body: &str) -> &'static str {
    match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(_) | Value::Array(_)) => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

fn failed(error: &NetError) -> Failed {
    let class = match error.trouble {
        Trouble::Late(_) => "timeout",
        Trouble::Url(_)
        | Trouble::Scheme(_)
        | Trouble::Credentials
        | Trouble::Host(_)
        | Trouble::Plain(_)
        | Trouble::Address { .. }
        | Trouble::Request(_)
        | Trouble::RequestSize { .. } => "refused",
        Trouble::Redirects(_)
        | Trouble::Unresolved { .. }
        | Trouble::Transport { .. }
        | Trouble::Headers(_)
        | Trouble::ResponseSize { .. }
        | Trouble::Packed { .. } => "transport",
    };
    if error.wrote {
        return Failed::unknown(class, format!("{} (the request may have been carried out)", error.told()));
    }
    Failed::new(class, error.told())
}

/// The answer, as the model reads it.
fn shown(response: &Response) -> String {
    let reason =
        reqwest::StatusCode::from_u16(response.status).ok().and_then(|status| status.canonical_reason());
    let mut text = match reason {
        Some(reason) => format!("{} {reason}\n", response.status),
        None => format!("{}\n", response.status),
    };
    let kind = response.header("content-type").unwrap_or_default();
    if !kind.is_empty() {
        text.push_str(&format!("content-type: {kind}\n"));
    }
    if response.redirected {
        text.push_str(&format!("redirected to: {}\n", response.url));
    }
    if response.body.is_empty() {
        return text;
    }
    text.push('\n');
    match words(kind, &response.body) {
        Some(words) => text.push_str(&words),
        None => text.push_str(&format!("[{} bytes that are not text]", response.body.len())),
    }
    text
}

/// The body in words, if it is made of words.
fn words(kind: &str, body: &[u8]) -> Option<String> {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = kind.starts_with("text/")
        || ["json", "xml", "yaml", "javascript", "graphql", "x-www-form-urlencoded", "x-ndjson", "toml"]
            .iter()
            .any(|word| kind == format!("application/{word}") || kind.ends_with(&format!("+{word}")));
    match std::str::from_utf8(body) {
        Ok(text) if is_text || kind.is_empty() => Some(text.to_owned()),
        Err(_) if is_text => Some(String::from_utf8_lossy(body).into_owned()),
        _ => None,
    }
}

/// Whether a request only reads. Whatever is not plainly one that does counts as writing.
pub(super) fn reads(input: &Json) -> bool {
    match input.to_value() {
        Value::Object(fields) => match fields.get("method") {
            None => true,
            Some(method) => method.as_str().is_some_and(is_safe),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_plainly_reads_reads() {
        let check = |input: Value, expected: bool| assert_eq!(reads(&Json::of(&input)), expected, "{input}");
        check(json!({"url": "x"}), true);
        check(json!({"url": "x", "method": "GET"}), true);
        check(json!({"method": "HEAD"}), true);
        for method in [
            json!("get"),
            json!("POST"),
            json!(" GET"),
            json!("GET "),
            json!(""),
            json!(null),
            json!(1),
            json!(["GET"]),
        ] {
            check(json!({"method": method}), false);
        }
        check(json!([]), false);
        check(json!("GET"), false);
        check(json!(null), false);
    }
}

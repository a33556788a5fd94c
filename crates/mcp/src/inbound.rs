//! What a server says, looked at before `rmcp` hears of it.
//!
//! Servers are strangers: only answers to what we asked and requests that are to be refused are passed on, each
//! rewritten to the few words that matter. Notifications end here: one of them is of interest, the rest (logs, progress)
//! costs nothing but the reading of it, which is bounded by a [`Meter`].

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ledger::Ledger;
use crate::plain::plain;

/// Most bytes of one message of a running server.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Most bytes that nobody asked for, in one interval: logs, progress, late answers, lines that are no message. More than
/// any server has to say, and little enough that reading it does no harm.
pub(crate) const UNASKED_BYTES_MAX: u64 = 64 * 1024 * 1024;

const INTERVAL: Duration = Duration::from_secs(60);

/// Most bytes of the id of a server's request, which is sent back to it.
const ID_BYTES_MAX: usize = 256;

/// The code of an error that we ourselves put in place of an answer; the true reason is in the ledger.
const OWN_CODE: i32 = -32_099;

/// A message that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard<'m> {
    /// An answer that somebody waits for, as `rmcp` is to see it.
    Answer(Cow<'m, str>),
    /// A request of the server, as `rmcp` is to see it.
    Request(String),
    /// Nothing that anybody waits for.
    Unasked,
    /// No message at all.
    Nonsense,
}

#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'m, str>>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    code: i64,
    message: String,
}

/// Looks at one message.
pub(crate) fn hear<'m>(message: &'m str, ledger: &Ledger) -> Heard<'m> {
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(message) else { return Heard::Nonsense };
    match envelope {
        Envelope { method: Some(method), id: None, .. } => {
            if method == "notifications/tools/list_changed" {
                ledger.tools_changed();
            }
            Heard::Unasked
        }
        Envelope { method: Some(method), id: Some(id), .. } => asked(&method, id, ledger),
        Envelope { result: Some(result), id: Some(id), .. } => {
            let Some(id) = number(id) else { return Heard::Unasked };
            match ledger.answered(id, Some(result.get())) {
                None => Heard::Unasked,
                Some(true) => Heard::Answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into()),
                Some(false) => Heard::Answer(message.into()),
            }
        }
        Envelope { error: Some(error), id: Some(id), .. } => {
            let answer = number(id).filter(|id| ledger.answered(*id, None).is_some());
            answer.map_or(Heard::Unasked, |id| Heard::Answer(refusal(id, error.get()).into()))
        }
        Envelope { error: Some(_), id: None, .. } => Heard::Unasked,
        _ => Heard::Nonsense,
    }
}

/// A request of the server: it may know that we are there, and nothing else is offered to it. What it asks for is not
/// even read.
fn asked<'m>(method: &str, id: &RawValue, ledger: &Ledger) -> Heard<'m> {
    if id.get().len() > ID_BYTES_MAX || !ledger.asks() {
        return Heard::Unasked;
    }
    let method = match method {
        "ping" => "ping".to_owned(),
        other => format!("not offered: {}", plain(other)),
    };
    Heard::Request(serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string())
}

/// An error in place of an answer, with the server's words on one line.
pub(crate) fn refusal(id: i64, error: &str) -> String {
    let Refusal { code, message } = serde_json::from_str(error)
        .unwrap_or_else(|_| Refusal { code: 0, message: format!("its error is not one of MCP: {error}") });
    let code = i32::try_from(code).unwrap_or(0);
    let error = serde_json::json!({"code": code, "message": plain(&message)});
    serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

/// The error of a body that is one, whatever request it names: servers that cannot read a request do not know its id.
pub(crate) fn refused_in(body: &str) -> Option<&str> {
    let envelope: Envelope<'_> = serde_json::from_str(body).ok()?;
    envelope.error.map(RawValue::get)
}

/// Whether a body is a refusal of the transport, which has not looked at the request: it does not name it, or its code
/// is one that only transports use.
pub(crate) fn is_of_the_transport(body: &str) -> bool {
    let code = refused_in(body).and_then(|error| serde_json::from_str::<Refusal>(error).ok());
    answers(body).is_none() || code.is_some_and(|refusal| matches!(refusal.code, -32_000 | -32_001))
}

/// The words of an error.
pub(crate) fn words(error: &str) -> String {
    serde_json::from_str::<Refusal>(error).map_or_else(|_| plain(error), |refusal| plain(&refusal.message))
}

/// What `rmcp` is told when a request has failed on its way; why is in the ledger.
pub(crate) fn failed(id: i64) -> String {
    serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": OWN_CODE, "message": "failed"}})
        .to_string()
}

/// Which request a message answers, if it is an answer.
pub(crate) fn answers(message: &str) -> Option<i64> {
    let envelope: Envelope<'_> = serde_json::from_str(message).ok()?;
    match envelope {
        Envelope { method: None, id: Some(id), .. } => number(id),
        _ => None,
    }
}

/// Our ids are numbers; a server may give one back as text.
fn number(id: &RawValue) -> Option<i64> {
    id.get().trim_matches('"').parse().ok()
}

/// Counts what nobody asked for.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    bytes: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }
}

impl Meter {
    /// So many bytes came; `false` when it has been too much.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        if self.since.elapsed() >= INTERVAL {
            *self = Self::default();
        }
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.bytes <= UNASKED_BYTES_MAX
    }

    /// So many of them were asked for after all.
    pub(crate) fn refund(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};

    use super::*;

    /// A ledger on which `tools/call` 7 and `initialize` 0 are under way.
    fn ledger() -> Ledger {
        let ledger = Ledger::default();
        for message in [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}"#,
        ] {
            let message: ClientJsonRpcMessage = serde_json::from_str(message).unwrap();
            ledger.leaves(&message);
        }
        ledger
    }

    #[test]
    fn answers_are_kept_word_for_word_and_hidden_from_the_library() {
        let ledger = ledger();
        let result = r#"{"content":[],"structuredContent":{"x":1.50,"é":"\n"}}"#;
        let message = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":"7"}}"#);
        assert_eq!(hear(&message, &ledger), Heard::Answer(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.into()));
        assert_eq!(ledger.take(&RequestId::Number(7)).answer.as_deref(), Some(result));
        let introduction = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#;
        assert_eq!(hear(introduction, &ledger), Heard::Answer(introduction.into()));
    }

    #[test]
    fn only_what_is_expected_is_passed_on() {
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, Heard::Unasked),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#, Heard::Unasked),
            (r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#, Heard::Unasked),
            (r#"{"jsonrpc":"2.0","id":7}"#, Heard::Nonsense),
            ("[]", Heard::Nonsense),
            ("Listening on port 80", Heard::Nonsense),
            (
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no\nsuch","data":[1]}}"#,
                Heard::Answer(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no such"}}"#.into()),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"error":"broken"}"#,
                Heard::Answer(
                    r#"{"jsonrpc":"2.0","id":7,"error":{"code":0,"message":"its error is not one of MCP: \"broken\""}}"#
                        .into(),
                ),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"big":1}}"#,
                Heard::Request(r#"{"jsonrpc":"2.0","id":"s","method":"not offered: sampling/createMessage"}"#.into()),
            ),
        ] {
            assert_eq!(hear(message, &ledger()), expected, "{message}");
        }
    }

    #[test]
    fn the_library_reads_what_it_is_given() {
        for method in ["sampling/createMessage", "elicitation/create", "roots/list", "tasks/get", "\u{7}"] {
            let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
            let Heard::Request(text) = hear(&message, &ledger()) else { panic!("{method} is a request") };
            let read: ServerJsonRpcMessage = serde_json::from_str(&text).unwrap();
            let JsonRpcMessage::Request(request) = read else {
                panic!("{method} is a request to `rmcp`, too")
            };
            assert!(matches!(request.request, rmcp::model::ServerRequest::CustomRequest(_)), "{method}");
        }
        for text in [failed(7), refusal(7, "{}"), refusal(7, r#"{"code":1e300,"message":1}"#)] {
            let read: ServerJsonRpcMessage = serde_json::from_str(&text).unwrap();
            assert!(matches!(read, JsonRpcMessage::Error(_)), "{text}");
        }
    }

    #[test]
    fn a_change_of_the_tools_is_noted() {
        let ledger = ledger();
        hear(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, &ledger);
        assert_eq!(ledger.changes(), 1);
    }

    #[test]
    fn the_meter_stops_at_its_limit() {
        let mut meter = Meter::default();
        let limit = usize::try_from(UNASKED_BYTES_MAX).unwrap();
        assert!(meter.add(limit));
        assert!(!meter.add(1));
        meter.refund(2);
        assert!(meter.add(1));
    }
}

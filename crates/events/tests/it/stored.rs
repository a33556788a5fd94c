//! Payloads outside of sessions, as journals have them.

use serde_json::{Value, json};
use weir_events::*;
use weir_types::{Hash, Json, OwnerId, Timestamp};

/// It is stored as this text, and this text is read as it.
#[track_caller]
fn check<P: Payload>(kind: &str, payload: &P, stored: &str) {
    assert_eq!(P::KIND, kind);
    assert_eq!(String::from_utf8(payload.encode().unwrap()).unwrap(), stored);
    assert_eq!(serde_json::from_str::<P>(stored).unwrap(), *payload);
}

fn zeros() -> String {
    "0".repeat(64)
}

#[test]
fn deployments() {
    let made =
        DeploymentMade { manifest: Hash::ZERO, previous: None, by: "user:ada".into(), rollback: false };
    let stored = format!(r#"{{"manifest":"{}","by":"user:ada"}}"#, zeros());
    check("deployment.made", &made, &stored);
    let back = DeploymentMade { previous: Some(Hash::ZERO), rollback: true, ..made };
    let stored = format!(r#"{{"manifest":"{0}","previous":"{0}","by":"user:ada","rollback":true}}"#, zeros());
    check("deployment.made", &back, &stored);
}

#[test]
fn tokens() {
    let issued = TokenIssued {
        id: "t".into(),
        hash: Hash::ZERO,
        principal: "user:ada".into(),
        groups: vec![],
        name: None,
        expires: None,
    };
    let stored = format!(r#"{{"id":"t","hash":"{}","principal":"user:ada"}}"#, zeros());
    check("token.issued", &issued, &stored);
    let full = TokenIssued {
        groups: vec!["group:eng".into()],
        name: Some("ci".into()),
        expires: Some(Timestamp::from_micros(1_700_000_000_000_000).unwrap()),
        ..issued
    };
    let stored = format!(
        r#"{{"id":"t","hash":"{}","principal":"user:ada","groups":["group:eng"],"name":"ci","expires":"2023-11-14T22:13:20.000000Z"}}"#,
        zeros()
    );
    check("token.issued", &full, &stored);
    check("token.revoked", &TokenRevoked { id: "t".into() }, r#"{"id":"t"}"#);
}

#[test]
fn requests() {
    let received = RequestReceived { route: "/x".into(), body: Hash::ZERO, session: None };
    let stored = format!(r#"{{"route":"/x","body":"{}"}}"#, zeros());
    check("request.received", &received, &stored);
    let with_session = RequestReceived { session: Some(Hash::ZERO), ..received };
    let stored = format!(r#"{{"route":"/x","body":"{0}","session":"{0}"}}"#, zeros());
    check("request.received", &with_session, &stored);
    let answered = RequestAnswered {
        status: 201,
        headers: vec![("location".into(), "/s/1".into())],
        body: Some(Json::parse(r#"{"a": 1.0}"#).unwrap()),
        body_base64: None,
    };
    let stored = r#"{"status":201,"headers":[["location","/s/1"]],"body":{"a": 1.0}}"#;
    check("request.answered", &answered, stored);
    let other =
        RequestAnswered { status: 200, headers: vec![], body: None, body_base64: Some("AA==".into()) };
    check("request.answered", &other, r#"{"status":200,"headers":[],"body_base64":"AA=="}"#);
    let owner = OwnerId::from_u128(1);
    check("request.taken", &RequestTaken { owner: Some(owner) }, r#"{"owner":"00000000000000000000000001"}"#);
    check("request.released", &RequestReleased {}, "{}");
}

#[test]
fn blobs() {
    let stored = format!(r#"{{"hash":"{}","bytes":7}}"#, zeros());
    check("blob.stored", &BlobStored { hash: Hash::ZERO, bytes: 7 }, &stored);
}

#[test]
fn recordings() {
    let begun = IngestedBegun { format: "openai".into(), id: Some("m".into()), model: None };
    check("ingested.begun", &begun, r#"{"format":"openai","id":"m","model":null}"#);
    check("ingested.step", &IngestedStep {}, "{}");
    let text = IngestedText { channel: "text".into(), text: "hi".into() };
    check("ingested.text", &text, r#"{"channel":"text","text":"hi"}"#);
    let part = IngestedPart { part: "source".into(), data: vec![json!({ "url": "u" })] };
    check("ingested.part", &part, r#"{"part":"source","data":[{"url":"u"}]}"#);
    let called = IngestedCalled { id: "c".into(), tool: "look".into(), input: json!({ "b": 1, "a": 2 }) };
    check("ingested.called", &called, r#"{"id":"c","tool":"look","input":{"b":1,"a":2}}"#);
    let answered = IngestedAnswered { id: "c".into(), output: Value::Null };
    check("ingested.answered", &answered, r#"{"id":"c","output":null}"#);
    let failed = IngestedFailed { id: "c".into(), message: None, denied: true };
    check("ingested.failed", &failed, r#"{"id":"c","message":null,"denied":true}"#);
    let asked = IngestedAsked { id: "a".into(), call: "c".into(), why: None };
    check("ingested.asked", &asked, r#"{"id":"a","call":"c","why":null}"#);
    check("ingested.reset", &IngestedReset {}, "{}");
    check(
        "ingested.finished",
        &IngestedFinished { reason: None, usage: None },
        r#"{"reason":null,"usage":null}"#,
    );
    let usage = Some(IngestedUsage { input_tokens: 1, output_tokens: 2 });
    let finished = IngestedFinished { reason: Some("stop".into()), usage };
    let stored = r#"{"reason":"stop","usage":{"input_tokens":1,"output_tokens":2}}"#;
    check("ingested.finished", &finished, stored);
    check("ingested.broken", &IngestedBroken { message: "m".into() }, r#"{"message":"m"}"#);
    let line = r#"{"kind": "run.started", "payload": {}}"#;
    check("ingested.event", &IngestedEvent(Json::parse(line).unwrap()), line);
}

use weir_models::Channel;
use weir_types::{Answer, Block, FailureClass, Stop, View, Wire};

use crate::fixture::{GEMINI, assistant, data, request, result, sent, tool_use, usage, user};
use crate::stub::Reply;

fn chunk(parts: &str, finish: &str) -> String {
    data(&format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{finish},"index":0}}],"usageMetadata":{{"promptTokenCount":120,"candidatesTokenCount":4,"thoughtsTokenCount":3,"totalTokenCount":127,"cachedContentTokenCount":100}},"modelVersion":"gemini-test","responseId":"r1"}}"#
    ))
}

fn whole(parts: &[&str], finish: &str) -> Vec<String> {
    let mut events: Vec<String> = parts.iter().map(|part| chunk(part, "")).collect();
    events.push(chunk(r#"{"text":""}"#, &format!(r#","finishReason":"{finish}""#)));
    events
}

/// Words, in two deltas.
pub(crate) fn text() -> Vec<String> {
    whole(&[r#"{"text":"Grüße "}"#, r#"{"text":"🙂"}"#], "STOP")
}

pub(crate) fn mid_stream_error(error: &str) -> Vec<String> {
    let mut events = text();
    events.truncate(1);
    events.push(data(&format!(r#"{{"error":{error}}}"#)));
    events
}

fn answer(content: Vec<Block>, stop: Stop) -> Answer {
    Answer { content, stop, usage: usage(120, 7, 100, 0), provider_id: Some("r1".into()) }
}

fn kept(view: View, part: &str) -> Block {
    sent(Wire::Gemini, view, part)
}

#[tokio::test]
async fn text_arrives_in_deltas_and_whole() {
    let outcome = GEMINI.ask(Reply::events(&text())).await;
    assert_eq!(outcome.joined(), [(0, Channel::Text, "Grüße 🙂".to_owned())]);
    assert_eq!(outcome.deltas.len(), 2);
    assert_eq!(outcome.answer(), answer(vec![Block::text("Grüße 🙂")], Stop::End));
}

/// What the parts of [`rich`] are when they are whole.
const RICH: [&str; 8] = [
    r#"{"text":"Let me see.","thought":true}"#,
    r#"{"text":"Looking."}"#,
    r#"{"text":" Still.","thoughtSignature":"sigA"}"#,
    r#"{"text":" Yes."}"#,
    r#"{"executableCode":{"language":"PYTHON","code":"1.50"}}"#,
    r#"{"functionCall":{"name":"weather","args":{"z":1.50,"city":"Oslo"},"id":"fc1"},"thoughtSignature":"sigB"}"#,
    r#"{"functionCall":{"name":"clock","args":{}}}"#,
    r#"{"text":"","thoughtSignature":"sigC"}"#,
];

/// Thoughts with signatures, words in pieces, two calls at once, and code that only Gemini understands.
fn rich() -> Vec<String> {
    whole(
        &[
            r#"{"text":"Let me ","thought":true}"#,
            r#"{"text":"see.","thought":true}"#,
            r#"{"text":"Look"}"#,
            r#"{"text":"ing."}"#,
            RICH[2],
            RICH[3],
            RICH[4],
            &format!("{},{}", RICH[5], RICH[6]),
            RICH[7],
        ],
        "STOP",
    )
}

#[tokio::test]
async fn thoughts_parallel_calls_and_unknown_parts_are_kept_as_sent() {
    let outcome = GEMINI.ask(Reply::events(&rich())).await;
    let expected = [
        (0, Channel::Thinking, "Let me see.".to_owned()),
        (1, Channel::Text, "Looking.".to_owned()),
        (2, Channel::Text, " Still.".to_owned()),
        (3, Channel::Text, " Yes.".to_owned()),
        (5, Channel::ToolInput, r#"{"z":1.50,"city":"Oslo"}"#.to_owned()),
        (6, Channel::ToolInput, "{}".to_owned()),
    ];
    assert_eq!(outcome.joined(), expected);
    let content = vec![
        kept(View::Thinking { text: "Let me see.".into(), signature: None }, RICH[0]),
        Block::text("Looking."),
        kept(View::Text { text: " Still.".into() }, RICH[2]),
        Block::text(" Yes."),
        kept(View::Unknown, RICH[4]),
        kept(tool_use("fc1", "weather", r#"{"z":1.50,"city":"Oslo"}"#), RICH[5]),
        kept(tool_use("r1_6", "clock", "{}"), RICH[6]),
        kept(View::Unknown, RICH[7]),
    ];
    assert_eq!(outcome.answer(), answer(content, Stop::ToolUse));
}

#[tokio::test]
async fn parts_go_back_as_they_came() {
    let said = GEMINI.ask(Reply::events(&rich())).await.answer();
    let results = vec![result("fc1", "weather", "21"), result("r1_6", "clock", "noon")];
    let messages = vec![user(vec![Block::text("hi")]), assistant(said.content), user(results)];
    let body = GEMINI.encode(&request("gemini-test", messages));
    // Only the call that had an id has one in its result.
    let expected = format!(
        r#"{{"role":"model","parts":[{}]}},{{"role":"user","parts":[{{"functionResponse":{{"id":"fc1","name":"weather","response":{{"output":"21"}}}}}},{{"functionResponse":{{"name":"clock","response":{{"output":"noon"}}}}}}]}}"#,
        RICH.join(",")
    );
    assert!(body.contains(&expected), "{body}");
}

#[tokio::test]
async fn the_id_that_the_conversation_knows_wins() {
    let call = kept(tool_use("fc1_again", "weather", r#"{"z":1.50,"city":"Oslo"}"#), RICH[5]);
    let body = GEMINI.encode(&request("gemini-test", vec![assistant(vec![call])]));
    assert!(body.contains(&RICH[5].replace("fc1", "fc1_again")), "{body}");
}

#[tokio::test]
async fn every_reason_to_stop_is_understood() {
    let check = async |reason: &str, stop: Stop| {
        let outcome = GEMINI.ask(Reply::events(&whole(&[r#"{"text":"x"}"#], reason))).await;
        assert_eq!(outcome.answer(), answer(vec![Block::text("x")], stop), "{reason}");
    };
    check("STOP", Stop::End).await;
    check("MAX_TOKENS", Stop::MaxTokens).await;
    for reason in ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"] {
        check(reason, Stop::Refused).await;
    }
    let failed = async |reason: &str| {
        let outcome = GEMINI.ask(Reply::events(&whole(&[], reason))).await;
        (outcome.error().class, outcome.error().usage)
    };
    let counted = Some(usage(120, 7, 100, 0));
    assert_eq!(failed("MALFORMED_FUNCTION_CALL").await, (FailureClass::Truncated, counted));
    assert_eq!(failed("MISSING_THOUGHT_SIGNATURE").await, (FailureClass::Invalid, counted));
}

#[tokio::test]
async fn a_blocked_conversation_is_a_refusal() {
    let blocked = data(
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9},"responseId":"r1"}"#,
    );
    let outcome = GEMINI.ask(Reply::events(&[blocked])).await;
    let error = outcome.error();
    assert_eq!((error.class, error.usage), (FailureClass::Refused, Some(usage(9, 0, 0, 0))));
    assert_eq!(error.message, "the server declines the conversation: SAFETY");
}

#[tokio::test]
async fn calls_of_other_models_are_signed_where_that_is_needed() {
    let calls = || vec![tool_use("a", "f", "{}").into(), tool_use("b", "g", "{}").into()];
    let body = |model: &str| GEMINI.encode(&request(model, vec![assistant(calls())]));
    let plain = r#"[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":{}}}]"#;
    let signed = r#"[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"g","args":{}}}]"#;
    assert!(body("gemini-2.5-pro").contains(plain), "{}", body("gemini-2.5-pro"));
    assert!(body("gemini-3-pro").contains(signed), "{}", body("gemini-3-pro"));
}

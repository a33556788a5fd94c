//! What models and servers write in ways of their own: how it is seen here, and that it goes back as it came.

use weir_models::Channel;
use weir_types::View;

use crate::fixture::{ANTHROPIC, CHAT, GEMINI, Outcome, RESPONSES, Wired, assistant, request};
use crate::stub::Reply;

/// Arguments of a model that likes its JSON readable.
const PRETTY: &str = "{\n  \"city\": \"Oslo\",\r\n  \"n\": 1.50\n}";

/// A frame; data may have several lines.
fn frame(data: &str) -> String {
    format!("data: {}\n\n", data.replace("\r\n", "\n").replace('\n', "\ndata: "))
}

fn frames(data: &[String]) -> Vec<String> {
    data.iter().map(|data| frame(data)).collect()
}

/// A chunk of a chat completion.
fn chunk(delta: &str) -> String {
    format!(r#"{{"id":"c1","choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

async fn chat(deltas: &[&str]) -> Outcome {
    let mut events: Vec<String> = deltas.iter().map(|delta| chunk(delta)).collect();
    events.push(r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned());
    events.push("[DONE]".to_owned());
    CHAT.ask(Reply::events(&frames(&events))).await
}

#[tokio::test]
async fn arguments_over_several_lines_are_seen_on_one_and_go_back_as_they_came() {
    let check = async |wired: &Wired, outcome: Outcome, goes_back: &str| {
        let said = outcome.answer();
        let inputs: Vec<&str> = said
            .content
            .iter()
            .filter_map(|block| match &block.view {
                View::ToolUse { input, .. } => Some(input.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(inputs, [r#"{"city":"Oslo","n":1.50}"#], "{}", wired.name);
        let body = wired.encode(&request("m", vec![assistant(said.content)]));
        assert!(body.contains(goes_back), "{}: {body}", wired.name);
    };
    let text = serde_json::Value::from(PRETTY).to_string();
    let call =
        format!(r#"{{"index":0,"id":"t1","type":"function","function":{{"name":"f","arguments":{text}}}}}"#);
    let outcome = chat(&[&format!(r#"{{"tool_calls":[{call}]}}"#)]).await;
    check(&CHAT, outcome, &format!(r#""arguments":{text}"#)).await;

    let item =
        format!(r#"{{"id":"fc_1","type":"function_call","call_id":"t1","name":"f","arguments":{text}}}"#);
    let events = [
        format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#),
        r#"{"type":"response.completed","response":{"id":"r1"}}"#.to_owned(),
    ];
    check(&RESPONSES, RESPONSES.ask(Reply::events(&frames(&events))).await, &item).await;

    let events = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#.to_owned(),
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":{text}}}}}"#),
        r#"{"type":"content_block_stop","index":0}"#.to_owned(),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    let outcome = ANTHROPIC.ask(Reply::events(&frames(&events))).await;
    check(&ANTHROPIC, outcome, &format!(r#""input":{PRETTY}"#)).await;

    // Here arguments are no text: line breaks in them are those of the frame.
    let part = format!(r#"{{"functionCall":{{"name":"f","args":{PRETTY}}}}}"#);
    let chunk = format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}]}}"#);
    let outcome = GEMINI.ask(Reply::events(&frames(&[chunk]))).await;
    check(&GEMINI, outcome, &format!(r#""args":{}"#, PRETTY.replace("\r\n", "\n"))).await;
}

/// What was told as it came, block by block, and what the message says: at no time is it told otherwise than it begins.
fn told(outcome: Outcome) -> Vec<(Channel, String)> {
    let mut told: Vec<(u32, Channel, String)> = Vec::new();
    for delta in outcome.deltas.iter().filter(|delta| delta.channel != Channel::ToolInput) {
        match told.last_mut() {
            Some((block, _, text)) if *block == delta.block => text.push_str(&delta.text),
            last => {
                assert!(
                    last.is_none_or(|(block, ..)| *block < delta.block),
                    "back to {}: {told:?}",
                    delta.block
                );
                told.push((delta.block, delta.channel, delta.text.clone()));
            }
        }
    }
    let said = outcome.answer().content;
    let shown = said.iter().zip(0..).filter_map(|(block, at)| match &block.view {
        View::Text { text } => Some((at, Channel::Text, text.clone())),
        View::Thinking { text, .. } => Some((at, Channel::Thinking, text.clone())),
        _ => None,
    });
    assert_eq!(shown.collect::<Vec<_>>(), told);
    told.into_iter().map(|(_, channel, text)| (channel, text)).collect()
}

fn words(text: &str) -> (Channel, String) {
    (Channel::Text, text.to_owned())
}

fn thought(text: &str) -> (Channel, String) {
    (Channel::Thinking, text.to_owned())
}

#[tokio::test]
async fn words_and_thoughts_in_turns_are_told_as_the_message_has_them() {
    let deltas = [
        r#"{"content":"Hello "}"#,
        r#"{"reasoning_content":"hm"}"#,
        r#"{"reasoning_content":"m"}"#,
        r#"{"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{}"}}],"x":"y"}"#,
        r#"{"reasoning_content":"."}"#,
        r#"{"content":"world"}"#,
    ];
    let body = {
        let said = chat(&deltas).await.answer();
        CHAT.encode(&request("m", vec![assistant(said.content)]))
    };
    // The provider gets its fields back, each in one piece.
    assert!(body.contains(r#""content":"Hello world","reasoning_content":"hmm.","x":"y""#), "{body}");
    assert_eq!(told(chat(&deltas).await), [words("Hello "), thought("hmm."), words("world")]);

    let deltas = [
        r#"{"content":[{"type":"text","text":"Hello "}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hmm."}]}]}"#,
        r#"{"content":[{"type":"text","text":"world"}]}"#,
    ];
    assert_eq!(told(chat(&deltas).await), [words("Hello "), thought("hmm."), words("world")]);
    // A thought under both of its names is one thought.
    let deltas = [
        r#"{"reasoning":"h","reasoning_content":"h"}"#,
        r#"{"reasoning":"m","reasoning_content":"m"}"#,
        r#"{"content":"Hello"}"#,
    ];
    assert_eq!(told(chat(&deltas).await), [thought("hm"), words("Hello")]);
}

#[tokio::test]
async fn words_wait_for_the_blocks_before_them() {
    let start = |at: u32, kind: &str| {
        format!(r#"{{"type":"content_block_start","index":{at},"content_block":{{"type":"{kind}"}}}}"#)
    };
    let more = |at: u32, field: &str, text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":{at},"delta":{{"type":"{field}_delta","{field}":"{text}"}}}}"#
        )
    };
    let stop = |at: u32| format!(r#"{{"type":"content_block_stop","index":{at}}}"#);
    let events = [
        start(0, "text"),
        start(1, "thinking"),
        start(2, "text"),
        more(2, "text", "world"),
        more(0, "text", "Hel"),
        more(1, "thinking", "hm"),
        more(0, "text", "lo "),
        stop(0),
        more(2, "text", "!"),
        more(1, "thinking", "m."),
        stop(1),
        stop(2),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    let outcome = ANTHROPIC.ask(Reply::events(&frames(&events))).await;
    assert_eq!(told(outcome), [words("Hello "), thought("hmm."), words("world!")]);

    let item = |kind: &str, at: u32, item: &str| {
        format!(r#"{{"type":"response.output_item.{kind}","output_index":{at},"item":{item}}}"#)
    };
    let delta = |kind: &str, at: u32, text: &str| {
        format!(r#"{{"type":"response.{kind}.delta","output_index":{at},"delta":"{text}"}}"#)
    };
    let summary = r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"hmm."}]}"#;
    let message = r#"{"type":"message","content":[{"type":"output_text","text":"Hello"}]}"#;
    let events = [
        item("added", 0, r#"{"type":"reasoning"}"#),
        delta("reasoning_summary_text", 0, "hm"),
        item("added", 1, r#"{"type":"message"}"#),
        delta("output_text", 1, "Hel"),
        delta("reasoning_summary_text", 0, "m."),
        item("done", 0, summary),
        delta("output_text", 1, "lo"),
        item("done", 1, message),
        r#"{"type":"response.completed","response":{"id":"r1"}}"#.to_owned(),
    ];
    let outcome = RESPONSES.ask(Reply::events(&frames(&events))).await;
    assert_eq!(told(outcome), [thought("hmm."), words("Hello")]);
}

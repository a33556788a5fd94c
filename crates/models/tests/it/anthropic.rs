use weir_models::Channel;
use weir_types::{Answer, Block, FailureClass, Stop, View, Wire};

use crate::fixture::{
    ANTHROPIC, assistant, frames, json, named, request, result, sent, tool_use, usage, user,
};
use crate::stub::Reply;

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

/// Words, in two deltas.
pub(crate) fn text() -> Vec<String> {
    let events = [
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type": "ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"🙂"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}"#,
        STOP,
    ];
    frames(&events, named)
}

pub(crate) fn mid_stream_error(error: &str) -> Vec<String> {
    let mut events = text();
    events.truncate(4);
    events.push(named(&format!(r#"{{"type":"error","error":{error}}}"#)));
    events
}

fn whole(blocks: &[&str], stop_reason: &str) -> Vec<String> {
    let stop = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop_reason}"}},"usage":{{"output_tokens":7}}}}"#
    );
    let events: Vec<&str> =
        [START].into_iter().chain(blocks.iter().copied()).chain([stop.as_str(), STOP]).collect();
    frames(&events, named)
}

fn answer(content: Vec<Block>, stop: Stop) -> Answer {
    Answer { content, stop, usage: usage(115, 7, 100, 5), provider_id: Some("msg_1".into()) }
}

#[tokio::test]
async fn text_arrives_in_deltas_and_whole() {
    let outcome = ANTHROPIC.ask(Reply::events(&text())).await;
    assert_eq!(outcome.joined(), [(0, Channel::Text, "Grüße 🙂".to_owned())]);
    assert_eq!(outcome.deltas.len(), 2);
    assert_eq!(outcome.answer(), answer(vec![Block::text("Grüße 🙂")], Stop::End));
}

/// A signed thought, words, two calls at once, and things only Anthropic understands.
fn rich() -> Vec<String> {
    whole(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see."}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB/+=="}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwK"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{},"caller":{"type":"direct"}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"x\"}"}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"citations":[],"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"Looking."}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":{"z":1.50,"a":"b"}}}"#,
            r#"{"type":"content_block_stop","index":3}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}"#,
            r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"z\": 1.50, \"ci"}}"#,
            r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"ty\": \"Oslo\"}"}}"#,
            r#"{"type":"content_block_stop","index":4}"#,
            r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"clock","input":{},"caller":{"type":"direct"}}}"#,
            r#"{"type":"content_block_stop","index":5}"#,
            r#"{"type":"content_block_start","index":6,"content_block":{"type":"compaction","content":null}}"#,
            r#"{"type":"content_block_delta","index":6,"delta":{"type":"compaction_delta","content":"sum"}}"#,
            r#"{"type":"content_block_delta","index":6,"delta":{"type":"compaction_delta","content":"mary","extra":[1.0]}}"#,
            r#"{"type":"content_block_stop","index":6}"#,
        ],
        "tool_use",
    )
}

/// What the blocks of [`rich`] are when they are whole.
const RICH: [&str; 7] = [
    r#"{"type":"thinking","thinking":"Let me see.","signature":"EqQB/+=="}"#,
    r#"{"type":"redacted_thinking","data":"EmwK"}"#,
    r#"{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query": "x"},"caller":{"type":"direct"}}"#,
    r#"{"citations":[{"z":1.50,"a":"b"}],"type":"text","text":"Looking."}"#,
    r#"{"type":"tool_use","id":"toolu_1","name":"weather","input":{"z": 1.50, "city": "Oslo"}}"#,
    r#"{"type":"tool_use","id":"toolu_2","name":"clock","input":{},"caller":{"type":"direct"}}"#,
    r#"{"type":"compaction","content":"summary","extra":[1.0]}"#,
];

#[tokio::test]
async fn thoughts_parallel_calls_and_unknown_blocks_are_kept_as_sent() {
    let outcome = ANTHROPIC.ask(Reply::events(&rich())).await;
    let expected = [
        (0, Channel::Thinking, "Let me see.".to_owned()),
        (3, Channel::Text, "Looking.".to_owned()),
        (4, Channel::ToolInput, r#"{"z": 1.50, "city": "Oslo"}"#.to_owned()),
    ];
    assert_eq!(outcome.joined(), expected);
    let kept = |view: View, at: usize| sent(Wire::Anthropic, view, RICH[at]);
    let content = vec![
        View::Thinking { text: "Let me see.".into(), signature: Some("EqQB/+==".into()) }.into(),
        kept(View::Unknown, 1),
        kept(View::Unknown, 2),
        kept(View::Text { text: "Looking.".into() }, 3),
        tool_use("toolu_1", "weather", r#"{"z": 1.50, "city": "Oslo"}"#).into(),
        kept(tool_use("toolu_2", "clock", "{}"), 5),
        kept(View::Unknown, 6),
    ];
    assert_eq!(outcome.answer(), answer(content, Stop::ToolUse));
}

#[tokio::test]
async fn blocks_go_back_as_they_came() {
    let said = ANTHROPIC.ask(Reply::events(&rich())).await.answer();
    let results = vec![result("toolu_1", "weather", "21"), result("toolu_2", "clock", "noon")];
    let messages = vec![user(vec![Block::text("hi")]), assistant(said.content), user(results)];
    let body = ANTHROPIC.encode(&request("claude-test", messages));
    let expected = format!(r#"{{"role":"assistant","content":[{}]}}"#, RICH.join(","));
    assert!(body.contains(&expected), "{body}");
}

#[tokio::test]
async fn the_id_that_the_conversation_knows_wins() {
    let block = r#"{"type":"tool_use","id":"toolu_2","name":"clock","input":{},"caller":{"type":"direct"}}"#;
    let call = sent(Wire::Anthropic, tool_use("toolu_2_again", "clock", "{}"), block);
    let messages = vec![user(vec![Block::text("hi")]), assistant(vec![call])];
    let body = ANTHROPIC.encode(&request("claude-test", messages));
    assert!(body.contains(&block.replace("toolu_2", "toolu_2_again")), "{body}");
}

#[tokio::test]
async fn every_reason_to_stop_is_understood() {
    let check = async |reason: &str, expected: Stop| {
        let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#;
        let outcome = ANTHROPIC.ask(Reply::events(&whole(&[text], reason))).await;
        assert_eq!(outcome.answer(), answer(vec![Block::text("x")], expected), "{reason}");
    };
    check("end_turn", Stop::End).await;
    check("stop_sequence", Stop::End).await;
    check("max_tokens", Stop::MaxTokens).await;
    check("refusal", Stop::Refused).await;
    check("pause_turn", Stop::Paused).await;
    check("model_context_window_exceeded", Stop::MaxTokens).await;
    check("something_new", Stop::End).await;
}

#[tokio::test]
async fn a_full_window_without_a_word_is_an_overflow() {
    let outcome = ANTHROPIC.ask(Reply::events(&whole(&[], "model_context_window_exceeded"))).await;
    let error = outcome.error();
    assert_eq!((error.class, error.usage), (FailureClass::ContextOverflow, Some(usage(115, 7, 100, 5))));
}

#[tokio::test]
async fn a_call_that_the_limit_cut_is_left_out() {
    let call = |partial: &str| {
        let start = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
        let delta = serde_json::json!({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":partial}});
        let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#;
        whole(&[text, start, &delta.to_string()], "max_tokens")
    };
    let content = async |partial: &str| ANTHROPIC.ask(Reply::events(&call(partial))).await.answer().content;
    assert_eq!(content(r#"{"a":"#).await, [Block::text("x")]);
    assert_eq!(content("").await, [Block::text("x")]);
    assert_eq!(content(r#"{"a":1}"#).await, [Block::text("x"), tool_use("t", "f", r#"{"a":1}"#).into()]);
}

#[tokio::test]
async fn arguments_that_are_no_object_can_be_shown_to_the_model() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{oops"}}"#;
    let said = ANTHROPIC.ask(Reply::events(&whole(&[start, delta], "tool_use"))).await.answer();
    let view = View::ToolUse { id: "t".into(), name: "f".into(), input: json(r#""{oops""#) };
    assert_eq!(said.content, [Block::from(view)]);
    let body = ANTHROPIC.encode(&request("claude-test", vec![assistant(said.content)]));
    assert!(body.contains(r#""name":"f","input":{"INVALID_JSON":"{oops"}"#), "{body}");
}

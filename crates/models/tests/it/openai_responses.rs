use weir_models::Channel;
use weir_types::{Answer, Block, FailureClass, Stop, View, Wire};

use crate::fixture::{RESPONSES, assistant, frames, named, request, result, sent, tool_use, usage, user};
use crate::stub::Reply;

const CREATED: &str = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"usage":null,"error":null,"incomplete_details":null}}"#;

const MESSAGE: &str = r#"{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Grüße 🙂"}],"role":"assistant"}"#;

fn done(index: usize, item: &str) -> String {
    format!(
        r#"{{"type":"response.output_item.done","sequence_number":9,"output_index":{index},"item":{item}}}"#
    )
}

fn ended(kind: &str, more: &str) -> String {
    format!(
        r#"{{"type":"response.{kind}","sequence_number":99,"response":{{"id":"resp_1","status":"{kind}",{more}"usage":{{"input_tokens":120,"input_tokens_details":{{"cached_tokens":100}},"output_tokens":7,"output_tokens_details":{{"reasoning_tokens":3}},"total_tokens":127}}}}}}"#
    )
}

fn whole(events: &[&str], kind: &str, more: &str) -> Vec<String> {
    let end = ended(kind, more);
    let events: Vec<&str> =
        [CREATED].into_iter().chain(events.iter().copied()).chain([end.as_str()]).collect();
    frames(&events, named)
}

/// Words, in two deltas.
pub(crate) fn text() -> Vec<String> {
    let item = done(0, MESSAGE);
    let events = [
        r#"{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","output":[]}}"#,
        r#"{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#,
        r#"{"type":"response.content_part.added","sequence_number":3,"output_index":0,"content_index":0,"item_id":"msg_1","part":{"type":"output_text","text":""}}"#,
        r#"{"type":"response.output_text.delta","sequence_number":4,"output_index":0,"content_index":0,"item_id":"msg_1","delta":"Grüße ","obfuscation":"x"}"#,
        r#"{"type":"response.output_text.delta","sequence_number":5,"output_index":0,"content_index":0,"item_id":"msg_1","delta":"🙂"}"#,
        r#"{"type":"response.output_text.done","sequence_number":6,"output_index":0,"content_index":0,"item_id":"msg_1","text":"Grüße 🙂"}"#,
        item.as_str(),
    ];
    whole(&events, "completed", "")
}

pub(crate) fn mid_stream_error(error: &str) -> Vec<String> {
    let mut events = text();
    events.truncate(5);
    events.push(named(&format!(
        r#"{{"type":"response.failed","response":{{"id":"resp_1","status":"failed","error":{error},"usage":null}}}}"#
    )));
    events
}

fn answer(content: Vec<Block>, stop: Stop) -> Answer {
    Answer { content, stop, usage: usage(120, 7, 100, 0), provider_id: Some("resp_1".into()) }
}

fn kept(view: View, item: &str) -> Block {
    sent(Wire::OpenaiResponses, view, item)
}

#[tokio::test]
async fn text_arrives_in_deltas_and_whole() {
    let outcome = RESPONSES.ask(Reply::events(&text())).await;
    assert_eq!(outcome.joined(), [(0, Channel::Text, "Grüße 🙂".to_owned())]);
    assert_eq!(outcome.deltas.len(), 2);
    let message = kept(View::Text { text: "Grüße 🙂".into() }, MESSAGE);
    assert_eq!(outcome.answer(), answer(vec![message], Stop::End));
}

const RICH: [&str; 4] = [
    r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Let me see."}],"encrypted_content":"gAAAA=="}"#,
    r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"z":1.50,"a":"b"}}"#,
    r#"{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"z\": 1.50, \"city\": \"Oslo\"}","call_id":"call_1","name":"weather"}"#,
    r#"{"id":"fc_2","type":"function_call","status":"completed","arguments":"{}","call_id":"call_2","name":"clock"}"#,
];

/// A thought with its proof, a search by the server, and two calls at once.
fn rich() -> Vec<String> {
    let items: Vec<String> = RICH.iter().enumerate().map(|(at, item)| done(at, item)).collect();
    let added = |index: usize| {
        format!(r#"{{"type":"response.output_item.added","output_index":{index},"item":{{"type":"x"}}}}"#)
    };
    let events = [
        added(0).as_str(),
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Let me "}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"see."}"#,
        &items[0],
        &added(1),
        r#"{"type":"response.web_search_call.searching","output_index":1,"item_id":"ws_1"}"#,
        &items[1],
        &added(2),
        &added(3),
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"z\": 1.50, \"ci"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{}"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"ty\": \"Oslo\"}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"z\": 1.50, \"city\": \"Oslo\"}"}"#,
        &items[2],
        &items[3],
    ]
    .map(str::to_owned);
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    whole(&events, "completed", "")
}

#[tokio::test]
async fn thoughts_parallel_calls_and_unknown_items_are_kept_as_sent() {
    let outcome = RESPONSES.ask(Reply::events(&rich())).await;
    let expected = [
        (0, Channel::Thinking, "Let me see.".to_owned()),
        (2, Channel::ToolInput, r#"{"z": 1.50, "city": "Oslo"}"#.to_owned()),
        (3, Channel::ToolInput, "{}".to_owned()),
    ];
    assert_eq!(outcome.joined(), expected);
    let content = vec![
        kept(View::Thinking { text: "Let me see.".into(), signature: None }, RICH[0]),
        kept(View::Unknown, RICH[1]),
        kept(tool_use("call_1", "weather", r#"{"z": 1.50, "city": "Oslo"}"#), RICH[2]),
        kept(tool_use("call_2", "clock", "{}"), RICH[3]),
    ];
    assert_eq!(outcome.answer(), answer(content, Stop::ToolUse));
}

#[tokio::test]
async fn items_go_back_as_they_came() {
    let said = RESPONSES.ask(Reply::events(&rich())).await.answer();
    let results = vec![result("call_1", "weather", "21"), result("call_2", "clock", "noon")];
    let messages = vec![user(vec![Block::text("hi")]), assistant(said.content), user(results)];
    let body = RESPONSES.encode(&request("gpt-test", messages));
    let expected =
        format!(r#"{},{{"type":"function_call_output","call_id":"call_1","output":"21"}},"#, RICH.join(","));
    assert!(body.contains(&expected), "{body}");
}

#[tokio::test]
async fn the_id_that_the_conversation_knows_wins() {
    let call = kept(tool_use("call_2_again", "clock", "{}"), RICH[3]);
    let body = RESPONSES.encode(&request("gpt-test", vec![assistant(vec![call])]));
    assert!(body.contains(&RICH[3].replace("call_2", "call_2_again")), "{body}");
}

#[tokio::test]
async fn events_without_names_are_understood() {
    let unnamed: Vec<String> =
        rich().iter().map(|frame| format!("{}\n", frame.split_once('\n').unwrap().1)).collect();
    assert!(unnamed.iter().all(|frame| frame.starts_with("data:")));
    let expected = RESPONSES.ask(Reply::events(&rich())).await;
    assert_eq!(RESPONSES.ask(Reply::events(&unnamed)).await, expected);
}

#[tokio::test]
async fn every_reason_to_stop_is_understood() {
    let item = done(0, MESSAGE);
    let message = || kept(View::Text { text: "Grüße 🙂".into() }, MESSAGE);
    let check = async |reason: &str, stop: Stop| {
        let more = format!(r#""incomplete_details":{{"reason":"{reason}"}},"#);
        let outcome = RESPONSES.ask(Reply::events(&whole(&[&item], "incomplete", &more))).await;
        assert_eq!(outcome.answer(), answer(vec![message()], stop), "{reason}");
    };
    check("max_output_tokens", Stop::MaxTokens).await;
    check("content_filter", Stop::Refused).await;
    let refusal =
        r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#;
    let delta = r#"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"no"}"#;
    let outcome = RESPONSES.ask(Reply::events(&whole(&[delta, &done(0, refusal)], "completed", ""))).await;
    assert_eq!(outcome.joined(), [(0, Channel::Text, "no".to_owned())]);
    let expected = answer(vec![kept(View::Text { text: "no".into() }, refusal)], Stop::Refused);
    assert_eq!(outcome.answer(), expected);
}

#[tokio::test]
async fn an_item_without_an_end_is_taken_from_the_response() {
    let more = format!(r#""output":[{MESSAGE}],"#);
    let outcome = RESPONSES.ask(Reply::events(&whole(&[], "completed", &more))).await;
    let message = kept(View::Text { text: "Grüße 🙂".into() }, MESSAGE);
    assert_eq!(outcome.answer(), answer(vec![message], Stop::End));
}

#[tokio::test]
async fn a_bare_error_event_is_an_error() {
    let mut events = text();
    events.truncate(3);
    events.push(named(
        r#"{"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 1.5s.","param":null}"#,
    ));
    let outcome = RESPONSES.ask(Reply::events(&events)).await;
    let error = outcome.error();
    let delay = Some(std::time::Duration::from_millis(1_500));
    assert_eq!((error.class, error.retry_after), (FailureClass::RateLimited, delay));
}

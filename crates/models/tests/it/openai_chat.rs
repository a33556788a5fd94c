use weir_models::{Channel, Endpoint};
use weir_types::{Answer, Block, Stop, View, Wire};

use crate::fixture::{CHAT, assistant, data, frames, request, result, sent, tool_use, usage, user};
use crate::stub::{Reply, Stub};

fn chunk(delta: &str, finish: &str) -> String {
    let choice = format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#);
    data(&format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-test","choices":[{choice}],"usage":null,"obfuscation":"x"}}"#
    ))
}

fn whole(deltas: &[&str], finish: &str) -> Vec<String> {
    let mut events = vec![chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null")];
    events.extend(deltas.iter().map(|delta| chunk(delta, "null")));
    events.push(chunk("{}", &format!("\"{finish}\"")));
    let tail = [
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":120,"completion_tokens":7,"total_tokens":127,"prompt_tokens_details":{"cached_tokens":100,"audio_tokens":0}}}"#,
        "[DONE]",
    ];
    events.extend(frames(&tail, data));
    events
}

/// Words, in two deltas.
pub(crate) fn text() -> Vec<String> {
    whole(&[r#"{"content":"Grüße "}"#, r#"{"content":"🙂"}"#], "stop")
}

pub(crate) fn mid_stream_error(error: &str) -> Vec<String> {
    let mut events = text();
    events.truncate(2);
    events.push(data(&format!(r#"{{"error":{error}}}"#)));
    events
}

fn answer(content: Vec<Block>, stop: Stop) -> Answer {
    Answer { content, stop, usage: usage(120, 7, 100, 0), provider_id: Some("chatcmpl-1".into()) }
}

#[tokio::test]
async fn text_arrives_in_deltas_and_whole() {
    let outcome = CHAT.ask(Reply::events(&text())).await;
    assert_eq!(outcome.joined(), [(0, Channel::Text, "Grüße 🙂".to_owned())]);
    assert_eq!(outcome.deltas.len(), 2);
    assert_eq!(outcome.answer(), answer(vec![Block::text("Grüße 🙂")], Stop::End));
}

/// A thought, words, two calls at once, and fields only this server understands.
fn rich() -> Vec<String> {
    whole(
        &[
            r#"{"reasoning_content":"Let me "}"#,
            r#"{"reasoning_content":"see."}"#,
            r#"{"content":"Looking."}"#,
            r#"{"reasoning_details":[{"z":1.50,"a":"b"}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig"}}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"z\": 1.50, \"ci"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"ty\": \"Oslo\"}"}}]}"#,
            r#"{"reasoning_details":[{"more":1}]}"#,
            r#"{"tool_calls":[{"index":2,"id":"call_3","type":"custom","custom":{"name":"x","input":"y"}}]}"#,
        ],
        "tool_calls",
    )
}

const CALLS: [&str; 3] = [
    r#"{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"z\": 1.50, \"city\": \"Oslo\"}"}}"#,
    r#"{"id":"call_2","type":"function","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig"}}}"#,
    r#"{"id":"call_3","type":"custom","custom":{"name":"x","input":"y"}}"#,
];

fn call_fragment(at: usize) -> String {
    format!(r#"{{"tool_calls":[{}]}}"#, CALLS[at])
}

#[tokio::test]
async fn thoughts_parallel_calls_and_unknown_fields_are_kept_as_sent() {
    let outcome = CHAT.ask(Reply::events(&rich())).await;
    let expected = [
        (0, Channel::Thinking, "Let me see.".to_owned()),
        (1, Channel::Text, "Looking.".to_owned()),
        (4, Channel::ToolInput, "{}".to_owned()),
        (3, Channel::ToolInput, r#"{"z": 1.50, "city": "Oslo"}"#.to_owned()),
    ];
    assert_eq!(outcome.joined(), expected);
    let kept = |view: View, fragment: &str| sent(Wire::OpenaiChat, view, fragment);
    let thought = View::Thinking { text: "Let me see.".into(), signature: None };
    let content = vec![
        kept(thought, r#"{"reasoning_content":"Let me see."}"#),
        Block::text("Looking."),
        kept(View::Unknown, r#"{"reasoning_details":[{"z":1.50,"a":"b"},{"more":1}]}"#),
        tool_use("call_1", "weather", r#"{"z": 1.50, "city": "Oslo"}"#).into(),
        kept(tool_use("call_2", "clock", "{}"), &call_fragment(1)),
        kept(View::Unknown, &call_fragment(2)),
    ];
    assert_eq!(outcome.answer(), answer(content, Stop::ToolUse));
}

#[tokio::test]
async fn blocks_go_back_as_they_came() {
    let said = CHAT.ask(Reply::events(&rich())).await.answer();
    let results = vec![result("call_1", "weather", "21"), result("call_2", "clock", "noon")];
    let messages = vec![user(vec![Block::text("hi")]), assistant(said.content), user(results)];
    let body = CHAT.encode(&request("gpt-test", messages));
    let expected = format!(
        r#"{{"role":"assistant","content":"Looking.","reasoning_content":"Let me see.","reasoning_details":[{{"z":1.50,"a":"b"}},{{"more":1}}],"tool_calls":[{}]}},{{"role":"tool","tool_call_id":"call_1","content":"21"}}"#,
        CALLS.join(",")
    );
    assert!(body.contains(&expected), "{body}");
}

#[tokio::test]
async fn the_id_that_the_conversation_knows_wins() {
    let call = sent(Wire::OpenaiChat, tool_use("call_2_again", "clock", "{}"), &call_fragment(1));
    let body = CHAT.encode(&request("gpt-test", vec![assistant(vec![call])]));
    assert!(body.contains(&CALLS[1].replace("call_2", "call_2_again")), "{body}");
}

#[tokio::test]
async fn parts_of_content_are_understood() {
    let deltas = [
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Let me "}],"closed":false}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"see."}],"closed":true,"signature":"sig"}]}"#,
        r#"{"content":[{"type":"reference","reference_ids":[1.0]}]}"#,
        r#"{"content":[{"type":"text","text":"Noon"}]}"#,
        r#"{"content":"."}"#,
    ];
    let outcome = CHAT.ask(Reply::events(&whole(&deltas, "stop"))).await;
    let expected = [(0, Channel::Thinking, "Let me see.".to_owned()), (2, Channel::Text, "Noon.".to_owned())];
    assert_eq!(outcome.joined(), expected);
    let said = outcome.answer();
    let body = CHAT.encode(&request("gpt-test", vec![assistant(said.content)]));
    let parts = r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Let me see."}],"closed":true,"signature":"sig"},{"type":"reference","reference_ids":[1.0]},{"type":"text","text":"Noon."}]}"#;
    assert!(body.contains(parts), "{body}");
}

#[tokio::test]
async fn calls_are_told_apart_however_a_server_numbers_them() {
    let check = async |calls: &[&str]| {
        let deltas: Vec<String> = calls.iter().map(|call| format!(r#"{{"tool_calls":[{call}]}}"#)).collect();
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        let said = CHAT.ask(Reply::events(&whole(&deltas, "stop"))).await.answer();
        let views: Vec<View> = said.content.into_iter().map(|block| block.view).collect();
        assert_eq!(views, [tool_use("a", "f", r#"{"x":1}"#), tool_use("b", "g", "{}")], "{calls:?}");
        assert_eq!(said.stop, Stop::ToolUse, "a call is a reason to stop, whatever the server says");
    };
    // No number at all; the same number for all of them; arguments as an object.
    check(&[
        r#"{"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
        r#"{"function":{"arguments":":1}"}}"#,
        r#"{"id":"b","function":{"name":"g"}}"#,
    ])
    .await;
    check(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"g","arguments":""}}"#,
    ])
    .await;
    check(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}"#,
        r#"{"index":1,"id":"b","function":{"name":"g","arguments":null}}"#,
    ])
    .await;
}

#[tokio::test]
async fn a_call_without_an_id_gets_one_that_goes_back_too() {
    let call = r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}"#;
    let said = CHAT.ask(Reply::events(&whole(&[call], "tool_calls"))).await.answer();
    assert_eq!(said.content[0].view, tool_use("call_0", "f", "{}"));
    let body = CHAT.encode(&request("gpt-test", vec![assistant(said.content)]));
    assert!(
        body.contains(r#""tool_calls":[{"function":{"name":"f","arguments":"{}"},"id":"call_0"}]"#),
        "{body}"
    );
}

#[tokio::test]
async fn every_reason_to_stop_is_understood() {
    let check = async |deltas: &[&str], reason: &str, content: Vec<Block>, stop: Stop| {
        let outcome = CHAT.ask(Reply::events(&whole(deltas, reason))).await;
        assert_eq!(outcome.answer(), answer(content, stop), "{reason}");
    };
    let text = || vec![Block::text("x")];
    check(&[r#"{"content":"x"}"#], "stop", text(), Stop::End).await;
    check(&[r#"{"content":"x"}"#], "length", text(), Stop::MaxTokens).await;
    check(&[r#"{"content":"x"}"#], "content_filter", text(), Stop::Refused).await;
    let refusal = sent(Wire::OpenaiChat, View::Text { text: "no".into() }, r#"{"refusal":"no"}"#);
    check(&[r#"{"refusal":"no"}"#], "stop", vec![refusal], Stop::Refused).await;
    let cut = r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x"}}]}"#;
    check(&[cut], "length", vec![], Stop::MaxTokens).await;
}

#[tokio::test]
async fn a_server_without_done_or_usage_is_understood() {
    let mut events = text();
    events.truncate(events.len() - 2);
    let expected_deltas = CHAT.ask(Reply::events(&text())).await.deltas;
    for reply in [
        Reply::events(&events),
        Reply::until_close("text/event-stream; charset=utf-8", events.concat().as_bytes()),
        // Not even the last blank line.
        Reply::until_close("text/event-stream", events.concat().strip_suffix('\n').unwrap().as_bytes()),
    ] {
        let outcome = CHAT.ask(reply).await;
        assert_eq!(outcome.deltas, expected_deltas);
        let said = outcome.answer();
        let body = CHAT.encode(&CHAT.request());
        // Four characters a token, sent and received.
        let counted = usage(u64::try_from(body.len().div_ceil(4)).unwrap(), 2, 0, 0);
        assert_eq!((said.content, said.usage), (vec![Block::text("Grüße 🙂")], counted));
    }
}

#[tokio::test]
async fn servers_that_differ_are_asked_differently() {
    let call = tool_use("call_with_a_long_name", "f", r#"{"x":1}"#);
    let thought = View::Thinking { text: "hm".into(), signature: None };
    let thought = sent(Wire::OpenaiChat, thought, r#"{"reasoning_content":"hm"}"#);
    let messages = vec![
        user(vec![Block::text("hi")]),
        assistant(vec![thought, call.into()]),
        user(vec![result("call_with_a_long_name", "f", "1")]),
    ];
    let body = |name: &str, base_url: &str| {
        let stub = Endpoint { base_url: base_url.into(), ..Endpoint::of(&CHAT.card(), name, None) };
        let client = weir_models::HttpClient::new();
        let model = weir_models::connect(&CHAT.card(), name, stub, &client).unwrap();
        let body = model.encode(&request("m", messages.clone())).unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    };
    let tail =
        |limit: &str| format!(r#""{limit}":1000,"stream":true,"stream_options":{{"include_usage":true}}}}"#);
    let openai = body("openai/x", "https://api.openai.com/v1");
    assert!(openai.ends_with(&tail("max_completion_tokens")), "{openai}");
    assert_eq!(body("litellm/x", "https://eu.api.openai.com/v1"), openai);
    let ollama = body("ollama/x", "http://localhost:11434/v1");
    assert!(ollama.ends_with(&tail("max_tokens")), "{ollama}");
    assert!(ollama.contains(r#""reasoning_content":"hm""#), "{ollama}");
    // Nothing that Mistral did not make up itself, and ids of nine characters.
    let mistral = body("mistral/x", "https://api.mistral.ai/v1");
    let id = "36482fbc7";
    let expected = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{\"x\":1}}"}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"1"}}],"max_tokens":1000,"stream":true}}"#
    );
    assert_eq!(mistral, expected);
}

#[tokio::test]
async fn a_finished_connection_is_used_again() {
    let stub = Stub::start([Reply::events(&text()), Reply::events(&text())]).await;
    let model = CHAT.model(CHAT.endpoint(&stub));
    for _ in 0..2 {
        let outcome = crate::fixture::run(&*model, &CHAT.request()).await;
        assert_eq!(outcome.answer(), answer(vec![Block::text("Grüße 🙂")], Stop::End));
    }
    assert_eq!(stub.connections(), 1);
}

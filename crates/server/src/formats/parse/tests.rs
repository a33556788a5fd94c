//! Vendors' own streams are read, and whatever else comes is read or refused.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "(data: [\\[{}\":a-z0-9,\\]]{0,30}\n\n){0,6}") {
        for format in Format::ALL {
            for input in [bytes.as_slice(), text.as_bytes()] {
                let mut parser = Parser::new(format);
                let _ = parser.push(input).and_then(|_| parser.finish());
            }
        }
    }
}

pub(super) fn heard(format: Format, text: &str) -> Vec<Heard> {
    let mut parser = Parser::new(format);
    let mut heard = parser.push(text.as_bytes()).unwrap();
    heard.extend(parser.finish().unwrap());
    joined(heard, usize::MAX)
}

fn called(id: &str, tool: &str, input: &str) -> Heard {
    Heard::Called { id: id.to_owned(), tool: tool.to_owned(), input: Json::parse(input).unwrap() }
}

#[test]
fn a_vendors_chunks_with_tool_calls_are_read() {
    let stream = concat!(
        r#"data: {"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}"#,
        "\r\n\r\n",
        r#"data: {"id":"chatcmpl-9","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"weather","arguments":""}}]}}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-9","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}},{"index":1,"id":"call_b","function":{"name":"time","arguments":""}}]}}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-9","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-9","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-9","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#,
        "\n\n",
        "data: [DONE]\n\n",
    );
    assert_eq!(
        heard(Format::OpenAi, stream),
        [
            Heard::Begun { id: Some("chatcmpl-9".to_owned()), model: Some("gpt-x".to_owned()) },
            called("call_a", "weather", r#"{"city":"Oslo"}"#),
            called("call_b", "time", "{}"),
            Heard::Finished { reason: Some("tool_calls".to_owned()) },
            Heard::Used { input_tokens: 7, output_tokens: 3 },
            Heard::Done,
        ]
    );
}

#[test]
fn a_vendors_message_with_tool_use_is_read() {
    let stream = concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":9,"cache_read_input_tokens":5,"output_tokens":1}}}"#,
        "\n\n",
        "event: ping\n",
        r#"data: {"type":"ping"}"#,
        "\n\n",
        "event: content_block_start\n",
        r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        "\n\n",
        "event: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}"#,
        "\n\n",
        "event: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
        "\n\n",
        "event: content_block_stop\n",
        r#"data: {"type":"content_block_stop","index":0}"#,
        "\n\n",
        "event: content_block_start\n",
        r#"data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}"#,
        "\n\n",
        "event: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\": "}}"#,
        "\n\n",
        "event: content_block_delta\n",
        r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"Oslo\"}"}}"#,
        "\n\n",
        "event: content_block_stop\n",
        r#"data: {"type":"content_block_stop","index":1}"#,
        "\n\n",
        "event: message_delta\n",
        r#"data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}"#,
        "\n\n",
        "event: message_stop\n",
        r#"data: {"type":"message_stop"}"#,
        "\n\n",
    );
    assert_eq!(
        heard(Format::Anthropic, stream),
        [
            Heard::Begun { id: Some("msg_1".to_owned()), model: Some("claude-x".to_owned()) },
            Heard::Reasoning("Hm.".to_owned()),
            Heard::Part {
                part: "signature_delta".to_owned(),
                data: vec![Json::parse(r#"{"type":"signature_delta","signature":"c2ln"}"#).unwrap()],
            },
            called("toolu_1", "weather", r#"{"city": "Oslo"}"#),
            Heard::Finished { reason: Some("tool_use".to_owned()) },
            Heard::Used { input_tokens: 14, output_tokens: 15 },
            Heard::Done,
        ]
    );
}

#[test]
fn hostile_streams_are_refused_and_cut_ones_read_as_far_as_they_go() {
    let refused =
        |format: Format, text: &str| Parser::new(format).push(text.as_bytes()).unwrap_err().to_string();
    assert!(refused(Format::OpenAi, "data: {\"id\":\n\n").starts_with("frame 1 is not openai"));
    assert!(refused(Format::Vercel, "data: [1]\n\n").starts_with("frame 1 is not vercel"));
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    assert!(refused(Format::Anthropic, &deep).starts_with("frame 1 is not anthropic"));
    let long = format!("data: {}", "x".repeat(FRAME_BYTES_MAX + 1));
    assert!(refused(Format::Native, &long).contains("longer"));
    let cut = "data: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"a\"}\n\ndata: {\"type\":\"text-del";
    assert_eq!(heard(Format::Vercel, cut), [Heard::Text("a".to_owned())]);
}

#[test]
fn of_several_choices_the_first_is_read() {
    let chunk = |choices: &str| format!("data: {{\"id\":\"c\",\"choices\":[{choices}]}}\n\n");
    let said = |index: &str, text: &str| format!(r#"{{{index}"delta":{{"content":"{text}"}}}}"#);
    let stream = [
        chunk(&said(r#""index":1,"#, "no ")),
        chunk(&said(r#""index":0,"#, "He")),
        chunk(&format!("{},{}", said(r#""index":1,"#, "no "), said(r#""index":0,"#, "ll"))),
        chunk(r#"{"index":1,"delta":{},"finish_reason":"length"}"#),
        chunk(&said("", "o")),
        chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#),
        "data: [DONE]\n\n".to_owned(),
    ];
    let expected = [
        Heard::Begun { id: Some("c".to_owned()), model: None },
        Heard::Text("Hello".to_owned()),
        Heard::Finished { reason: Some("stop".to_owned()) },
        Heard::Done,
    ];
    assert_eq!(heard(Format::OpenAi, &stream.concat()), expected);
}

#[test]
fn what_was_used_is_known_field_by_field() {
    let check = |start: &str, delta: &str, input_tokens: u64| {
        let stream = format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"usage\":{start}}}}}\n\ndata: {{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{delta}}}\n\n"
        );
        let used = heard(Format::Anthropic, &stream).pop();
        assert_eq!(used, Some(Heard::Used { input_tokens, output_tokens: 7 }), "{start} {delta}");
    };
    let start =
        r#"{"input_tokens":9,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"output_tokens":1}"#;
    check(start, r#"{"output_tokens":7}"#, 16);
    check(start, r#"{"input_tokens":10,"output_tokens":7}"#, 17);
    check(start, r#"{"input_tokens":10,"cache_read_input_tokens":0,"output_tokens":7}"#, 12);
    check(start, r#"{"cache_read_input_tokens":null,"output_tokens":7}"#, 16);
    check("{}", r#"{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":7}"#, 7);
}

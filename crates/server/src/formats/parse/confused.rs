//! A recording is of one format, and read as no other.

use super::tests::heard;
use super::*;

/// What each format looks like; the last two cannot be read here.
const RECORDINGS: [(&str, &str); 6] = [
    (
        "native",
        "id: 1.1\nevent: run.started\ndata: {\"stream\":\"session:x\",\"branch\":\"main\",\"seq\":1,\"kind\":\"run.started\",\"payload\":{\"run\":\"r\"}}\n\nevent: text.delta\ndata: {\"kind\":\"text.delta\",\"request\":2,\"attempt\":1,\"offset\":0,\"block\":0,\"channel\":\"text\",\"delta\":\"Hi\"}\n\nevent: end\ndata: {\"kind\":\"end\",\"stop\":\"end\"}\n\n",
    ),
    (
        "openai",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[]}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ),
    (
        "anthropic",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":1}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\nevent: later\ndata: {\"type\":\"of_a_later_version\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ),
    (
        "vercel",
        "data: {\"type\":\"start\",\"messageId\":\"m\"}\n\ndata: {\"type\":\"data-weather\",\"data\":1}\n\ndata: {\"type\":\"text-start\",\"id\":\"1\"}\n\ndata: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"Hi\"}\n\ndata: {\"type\":\"text-end\",\"id\":\"1\"}\n\ndata: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n",
    ),
    (
        "responses",
        "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\"}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hi\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n",
    ),
    (
        "gemini",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    ),
];

/// How each of them fails.
const ERRORS: [(&str, &str); 4] = [
    ("openai", r#"{"error":{"message":"no","type":"server_error","code":null}}"#),
    ("anthropic", r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#),
    ("vercel", r#"{"type":"error","errorText":"no"}"#),
    ("responses", r#"{"type":"error","sequence_number":1,"code":"server_error","message":"no"}"#),
];

fn read(format: Format, text: &str) -> Result<Vec<Heard>, ParseError> {
    let mut parser = Parser::new(format);
    let mut heard = parser.push(text.as_bytes())?;
    heard.extend(parser.finish()?);
    Ok(heard)
}

#[test]
fn a_recording_of_one_format_is_refused_as_any_other() {
    for (recorded, text) in RECORDINGS {
        // From its start, and from its second frame on.
        let rest = text.split_once("\n\n").unwrap().1;
        for format in Format::ALL {
            for text in [text, rest].into_iter().filter(|text| !text.is_empty()) {
                if format.as_str() == recorded {
                    assert!(heard(format, text).contains(&Heard::Text("Hi".to_owned())), "{format}");
                    continue;
                }
                let refused = read(format, text).map_err(|error| error.to_string());
                let expected = format!("frame 1 is not {format}");
                assert!(
                    refused.as_ref().is_err_and(|why| why.starts_with(&expected)),
                    "{recorded} as {format}: {refused:?}"
                );
            }
        }
    }
}

#[test]
fn an_error_is_one_of_its_own_format_alone() {
    for (recorded, data) in ERRORS {
        let text = format!("data: {data}\n\n");
        for format in Format::ALL {
            if format.as_str() == recorded {
                assert_eq!(heard(format, &text), [Heard::Broken("no".to_owned())]);
            } else {
                let read = read(format, &text);
                assert!(read.is_err(), "{recorded} as {format}: {read:?}");
            }
        }
    }
}

#[test]
fn parts_that_the_sdk_does_not_know_are_refused() {
    for part in ["tool-input-start", "source-url", "data-x", "custom", "steering-message", "message-metadata"]
    {
        let heard = heard(Format::Vercel, &format!("data: {{\"type\":\"{part}\"}}\n\n"));
        assert!(matches!(heard.as_slice(), [] | [Heard::Part { .. }]), "{part}: {heard:?}");
    }
    for part in ["message_start", "ping", "data", "text", "response.created"] {
        assert!(read(Format::Vercel, &format!("data: {{\"type\":\"{part}\"}}\n\n")).is_err(), "{part}");
    }
}

//! Nothing that a recording says is lost without a word: it is in the events, or it is counted.

use super::*;

/// What the events of a recording say, as text, and what was left out.
fn read(format: Format, frames: &[&str]) -> (Vec<String>, Vec<(String, u64, usize)>) {
    let text: String = frames.iter().map(|data| format!("data: {data}\n\n")).collect();
    let recording = Recording::read(format, text.as_bytes(), "user:x").unwrap();
    let said = |event: &NewEvent| {
        format!("{} {}", event.kind().as_str(), std::str::from_utf8(event.payload()).unwrap())
    };
    let left_out = recording.left_out.iter().map(|out| (out.part.clone(), out.count, out.frame)).collect();
    (recording.events.iter().map(said).collect(), left_out)
}

/// Every `~…~` of the recording is in an event, and what is counted is this.
fn check(format: Format, frames: &[&str], left_out: &[(&str, u64, usize)]) {
    let (events, found) = read(format, frames);
    let all = events.join("\n");
    let recording = frames.join("\n");
    let marks: Vec<&str> = recording.split('~').skip(1).step_by(2).collect();
    assert!(!marks.is_empty(), "nothing was planted");
    for mark in marks {
        assert!(all.contains(&format!("~{mark}~")), "{format}: {mark} is lost: {all}");
    }
    let left_out: Vec<_> =
        left_out.iter().map(|(part, count, at)| ((*part).to_owned(), *count, *at)).collect();
    assert_eq!(found, left_out, "{format}");
}

#[test]
fn parts_of_the_ai_sdk_are_kept_or_counted() {
    check(
        Format::Vercel,
        &[
            r#"{"type":"start","messageId":"~m~","messageMetadata":{"a":"~metadata at the start~"}}"#,
            r#"{"type":"start-step"}"#,
            r#"{"type":"data-weather","id":"d","data":{"x":"~data~"},"transient":true}"#,
            r#"{"type":"source-url","sourceId":"s","url":"~url~","title":"~title~"}"#,
            r#"{"type":"source-document","sourceId":"s","mediaType":"text/plain","title":"~document~"}"#,
            r#"{"type":"file","url":"data:~file~","mediaType":"image/png"}"#,
            r#"{"type":"reasoning-start","id":"r"}"#,
            r#"{"type":"reasoning-delta","id":"r","delta":"~thought~"}"#,
            r#"{"type":"reasoning-end","id":"r","providerMetadata":{"anthropic":{"signature":"~signature~"}}}"#,
            r#"{"type":"tool-input-start","toolCallId":"c","toolName":"look","title":"~tool title~"}"#,
            r#"{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{}"}"#,
            r#"{"type":"tool-input-available","toolCallId":"c","toolName":"~look~","input":{"a":"~input~"},"providerMetadata":{"a":"~of a call~"}}"#,
            r#"{"type":"tool-output-available","toolCallId":"c","output":"~half~","preliminary":true}"#,
            r#"{"type":"tool-output-available","toolCallId":"c","output":"~whole~","providerExecuted":true}"#,
            r#"{"type":"tool-approval-response","approvalId":"a","approved":true,"reason":"~approved~"}"#,
            r#"{"type":"message-metadata","messageMetadata":{"a":"~metadata~"}}"#,
            r#"{"type":"text-delta","id":"t","delta":"~text~"}"#,
            r#"{"type":"tool-input-start","toolCallId":"never","toolName":"look"}"#,
            r#"{"type":"tool-input-delta","toolCallId":"never","inputTextDelta":"{\"a\":"}"#,
            r#"{"type":"finish","finishReason":"~stop~","messageMetadata":{"a":"~at the end~"}}"#,
            "[DONE]",
        ],
        &[("tool-input-start without its end", 1, 18)],
    );
}

#[test]
fn chunks_of_chat_completions_are_kept_or_counted() {
    check(
        Format::OpenAi,
        &[
            r#"{"id":"~c~","object":"chat.completion.chunk","created":1,"model":"~m~","system_fingerprint":"~fp~","citations":["~citation~"],"choices":[{"index":0,"delta":{"role":"assistant","content":"~a~"},"logprobs":null},{"index":1,"delta":{"content":"other"}}]}"#,
            r#"{"id":"c","system_fingerprint":"~fp~","citations":["~citation~","~another~"],"obfuscation":"xx","choices":[{"index":0,"delta":{"content":"~both~","refusal":"~no~"},"logprobs":{"content":[1]}}]}"#,
            r#"{"id":"c","choices":[{"index":1,"delta":{"content":"other"}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning":"~thought~","reasoning_details":[{"signature":"~sig~"}],"images":[{"url":"~image~"}]}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"~one way~","reasoning":"~another way~"}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"same","reasoning":"same"}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"~in pieces~"}],"audio":{"data":"~sound~"}}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"~look~","arguments":"{\"a\":\"~input~\"}"},"extra_content":{"google":{"thought_signature":"~of a call~"}}}]}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"~stop~","content_filter_results":{"hate":{}}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":1}}}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"never","function":{"name":"look","arguments":"{"}}]}}]}"#,
        ],
        &[
            ("choices[1]", 2, 1),
            ("choices[0].logprobs", 1, 2),
            ("obfuscation", 1, 2),
            ("choices[0].content_filter_results", 1, 9),
            ("usage.completion_tokens_details", 1, 9),
            ("tool_calls without their end", 1, 10),
        ],
    );
    let (events, _) =
        read(Format::OpenAi, &[r#"{"id":"c","choices":[{"delta":{"content":"a","refusal":"no"}}]}"#]);
    assert!(events.contains(&r#"ingested.text {"channel":"text","text":"a"}"#.to_owned()), "{events:?}");
    assert!(events.contains(&r#"ingested.text {"channel":"refusal","text":"no"}"#.to_owned()), "{events:?}");
    let error = r#"{"error":{"message":"~no~","type":"server_error","code":7}}"#;
    check(Format::OpenAi, &[error], &[("error.code", 1, 1), ("error.type", 1, 1)]);
}

#[test]
fn events_of_messages_are_kept_or_counted() {
    check(
        Format::Anthropic,
        &[
            r#"{"type":"message_start","message":{"id":"~m~","type":"message","role":"assistant","model":"~c~","content":[],"container":{"id":"~container~"},"usage":{"input_tokens":1,"output_tokens":1,"service_tier":"standard"}}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"~thought~"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"~signature~"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"~redacted~"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"mcp_tool_use","id":"t","name":"~look~","server_name":"~server~","input":{}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"~input~\"}"}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"t","content":[{"url":"~found~"}]}}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"image","source":{"data":"~image~"}}}"#,
            r#"{"type":"content_block_start","index":5,"content_block":{"type":"text","text":"~text~","citations":[{"cited_text":"~cited at once~"}]}}"#,
            r#"{"type":"content_block_delta","index":5,"delta":{"type":"citations_delta","citation":{"cited_text":"~cited~"}}}"#,
            r#"{"type":"content_block_delta","index":9,"delta":{"type":"input_json_delta","partial_json":"~of no call~"}}"#,
            r#"{"type":"of_a_later_version","what":"~later~"}"#,
            r#"{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"never","name":"look","input":{}}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"~stop~","stop_sequence":"~sequence~"},"usage":{"output_tokens":2,"server_tool_use":{"web_search_requests":1}}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        &[
            ("usage.service_tier", 1, 1),
            ("tool_use without its end", 1, 16),
            ("usage.server_tool_use", 1, 17),
        ],
    );
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"~no~"}}"#;
    check(Format::Anthropic, &[error], &[("error.type", 1, 1)]);
}

#[test]
fn native_events_are_kept_or_counted() {
    check(
        Format::Native,
        &[
            r#"{"kind":"note.added","seq":1,"payload":{"a":"~payload~"},"meta":{"actor":"user:a"},"refs":["00"]}"#,
            r#"{"kind":"note.added","seq":2,"payload":1,"meta":{},"refs":[]}"#,
            r#"{"kind":"user.message","seq":3,"payload":1,"meta":{"actor":"~whole~"},"refs":["~refs~"]}"#,
            r#"{"kind":"text.delta","channel":"text","delta":"~text~"}"#,
            r#"{"kind":"text.delta","channel":"tool_input","delta":"{"}"#,
            r#"{"kind":"end","stop":"~end~"}"#,
        ],
        &[("meta", 1, 1), ("refs", 1, 1), ("text.delta of tool_input", 1, 5)],
    );
}

#[test]
fn what_comes_between_words_does_not_cut_them_into_pieces() {
    let chunk =
        |n: u32| format!(r#"{{"id":"c","choices":[{{"delta":{{"reasoning":"{n},","details":["{n}"]}}}}]}}"#);
    let chunks: Vec<String> = (0..5_000).map(chunk).collect();
    let (events, left_out) = read(Format::OpenAi, &chunks.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((events.len(), left_out.len()), (3, 0), "a beginning, reasoning, and what came with it");
    assert!(
        events[2].starts_with(r#"ingested.part {"part":"delta.details","data":[["0"],["1"],"#),
        "{}",
        &events[2][..60]
    );
}

#[test]
fn a_recording_of_many_odd_names_is_counted_within_bounds() {
    let names: Vec<String> = (0..1_000).map(|n| format!(r#""usage_{n}{}":1"#, "x".repeat(200))).collect();
    let chunk = format!(r#"{{"id":"c","choices":[],"usage":{{{}}}}}"#, names.join(","));
    let (_, left_out) = read(Format::OpenAi, &[&chunk]);
    assert!(left_out.len() <= 201 && left_out.iter().all(|(part, ..)| part.len() < 100), "{left_out:?}");
    assert_eq!(left_out.iter().map(|(_, count, _)| count).sum::<u64>(), 1_000);
}

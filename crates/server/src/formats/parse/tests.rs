//! The law of the formats: what is emitted is read back as what it says. And vendors' own streams are read, too.

use proptest::prelude::*;
use weir_journal::{mint_run, now};
use weir_types::{Block, CallId, Seq, StopReason, Usage};

use super::super::join::Joiner;
use super::super::{Anthropic, Named, OpenAi, Part, Problem, Vercel, anthropic, openai};
use super::*;
use crate::stream::{Asked, Chunk};

fn part() -> impl Strategy<Value = Part> {
    let said = (1..4_u64, 0..3_u32, any::<bool>(), "[a-zé🜂\n\"]{1,6}").prop_map(
        |(request, block, reasoning, text)| Part::Said { request: Seq(request), block, reasoning, text },
    );
    let call = (any::<u128>(), "[a-z]{1,5}", "[a-z ]{0,5}").prop_map(|(id, tool, value)| Part::Call {
        id: CallId::from_u128(id),
        tool,
        input: Json::of(&serde_json::json!({ "a": value })),
    });
    let output = (any::<u128>(), "[a-z{\\[]{0,6}")
        .prop_map(|(id, text)| Part::Output { id: CallId::from_u128(id), content: vec![Block::text(text)] });
    let failed = (any::<u128>(), "[a-z]{0,5}", any::<bool>())
        .prop_map(|(id, message, denied)| Part::Failed { id: CallId::from_u128(id), message, denied });
    let ask = any::<u128>().prop_map(|id| {
        Part::Ask(Asked {
            id: CallId::from_u128(id),
            call: CallId::from_u128(id),
            why: "tool 'x'".to_owned(),
        })
    });
    prop_oneof![6 => said, 1 => Just(Part::Step), 1 => Just(Part::Answered), 1 => call, 1 => output, 1 => failed, 1 => ask, 1 => Just(Part::Reset)]
}

fn last() -> impl Strategy<Value = Part> {
    let finish = (prop::sample::select(StopReason::ALL.to_vec()), 0..9_u64, 0..9_u64).prop_map(
        |(stop, input, output)| Part::Finish {
            stop,
            usage: Usage { input_tokens: input, output_tokens: output, ..Usage::default() },
        },
    );
    let broken = prop::sample::select(vec![StopReason::Failed, StopReason::Cancelled])
        .prop_map(|stop| Part::Broken(Problem { stop, message: "it broke".to_owned() }));
    prop_oneof![3 => finish, 1 => broken]
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    (prop::collection::vec(part(), 0..20), last())
        .prop_map(|(parts, last)| [Part::Begin(now())].into_iter().chain(parts).chain([last]).collect())
}

/// What a format that knows only text says of the parts.
fn told_as_text(parts: &[Part], begun: Heard, ended: impl Fn(StopReason, Usage) -> Vec<Heard>) -> Vec<Heard> {
    let (mut heard, mut text, mut reasoning) = (vec![begun], Joiner::default(), Joiner::default());
    for part in parts {
        match part {
            Part::Said { request, reasoning: true, text: said, .. } => {
                let gap = reasoning.gap(request.0, said).unwrap_or_default();
                heard.push(Heard::Reasoning(format!("{gap}{said}")));
            }
            Part::Said { request, text: said, .. } => {
                let gap = text.gap(request.0, said).unwrap_or_default();
                heard.push(Heard::Text(format!("{gap}{said}")));
            }
            Part::Ask(asked) => {
                let words = asked.in_words();
                let gap = text.gap_before_remark(&words).unwrap_or_default();
                heard.push(Heard::Text(format!("{gap}{words}")));
            }
            Part::Reset => {
                heard.push(Heard::Broken(Problem::gone().message));
                return heard;
            }
            Part::Broken(problem) => heard.push(Heard::Broken(problem.message.clone())),
            Part::Finish { stop, usage } => heard.extend(ended(*stop, *usage)),
            _ => {}
        }
    }
    heard
}

/// What the AI SDK is told.
fn told_to_ui(parts: &[Part], id: &str) -> Vec<Heard> {
    let mut heard = vec![Heard::Begun { id: Some(id.to_owned()), model: None }];
    for part in parts {
        match part {
            Part::Step => heard.push(Heard::Step),
            Part::Said { reasoning: true, text, .. } => heard.push(Heard::Reasoning(text.clone())),
            Part::Said { text, .. } => heard.push(Heard::Text(text.clone())),
            Part::Call { id, tool, input } => {
                heard.push(Heard::Called { id: id.to_string(), tool: tool.clone(), input: input.clone() });
            }
            Part::Output { id, content } => {
                let output = Json::of(&super::super::vercel::output(content));
                heard.push(Heard::Answered { id: id.to_string(), output });
            }
            Part::Failed { id, message, denied } => heard.push(Heard::Failed {
                id: id.to_string(),
                message: (!denied).then(|| message.clone()),
                denied: *denied,
            }),
            Part::Ask(asked) => heard.push(Heard::Asked {
                id: asked.id.to_string(),
                call: asked.call.to_string(),
                why: Some(asked.why.clone()),
            }),
            Part::Reset => heard.push(Heard::Reset),
            Part::Broken(problem) => {
                heard.push(Heard::Broken(problem.message.clone()));
                if problem.stop != StopReason::Cancelled {
                    heard.push(Heard::Finished { reason: Some("error".to_owned()) });
                }
                heard.push(Heard::Done);
            }
            Part::Finish { stop, .. } => {
                let reason = super::super::vercel::reason(*stop).to_owned();
                heard.extend([Heard::Finished { reason: Some(reason) }, Heard::Done]);
            }
            Part::Begin(_) | Part::Answered => {}
        }
    }
    heard
}

/// Reads what was emitted, in pieces of that many bytes.
fn read(format: Format, chunks: &[Chunk], piece: usize) -> Vec<Heard> {
    let frame = |chunk: &Chunk| {
        let name = chunk.event.as_ref().map(|event| format!("event: {event}\n")).unwrap_or_default();
        format!("id: 1.1\n{name}data: {}\n\n: keep-alive\n\n", chunk.data)
    };
    let text: String = chunks.iter().map(frame).collect();
    let mut parser = Parser::new(format);
    let mut heard = Vec::new();
    for bytes in text.as_bytes().chunks(piece) {
        heard.extend(parser.push(bytes).unwrap());
    }
    heard.extend(parser.finish().unwrap());
    joined(heard, usize::MAX)
}

/// What an encoder makes of parts, until it has said its last word.
fn emitted(parts: &[Part], mut encode: impl FnMut(Part, &mut Vec<Chunk>)) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for part in parts {
        encode(part.clone(), &mut chunks);
        if *part == Part::Reset && chunks.last().is_some_and(|chunk| chunk.data.contains("\"error\"")) {
            break;
        }
    }
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_emitted_is_read_back(parts in parts(), piece in 1..64_usize) {
        let named = Named { agent: "helper".to_owned(), run: mint_run() };
        let run = named.run.to_string();
        let begun = |prefix: &str| Heard::Begun {
            id: Some(format!("{prefix}{run}")),
            model: Some("helper".to_owned()),
        };
        let used = |usage: Usage| Heard::Used {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
        };

        let mut encoder = OpenAi::new(named.clone()).with_usage();
        let chunks = emitted(&parts, |part, out| encoder.part(part, out));
        let told = told_as_text(&parts, begun("chatcmpl-"), |stop, usage| {
            let reason = Some(openai::reason(stop).to_owned());
            vec![Heard::Finished { reason }, used(usage), Heard::Done]
        });
        prop_assert_eq!(read(Format::OpenAi, &chunks, piece), joined(told, usize::MAX));

        let mut encoder = Anthropic::new(named.clone());
        let chunks = emitted(&parts, |part, out| encoder.part(part, out));
        let told = told_as_text(&parts, begun("msg_"), |stop, usage| {
            let reason = Some(anthropic::reason(stop).to_owned());
            vec![Heard::Finished { reason }, used(usage), Heard::Done]
        });
        prop_assert_eq!(read(Format::Anthropic, &chunks, piece), joined(told, usize::MAX));

        let mut encoder = Vercel::new(named);
        let mut chunks = Vec::new();
        for part in parts.clone() {
            encoder.part(part, &mut chunks);
        }
        prop_assert_eq!(read(Format::Vercel, &chunks, piece), joined(told_to_ui(&parts, &run), usize::MAX));
    }

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

fn heard(format: Format, text: &str) -> Vec<Heard> {
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

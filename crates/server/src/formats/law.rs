//! The law of the formats: `parse(emit(e)) = view(e)`, for whatever a stream may consist of.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_events::{Body, Limit, Parked};
use weir_journal::lines::{Positions, to_view};
use weir_journal::{mint, mint_run, now};
use weir_models::Channel;
use weir_types::{Block, CallId, Event, Hash, Json, Position, Seq, StopReason, Usage};

use super::join::Joiner;
use super::*;
use crate::stream::{Asked, End, Frame, FrameId, Item, Piece, Reset, Told};

/// An event as the journal has it.
fn event(seq: u64, kind: &str, payload: impl Into<Bytes>) -> Item {
    let (kind, payload): (weir_types::Kind, Bytes) = (kind.parse().unwrap(), payload.into());
    let body = Body::decode(&kind, &payload).unwrap().map(Box::new);
    let event = Event {
        position: Position(seq + 7),
        stream: "session:x".parse().unwrap(),
        branch: weir_types::BranchName::main(),
        seq: Seq(seq),
        id: mint(),
        ts: now(),
        kind,
        payload_hash: Hash::of(&payload),
        payload,
        meta: weir_events::About::default().encode().unwrap(),
        refs: vec![Hash::of(b"blob")],
        chain: Hash::of(b"chain"),
    };
    Item::Event(Told { event: Arc::new(event), body, rests: false })
}

fn own(seq: u64, kind: &str, payload: &Value) -> Item {
    event(seq, kind, payload.to_string())
}

/// One of a few, so that what is asked for is answered now and then.
fn call() -> impl Strategy<Value = CallId> {
    (0..3_u128).prop_map(CallId::from_u128)
}

fn words() -> impl Strategy<Value = String> {
    "[a-zé🜂\n\r\u{2028}\" {\\[\\\\]{1,8}"
}

fn said() -> impl Strategy<Value = Item> {
    (1..4_u64, 0..3_u32, any::<bool>(), 0..9_u64, words()).prop_map(
        |(request, block, thinks, offset, text)| {
            let channel = if thinks { Channel::Thinking } else { Channel::Text };
            Item::Piece(Piece { request: Seq(request), attempt: 1, offset, block, channel, text })
        },
    )
}

/// White space as JSON may have it between its parts.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// An object as a model may write it.
fn written() -> impl Strategy<Value = String> {
    (words(), space(), space()).prop_map(|(text, one, two)| {
        format!("{{{one}\"for\"{two}:{one}{}{two},{one}\"n\":[1.50,{two}-0{one}]{two}}}", json!(text))
    })
}

/// What is done with tools.
fn done() -> impl Strategy<Value = Item> {
    let requested = (call(), written(), any::<bool>()).prop_map(|(call, input, is_errand)| {
        let key = is_errand.then_some("k");
        let rest = json!({
            "call": call, "provider_id": "p", "tool": "look", "source": "tools/look.ts", "effect": "read", "risk": "low",
            "key": key,
        });
        let rest = rest.to_string();
        event(9, "tool.requested", format!("{{\"input\":{input},{}", &rest[1..]))
    });
    let decided = (call(), "[a-z]{0,3}").prop_map(|(call, because)| {
        own(9, "tool.decided", &json!({ "call": call, "outcome": "ask", "because": because, "stub": false }))
    });
    let asked = (call(), any::<bool>()).prop_map(|(call, is_behind)| {
        // A rule may be called like anything of ours: what is asked by a child says so.
        let because = if is_behind { "child" } else { "rule" };
        own(
            9,
            "approval.requested",
            &json!({ "call": call, "input_hash": Hash::of(b""), "rule": "child", "because": because }),
        )
    });
    let completed = (call(), prop::collection::vec(words(), 0..3)).prop_map(|(call, texts)| {
        let content: Vec<Block> = texts.into_iter().map(Block::text).collect();
        own(9, "tool.completed", &json!({ "call": call, "content": content, "stub": false }))
    });
    let failed = (call(), words(), any::<bool>()).prop_map(|(call, message, denied)| {
        let outcome = if denied { "denied" } else { "failed" };
        own(9, "tool.failed", &json!({ "call": call, "class": "c", "message": message, "outcome": outcome }))
    });
    prop_oneof![3 => requested, 1 => decided, 1 => asked, 2 => completed, 1 => failed]
}

/// What is neither said nor done.
fn other() -> impl Strategy<Value = Item> {
    let usage =
        json!({ "input_tokens": 3, "output_tokens": 2, "cache_read_tokens": 1, "cache_write_tokens": 0 });
    let answered = Just(own(
        5,
        "assistant.message",
        &json!({
            "content": [], "stop": "end", "usage": usage, "cost": 0, "model": "m",
        }),
    ));
    let step = (1..9_u32).prop_map(|n| own(3, "iteration.started", &json!({ "n": n })));
    let reset = (1..4_u64).prop_map(|request| {
        let id = FrameId::event(Seq(request), 0);
        Item::Reset(Reset { request: Seq(request), attempt: 1, id })
    });
    // Of kinds that nobody here knows, with whatever is in them.
    let named = ".{0,9}".prop_map(|text| json!({ "kind": text }).to_string().into_bytes());
    let spread =
        (space(), written(), space()).prop_map(|(one, json, two)| format!("{one}{json}{two}").into_bytes());
    let bytes = prop::collection::vec(any::<u8>(), 0..9);
    let strange = prop_oneof![named, spread, bytes].prop_map(|payload| event(7, "weather.seen", payload));
    prop_oneof![2 => answered, 2 => step, 1 => reset, 3 => strange]
}

fn last() -> impl Strategy<Value = Vec<Item>> {
    let finished = (prop::sample::select(vec!["end", "max_tokens", "refused"]), 0..9_u64).prop_map(|(stop, output)| {
        let usage = json!({ "input_tokens": 4, "output_tokens": output, "cache_read_tokens": 3, "cache_write_tokens": 1 });
        let finished = json!({ "stop": stop, "answer": "a", "usage": usage, "cost": 0 });
        vec![own(20, "run.finished", &finished), Item::End(End::Over)]
    });
    let errored = words().prop_map(|message| {
        vec![own(20, "run.errored", &json!({ "class": "invalid", "message": message })), Item::End(End::Over)]
    });
    let cancelled = Just(vec![own(20, "run.cancelled", &json!({})), Item::End(End::Over)]);
    let given_up = Just(vec![Item::End(End::Over)]);
    let parked = prop::sample::select(vec![Limit::Iterations, Limit::Tokens])
        .prop_map(|limit| vec![Item::End(End::Parked(Parked::Limit { limit, max: 3 }))]);
    let waiting = prop::collection::vec((call(), call()), 1..3).prop_map(|asked| {
        let asked = asked.into_iter().map(|(id, call)| Asked { id, call, why: "tool 'x'".to_owned() });
        vec![Item::End(End::Waiting(asked.collect()))]
    });
    prop_oneof![3 => finished, 1 => errored, 1 => cancelled, 1 => given_up, 1 => parked, 1 => waiting]
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let middle = prop::collection::vec(prop_oneof![4 => said(), 2 => done(), 2 => other()], 0..24);
    (middle, last()).prop_map(|(middle, last)| {
        let begun =
            own(1, "run.started", &json!({ "run": mint_run(), "trigger": "input", "lane": "direct" }));
        [begun].into_iter().chain(middle).chain(last).collect()
    })
}

/// A payload as it is read: byte for byte, but that JSON has no white space around it, and line feeds for all line breaks.
fn as_read(payload: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(payload) {
        Ok(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => {
            feeds(text).trim_matches([' ', '\t', '\n']).as_bytes().to_vec()
        }
        _ => payload.to_vec(),
    }
}

fn feeds(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// What a native stream says of items: all of it, and why it ends.
fn told_natively(items: &[Item], positions: Positions) -> Vec<Heard> {
    let mut stop = None;
    let mut heard = Vec::new();
    for item in items {
        match item {
            Item::Event(Told { event, body, .. }) => {
                stop = match body.as_deref() {
                    Some(Body::RunFinished(finished)) => Some(match finished.stop {
                        weir_types::Stop::MaxTokens => "max_tokens",
                        weir_types::Stop::Refused => "refused",
                        _ => "end",
                    }),
                    Some(Body::RunErrored(_)) => Some("failed"),
                    _ => stop,
                };
                let line = Json::parse(&feeds(&to_view(event, positions))).unwrap();
                let (kind, payload) = (event.kind.to_string(), as_read(&event.payload));
                heard.push(Heard::Event(Box::new(Recorded { kind, payload, line })));
            }
            Item::Piece(Piece { channel: Channel::Thinking, text, .. }) => {
                heard.push(Heard::Reasoning(text.clone()));
            }
            Item::Piece(Piece { text, .. }) => heard.push(Heard::Text(text.clone())),
            Item::Reset(_) => heard.push(Heard::Reset),
            Item::End(end) => {
                let word = match end {
                    End::Over => stop.unwrap_or("cancelled"),
                    End::Parked(Parked::Limit { limit: Limit::Iterations, .. }) => "iterations",
                    End::Parked(_) => "budget",
                    End::Waiting(_) => "approval",
                };
                heard.extend([Heard::Finished { reason: Some(word.to_owned()) }, Heard::Done]);
            }
        }
    }
    heard
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
                heard.push(Heard::Called {
                    id: id.to_string(),
                    tool: tool.clone(),
                    input: input.on_one_line(),
                });
            }
            Part::Output { id, content } => {
                let output = Json::of(&vercel::output(content));
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
                let reason = vercel::reason(*stop).to_owned();
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
        let frame = Frame { id: Some(FrameId::event(Seq(1), 1)), chunk: chunk.clone() };
        frame.to_text() + ": keep-alive\n\n"
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

/// What an encoder makes of items, until it has said its last word.
fn emitted(items: &[Item], mut encoder: impl Encoder) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for item in items {
        encoder.encode(item, &mut chunks);
        if encoder.is_over() {
            break;
        }
    }
    chunks
}

fn named() -> Named {
    Named { agent: "helper".to_owned(), run: mint_run() }
}

fn parts(items: &[Item]) -> Vec<Part> {
    let mut viewer = Viewer::default();
    items.iter().flat_map(|item| viewer.view(item)).collect()
}

fn begun(prefix: &str, named: &Named) -> Heard {
    Heard::Begun { id: Some(format!("{prefix}{}", named.run)), model: Some(named.agent.clone()) }
}

fn ended(reason: &str, usage: Usage) -> Vec<Heard> {
    let Usage { input_tokens, output_tokens, .. } = usage;
    let reason = Some(reason.to_owned());
    vec![Heard::Finished { reason }, Heard::Used { input_tokens, output_tokens }, Heard::Done]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn native_is_read_back(items in items(), piece in 1..64_usize, is_admin in any::<bool>()) {
        let positions = if is_admin { Positions::Shown } else { Positions::Hidden };
        let chunks = emitted(&items, Native::new(positions));
        prop_assert_eq!(read(Format::Native, &chunks, piece), joined(told_natively(&items, positions), usize::MAX));
    }

    #[test]
    fn openai_is_read_back(items in items(), piece in 1..64_usize) {
        let named = named();
        let chunks = emitted(&items, OpenAi::new(named.clone()).with_usage(true));
        let told = told_as_text(&parts(&items), begun("chatcmpl-", &named), |stop, usage| ended(openai::reason(stop), usage));
        prop_assert_eq!(read(Format::OpenAi, &chunks, piece), joined(told, usize::MAX));
    }

    #[test]
    fn anthropic_is_read_back(items in items(), piece in 1..64_usize) {
        let named = named();
        let chunks = emitted(&items, Anthropic::new(named.clone()));
        let told = told_as_text(&parts(&items), begun("msg_", &named), |stop, usage| ended(anthropic::reason(stop), usage));
        prop_assert_eq!(read(Format::Anthropic, &chunks, piece), joined(told, usize::MAX));
    }

    #[test]
    fn vercel_is_read_back(items in items(), piece in 1..64_usize) {
        let named = named();
        let chunks = emitted(&items, Vercel::new(named.clone()));
        let told = told_to_ui(&parts(&items), &named.run.to_string());
        prop_assert_eq!(read(Format::Vercel, &chunks, piece), joined(told, usize::MAX));
    }
}

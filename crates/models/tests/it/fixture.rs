//! What the tests of all wires share: how a model is asked, and what must not show up anywhere.

use std::time::Duration;

use futures_util::StreamExt;
use weir_models::{Channel, Delta, Endpoint, HttpClient, Limits, Model, ModelError, Piece, connect};
use weir_types::{
    Answer, Block, Explain, Json, Message, ModelCard, Purpose, Request, Role, Secret, Usage, View, Wire,
};

use crate::stub::{DEADLINE, Reply, Seen, Stub};

/// The key of every test. It may appear in one header of the request and nowhere else.
pub(crate) const KEY: &str = "planted-key-4f9d2c71";

/// What is no secret and has to be found, or the search for the key would prove nothing.
pub(crate) const PLANTED: &str = "planted-place";

pub(crate) struct Wired {
    pub(crate) wire: Wire,
    /// The model's full name.
    pub(crate) name: &'static str,
    /// The header with the key, and what stands before it.
    pub(crate) key_header: (&'static str, &'static str),
}

pub(crate) const ANTHROPIC: Wired =
    Wired { wire: Wire::Anthropic, name: "anthropic/claude-test", key_header: ("x-api-key", "") };
pub(crate) const CHAT: Wired =
    Wired { wire: Wire::OpenaiChat, name: "openai/gpt-test", key_header: ("authorization", "Bearer ") };
pub(crate) const RESPONSES: Wired =
    Wired { wire: Wire::OpenaiResponses, name: "openai/gpt-test", key_header: ("authorization", "Bearer ") };
pub(crate) const GEMINI: Wired =
    Wired { wire: Wire::Gemini, name: "google/gemini-test", key_header: ("x-goog-api-key", "") };

/// Everything that came out of one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) deltas: Vec<Delta>,
    pub(crate) end: Result<Answer, ModelError>,
}

impl Outcome {
    pub(crate) fn answer(self) -> Answer {
        self.end.unwrap()
    }

    pub(crate) fn error(&self) -> &ModelError {
        self.end.as_ref().unwrap_err()
    }

    /// The deltas of each block, joined, with their channel.
    pub(crate) fn joined(&self) -> Vec<(u32, Channel, String)> {
        let mut joined: Vec<(u32, Channel, String)> = Vec::new();
        for delta in &self.deltas {
            match joined.iter_mut().find(|(block, ..)| *block == delta.block) {
                Some((_, channel, text)) => {
                    assert_eq!(*channel, delta.channel, "a block has one channel");
                    text.push_str(&delta.text);
                }
                None => joined.push((delta.block, delta.channel, delta.text.clone())),
            }
        }
        joined
    }
}

impl Wired {
    pub(crate) fn card(&self) -> ModelCard {
        ModelCard {
            wire: self.wire,
            api_name: None,
            base_url: None,
            key_env: None,
            context_window: 100_000,
            output_max: 1_000,
            price: None,
            regions: vec![],
        }
    }

    pub(crate) fn endpoint(&self, stub: &Stub) -> Endpoint {
        let base_url = format!("http://{}/{PLANTED}/v1", stub.address);
        Endpoint { base_url, ..Endpoint::of(&self.card(), self.name, Some(Secret::new(KEY))) }
    }

    pub(crate) fn model(&self, endpoint: Endpoint) -> std::sync::Arc<dyn Model> {
        connect(&self.card(), self.name, endpoint, &HttpClient::new()).unwrap()
    }

    /// Asks a server that replies thus, and searches everything for the key.
    pub(crate) async fn ask(&self, reply: Reply) -> Outcome {
        self.ask_within(reply, Limits::default()).await
    }

    pub(crate) async fn ask_within(&self, reply: Reply, limits: Limits) -> Outcome {
        let stub = Stub::start([reply]).await;
        let endpoint = Endpoint { limits, ..self.endpoint(&stub) };
        let model = self.model(endpoint.clone());
        let outcome = run(&*model, &self.request()).await;
        let seen = stub.seen();
        self.check_key(&outcome, &endpoint, &seen);
        outcome
    }

    /// The request as the server saw it.
    pub(crate) async fn seen(&self, request: &Request) -> Seen {
        let stub = Stub::start([Reply::status(400, &[], "")]).await;
        let model = self.model(self.endpoint(&stub));
        run(&*model, request).await;
        stub.seen().remove(0)
    }

    pub(crate) fn encode(&self, request: &Request) -> String {
        let endpoint = Endpoint::of(&self.card(), self.name, None);
        String::from_utf8(self.model(endpoint).encode(request).unwrap().to_vec()).unwrap()
    }

    pub(crate) fn request(&self) -> Request {
        let (_, model) = self.name.split_once('/').unwrap();
        request(model, vec![user(vec![Block::text("hello")])])
    }

    /// The key is in its header and in nothing that a caller can print; a word that is no secret is found.
    pub(crate) fn check_key(&self, outcome: &Outcome, endpoint: &Endpoint, seen: &[Seen]) {
        let (header, scheme) = self.key_header;
        for seen in seen {
            assert_eq!(seen.header(header), Some(format!("{scheme}{KEY}").as_str()));
            assert!(!seen.line.contains(KEY) && !seen.body.contains(KEY), "{seen:?}");
        }
        let mut printed = format!("{outcome:?} {outcome:#?} {endpoint:?} {endpoint:#?}");
        if let Err(error) = &outcome.end {
            printed.push_str(&format!("{error} {}", error.help()));
            assert!(error.message.chars().count() <= 501, "{}", error.message);
            assert!(!error.message.chars().any(char::is_control), "{:?}", error.message);
        }
        assert!(!printed.contains(KEY), "{printed}");
        assert!(printed.contains(PLANTED), "{printed}");
    }
}

pub(crate) async fn run(model: &dyn Model, request: &Request) -> Outcome {
    let body = model.encode(request).unwrap();
    assert_eq!(body, model.encode(request).unwrap(), "the same request gives the same bytes");
    let pieces = model.stream(body, 1).collect::<Vec<_>>();
    let mut pieces = tokio::time::timeout(DEADLINE, pieces).await.expect("the stream never ended");
    let end = match pieces.pop().expect("a stream has an end") {
        Ok(Piece::Done(answer)) => Ok(*answer),
        Ok(Piece::Delta(delta)) => panic!("the stream ends with {delta:?}"),
        Err(error) => Err(error),
    };
    let delta = |piece: Result<Piece, ModelError>| match piece {
        Ok(Piece::Delta(delta)) => delta,
        other => panic!("{other:?} is not the end"),
    };
    Outcome { deltas: pieces.into_iter().map(delta).collect(), end }
}

pub(crate) fn request(model: &str, messages: Vec<Message>) -> Request {
    Request {
        model: model.to_owned(),
        system: String::new(),
        tools: vec![],
        messages,
        output_tokens_max: 1_000,
        purpose: Purpose::Turn,
    }
}

pub(crate) fn user(content: Vec<Block>) -> Message {
    Message { role: Role::User, content }
}

pub(crate) fn assistant(content: Vec<Block>) -> Message {
    Message { role: Role::Assistant, content }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn tool_use(id: &str, name: &str, input: &str) -> View {
    View::ToolUse { id: id.into(), name: name.into(), input: json(input) }
}

pub(crate) fn result(id: &str, name: &str, text: &str) -> Block {
    let content = vec![Block::text(text)];
    View::ToolResult { id: id.into(), name: name.into(), content, failed: false }.into()
}

pub(crate) fn sent(wire: Wire, view: View, text: &str) -> Block {
    Block { view, sent: Some(weir_types::Sent { wire: wire.as_str().into(), json: json(text) }) }
}

pub(crate) fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
    }
}

/// An event with a name, as Anthropic and the Responses API send it.
pub(crate) fn named(data: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(data).unwrap();
    format!("event: {}\ndata: {data}\n\n", value["type"].as_str().unwrap())
}

/// An event without a name.
pub(crate) fn data(data: &str) -> String {
    format!("data: {data}\n\n")
}

pub(crate) fn frames(events: &[&str], written: fn(&str) -> String) -> Vec<String> {
    events.iter().map(|event| written(event)).collect()
}

pub(crate) fn short_idle() -> Limits {
    Limits { idle: Duration::from_millis(200), ..Limits::default() }
}

//! Every wire that a real model's server speaks. `cargo xtask test` starts the server and then this; no other run does,
//! so that nothing here can be skipped by accident.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use weir_models::{Channel, Endpoint, HttpClient, Model, ModelError, Piece, connect};
use weir_types::{
    Answer, Block, FailureClass, Message, ModelCard, Purpose, Request, Role, Secret, Stop, Wire, text_of,
};

/// Few, because a small machine needs a while for each.
const OUTPUT_TOKENS_MAX: u64 = 24;

/// A busy machine, and a queue of tests before this one.
const DEADLINE: Duration = Duration::from_secs(240);

fn model(wire: Wire, key: &str) -> Arc<dyn Model> {
    let url =
        std::env::var("WEIR_TEST_LLAMA_URL").expect("`cargo xtask test` starts the server and sets this");
    let base_url = match wire {
        Wire::Anthropic => url,
        _ => format!("{url}/v1"),
    };
    let card = ModelCard {
        wire,
        api_name: None,
        base_url: Some(base_url),
        key_env: None,
        context_window: 1024,
        output_max: OUTPUT_TOKENS_MAX,
        price: None,
        regions: vec![],
    };
    let name = "llama/smollm2";
    connect(&card, name, Endpoint::of(&card, name, Some(Secret::new(key))), &HttpClient::new()).unwrap()
}

fn the_model(wire: Wire) -> Arc<dyn Model> {
    model(wire, &std::env::var("WEIR_TEST_LLAMA_KEY").expect("`cargo xtask test` sets this"))
}

fn says(role: Role, content: Vec<Block>) -> Message {
    Message { role, content }
}

fn asks(text: &str) -> Message {
    says(Role::User, vec![Block::text(text)])
}

/// What was streamed, and the answer. Like the engine, asks again when the connection broke: this server closes
/// connections after some answers without saying so, at times just as the next request is sent on them.
async fn ask(model: &dyn Model, messages: Vec<Message>) -> Result<(String, Answer), ModelError> {
    let mut failed = None;
    for attempt in 1..=5 {
        match ask_once(model, messages.clone(), attempt).await {
            Err(error) if error.class == FailureClass::Transport => failed = Some(error),
            answer => return answer,
        }
    }
    Err(failed.expect("there was an attempt"))
}

async fn ask_once(
    model: &dyn Model,
    messages: Vec<Message>,
    attempt: u32,
) -> Result<(String, Answer), ModelError> {
    let request = Request {
        model: "smollm2".into(),
        system: "You are a helpful assistant.".into(),
        tools: vec![],
        messages,
        output_tokens_max: OUTPUT_TOKENS_MAX,
        purpose: Purpose::Turn,
    };
    let body = model.encode(&request).unwrap();
    let pieces = model.stream(body, attempt).collect::<Vec<_>>();
    let mut streamed = String::new();
    for piece in tokio::time::timeout(DEADLINE, pieces).await.expect("the model never ended its answer") {
        match piece? {
            Piece::Delta(delta) => {
                assert_eq!((delta.channel, delta.block), (Channel::Text, 0));
                streamed.push_str(&delta.text);
            }
            Piece::Done(answer) => return Ok((streamed, *answer)),
        }
    }
    panic!("the stream ended without an answer");
}

/// Two turns of a conversation: what is streamed is what is answered, and the history goes along.
async fn talks(wire: Wire) {
    let model = the_model(wire);
    let question = asks("What is the capital of France?");
    let (streamed, first) = ask(&*model, vec![question.clone()]).await.unwrap();
    check(&streamed, &first);
    let answered = says(Role::Assistant, first.content.clone());
    let (streamed, second) = ask(&*model, vec![question, answered, asks("And of Italy?")]).await.unwrap();
    check(&streamed, &second);
    // The second question came with the first and its answer.
    assert!(
        second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens,
        "{:?} after {:?}",
        second.usage,
        first.usage
    );
}

fn check(streamed: &str, answer: &Answer) {
    assert!(!streamed.trim().is_empty(), "{answer:?}");
    assert_eq!(streamed, text_of(&answer.content));
    assert!(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0, "{answer:?}");
    let reached = answer.usage.output_tokens >= OUTPUT_TOKENS_MAX;
    assert!(answer.stop == Stop::End || (reached && answer.stop == Stop::MaxTokens), "{answer:?}");
    assert!(answer.provider_id.is_some(), "{answer:?}");
}

/// What the server refuses, it refuses in its own words, which we understand.
async fn refuses(wire: Wire) {
    let stranger = ask(&*model(wire, "key-of-somebody-else"), vec![asks("hi")]).await.unwrap_err();
    assert_eq!(stranger.class, FailureClass::Auth, "{stranger}");
    let too_long = asks(&"word ".repeat(2_000));
    let overflow = ask(&*the_model(wire), vec![too_long]).await.unwrap_err();
    assert_eq!(overflow.class, FailureClass::ContextOverflow, "{overflow}");
}

#[tokio::test]
async fn openai_chat() {
    talks(Wire::OpenaiChat).await;
    refuses(Wire::OpenaiChat).await;
}

#[tokio::test]
async fn openai_responses() {
    talks(Wire::OpenaiResponses).await;
    refuses(Wire::OpenaiResponses).await;
}

#[tokio::test]
async fn anthropic() {
    talks(Wire::Anthropic).await;
    refuses(Wire::Anthropic).await;
}

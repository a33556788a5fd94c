//! The models that need no network.

use weir_models::{Echo, Model, Recorded, Replay};
use weir_types::{Answer, Block, FailureClass, Hash, Stop, Wire, text_of};

use crate::fixture::{assistant, request, result, run, tool_use, usage, user};

fn said(text: &str) -> Answer {
    let usage = usage(1, 2, 0, 0);
    Answer { content: vec![Block::text(text)], stop: Stop::End, usage, provider_id: None }
}

#[tokio::test]
async fn the_echo_repeats_what_the_user_wrote_last() {
    let runtime = Block::text("<runtime>monday</runtime>");
    let messages = vec![
        user(vec![Block::text("first")]),
        assistant(vec![Block::text("first")]),
        user(vec![Block::text("second 🙂"), runtime.clone()]),
        assistant(vec![tool_use("t", "f", "{}").into()]),
        user(vec![result("t", "f", "42"), runtime]),
    ];
    let outcome = run(&Echo, &request("echo", messages)).await;
    assert_eq!(outcome.joined()[0].2, "second 🙂");
    let answer = outcome.answer();
    assert_eq!((text_of(&answer.content).as_str(), answer.stop), ("second 🙂", Stop::End));
    assert_eq!(answer.usage.output_tokens, 2);
}

#[tokio::test]
async fn a_replay_finds_the_same_request_and_otherwise_keeps_the_order() {
    let ask = |text: &str| request("r", vec![user(vec![Block::text(text)])]);
    let hash = |text: &str| Hash::of(&serde_json::to_vec(&ask(text)).unwrap());
    let recorded = |text: &str, answer: &str| Recorded { request_hash: hash(text), answer: said(answer) };
    let replay =
        Replay::new(vec![recorded("a", "1"), recorded("b", "2"), recorded("b", "3"), recorded("c", "4")]);
    assert_eq!(replay.wire(), Wire::Replay);
    let answer = async |text: &str| run(&replay, &ask(text)).await.end;
    // The same request has its answers in order, and the last of them again after that.
    assert_eq!(answer("b").await, Ok(said("2")));
    assert_eq!(answer("b").await, Ok(said("3")));
    assert_eq!(answer("b").await, Ok(said("3")));
    // Any other request has the first answer that nobody had.
    assert_eq!(answer("x").await, Ok(said("1")));
    assert_eq!(answer("y").await, Ok(said("4")));
    let error = answer("z").await.unwrap_err();
    assert_eq!(
        (error.class, error.message.as_str()),
        (FailureClass::Invalid, "the recording has no further answer after its 4")
    );
}

//! Following a session while it speaks: in order, without gap, and never two attempts in one.

use weir_engine::{Address, Update, Updates};
use weir_events::Body;
use weir_types::{Seq, text_of};

use crate::kit::*;
use crate::sharing::drawling;

/// What was heard live, and what was written down, until the run ends.
async fn follow(mut updates: Updates) -> (Vec<String>, Vec<String>) {
    let (mut live, mut durable): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let all = async {
        loop {
            match updates.next().await.unwrap().unwrap() {
                Update::Delta(piece) => match live.last_mut() {
                    Some(last) if piece.offset > 0 => last.push_str(&piece.delta.text),
                    _ => live.push(piece.delta.text),
                },
                Update::Event(event) => {
                    let body = Body::decode(&event.kind, &event.payload).unwrap().unwrap();
                    if let Body::AssistantMessage(message) = &body {
                        durable.push(text_of(&message.content));
                    }
                    if let Body::RunFinished(_) = body {
                        return;
                    }
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("the run ends");
    (live, durable)
}

async fn world() -> (World, Process, Address) {
    let world = World::new();
    let first = drawling(calling(on_user("", "Let me look it up."), &[("look", "{}")]));
    world.agent("slow", vec![first, drawling(on_tool("look", "attempt {{attempt}} says so"))], &["look"]);
    let process = world.start().await;
    let address = process.engine.new_address();
    (world, process, address)
}

#[tokio::test(start_paused = true)]
async fn the_pieces_join_to_the_answers() {
    let (_world, process, address) = world().await;
    let early = process.engine.watch(&address, Seq(0));
    process.engine.begin(&address, new("slow"), said("go")).await.unwrap();
    let (live, durable) = follow(early).await;
    assert_eq!(durable, ["Let me look it up.", "attempt 1 says so"]);
    assert_eq!(live, ["Let me look it up.{}", "attempt 1 says so"], "with the arguments of the call");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_late_hears_what_was_said_so_far() {
    let (world, process, address) = world().await;
    process.engine.begin(&address, new("slow"), said("go")).await.unwrap();
    world.until(&address, "text.delta").await;
    let late = process.engine.watch(&address, Seq(0));
    let (live, durable) = follow(late).await;
    assert_eq!(live, ["Let me look it up.{}", "attempt 1 says so"]);
    assert_eq!(durable, ["Let me look it up.", "attempt 1 says so"]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_answer_is_replaced_and_not_continued() {
    let (world, process, address) = world().await;
    process.engine.begin(&address, new("slow"), said("go")).await.unwrap();
    world.until(&address, "tool.completed").await;
    // In the middle of the second answer.
    tokio::time::sleep(std::time::Duration::from_millis(1_000)).await;
    process.die();
    let next = world.start().await;
    let (live, durable) =
        tokio::join!(follow(next.engine.watch(&address, Seq(0))), next.engine.settle(&address)).0;
    assert_eq!(durable, ["Let me look it up.", "attempt 2 says so"]);
    assert_eq!(live, ["attempt 2 says so"]);
    // What was written down of the first attempt says that it is of the first.
    let deltas = world.events(&address).await.into_iter().filter(|event| event.kind.as_str() == "text.delta");
    let texts: Vec<(u32, u64, String)> = deltas
        .map(|event| match Body::decode(&event.kind, &event.payload) {
            Ok(Some(Body::TextDelta(delta))) => (delta.attempt, delta.offset, delta.delta),
            other => panic!("{other:?}"),
        })
        .collect();
    let second: String =
        texts.iter().filter(|(attempt, ..)| *attempt == 2).map(|(.., text)| text.as_str()).collect();
    assert!("attempt 2 says so".starts_with(&second) && !second.is_empty(), "{texts:?}");
}

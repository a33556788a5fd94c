//! A turn from its message to its answer, and what is written down on the way.

use weir_engine::StopReason;
use weir_events::{About, Body};
use weir_models::scripted::Reply;
use weir_types::FailureClass;

use crate::kit::*;

#[tokio::test(start_paused = true)]
async fn a_turn_with_a_tool_is_four_commits() {
    let world = World::new();
    let look = calling(on_user("weather", "Let me look."), &[("look", r#"{"city":"Berne"}"#)]);
    world.agent("helper", vec![look, on_tool("look", "It rains.")], &["look"]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("helper"), said("the weather?")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("It rains.")));
    assert_eq!(process.fuse.appends(), 4);
    assert_eq!(
        world.kinds(&address).await,
        [
            "session.created",
            "user.message",
            "session.resumed",
            "run.started",
            "iteration.started",
            "model.requested",
            "assistant.message",
            "tool.requested",
            "tool.decided",
            "tool.started",
            "tool.completed",
            "iteration.started",
            "model.requested",
            "assistant.message",
            "run.finished",
        ]
    );
    assert_eq!(
        conversation(&world.state(&address).await),
        [
            "user: the weather?",
            "assistant: Let me look.",
            "look: None look {\"city\":\"Berne\"}",
            "assistant: It rains.",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_begins_a_run_or_an_iteration_belongs_to_it() {
    let world = World::new();
    let look = calling(on_user("", "Let me look."), &[("look", "{}")]);
    world.agent("helper", vec![look, on_tool("look", "It rains.")], &["look"]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("helper"), said("one")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    process.engine.say(&address, said("two")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let (mut runs, mut iterations) = (Vec::new(), Vec::new());
    for event in world.events(&address).await {
        let about = About::decode(&event.meta);
        match Body::decode(&event.kind, &event.payload).unwrap() {
            Some(Body::RunStarted(began)) => {
                assert_eq!((about.run, about.iteration), (Some(began.run), None));
                runs.push(began.run);
            }
            Some(Body::IterationStarted(began)) => {
                assert_eq!((about.run, about.iteration), (runs.last().copied(), Some(began.n)));
                iterations.push(began.n);
            }
            _ => {}
        }
    }
    assert_eq!((runs.len(), iterations), (2, vec![1, 2, 1, 2]));
}

#[tokio::test(start_paused = true)]
async fn whoever_says_something_is_told_where_that_is() {
    let world = World::new();
    world.agent("helper", vec![on_user("", "Yes.")], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    let first = process.engine.begin(&address, new("helper"), said("one")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    // What it leads to is written down together with it, and so is what others say.
    let (second, third) =
        tokio::join!(process.engine.say(&address, said("two")), process.engine.say(&address, said("three")));
    process.engine.settle(&address).await.unwrap();
    let events = world.events(&address).await;
    for (seq, text) in [(first, "one"), (second.unwrap(), "two"), (third.unwrap(), "three")] {
        let event = events.iter().find(|event| event.seq == seq).unwrap();
        let payload = String::from_utf8_lossy(&event.payload);
        assert!(event.kind.as_str() == "user.message" && payload.contains(text), "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_failed_attempt_promises_no_other() {
    let world = World::new();
    world.agent("busy", vec![Reply { error: Some(FailureClass::Overloaded), ..Reply::default() }], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("busy"), said("hello")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Failed);
    let failed =
        world.events(&address).await.into_iter().filter(|event| event.kind.as_str() == "model.failed");
    let delays: Vec<bool> =
        failed.map(|event| event.payload.windows(8).any(|part| part == b"delay_ms")).collect();
    assert_eq!(delays, [true, true, true, true, false]);
}

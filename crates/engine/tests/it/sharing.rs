//! Several processes and one session: one runs it, the others can speak to it, and nobody takes it from the living.

use std::time::Duration;

use weir_engine::{EngineError, Pretence, StopReason};
use weir_events::{ApprovalDenied, ApprovalGranted, Scope};
use weir_models::scripted::Reply;
use weir_types::{Explain, Json};

use crate::kit::*;

/// An agent that takes its time with a plain write.
fn slow() -> World {
    let world = World::new();
    let work = calling(on_user("^work", "Working."), &[("slow", "{}")]);
    world.agent("slow", vec![work, on_tool("slow", "worked"), on_user("", "{{user}}, sure")], &["slow"]);
    world
}

#[tokio::test(start_paused = true)]
async fn a_running_session_is_not_taken_from_the_living_and_at_once_from_the_dead() {
    let world = slow();
    let (one, two) = (world.start().await, world.start().await);
    let address = one.engine.new_address();
    one.engine.begin(&address, new("slow"), said("work")).await.unwrap();
    world.until(&address, "tool.started").await;
    let before = world.kinds(&address).await;

    let refused = two.engine.say(&address, said("me too")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Owned { pid: Some(1), .. }), "{refused:?}");
    assert_eq!(refused.code(), "engine::owned");
    assert!(refused.to_string().ends_with("is being run by process 1"), "{refused}");
    let refused = two.engine.resume(&address).await.unwrap_err();
    assert_eq!(refused.code(), "engine::owned");
    assert_eq!(world.kinds(&address).await, before, "nothing was said");

    one.die();
    two.engine.say(&address, said("me too")).await.unwrap();
    let outcome = two.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("me too, sure")));
    assert_eq!(world.deeds.lock().unwrap().len(), 1, "the interrupted write was not repeated");
    let said = conversation(&world.state(&address).await);
    assert!(said[2].starts_with("slow: Some(Unknown) outcome unknown"), "{said:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_others_send_reaches_the_owner_and_never_ends_it() {
    let world = slow();
    let (one, two) = (world.start().await, world.start().await);
    let address = one.engine.new_address();
    one.engine.begin(&address, new("slow"), said("work")).await.unwrap();
    world.until(&address, "tool.started").await;
    for n in 0..50 {
        two.engine.post(&address, said(&format!("note {n}"))).await.unwrap();
        two.engine.signal(&address, "tick", Json::parse("1").unwrap(), "user:other").await.unwrap();
    }
    let outcome = one.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::End, "{outcome:?}");
    let session = world.state(&address).await;
    assert!(session.inbox.is_empty());
    let notes = conversation(&session).into_iter().filter(|line| line.starts_with("user: note")).count();
    assert_eq!(notes, 50);
    // They came between a call and its result, and are told after both.
    let said = conversation(&session);
    assert_eq!(said[2], "slow: None slow {}", "{said:#?}");
    assert_eq!(world.kinds(&address).await.iter().filter(|kind| *kind == "session.resumed").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_input_just_before_every_commit_changes_what_is_told_and_nothing_else() {
    let world = World::new();
    let tools = [("look", "{}"), ("send", "{}"), ("slow", "{}")];
    let work = calling(on_user("^work", "Working."), &tools);
    world.agent("busy", vec![work, on_tool("slow", "worked"), on_user("", "yes")], &["look", "send", "slow"]);
    let process = world.start_with(Fuse::intruding(12), |_| {}).await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("busy"), said("work")).await.unwrap();
    // Each run is followed by one more for what came during its last commit, until nobody intrudes any more.
    let outcome = tokio::time::timeout(PATIENCE, process.engine.settle(&address)).await.unwrap().unwrap();
    assert_eq!(outcome.stop, StopReason::End, "{outcome:?}");
    let said = conversation(&world.state(&address).await);
    let expected = [
        "user: work",
        "assistant: Working.",
        "look: None look {}",
        "send: None send {}",
        "slow: None slow {}",
    ];
    assert_eq!(said[..5], expected, "{said:#?}");
    assert_eq!(world.deeds.lock().unwrap().len(), 4, "each tool ran once, and the slow one to its end");
    let told = said.iter().filter(|line| line.starts_with("user: <signal")).count();
    let sent = world.kinds(&address).await.iter().filter(|kind| *kind == "external.signal").count();
    assert_eq!((told, sent), (12, 12));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_from_elsewhere_stops_the_run_and_not_the_session() {
    let world = slow();
    let (one, two) = (world.start().await, world.start().await);
    let address = one.engine.new_address();
    one.engine.begin(&address, new("slow"), said("work")).await.unwrap();
    world.until(&address, "tool.started").await;
    two.engine.cancel(&address, "user:other").await.unwrap();
    let outcome = one.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Cancelled);
    let said_so_far = conversation(&world.state(&address).await);
    assert!(said_so_far[2].starts_with("slow: Some(Unknown) outcome unknown"), "{said_so_far:#?}");
    // The tool was stopped, too: it never comes to its end.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.deeds.lock().unwrap().len(), 1);
    one.engine.say(&address, said("and now")).await.unwrap();
    assert_eq!(one.engine.settle(&address).await.unwrap().answer.as_deref(), Some("and now, sure"));
}

/// An agent whose write needs a yes.
fn asking() -> World {
    let world = World::new();
    let ask = calling(on_user("^do", "May I?"), &[("ask", r#"{"n":1}"#)]);
    world.agent("careful", vec![ask, on_tool("ask", "result: {{result}}")], &["ask"]);
    world
}

#[tokio::test(start_paused = true)]
async fn an_approval_from_elsewhere_reaches_whoever_can_go_on() {
    let world = asking();
    let one = world.start().await;
    let address = one.engine.new_address();
    one.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
    let outcome = one.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.approvals.len()), (StopReason::Approval, 1));
    assert!(world.deeds.lock().unwrap().is_empty());
    // The process is gone; the question stays. A server that starts later goes on when the answer comes.
    one.die();
    let server = world.start_with(Fuse::default(), |options| options.adopt = weir_engine::Adopt::All).await;
    let other = world.start().await;
    let call = world.state(&address).await.calls()[0].clone();
    let wrong = ApprovalGranted {
        call: call.id,
        by: "user:boss".to_owned(),
        groups: vec![],
        input_hash: weir_types::Hash::of(b"other arguments"),
        input: None,
        scope: Scope::Once,
        runs: None,
    };
    let refused = other.engine.approve(&address, wrong.clone(), Pretence::Allowed).await.unwrap_err();
    assert_eq!(refused.code(), "engine::approval-arguments");
    let right = ApprovalGranted { input_hash: call.input_hash(), ..wrong };
    other.engine.approve(&address, right.clone(), Pretence::Allowed).await.unwrap();
    world.until(&address, "run.finished").await;
    let outcome = server.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("result: ask {\"n\":1}"));
    // A second yes changes nothing.
    let refused = other.engine.approve(&address, right, Pretence::Allowed).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("call {} was approved by `user:boss` already", call.id));
    assert_eq!(world.deeds.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_no_and_silence_are_told_to_the_model() {
    let world = asking();
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let call = world.state(&address).await.calls()[0].id;
    let denied = ApprovalDenied {
        call,
        by: "user:boss".to_owned(),
        groups: vec![],
        message: Some("not today".to_owned()),
    };
    process.engine.deny(&address, denied).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("result: tool 'ask' blocked: user:boss said no: not today"));

    let hurry = calling(on_user("^do", "May I?"), &[("hurry", "{}")]);
    world.agent("hasty", vec![hurry, on_tool("hurry", "result: {{result}}")], &["hurry"]);
    let address = process.engine.new_address();
    process.engine.begin(&address, new("hasty"), said("do it")).await.unwrap();
    world.until(&address, "run.finished").await;
    assert!(world.kinds(&address).await.contains(&"approval.expired".to_owned()));
    assert!(world.deeds.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_takes_up_what_a_crash_left_and_leaves_the_living_alone() {
    let world = slow();
    let (one, two) = (world.start().await, world.start().await);
    let (left, kept) = (one.engine.new_address(), two.engine.new_address());
    one.engine.begin(&left, new("slow"), said("work")).await.unwrap();
    two.engine.begin(&kept, new("slow"), said("work")).await.unwrap();
    world.until(&left, "tool.started").await;
    world.until(&kept, "tool.started").await;
    one.die();
    let _server = world.start_with(Fuse::default(), |options| options.adopt = weir_engine::Adopt::All).await;
    world.until(&left, "run.finished").await;
    assert_eq!(two.engine.settle(&kept).await.unwrap().answer.as_deref(), Some("worked"));
    let resumed =
        async |address| world.kinds(address).await.iter().filter(|kind| *kind == "session.resumed").count();
    assert_eq!((resumed(&left).await, resumed(&kept).await), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_runs_sessions_that_only_have_a_message_waiting() {
    let world = slow();
    let client = world.start().await;
    let address = client.engine.new_address();
    client.engine.begin(&address, new("slow"), said("hello")).await.unwrap();
    client.engine.settle(&address).await.unwrap();
    client.die();
    let other = world.start().await;
    other.engine.post(&address, said("again")).await.unwrap();
    let _server = world.start_with(Fuse::default(), |options| options.adopt = weir_engine::Adopt::All).await;
    let again = async {
        while !conversation(&world.state(&address).await).contains(&"assistant: again, sure".to_owned()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
}

/// A reply that takes a while, word by word.
pub(crate) fn drawling(reply: Reply) -> Reply {
    Reply { delay: Some(Duration::from_millis(300)), chunk: Some(4), ..reply }
}

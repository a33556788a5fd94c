//! Agents that wait for people on behalf of agents: what they ask is asked at the root, whoever answers where.

use std::time::Duration;

use weir_engine::{Address, Adopt, Approval, Pretence, StopReason};
use weir_events::Body;
use weir_kernel::CallState;

use crate::approving::{no, yes};
use crate::kit::*;

/// A boss that has a clerk do things, some of them by an apprentice; the clerk and the apprentice ask before they do.
fn office() -> World {
    let world = World::new();
    let delegate = |words: &str, calls: &[(&str, &str)]| calling(on_user(words, ""), calls);
    let two = [("clerk", r#"{"message":"do a"}"#), ("clerk", r#"{"message":"do b"}"#)];
    let boss = vec![
        delegate("^one", &[("clerk", r#"{"message":"do it"}"#)]),
        delegate("^two", &two),
        delegate("^deep", &[("clerk", r#"{"message":"delegate"}"#)]),
        delegate("^hurry", &[("clerk", r#"{"message":"hurry"}"#)]),
        delegate("^slowly", &[("porter", r#"{"message":"carry it"}"#)]),
        on_tool("clerk", "boss: {{result}}"),
        on_tool("porter", "boss: {{result}}"),
        on_user("^hello", "hello"),
    ];
    world.agent("boss", boss, &["clerk", "porter"]);
    let clerk = vec![
        delegate("^do", &[("ask", "{}")]),
        delegate("^delegate", &[("apprentice", r#"{"message":"do it"}"#)]),
        delegate("^hurry", &[("hurry", "{}")]),
        on_tool("ask", "clerk: {{result}}"),
        on_tool("hurry", "clerk: {{result}}"),
        on_tool("apprentice", "clerk: {{result}}"),
    ];
    world.agent("clerk", clerk, &["ask", "hurry", "apprentice"]);
    let apprentice = vec![delegate("^do", &[("ask", "{}")]), on_tool("ask", "apprentice: {{result}}")];
    world.agent("apprentice", apprentice, &["ask"]);
    let carry = calling(on_tool("ask", ""), &[("slow", "{}")]);
    let porter = vec![delegate("^carry", &[("ask", "{}")]), carry, on_tool("slow", "porter: {{result}}")];
    world.agent("porter", porter, &["ask", "slow"]);
    world
}

/// Begins a session of the boss, which comes to ask something.
async fn begin(process: &Process, message: &str) -> (Address, Vec<Approval>) {
    let root = process.engine.new_address();
    process.engine.begin(&root, new("boss"), said(message)).await.unwrap();
    let outcome = process.engine.settle(&root).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Approval, "{outcome:?}");
    (root, outcome.approvals)
}

async fn server(world: &World) -> Process {
    world.start_with(Fuse::default(), |options| options.adopt = Adopt::All).await
}

/// The answer of a session's run, once it is written down.
async fn answer(world: &World, address: &Address) -> String {
    let event = world.until(address, "run.finished").await;
    let Ok(Some(Body::RunFinished(finished))) = Body::decode(&event.kind, &event.payload) else { panic!() };
    finished.answer.unwrap()
}

fn deeds(world: &World) -> Vec<String> {
    world.deeds.lock().unwrap().iter().map(|deed| deed.tool.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_child_asks_is_asked_at_the_root_and_both_leave_memory() {
    let world = office();
    let process =
        world.start_with(Fuse::default(), |options| options.idle_after = Duration::from_secs(5)).await;
    let (root, asked) = begin(&process, "one").await;
    assert_eq!(asked.len(), 1);
    let child = &asked[0].address;
    assert_ne!(*child, root);
    assert_eq!((asked[0].agent.as_str(), asked[0].asker.as_str()), ("clerk", "user:test"));
    assert_eq!(process.engine.approvals(&root).await.unwrap(), asked);
    assert_eq!(process.engine.root(child).await.unwrap(), root);
    assert_eq!(process.engine.caller(asked[0].id).await.unwrap().as_ref(), Some(child));
    let state = world.state(&root).await;
    assert_eq!(state.calls()[0].state, CallState::Suspended);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(process.engine.active(), 0, "both wait without a task");
    // Its own call is not what somebody can say yes to.
    let own = Approval { id: state.calls()[0].id, ..asked[0].clone() };
    let refused = process.engine.approve(&root, yes(&own, "user:boss"), Pretence::Allowed).await.unwrap_err();
    assert_eq!(weir_types::Explain::code(&refused), "engine::no-approval");

    // By its id at the root.
    process.engine.approve(&root, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    let outcome = process.engine.settle(&root).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("boss: clerk: ask {}"));
    assert_eq!(deeds(&world), ["ask"]);
    // The boss paid for the clerk: two model calls each.
    assert_eq!(world.state(&root).await.totals.model_calls, 4);
}

#[tokio::test(start_paused = true)]
async fn whoever_ends_the_child_wakes_the_parent() {
    let world = office();
    // Asked in a process that is gone; answered in another; run by a third.
    for (message, expected) in [("one", "boss: clerk: ask {}"), ("deep", "boss: clerk: apprentice: ask {}")] {
        let first = world.start().await;
        let (root, asked) = begin(&first, message).await;
        first.die();
        let server = server(&world).await;
        let other = world.start().await;
        other
            .engine
            .approve(&asked[0].address, yes(&asked[0], "user:boss"), Pretence::Allowed)
            .await
            .unwrap();
        assert_eq!(answer(&world, &root).await, expected);
        server.die();
        // And without a server: whoever goes on with the root goes on with all of it.
        let first = world.start().await;
        let (root, asked) = begin(&first, message).await;
        first.die();
        let other = world.start().await;
        other.engine.approve(&root, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
        assert_eq!(deeds(&world), ["ask"], "nobody runs it yet");
        other.die();
        let next = world.start().await;
        assert_eq!(next.engine.settle(&root).await.unwrap().answer.as_deref(), Some(expected));
        assert_eq!(world.deeds.lock().unwrap().drain(..).count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_between_the_child_and_its_parent_is_followed_by_another() {
    let world = office();
    let first = world.start().await;
    let (root, asked) = begin(&first, "one").await;
    first.die();
    // A process that runs only the child: it was asked for nothing else.
    let second = world.start().await;
    second.engine.approve(&asked[0].address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    let outcome = second.engine.settle(&asked[0].address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("clerk: ask {}"));
    second.die();
    assert!(world.kinds(&root).await.ends_with(&["approval.granted".to_owned()]));
    let _server = server(&world).await;
    assert_eq!(answer(&world, &root).await, "boss: clerk: ask {}");
    assert_eq!(deeds(&world), ["ask"]);
}

#[tokio::test(start_paused = true)]
async fn children_beside_one_another_are_decided_one_by_one() {
    let world = office();
    let process = world.start().await;
    let (root, asked) = begin(&process, "two").await;
    assert_eq!(asked.len(), 2);
    process.engine.deny(&root, no(&asked[1], "user:boss", "not b")).await.unwrap();
    let outcome = process.engine.settle(&root).await.unwrap();
    assert_eq!((outcome.stop, &outcome.approvals[..]), (StopReason::Approval, &asked[..1]));
    process.engine.approve(&root, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    process.engine.settle(&root).await.unwrap();
    let said = conversation(&world.state(&root).await);
    let expected =
        ["clerk: None clerk: ask {}", "clerk: None clerk: tool 'ask' blocked: user:boss said no: not b"];
    assert_eq!(said[2..4], expected);
    assert_eq!(deeds(&world), ["ask"]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_parent_that_waits_reaches_the_child_that_waits() {
    for message in ["one", "deep"] {
        let world = office();
        let process = world.start().await;
        let (root, asked) = begin(&process, message).await;
        process.die();
        // Everything has left memory; whoever cancels runs it to its end.
        let next = world.start().await;
        next.engine.cancel(&root, "user:test").await.unwrap();
        assert_eq!(next.engine.settle(&root).await.unwrap().stop, StopReason::Cancelled);
        world.until(&asked[0].address, "run.cancelled").await;
        let refused = next
            .engine
            .approve(&asked[0].address, yes(&asked[0], "user:boss"), Pretence::Allowed)
            .await
            .unwrap_err();
        assert_eq!(weir_types::Explain::code(&refused), "engine::no-approval");
        assert!(deeds(&world).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_expires_in_the_child_goes_on() {
    // Where a server runs, and where only the next command does.
    for adopt in [Adopt::All, Adopt::Asked] {
        let world = office();
        let process = world.start_with(Fuse::default(), |options| options.adopt = adopt).await;
        let root = process.engine.new_address();
        process.engine.begin(&root, new("boss"), said("hurry")).await.unwrap();
        let told = "boss: clerk: tool 'hurry' blocked: nobody approved it in time";
        if adopt == Adopt::All {
            assert_eq!(answer(&world, &root).await, told);
            continue;
        }
        // It may have expired before anybody looked.
        let first = process.engine.settle(&root).await.unwrap();
        assert!(matches!(first.stop, StopReason::Approval | StopReason::End), "{first:?}");
        process.die();
        std::thread::sleep(Duration::from_millis(2));
        let next = world.start().await;
        assert_eq!(next.engine.settle(&root).await.unwrap().answer.as_deref(), Some(told));
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_someone_stops_is_told_to_its_parent() {
    let world = office();
    let process = server(&world).await;
    let (root, asked) = begin(&process, "one").await;
    process.engine.halt(&asked[0].address, "too dear", "user:test").await.unwrap();
    let told = answer(&world, &root).await;
    assert_eq!(told, format!("boss: session {} paused: too dear", asked[0].address));
}

#[tokio::test(start_paused = true)]
async fn a_parent_on_a_branch_is_woken_there() {
    let world = office();
    let process = server(&world).await;
    let main = process.engine.new_address();
    process.engine.begin(&main, new("boss"), said("hello")).await.unwrap();
    process.engine.settle(&main).await.unwrap();
    let at = world.state(&main).await.seq;
    let (side, _) = process.engine.fork(&main, at, "side".parse().unwrap()).await.unwrap();
    process.engine.say(&side, said("one")).await.unwrap();
    let asked = process.engine.settle(&side).await.unwrap().approvals;
    process.die();
    let server = server(&world).await;
    server.engine.approve(&asked[0].address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    let answered = async {
        while !conversation(&world.state(&side).await).contains(&"assistant: boss: clerk: ask {}".to_owned())
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.unwrap();
    assert_eq!(server.engine.root(&asked[0].address).await.unwrap(), side);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_another_process_runs_is_waited_for() {
    let world = office();
    let first = world.start().await;
    let (root, asked) = begin(&first, "slowly").await;
    first.die();
    let child = &asked[0].address;
    let porter = world.start().await;
    porter.engine.approve(child, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    let carrying = async {
        while !deeds(&world).contains(&"slow".to_owned()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (_, ()) = tokio::join!(
        async { tokio::time::timeout(Duration::from_secs(1), porter.engine.settle(child)).await.is_err() },
        carrying
    );
    // Someone goes on with the root meanwhile, in a process that cannot run the child.
    let other = world.start().await;
    let outcome = tokio::time::timeout(PATIENCE, other.engine.settle(&root)).await.unwrap().unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("boss: porter: slow {}"));
    assert_eq!(deeds(&world), ["ask", "slow", "slow, to its end"], "nothing ran twice");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_nobody_runs_is_found_by_the_next_server() {
    let world = office();
    let first = world.start().await;
    let (root, asked) = begin(&first, "one").await;
    first.die();
    let other = world.start().await;
    other.engine.cancel(&root, "user:test").await.unwrap();
    let _server = server(&world).await;
    world.until(&root, "run.cancelled").await;
    world.until(&asked[0].address, "run.cancelled").await;
}

/// Others append in between, each time: what has happened is not lost over it.
#[tokio::test(start_paused = true)]
async fn a_wait_is_not_lost_to_others_who_append_at_the_same_moment() {
    let world = office();
    let process = world.start_with(Fuse::intruding(12), |_| {}).await;
    let root = process.engine.new_address();
    process.engine.begin(&root, new("boss"), said("one")).await.unwrap();
    let settled = tokio::time::timeout(PATIENCE, process.engine.settle(&root)).await;
    let asked = settled.expect("it is not wedged").unwrap().approvals;
    process.engine.approve(&root, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    let settled = tokio::time::timeout(PATIENCE, process.engine.settle(&root)).await;
    settled.expect("it is not wedged").unwrap();
    // What the others said changes what the agents say, and nothing else.
    assert!(world.state(&root).await.run.is_none());
    assert_eq!(deeds(&world), ["ask"]);
}

/// A child may be stopped at the very moment at which its parent begins to wait for it. Whoever comes first, the other sees
/// it: tried at every point of that moment.
#[tokio::test(start_paused = true)]
async fn a_child_that_ends_while_its_parent_begins_to_wait_is_noticed() {
    for moment in 0..80 {
        let world = office();
        let server = server(&world).await;
        let root = server.engine.new_address();
        server.engine.begin(&root, new("boss"), said("one")).await.unwrap();
        let child = loop {
            let found = world.state(&root).await.calls().first().and_then(|call| call.child);
            match found.map(Address::main) {
                Some(child) if world.kinds(&child).await.iter().any(|kind| kind == "approval.requested") => {
                    break child;
                }
                _ => tokio::task::yield_now().await,
            }
        };
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        server.engine.cancel(&child, "user:test").await.unwrap();
        let told = answer(&world, &root).await;
        assert_eq!(told, format!("boss: session {child} ended without an answer: cancelled"), "{moment}");
    }
}

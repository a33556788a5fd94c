//! The same with people in it: stop at every append of a story that waits for approvals, its own and those of agents behind
//! it, restart, decide, finish. What was approved runs, plain writes once at most; what was denied never does.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_engine::{Address, Adopt, Approval, EngineError, Outcome, Pretence, StopReason};
use weir_kernel::{CallState, Entry, Session};
use weir_types::{Explain, Outcome as CallOutcome};

use crate::approving::{no, yes};
use crate::kit::*;

/// A boss that asks for one thing to do and one that will be refused, and has a clerk, who asks, too, and has an apprentice.
fn world() -> World {
    let world = World::new();
    let calls = [
        ("ask", r#"{"n":"yes"}"#),
        ("ask", r#"{"n":"no"}"#),
        ("look", "{}"),
        ("clerk", r#"{"message":"do it"}"#),
    ];
    let boss = vec![calling(on_user("^begin", ""), &calls), on_tool("clerk", "boss: {{result}}")];
    world.agent("boss", boss, &["ask", "look", "clerk"]);
    let calls = [("ask", r#"{"n":"yes, clerk"}"#), ("apprentice", r#"{"message":"do it"}"#)];
    let clerk = vec![calling(on_user("^do", ""), &calls), on_tool("apprentice", "clerk: {{result}}")];
    world.agent("clerk", clerk, &["ask", "apprentice"]);
    let calls = [("ask", r#"{"n":"yes, apprentice"}"#), ("ask", r#"{"n":"no, apprentice"}"#)];
    let apprentice = vec![calling(on_user("^do", ""), &calls), on_tool("ask", "apprentice: done")];
    world.agent("apprentice", apprentice, &["ask"]);
    world
}

/// Where the story is played: in processes that run what they are asked to, or in servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Commands,
    Servers,
}

const ROOT: u128 = 7;

/// Plays the story, restarting after each crash; the number of appends that the first process made.
async fn play(world: &World, place: Place, fuse: Fuse) -> u64 {
    let root = Address::main(weir_types::SessionId::from_u128(ROOT));
    let mut fuse = Some(fuse);
    let mut first = None;
    loop {
        let adopt = if place == Place::Servers { Adopt::All } else { Adopt::Asked };
        let fuse = fuse.take().unwrap_or_default();
        let process = world.start_with(fuse, |options| options.adopt = adopt).await;
        let done = tokio::select! {
            () = story(world, place, &process, &root) => true,
            () = process.fuse.blown() => false,
        };
        let appends = process.fuse.appends();
        first.get_or_insert(appends);
        process.die();
        if done {
            return first.unwrap_or_default();
        }
    }
}

async fn story(world: &World, place: Place, process: &Process, root: &Address) {
    let engine = &process.engine;
    if world.journal.head(&root.branch_id()).await.unwrap().is_none() {
        engine.begin(root, new("boss"), said("begin")).await.unwrap();
    }
    loop {
        let outcome = come_to_rest(world, place, process, root).await;
        match outcome.stop {
            StopReason::End => return,
            StopReason::Approval => {}
            _ => panic!("{outcome:?}"),
        }
        // One at a time, the last one first, now at the root and now where it is asked.
        let Some(question) = outcome.approvals.last() else { panic!("nothing is asked: {outcome:?}") };
        let at = if outcome.approvals.len() % 2 == 0 { root } else { &question.address };
        decide(process, at, question).await;
    }
}

async fn decide(process: &Process, at: &Address, question: &Approval) {
    let engine = &process.engine;
    let decided = match question.input.as_str().contains("no") {
        true => engine.deny(at, no(question, "user:boss", "no")).await,
        false => engine.approve(at, yes(question, "user:boss"), Pretence::Allowed).await,
    };
    match decided {
        Ok(_) => {}
        // A server went on while we read.
        Err(EngineError::Approval(error)) if error.code() == "engine::approval-decided" => {}
        Err(error) => panic!("{error}"),
    }
}

/// Waits for the root to end or to ask something. A server goes on by itself, so it is only watched.
async fn come_to_rest(world: &World, place: Place, process: &Process, root: &Address) -> Outcome {
    let engine = &process.engine;
    if place == Place::Commands {
        let settled = tokio::time::timeout(PATIENCE, engine.settle(root)).await;
        return settled.expect("it is not wedged").unwrap();
    }
    let rested = async {
        loop {
            let session = world.state(root).await;
            let approvals = engine.approvals(root).await.unwrap();
            let outcome = Outcome::of(root, &session);
            if !approvals.is_empty() {
                return Outcome { stop: StopReason::Approval, approvals, ..outcome };
            }
            if session.run.is_none() && session.ended.is_some() {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, rested).await.expect("it is not wedged")
}

/// What some of the crashes must have led to, for the test to mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// A write that was approved and started was cut off, and is not known to have happened.
    unknown: bool,
    /// Every call that was approved ran.
    all_ran: bool,
}

/// Every session has come to its end; every call that was approved ran once, or is reported as unknown; no other did.
async fn check(world: &World, context: &str) -> Seen {
    let mut seen = Seen { unknown: false, all_ran: true };
    let mut sessions = vec![Address::main(weir_types::SessionId::from_u128(ROOT))];
    let runs = runs(world);
    let mut calls = 0;
    while let Some(address) = sessions.pop() {
        let session = world.state(&address).await;
        assert!(session.run.is_none(), "{context}: {address} goes on");
        for call in asked(&session) {
            let CallState::Done(result) = &call.state else { panic!("{context}: {call:?} is open") };
            sessions.extend(call.child.map(Address::main));
            if call.tool != "ask" {
                continue;
            }
            calls += 1;
            let ran = runs.get(&call.key()).copied().unwrap_or_default();
            let denied = call.input.as_str().contains("no");
            match (denied, result.failed) {
                (true, Some(CallOutcome::Denied)) => assert_eq!(ran, 0, "{context}: it was denied"),
                (false, None) => assert_eq!(ran, 1, "{context}: it answered"),
                (false, Some(CallOutcome::Unknown)) => {
                    assert!(ran <= 1, "{context}: it ran {ran} times");
                    (seen.unknown, seen.all_ran) = (true, false);
                }
                other => panic!("{context}: {other:?} for {call:?}"),
            }
        }
    }
    assert_eq!(calls, 5, "{context}");
    assert_eq!(runs.values().sum::<u32>(), runs.len() as u32, "{context}: something ran twice");
    seen
}

fn asked(session: &Session) -> impl Iterator<Item = &weir_kernel::Call> {
    session.transcript.entries.iter().filter_map(Entry::as_assistant).flat_map(|entry| &entry.calls)
}

/// How often each call of `ask` ran, by its key.
fn runs(world: &World) -> BTreeMap<String, u32> {
    let mut runs = BTreeMap::new();
    for deed in world.deeds.lock().unwrap().iter().filter(|deed| deed.tool == "ask") {
        *runs.entry(deed.key.clone()).or_default() += 1;
    }
    runs
}

async fn crash_everywhere(place: Place) {
    let calm = world();
    let appends = play(&calm, place, Fuse::default()).await;
    assert_eq!(check(&calm, "calm").await, Seen { unknown: false, all_ran: true });
    let mut seen = Seen::default();
    for at in 1..=appends {
        for side in [Side::Before, Side::After] {
            let context = format!("{place:?}: crash {side:?} append {at} of {appends}");
            let world = world();
            let played = play(&world, place, Fuse::at(at, side));
            let played = tokio::time::timeout(Duration::from_secs(3_600), played).await;
            played.unwrap_or_else(|_| panic!("{context}: wedged"));
            let this = check(&world, &context).await;
            seen = Seen { unknown: seen.unknown || this.unknown, all_ran: seen.all_ran || this.all_ran };
        }
    }
    assert_eq!(seen, Seen { unknown: true, all_ran: true });
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_append_loses_no_decision_where_commands_run() {
    crash_everywhere(Place::Commands).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_append_loses_no_decision_where_servers_run() {
    crash_everywhere(Place::Servers).await;
}

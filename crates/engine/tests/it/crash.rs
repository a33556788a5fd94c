//! Stop at every append, on both sides of it, restart, finish: nothing lost, nothing repeated, nothing wedged.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_engine::{Address, StopReason};
use weir_kernel::{CallState, Entry, Session};
use weir_models::scripted::{Reply, When};
use weir_types::{FailureClass, Outcome, text_of};

use crate::kit::*;

/// Parallel tools of every effect, a retry, a child with a tool of its own, and a compaction.
fn world() -> World {
    let world = World::new();
    let attempt = "at{{attempt}} at{{attempt}} at{{attempt}}";
    let overloaded = Reply {
        when: on_user("^begin", "").when,
        error: Some(FailureClass::Overloaded),
        times: Some(1),
        ..Reply::default()
    };
    let tools = [("look", "{}"), ("put", "{}"), ("send", "{}"), ("clerk", r#"{"message":"count"}"#)];
    let summary = Reply {
        when: Some(When { summarize: true, ..When::default() }),
        say: Some("They began.".to_owned()),
        ..Reply::default()
    };
    let replies = vec![
        summary,
        overloaded,
        calling(on_user("^begin", attempt), &tools),
        on_tool("clerk", &format!("begun {attempt}")),
        on_user("go on", &format!("done {attempt}")),
        on_user("more", &format!("more {attempt}")),
    ];
    world.agent_with("boss", replies, &["look", "put", "send", "clerk"], |agent| {
        agent.card.context_window = 1_000;
        agent.limits.output_tokens = Some(100);
    });
    let count = calling(on_user("count", attempt), &[("put", r#"{"n":1}"#)]);
    world.agent("clerk", vec![count, on_tool("put", "counted")], &["put"]);
    world
}

/// Long enough together that the last turns need a compaction.
fn messages() -> Vec<String> {
    let long = |word: &str| format!("{word} {}", "word ".repeat(700));
    vec![long("begin"), long("more"), long("more"), long("more"), long("more"), "go on".to_owned()]
}

/// Plays all turns, restarting after each crash, and returns how many appends the first process made.
async fn play(world: &World, fuse: Fuse) -> (Address, u64) {
    let address = Address::main(weir_types::SessionId::from_u128(7));
    let mut process = world.start_with(fuse, |_| {}).await;
    let mut first = None;
    loop {
        let done = tokio::select! {
            () = turns(world, &process, &address) => true,
            () = process.fuse.blown() => false,
        };
        first.get_or_insert_with(|| process.fuse.appends());
        if done {
            return (address, first.unwrap_or_default());
        }
        process.die();
        process = world.start().await;
    }
}

async fn turns(world: &World, process: &Process, address: &Address) {
    let said_so_far =
        async || world.kinds(address).await.iter().filter(|kind| *kind == "user.message").count();
    for (index, message) in messages().iter().enumerate() {
        let known = if world.journal.head(&address.branch_id()).await.unwrap().is_some() {
            said_so_far().await
        } else {
            0
        };
        match (known, index) {
            (0, 0) => _ = process.engine.begin(address, new("boss"), said(message)).await.unwrap(),
            (known, index) if known <= index => _ = process.engine.say(address, said(message)).await.unwrap(),
            _ => {}
        }
        let outcome = tokio::time::timeout(PATIENCE, process.engine.settle(address)).await;
        let outcome = outcome.expect("the session is not wedged").unwrap();
        assert_eq!(outcome.stop, StopReason::End, "{outcome:?}");
    }
}

/// What must be the same however often it crashed: attempts are told apart only within one text.
fn normal(session: &Session) -> Vec<String> {
    let unsplice = |line: String| {
        let attempts: Vec<&str> = line.split(' ').filter(|word| word.starts_with("at")).collect();
        assert!(attempts.windows(2).all(|pair| pair[0] == pair[1]), "spliced: {line}");
        line.split(' ')
            .map(|word| if word.starts_with("at") { "at" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let unknown =
        |line: String| if line.contains("outcome unknown") { "send: None send {}".to_owned() } else { line };
    // What failed stands behind the model's words, and in a crash something may have.
    let words = |text: &str| text.split("\n\n").next().unwrap_or_default().to_owned();
    let summary =
        session.transcript.summary.iter().map(|summary| format!("summary: {}", words(&summary.text)));
    summary.chain(conversation(session).into_iter().map(unsplice).map(unknown)).collect()
}

/// What some of the crashes must have led to, for the test to mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    unknown_write: bool,
    repeated_idempotent: bool,
    repeated_read: bool,
}

impl Seen {
    fn and(self, other: Self) -> Self {
        Self {
            unknown_write: self.unknown_write || other.unknown_write,
            repeated_idempotent: self.repeated_idempotent || other.repeated_idempotent,
            repeated_read: self.repeated_read || other.repeated_read,
        }
    }
}

/// No call that is known to have finished ran again; writes ran at most once; repeats have the same key.
fn check_deeds(world: &World, session: &Session, context: &str) -> Seen {
    let deeds = world.deeds.lock().unwrap().clone();
    let mut by_key: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    for deed in &deeds {
        by_key.entry((&deed.tool, &deed.key)).or_default().push(deed.attempt);
    }
    let runs = |tool: &str| {
        by_key.iter().filter(|((name, _), _)| *name == tool).map(|(_, runs)| runs.len()).collect::<Vec<_>>()
    };
    assert_eq!(runs("send").iter().sum::<usize>().max(1), 1, "{context}: a plain write ran twice: {deeds:?}");
    assert_eq!((runs("put").len(), runs("look").len()), (2, 1), "{context}: keys changed: {deeds:?}");
    for call in calls(session) {
        let CallState::Done(result) = &call.state else { panic!("{context}: {call:?} is open") };
        let ran = by_key.get(&(call.tool.as_str(), call.key().as_str())).map_or(0, Vec::len);
        match (call.tool.as_str(), result.failed) {
            // It is only unknown if it may have run.
            ("send", Some(Outcome::Unknown)) => {}
            ("send", failed) => assert_eq!((failed, ran), (None, 1), "{context}"),
            (_, failed) => assert_eq!(failed, None, "{context}: {}", text_of(&result.content)),
        }
    }
    let unknown = |call: &weir_kernel::Call| matches!(&call.state, CallState::Done(result) if result.failed == Some(Outcome::Unknown));
    Seen {
        unknown_write: calls(session).any(unknown),
        repeated_idempotent: runs("put").into_iter().any(|runs| runs > 1),
        repeated_read: runs("look").into_iter().any(|runs| runs > 1),
    }
}

fn calls(session: &Session) -> impl Iterator<Item = &weir_kernel::Call> {
    session.transcript.entries.iter().filter_map(Entry::as_assistant).flat_map(|entry| &entry.calls)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_append_changes_nothing() {
    let calm = world();
    let (address, appends) = play(&calm, Fuse::default()).await;
    let expected = (normal(&calm.state(&address).await), normal(&calm.history(&address).await));
    assert_eq!(expected.0[0], "summary: They began.");
    assert!(calm.kinds(&address).await.contains(&"model.failed".to_owned()), "a model call was retried");
    let mut seen = Seen::default();
    for at in 1..=appends {
        for side in [Side::Before, Side::After] {
            let context = format!("crash {side:?} append {at} of {appends}");
            let world = world();
            let played =
                tokio::time::timeout(Duration::from_secs(3_600), play(&world, Fuse::at(at, side))).await;
            let (address, _) = played.unwrap_or_else(|_| panic!("{context}: wedged"));
            let (state, history) = (world.state(&address).await, world.history(&address).await);
            assert_eq!((normal(&state), normal(&history)), expected, "{context}");
            seen = seen.and(check_deeds(&world, &history, &context));
        }
    }
    assert_eq!(seen, Seen { unknown_write: true, repeated_idempotent: true, repeated_read: true });
}

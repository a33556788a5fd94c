//! Everything that stops a run: people, limits, crashes, a full disk, models and summarisers that fail.

use std::time::Duration;

use weir_engine::StopReason;
use weir_journal::Status;
use weir_kernel::Limits;
use weir_models::scripted::{Reply, When};
use weir_types::{Explain, FailureClass, NanoUsd, Price, Usage};

use crate::kit::*;
use crate::sharing::drawling;

/// An agent that never has enough.
fn greedy(change: impl FnOnce(&mut Limits)) -> World {
    let world = World::new();
    let more = |reply| Reply {
        usage: Some(Usage { input_tokens: 100, output_tokens: 20, ..Usage::default() }),
        ..calling(reply, &[("tick", "{}")])
    };
    let replies = vec![more(on_user("", "first")), more(on_tool("tick", "more"))];
    world.agent_with("greedy", replies, &["tick"], |agent| {
        agent.limits.output_tokens = Some(50);
        let usd = |text: &str| text.parse::<NanoUsd>().unwrap();
        agent.card.price = Some(Price {
            input: usd("10"),
            output: usd("100"),
            cache_read: usd("10"),
            cache_write: usd("10"),
        });
        change(&mut agent.limits);
    });
    world
}

async fn status(world: &World, address: &weir_engine::Address) -> Status {
    let listed = world.journal.list(Default::default(), None, 100).await.unwrap();
    listed.into_iter().find(|listed| listed.branch == address.branch_id()).unwrap().attrs.status
}

#[tokio::test(start_paused = true)]
async fn every_limit_parks_the_run_and_resuming_grants_it_again() {
    type Set = fn(&mut Limits);
    let limits: [(Set, StopReason, &str); 5] = [
        (|limits| limits.iterations = 3, StopReason::Iterations, "the run reached its limit of 3 iterations"),
        (
            |limits| limits.model_calls = Some(2),
            StopReason::Budget,
            "the run reached its limit of 2 model calls",
        ),
        (
            |limits| limits.tokens = Some(600),
            StopReason::Budget,
            "the next call would take the run over its limit of 600 tokens",
        ),
        (
            |limits| limits.usd = Some(NanoUsd(20_000_000)),
            StopReason::Budget,
            "the next call would take the run over its limit of $0.02",
        ),
        (
            |limits| (limits.iterations, limits.wall_clock_ms) = (1_000, Some(1)),
            StopReason::Budget,
            "the run reached its limit of 0 s",
        ),
    ];
    for (set, stop, message) in limits {
        let world = greedy(set);
        world.allow("greedy", weir_engine::Budgets::default());
        let process = world.start().await;
        let address = process.engine.new_address();
        process.engine.begin(&address, new("greedy"), said("more")).await.unwrap();
        let first = process.engine.settle(&address).await.unwrap();
        assert_eq!((first.stop, first.message.as_deref()), (stop, Some(message)));
        assert_eq!(status(&world, &address).await, Status::Waiting);
        let calls = world.state(&address).await.totals.model_calls;
        match first.budget {
            // Someone looked at it, and lets it go on.
            None => process.engine.resume(&address).await.unwrap(),
            Some(as_much) => process.engine.resume_with(&address, as_much, "user:admin").await.unwrap(),
        };
        let second = process.engine.settle(&address).await.unwrap();
        assert_eq!((second.stop, second.message.as_deref(), second.run), (stop, Some(message), first.run));
        assert!(world.state(&address).await.totals.model_calls > calls);
    }
}

#[tokio::test(start_paused = true)]
async fn an_iteration_that_takes_the_process_down_three_times_is_parked() {
    let world = World::new();
    world.agent("doomed", vec![drawling(on_user("", "a very long answer"))], &[]);
    let mut process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("doomed"), said("speak")).await.unwrap();
    for crash in 1..=3 {
        process.die();
        process = world.start().await;
        let settled = tokio::time::timeout(Duration::from_millis(100), process.engine.settle(&address)).await;
        assert_eq!(settled.is_ok(), crash == 3, "crash {crash}: {settled:?}");
        if let Ok(outcome) = settled {
            let message = outcome.unwrap().message.unwrap();
            assert_eq!(message, "the process went down 3 times in the same iteration");
        }
    }
    assert_eq!(status(&world, &address).await, Status::Waiting);
    process.engine.resume(&address).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("a very long answer")));
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_had_said_when_it_was_cancelled_stays_and_is_marked() {
    let world = World::new();
    world.agent("slow", vec![drawling(on_user("one$", "a very long answer")), on_user("", "yes")], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("slow"), said("a long one")).await.unwrap();
    world.until(&address, "text.delta").await;
    process.engine.cancel(&address, "user:test").await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Cancelled);
    process.engine.say(&address, said("still there?")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let said = conversation(&world.state(&address).await);
    let [question, half, next, answer] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(
        (&question[..], &next[..], &answer[..]),
        ("user: a long one", "user: still there?", "assistant: yes")
    );
    let half =
        half.strip_prefix("assistant: ").and_then(|half| half.strip_suffix("\n\n[interrupted by the user]"));
    let half = half.expect("it is marked");
    assert!(!half.is_empty() && "a very long answer".starts_with(half), "{half:?}");
    let spent = world.state(&address).await.totals;
    assert!(spent.reserved_tokens > 0, "an answer that was cut off counts as it was reserved: {spent:?}");
}

#[tokio::test(start_paused = true)]
async fn halt_stops_and_resume_goes_on_and_close_is_for_good() {
    let world = World::new();
    world.agent("slow", vec![drawling(on_user("", "a very long answer"))], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("slow"), said("speak")).await.unwrap();
    world.until(&address, "model.requested").await;
    process.engine.halt(&address, "lunch", "user:test").await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.message.as_deref()), (StopReason::Halted, Some("lunch")));
    assert_eq!(status(&world, &address).await, Status::Halted);
    assert_eq!(process.engine.say(&address, said("hello?")).await.unwrap_err().code(), "engine::halted");
    process.engine.resume(&address).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("a very long answer"));
    assert_eq!(process.engine.resume(&address).await.unwrap_err().code(), "engine::nothing-to-resume");
    process.engine.close(&address, "done", "user:test").await.unwrap();
    assert_eq!(process.engine.say(&address, said("hello?")).await.unwrap_err().code(), "engine::closed");
    assert_eq!(process.engine.post(&address, said("hello?")).await.unwrap_err().code(), "engine::closed");
    assert_eq!(status(&world, &address).await, Status::Closed);
}

/// A session whose disk is full when the result of its call is to be stored.
async fn full_after_sending() -> (World, Process, weir_engine::Address) {
    let world = World::new();
    let send = calling(on_user("", "sending"), &[("send", r#"{"to":"ada"}"#)]);
    world.agent("sender", vec![send, on_tool("send", "sent: {{result}}")], &["send"]);
    let process = world.start_with(Fuse::full_after(2), |_| {}).await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("sender"), said("send it")).await.unwrap();
    (world, process, address)
}

#[tokio::test(start_paused = true)]
async fn a_result_is_held_until_there_is_room_for_it() {
    let (world, process, address) = full_after_sending().await;
    let mut trouble = process.engine.storage_trouble();
    let settled = process.engine.settle(&address);
    tokio::pin!(settled);
    tokio::select! {
        early = &mut settled => panic!("it did not wait for room: {early:?}"),
        _ = trouble.wait_for(Option::is_some) => {}
    }
    process.fuse.free_space();
    assert_eq!(settled.await.unwrap().answer.as_deref(), Some(r#"sent: send {"to":"ada"}"#));
    assert!(trouble.borrow().is_none());
    assert_eq!(world.deeds.lock().unwrap().len(), 1, "the effect was not repeated");
}

#[tokio::test(start_paused = true)]
async fn without_room_it_is_said_what_is_known_and_the_effect_is_never_repeated() {
    for stops in [true, false] {
        let (world, process, address) = full_after_sending().await;
        let mut trouble = process.engine.storage_trouble();
        let error = if stops {
            // A person stops the program while it waits.
            let engine = process.engine.clone();
            let settled = tokio::spawn({
                let (engine, address) = (engine.clone(), address.clone());
                async move { engine.settle(&address).await }
            });
            trouble.wait_for(Option::is_some).await.unwrap();
            engine.stop(Duration::from_secs(1)).await;
            settled.await.unwrap().unwrap_err()
        } else {
            process.engine.settle(&address).await.unwrap_err()
        };
        assert_eq!((error.code(), error.fault()), ("engine::not-stored", weir_types::Fault::Storage));
        let (message, help) = (error.to_string(), error.help());
        assert!(message.contains(r#"`send` ran with {"to":"ada"}"#), "{message}");
        assert!(help.contains(&format!("`weir session resume {address}`")), "{help}");
        assert!(help.contains("the outcome of `send` as unknown and does not run it again"), "{help}");
        assert_eq!(world.deeds.lock().unwrap().len(), 1);
        // As the message says.
        process.die();
        let next = world.start().await;
        let _ = next.engine.resume(&address).await;
        next.engine.settle(&address).await.unwrap();
        assert_eq!(world.deeds.lock().unwrap().len(), 1, "the effect was not repeated");
        let said = conversation(&world.state(&address).await);
        assert!(said.last().unwrap().starts_with("assistant: sent: outcome unknown"), "{said:#?}");
    }
}

/// The same process goes on after it gave up, as a server does.
#[tokio::test(start_paused = true)]
async fn a_session_that_gave_up_goes_on_in_the_same_process() {
    let (world, process, address) = full_after_sending().await;
    process.engine.settle(&address).await.unwrap_err();
    process.fuse.free_space();
    process.engine.resume(&address).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert!(outcome.answer.unwrap().starts_with("sent: outcome unknown"));
    assert_eq!(world.deeds.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_could_not_begin_may_be_begun_again() {
    let world = World::new();
    world.agent("sender", vec![on_user("", "hello")], &[]);
    let process = world.start_with(Fuse::full_after(0), |_| {}).await;
    let address = process.engine.new_address();
    let error = process.engine.begin(&address, new("sender"), said("hi")).await.unwrap_err();
    assert_eq!(error.code(), "journal::storage");
    assert!(error.help().contains("safe to say the same again"), "{}", error.help());
    process.fuse.free_space();
    process.engine.begin(&address, new("sender"), said("hi")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().answer.as_deref(), Some("hello"));
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_by_class_and_each_is_an_event() {
    for class in FailureClass::ALL {
        let world = World::new();
        let failing = Reply { error: Some(class), times: Some(1), ..on_user("", "") };
        world.agent("unlucky", vec![failing, on_user("", "at last")], &[]);
        let process = world.start().await;
        let address = process.engine.new_address();
        process.engine.begin(&address, new("unlucky"), said("try")).await.unwrap();
        let outcome = process.engine.settle(&address).await.unwrap();
        let retried = class.is_transient() || class == FailureClass::ContextOverflow;
        let expected = if retried { (StopReason::End, None) } else { (StopReason::Failed, Some(class)) };
        assert_eq!((outcome.stop, outcome.class), expected, "{class}: {outcome:?}");
        let failures = world.kinds(&address).await.iter().filter(|kind| *kind == "model.failed").count();
        assert_eq!(failures, 1, "{class}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_fails_loses_nothing_and_the_turn_goes_on() {
    let summarising =
        |reply: Reply| Reply { when: Some(When { summarize: true, ..When::default() }), ..reply };
    let fails = [
        summarising(Reply { error: Some(FailureClass::Invalid), ..Reply::default() }),
        summarising(Reply { error: Some(FailureClass::Overloaded), ..Reply::default() }),
        summarising(Reply { say: Some(" ".to_owned()), ..Reply::default() }),
        summarising(Reply { say: Some("far too long ".repeat(500)), ..Reply::default() }),
    ];
    for fail in fails {
        let world = World::new();
        world.agent_with("chatty", vec![fail, on_user("", "yes")], &[], |agent| {
            agent.card.context_window = 1_000;
            agent.limits.output_tokens = Some(100);
        });
        let process = world.start().await;
        let address = process.engine.new_address();
        let message = |n: usize| said(&format!("message {n} {}", "word ".repeat(500)));
        process.engine.begin(&address, new("chatty"), message(0)).await.unwrap();
        for n in 1..10 {
            let outcome = process.engine.settle(&address).await.unwrap();
            assert_eq!(outcome.stop, StopReason::End, "{outcome:?}");
            process.engine.say(&address, message(n)).await.unwrap();
        }
        assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::End);
        let (state, kinds) = (world.state(&address).await, world.kinds(&address).await);
        assert!(kinds.contains(&"model.failed".to_owned()), "the summariser was asked");
        assert!(!kinds.contains(&"context.compacted".to_owned()));
        assert_eq!(conversation(&state).len(), 20, "nothing is lost");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_long_for_the_provider_is_made_shorter_once() {
    let world = World::new();
    let when = Some(When { summarize: true, ..When::default() });
    let summary = Reply { when, say: Some("They talked.".to_owned()), ..Reply::default() };
    let too_long =
        Reply { error: Some(FailureClass::ContextOverflow), times: Some(1), ..on_user("^now", "") };
    let again = Reply { error: Some(FailureClass::ContextOverflow), ..on_user("^never", "") };
    world.agent("long", vec![summary, too_long, again, on_user("", "yes")], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("long"), said("message")).await.unwrap();
    for n in 0..6 {
        process.engine.settle(&address).await.unwrap();
        process.engine.say(&address, said(&format!("message {n} {}", "word ".repeat(50)))).await.unwrap();
    }
    process.engine.settle(&address).await.unwrap();
    let count = async |of: &str| world.kinds(&address).await.iter().filter(|kind| *kind == of).count();
    assert_eq!(count("context.compacted").await, 0, "the window is large enough");
    process.engine.say(&address, said("now")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("yes")), "{outcome:?}");
    assert_eq!(count("model.failed").await, 1);
    // In several pieces, since the summariser must not be asked for too much either.
    assert!(count("context.compacted").await > 0);
    // A provider that is never satisfied ends the run instead of a loop.
    process.engine.say(&address, said("never")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.class), (StopReason::Failed, Some(FailureClass::ContextOverflow)));
    assert_eq!(count("model.failed").await, 3, "asked once more, and no more");
}

/// On the real clock, which is the one that limits are measured with.
#[tokio::test]
async fn nothing_is_waited_for_beyond_the_wall_clock() {
    let world = World::new();
    let work = calling(on_user("^work", "Working."), &[("slow", "{}")]);
    world.agent_with("slow", vec![work, drawling(on_user("", "a very long answer"))], &["slow"], |agent| {
        agent.limits.wall_clock_ms = Some(200);
    });
    let process = world.start().await;
    for (message, unknown) in [("work", true), ("speak", false)] {
        let address = process.engine.new_address();
        process.engine.begin(&address, new("slow"), said(message)).await.unwrap();
        let outcome = process.engine.settle(&address).await.unwrap();
        assert_eq!(outcome.stop, StopReason::Budget, "{outcome:?}");
        let said = conversation(&world.state(&address).await);
        assert_eq!(said.iter().any(|line| line.contains("outcome unknown")), unknown, "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_request_led_to_is_found_by_it() {
    let world = World::new();
    world.agent("parrot", vec![on_user("", "yes")], &[]);
    let process = world.start().await;
    let (engine, address) = (&process.engine, process.engine.new_address());
    let causes: Vec<_> = (0..5).map(|_| weir_journal::mint()).collect();
    engine.because(causes[0]).begin(&address, new("parrot"), said("one")).await.unwrap();
    engine.settle(&address).await.unwrap();
    engine.because(causes[1]).say(&address, said("two")).await.unwrap();
    engine.settle(&address).await.unwrap();
    engine.because(causes[2]).halt(&address, "lunch", "user:test").await.unwrap();
    engine.because(causes[3]).resume_for(&address, "user:boss").await.unwrap();
    engine.settle(&address).await.unwrap();
    engine.because(causes[4]).close(&address, "done", "user:test").await.unwrap();
    let mut found = Vec::new();
    for cause in causes {
        let events = world.journal.children(cause, weir_types::Position(0), 10).await.unwrap();
        found.push(events.iter().map(|event| event.kind.to_string()).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(
        found,
        [
            "session.created user.message",
            "user.message",
            "session.halted",
            "session.resumed",
            "session.closed"
        ]
    );
    let resumed =
        world.events(&address).await.into_iter().filter(|event| event.kind.as_str() == "session.resumed");
    assert!(resumed.last().unwrap().meta.as_str().contains(r#""actor":"user:boss""#));
}

#[tokio::test(start_paused = true)]
async fn a_message_for_a_halted_session_is_refused_whether_its_task_is_in_memory_or_not() {
    let world = World::new();
    world.agent("helper", vec![on_user("", "yes")], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("helper"), said("hello")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    process.engine.halt(&address, "lunch", "user:test").await.unwrap();
    // Its task is there for a while; a process that has just begun has none.
    let other = world.start().await;
    for engine in [&process.engine, &other.engine] {
        assert_eq!(engine.post(&address, said("hello?")).await.unwrap_err().code(), "engine::halted");
        // What happens is told all the same: a halt is about words.
        engine.signal(&address, "tick", weir_types::Json::null(), "user:test").await.unwrap();
    }
    assert!(!world.kinds(&address).await.join(" ").contains("user.message session.halted user.message"));
    assert_eq!(world.kinds(&address).await.iter().filter(|kind| *kind == "user.message").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_stops_a_run_whose_session_is_ahead_of_the_clock() {
    let world = World::new();
    let tick = calling(on_user("", ""), &[("tick", "{}")]);
    let again = calling(on_tool("tick", ""), &[("tick", "{}")]);
    world.agent_with("ticker", vec![again, tick], &["tick"], |agent| {
        (agent.limits.iterations, agent.limits.wall_clock_ms) = (100_000, Some(50));
    });
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("ticker"), said("tick")).await.unwrap();
    // The clock of whoever says this is ten years ahead; the time of a session never goes back.
    let ahead = weir_journal::now().after_millis(10 * 365 * 86_400_000);
    let signal =
        weir_journal::NewEvent::new("external.signal".parse().unwrap(), r#"{"name":"tick","data":1}"#);
    let signal = signal.with_identity(weir_journal::mint(), ahead);
    world.journal.append(vec![weir_journal::Part::new(address.branch_id(), vec![signal])]).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Budget, "{outcome:?}");
    assert!(world.state(&address).await.ts > weir_journal::now().after_millis(1_000));
    assert!(world.state(&address).await.run.unwrap().iteration < 100_000);
}

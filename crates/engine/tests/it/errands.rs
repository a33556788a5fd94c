//! Calls that someone outside asks for: through the gate, into the journal, past the model, at most once.

use std::time::Duration;

use futures_util::future::join_all;
use weir_engine::{Address, Adopt, Became, Called, Engine, Errand, Pretence, StopReason};
use weir_events::About;
use weir_journal::{NewEvent, Part, Status};
use weir_types::{Block, BranchId, Explain, Json, Outcome};

use crate::approving::{no, yes};
use crate::kit::*;

fn world() -> World {
    let world = World::new();
    let slow = calling(on_user("^slow", "One moment."), &[("slow", "{}")]);
    let ask = calling(on_user("^ask", "May I?"), &[("ask", "{}")]);
    let replies = vec![slow, ask, on_tool("slow", "done"), on_tool("ask", "asked"), on_user("", "hello")];
    world.agent("helper", replies, &["look", "send", "put", "ask", "hurry", "slow", "tick"]);
    world
}

async fn begun(engine: &Engine, message: &str) -> Address {
    let address = engine.new_address();
    engine.begin(&address, new("helper"), said(message)).await.unwrap();
    engine.settle(&address).await.unwrap();
    address
}

fn errand(tool: &str, key: Option<&str>) -> Errand {
    let input = Json::parse(r#"{"n":1}"#).unwrap();
    Errand { tool: tool.to_owned(), input, key: key.map(str::to_owned) }
}

async fn call(engine: &Engine, address: &Address, tool: &str, key: Option<&str>) -> Called {
    let called = engine.call(address, errand(tool, key), "user:test");
    tokio::time::timeout(PATIENCE, called).await.unwrap().unwrap()
}

async fn refusal(engine: &Engine, address: &Address, errand: Errand) -> String {
    engine.call(address, errand, "user:test").await.unwrap_err().code().to_owned()
}

fn done(text: &str) -> Became {
    Became::Done { content: vec![Block::text(text)], stub: false }
}

fn deeds(world: &World) -> Vec<String> {
    world.deeds.lock().unwrap().iter().map(|deed| deed.tool.clone()).collect()
}

async fn status(world: &World, address: &Address) -> (Status, bool) {
    let listed = world.journal.listed(&address.branch_id()).await.unwrap().unwrap();
    (listed.attrs.status, listed.owner.is_some())
}

#[tokio::test(start_paused = true)]
async fn an_errand_is_written_down_like_any_call_and_the_model_never_hears_of_it() {
    let world = world();
    let process = world.start().await;
    let address = begun(&process.engine, "hi").await;
    let before = world.kinds(&address).await.len();
    let transcript = world.state(&address).await.transcript;
    let called = call(&process.engine, &address, "send", None).await;
    assert_eq!(called.result, done(r#"send {"n":1}"#));
    let kinds = world.kinds(&address).await;
    let expected = ["tool.requested", "session.resumed", "tool.decided", "tool.started", "tool.completed"];
    assert_eq!(kinds[before..], expected);
    assert_eq!(world.state(&address).await.transcript, transcript);
    assert_eq!(status(&world, &address).await, (Status::Idle, false), "it was let go of");
    // The next turn is as if nothing had been.
    process.engine.say(&address, said("again")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().answer.as_deref(), Some("hello"));
    let story = conversation(&world.state(&address).await);
    assert_eq!(story, ["user: hi", "assistant: hello", "user: again", "assistant: hello"]);
    // Everything about it can be found by the event that asked for it.
    let events = world.events(&address).await;
    let asked = events.iter().find(|event| event.kind.as_str() == "tool.requested").unwrap();
    assert_eq!(asked.id.to_string(), called.call.to_string());
    let about_it = world.journal.children(asked.id, weir_types::Position(0), 10).await.unwrap();
    let kinds: Vec<&str> = about_it.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["tool.decided", "tool.started", "tool.completed"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_gate_refuses_is_refused_and_written_down() {
    let world = world();
    let process = world.start().await;
    let address = begun(&process.engine, "hi").await;
    let bad = Errand { input: Json::parse(r#"{"x":"bad"}"#).unwrap(), ..errand("send", None) };
    let called = process.engine.call(&address, bad, "user:test").await.unwrap();
    let message = "tool 'send' blocked: the arguments are bad".to_owned();
    assert_eq!(called.result, Became::Refused { rule: None, step: None, message });
    let called = call(&process.engine, &address, "nope", None).await;
    assert!(matches!(&called.result, Became::Refused { .. }), "{called:?}");
    assert_eq!(deeds(&world), Vec::<String>::new());
    let kinds = world.kinds(&address).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool.failed").count(), 2);
    assert_eq!(status(&world, &address).await, (Status::Idle, false), "it was let go of");
}

#[tokio::test(start_paused = true)]
async fn a_key_makes_asking_twice_asking_once() {
    let world = world();
    let process = world.start().await;
    let address = begun(&process.engine, "hi").await;
    let first = call(&process.engine, &address, "tick", Some("k1")).await;
    let seen = world.kinds(&address).await.len();
    assert_eq!(call(&process.engine, &address, "tick", Some("k1")).await, first);
    assert_eq!(world.kinds(&address).await.len(), seen, "asking again is not even written down");
    let other = call(&process.engine, &address, "tick", Some("k2")).await;
    assert_ne!(other, first);
    assert_eq!(refusal(&process.engine, &address, errand("send", Some("k1"))).await, "engine::key-reused");
    let arguments = Errand { input: Json::empty_object(), ..errand("tick", Some("k1")) };
    assert_eq!(refusal(&process.engine, &address, arguments).await, "engine::key-reused");
    // Another session's key is another key.
    let elsewhere = begun(&process.engine, "hi").await;
    assert_ne!(call(&process.engine, &elsewhere, "tick", Some("k1")).await.call, first.call);
    // Many at once are one, too.
    let together = (0..20).map(|_| call(&process.engine, &address, "slow", Some("k3")));
    let results = join_all(together).await;
    assert!(results.iter().all(|called| *called == results[0]), "{results:?}");
    assert_eq!(deeds(&world).iter().filter(|deed| *deed == "slow").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_errand_that_needs_a_yes_waits_and_then_runs_once() {
    let world = world();
    let process = world.start_with(Fuse::default(), |options| options.adopt = Adopt::All).await;
    let engine = &process.engine;
    let address = begun(engine, "hi").await;
    let Called { call: id, result: Became::Waits(asked) } = call(engine, &address, "ask", Some("k")).await
    else {
        panic!("it does not ask")
    };
    assert_eq!((asked.len(), asked[0].id, asked[0].tool.as_str()), (1, id, "ask"));
    assert_eq!(engine.approvals(&address).await.unwrap(), asked);
    assert_eq!(status(&world, &address).await, (Status::Waiting, false));
    assert_eq!(call(engine, &address, "ask", Some("k")).await.result, Became::Waits(asked.clone()));
    // A turn in between has nothing to do with it.
    engine.say(&address, said("hi")).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().stop, StopReason::End);
    assert_eq!(deeds(&world), Vec::<String>::new());
    assert!(engine.approve(&address, yes(&asked[0], "user:eve"), Pretence::Allowed).await.is_err());
    engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    world.until(&address, "tool.completed").await;
    assert_eq!(call(engine, &address, "ask", Some("k")).await.result, done(r#"ask {"n":1}"#));
    assert_eq!(deeds(&world), ["ask"]);
    let Became::Waits(asked) = call(engine, &address, "ask", Some("k2")).await.result else { panic!() };
    engine.deny(&address, no(&asked[0], "user:boss", "not today")).await.unwrap();
    world.until(&address, "tool.failed").await;
    let refused = call(engine, &address, "ask", Some("k2")).await.result;
    let Became::Refused { message, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(message, "tool 'ask' blocked: user:boss said no: not today");
    assert_eq!(deeds(&world), ["ask"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_yes_for_ever() {
    let world = world();
    let process = world.start_with(Fuse::default(), |options| options.adopt = Adopt::All).await;
    let address = begun(&process.engine, "hi").await;
    let called = call(&process.engine, &address, "hurry", Some("k")).await;
    assert!(matches!(called.result, Became::Waits(_)), "{called:?}");
    // The time of the journal is real.
    std::thread::sleep(Duration::from_millis(5));
    world.until(&address, "approval.expired").await;
    world.until(&address, "tool.failed").await;
    let called = call(&process.engine, &address, "hurry", Some("k")).await;
    assert!(matches!(called.result, Became::Refused { .. }), "{called:?}");
    assert_eq!(status(&world, &address).await, (Status::Idle, false));
}

#[tokio::test(start_paused = true)]
async fn errands_run_beside_a_turn_and_outlast_it() {
    let world = world();
    let process = world.start().await;
    let engine = &process.engine;
    let address = begun(engine, "hi").await;
    engine.say(&address, said("slow")).await.unwrap();
    world.until(&address, "tool.started").await;
    let beside = call(engine, &address, "look", None).await;
    assert_eq!(beside.result, done(r#"look {"n":1}"#));
    let longer = call(engine, &address, "slow", None).await;
    assert!(matches!(longer.result, Became::Done { .. }), "{longer:?}");
    assert_eq!(engine.settle(&address).await.unwrap().answer.as_deref(), Some("done"));
    let story = conversation(&world.state(&address).await);
    assert_eq!(story[2..], ["user: slow", "assistant: One moment.", "slow: None slow {}", "assistant: done"]);
    assert_eq!(status(&world, &address).await, (Status::Idle, false));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_people_lets_errands_pass() {
    let world = world();
    let process = world.start().await;
    let engine = &process.engine;
    let address = begun(engine, "ask").await;
    assert_eq!(status(&world, &address).await.0, Status::Waiting);
    assert_eq!(call(engine, &address, "look", None).await.result, done(r#"look {"n":1}"#));
    assert_eq!(status(&world, &address).await, (Status::Waiting, false));
    let bad = Errand { input: Json::parse(r#"{"x":"bad"}"#).unwrap(), ..errand("send", None) };
    engine.call(&address, bad, "user:test").await.unwrap();
    assert_eq!(status(&world, &address).await, (Status::Waiting, false));
    let asked = engine.approvals(&address).await.unwrap();
    engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().answer.as_deref(), Some("asked"));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_halted_or_closed_takes_none_and_drops_those_it_has() {
    let world = world();
    let process = world.start_with(Fuse::default(), |options| options.adopt = Adopt::All).await;
    let engine = &process.engine;
    assert_eq!(refusal(engine, &engine.new_address(), errand("look", None)).await, "engine::no-session");
    let address = begun(engine, "hi").await;
    let under_way = call(engine, &address, "slow", None);
    let waiting = call(engine, &address, "ask", Some("k")).await;
    assert!(matches!(waiting.result, Became::Waits(_)));
    let halt = async {
        world.until(&address, "tool.started").await;
        engine.halt(&address, "enough", "user:test").await.unwrap();
    };
    let (cut_off, ()) = tokio::join!(under_way, halt);
    let Became::Failed { outcome, .. } = cut_off.result else { panic!("{cut_off:?}") };
    assert_eq!(outcome, Outcome::Unknown);
    assert_eq!(refusal(engine, &address, errand("look", None)).await, "engine::halted");
    assert_eq!(status(&world, &address).await, (Status::Halted, false));
    let dropped = call(engine, &address, "ask", Some("k")).await;
    assert!(matches!(dropped.result, Became::Failed { outcome: Outcome::Interrupted, .. }), "{dropped:?}");
    engine.close(&address, "done", "user:test").await.unwrap();
    assert_eq!(refusal(engine, &address, errand("look", None)).await, "engine::closed");
    assert_eq!(deeds(&world), ["slow"]);
}

#[tokio::test(start_paused = true)]
async fn there_are_only_so_many_at_once() {
    let world = world();
    let process = world.start().await;
    let address = begun(&process.engine, "hi").await;
    for n in 0..weir_kernel::ERRANDS_MAX {
        call(&process.engine, &address, "ask", Some(&n.to_string())).await;
    }
    assert_eq!(refusal(&process.engine, &address, errand("look", None)).await, "engine::too-many-calls");
    assert!(matches!(call(&process.engine, &address, "ask", Some("7")).await.result, Became::Waits(_)));
}

/// Plays some errands, restarting after each crash.
async fn play(world: &World, fuse: Fuse) -> u64 {
    let address = Address::main(weir_types::SessionId::from_u128(7));
    let mut process = world.start_with(fuse, |_| {}).await;
    let mut first = None;
    loop {
        let play = async {
            let engine = &process.engine;
            if world.journal.head(&address.branch_id()).await.unwrap().is_none() {
                engine.begin(&address, new("helper"), said("hi")).await.unwrap();
            }
            engine.settle(&address).await.unwrap();
            for tool in ["look", "send", "put"] {
                let called = call(engine, &address, tool, Some(tool)).await.result;
                let unknown =
                    |became: &Became| matches!(became, Became::Failed { outcome: Outcome::Unknown, .. });
                let is_done = called == done(&format!(r#"{tool} {{"n":1}}"#));
                assert!(is_done || (tool == "send" && unknown(&called)), "{called:?}");
            }
        };
        let over = tokio::select! {
            () = play => true,
            () = process.fuse.blown() => false,
        };
        first.get_or_insert_with(|| process.fuse.appends());
        if over {
            break;
        }
        process.die();
        process = world.start().await;
    }
    let session = world.state(&address).await;
    assert_eq!((session.errands.len(), conversation(&session).len()), (0, 2));
    let ran = |tool: &str| deeds(world).iter().filter(|deed| *deed == tool).count();
    assert!(ran("send") <= 1, "a write is never repeated");
    assert_eq!(status(world, &address).await, (Status::Idle, false));
    let asked = world.events(&address).await;
    let asked = asked.iter().filter(|event| event.kind.as_str() == "tool.requested").count();
    assert_eq!(asked, 3, "each is asked for once");
    first.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn stopped_at_every_append_nothing_is_lost_or_repeated() {
    let appends = play(&world(), Fuse::default()).await;
    assert!(appends > 10);
    for n in 1..=appends {
        for side in [Side::Before, Side::After] {
            play(&world(), Fuse::at(n, side)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_runs_the_session_does_its_errands() {
    let world = world();
    let (one, other) = (world.start().await, world.start().await);
    let address = begun(&one.engine, "hi").await;
    one.engine.say(&address, said("slow")).await.unwrap();
    world.until(&address, "tool.started").await;
    // The session belongs to the first process, and the second is asked.
    let called = call(&other.engine, &address, "look", Some("k")).await;
    assert_eq!(called.result, done(r#"look {"n":1}"#));
    assert_eq!(one.engine.settle(&address).await.unwrap().answer.as_deref(), Some("done"));
}

/// Each file that a call changes is an event of it: more of them than a page has stand before its result.
#[tokio::test(start_paused = true)]
async fn a_result_is_found_behind_any_number_of_events_of_its_call() {
    let world = world();
    let process = world.start().await;
    let address = begun(&process.engine, "hi").await;
    let crowd = async {
        let started = world.until(&address, "tool.started").await;
        let about = About { causation: started.meta.causation(), ..About::default() }.encode().unwrap();
        let event = || {
            let payload = br#"{"path":"f"}"#.to_vec();
            NewEvent::new("note.added".parse().unwrap(), payload).with_meta(about.clone())
        };
        for _ in 0..11 {
            let part =
                Part::new(BranchId::main("notes".parse().unwrap()), (0..100).map(|_| event()).collect());
            world.journal.append(vec![part]).await.unwrap();
        }
    };
    let (called, ()) = tokio::join!(call(&process.engine, &address, "slow", None), crowd);
    assert_eq!(called.result, done(r#"slow {"n":1}"#));
}

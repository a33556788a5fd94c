//! Agents that call agents: linked, bounded, paid for, and behind the same gate.

use weir_engine::{Address, StopReason};
use weir_events::{Allowance, Body, Share};
use weir_tools::{Builtin, DEPTH_MAX};
use weir_types::{SessionId, Usage};

use crate::kit::*;

async fn bodies(world: &World, address: &Address) -> Vec<Body> {
    let events = world.events(address).await;
    events.iter().filter_map(|event| Body::decode(&event.kind, &event.payload).unwrap()).collect()
}

async fn child_of(world: &World, address: &Address) -> Option<SessionId> {
    let started = |body: Body| match body {
        Body::ToolStarted(started) => started.child,
        _ => None,
    };
    bodies(world, address).await.into_iter().find_map(started)
}

fn used(input_tokens: u64) -> Option<Usage> {
    Some(Usage { input_tokens, output_tokens: 10, ..Usage::default() })
}

#[tokio::test(start_paused = true)]
async fn parent_and_child_are_linked_and_the_parent_pays() {
    let world = World::new();
    let mut ask = calling(on_user("go", ""), &[("clerk", r#"{"message":"count"}"#)]);
    ask.usage = used(100);
    let mut end = on_tool("clerk", "done");
    end.usage = used(100);
    world.equip("boss", vec![ask, end], vec![callee("clerk")], |agent, _| {
        agent.limits.tokens = Some(100_000);
    });
    let mut counted = on_user("count", "seven");
    counted.usage = used(1_000);
    world.equip("clerk", vec![counted], vec![], |_, _| {});
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("boss"), said("go")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("done")));
    assert_eq!(outcome.usage.input_tokens, 1_200);

    let child = child_of(&world, &address).await.unwrap();
    let created = world.state(&Address::main(child)).await.created.unwrap();
    let parent = created.parent.unwrap();
    assert_eq!((parent.session, parent.depth, created.principal.as_str()), (address.session, 1, "user:test"));
    // They draw from one purse.
    let limit = Allowance { tokens: Some(100_000), ..Allowance::default() };
    let scope = format!("run:{}", outcome.run.unwrap());
    assert_eq!(parent.purses, [Share { scope, limit }]);
    let billed = bodies(&world, &address).await.into_iter().find_map(|body| match body {
        Body::ToolCompleted(done) => done.bill,
        _ => None,
    });
    assert_eq!(billed.map(|bill| (bill.usage.input_tokens, bill.model_calls)), Some((1_000, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_child_cannot_use_more_than_its_parent_has_left() {
    let world = World::new();
    let two = [("clerk", r#"{"message":"a"}"#), ("clerk", r#"{"message":"b"}"#)];
    let ask = calling(on_user("go", ""), &two);
    world.equip("boss", vec![ask, on_tool("clerk", "done")], vec![callee("clerk")], |agent, _| {
        agent.limits.model_calls = Some(7);
    });
    // It never stops asking for the time.
    let again = calling(on_tool("get_time", ""), &[("get_time", "{}")]);
    let first = calling(on_user(".", ""), &[("get_time", "{}")]);
    world.equip("clerk", vec![first, again], vec![builtin(Builtin::GetTime)], |_, _| {});
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("boss"), said("go")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    // One call was made, six were left for both children, and none for an answer after that.
    assert_eq!(outcome.stop, StopReason::Budget, "{outcome:?}");
    let state = world.state(&address).await;
    assert_eq!(state.totals.model_calls, 7);
    let failed: Vec<_> = conversation(&state).into_iter().filter(|line| line.contains("paused")).collect();
    assert_eq!(failed.len(), 2, "{:?}", conversation(&state));
    // Which session lacks how much is said where somebody reads it: its own, not the caller's.
    for call in state.all_calls() {
        let resume = format!("`weir session resume {} --budget model_calls=", call.child.unwrap());
        assert!(failed.iter().any(|line| line.contains(&resume)), "{resume}: {failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn agents_that_call_agents_come_to_an_end() {
    let world = World::new();
    // Each one calls itself, which no build allows; and tells what came of it.
    let deeper = calling(on_user(".", ""), &[("echo", r#"{"message":"deeper"}"#)]);
    world.equip("echo", vec![deeper, on_tool("echo", "{{result}}")], vec![callee("echo")], |_, _| {});
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("echo"), said("go")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    let answer = outcome.answer.unwrap();
    assert!(answer.contains("budget: `echo` would be 9 agents deep"), "{answer}");
    let mut depth = 0;
    let mut next = Some(address);
    while let Some(address) = next {
        next = child_of(&world, &address).await.map(Address::main);
        depth += u32::from(next.is_some());
    }
    assert_eq!(depth, DEPTH_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_callee_lets_in_whom_its_list_names() {
    let world = World::new();
    let ask = || calling(on_user("go", ""), &[("clerk", r#"{"message":"count"}"#)]);
    let acl = |names: &[(&str, &str)]| gate(names, &[]);
    let replies = || vec![ask(), on_tool("clerk", "{{result}}")];
    let boss = ("boss", "user:test");
    world.equip("boss", replies(), vec![callee("clerk")], |_, setup| setup.gate = acl(&[boss]));
    world.equip("clerk", vec![on_user("count", "seven")], vec![], |_, _| {});
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("boss"), said("go")).await.unwrap();
    let answer = process.engine.settle(&address).await.unwrap().answer.unwrap();
    assert_eq!(
        answer,
        "tool 'clerk' blocked: grant: `user:test` may not talk to agent `clerk`; an `acl` entry with role `execute` in \
         agents/clerk/spec.yaml would allow it"
    );
    assert_eq!(child_of(&world, &address).await, None);

    world.equip("boss", replies(), vec![callee("clerk")], |_, setup| {
        setup.gate = acl(&[boss, ("clerk", "user:test")]);
    });
    process.engine.say(&address, said("go")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().answer.as_deref(), Some("seven"));

    // And nobody begins a session whom the agent's own list does not name.
    let refused = process
        .engine
        .begin(
            &process.engine.new_address(),
            weir_engine::New { principal: "user:eve".into(), ..new("boss") },
            said("go"),
        )
        .await;
    assert!(matches!(refused, Err(weir_engine::EngineError::Denied(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_child() {
    let world = World::new();
    let ask = calling(on_user("go", ""), &[("clerk", r#"{"message":"wait"}"#)]);
    world.equip("boss", vec![ask], vec![callee("clerk")], |_, _| {});
    world.agent("clerk", vec![calling(on_user("wait", ""), &[("slow", "{}")])], &["slow"]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("boss"), said("go")).await.unwrap();
    world.until(&address, "tool.started").await;
    let child = Address::main(child_of(&world, &address).await.unwrap());
    world.until(&child, "tool.started").await;
    process.engine.cancel(&address, "user:test").await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Cancelled);
    world.until(&child, "run.cancelled").await;
    let done = world.deeds.lock().unwrap().iter().map(|deed| deed.tool.clone()).collect::<Vec<_>>();
    assert_eq!(done, ["slow"]);
}

//! A yes says whether it is to a live write or to a dry run. Whichever process runs the call compares: what would happen otherwise is
//! asked again, and no approval is used up by something else than what was approved.

use weir_engine::{Address, Pretence, StopReason};
use weir_events::{ApprovalGranted, Body, RunsAs, Scope, ToolDecided};
use weir_types::{Saw, SessionId, Verdict};

use crate::approving::{append, asking, careful, yes};
use crate::kit::*;

/// Whether calls of `ask` only pretend from now on, in whichever process.
fn pretend(world: &World, pretends: bool) {
    let mut pretending = world.agents.2.pretending.lock().unwrap();
    match pretends {
        true => pretending.insert("ask".to_owned()),
        false => pretending.remove("ask"),
    };
}

async fn bodies(world: &World, address: &Address) -> Vec<Body> {
    let events = world.events(address).await;
    events.iter().filter_map(|event| Body::decode(&event.kind, &event.payload).unwrap()).collect()
}

/// Which of the calls that answered were dry runs.
async fn stubs(world: &World, address: &Address) -> Vec<bool> {
    let bodies = bodies(world, address).await;
    let stub = |body: &Body| match body {
        Body::ToolCompleted(done) => Some(done.stub),
        _ => None,
    };
    bodies.iter().filter_map(stub).collect()
}

async fn granted(world: &World, address: &Address) -> Vec<Option<RunsAs>> {
    let bodies = bodies(world, address).await;
    let runs = |body: &Body| match body {
        Body::ApprovalGranted(granted) => Some(granted.runs),
        _ => None,
    };
    bodies.iter().filter_map(runs).collect()
}

/// Stops a process at an append of a story with one approval; another goes on, in which the call would do the other thing. Whether
/// that one had to ask again.
async fn stopped_at(append: u64, side: Side, is_dry: bool) -> bool {
    let context = format!("{side:?} append {append}, dry: {is_dry}");
    let world = careful();
    pretend(&world, is_dry);
    let address = Address::main(SessionId::from_u128(7));
    let wanted = if is_dry { Pretence::Wanted } else { Pretence::Refused };
    let process = world.start_with(Fuse::at(append, side), |_| {}).await;
    let story = async {
        process.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
        let question = process.engine.settle(&address).await.unwrap().approvals.remove(0);
        process.engine.approve(&address, yes(&question, "user:boss"), wanted).await.unwrap();
        process.engine.settle(&address).await.unwrap();
    };
    tokio::select! {
        () = story => {}
        () = process.fuse.blown() => {}
    }
    process.die();
    if world.journal.head(&address.branch_id()).await.unwrap().is_none() {
        return false;
    }
    let was_granted = !granted(&world, &address).await.is_empty();
    let has_begun = world.kinds(&address).await.iter().any(|kind| kind == "tool.started");

    pretend(&world, !is_dry);
    let other = world.start().await;
    let outcome = other.engine.settle(&address).await.unwrap();
    if outcome.stop != StopReason::Approval {
        assert!(has_begun, "{context}: {outcome:?}");
        assert!(stubs(&world, &address).await.iter().all(|stub| *stub == is_dry), "{context}");
        return false;
    }
    assert!(!has_begun, "{context}");
    assert!(stubs(&world, &address).await.is_empty(), "{context}");
    let question = &outcome.approvals[0];
    assert_eq!(question.why.contains("was approved, and here it would"), was_granted, "{}", question.why);
    let wanted = if is_dry { Pretence::Refused } else { Pretence::Wanted };
    other.engine.approve(&address, yes(question, "user:boss"), wanted).await.unwrap();
    assert_eq!(other.engine.settle(&address).await.unwrap().stop, StopReason::End, "{context}");
    assert_eq!(stubs(&world, &address).await, [!is_dry], "{context}");
    was_granted
}

#[tokio::test(start_paused = true)]
async fn stopped_at_every_append_no_yes_is_used_up_by_something_else() {
    for is_dry in [false, true] {
        let mut asked_again = 0;
        for append in 1..=12 {
            for side in [Side::Before, Side::After] {
                asked_again += u32::from(stopped_at(append, side, is_dry).await);
            }
        }
        assert!(asked_again > 0, "nobody was ever stopped between the yes and the start");
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_from_before_that_was_recorded_counts_for_either() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    process.die();
    append(&world, &address, yes(&asked[0], "user:boss"), "user:boss").await;
    pretend(&world, true);
    let other = world.start().await;
    assert_eq!(other.engine.settle(&address).await.unwrap().stop, StopReason::End);
    assert_eq!((granted(&world, &address).await, stubs(&world, &address).await), (vec![None], vec![true]));
}

/// A process may stop between allowing a call and starting it. What it allowed was by its own flags.
#[tokio::test(start_paused = true)]
async fn a_call_that_another_process_allowed_is_decided_again_before_it_starts() {
    for is_dry in [false, true] {
        let world = careful();
        let process = world.start().await;
        let (address, asked) = asking(&process.engine, "careful", "do it").await;
        process.die();
        let runs = Some(if is_dry { RunsAs::DryRun } else { RunsAs::Live });
        let granted = ApprovalGranted { runs, ..yes(&asked[0], "user:boss") };
        append(&world, &address, granted, "user:boss").await;
        let allowed = ToolDecided {
            call: asked[0].id,
            outcome: Verdict::Allow,
            rule: Some("ask-first".to_owned()),
            step: None,
            because: "`user:boss` approved it".to_owned(),
            stub: is_dry,
            saw: Some(Saw::default()),
        };
        append(&world, &address, allowed, "user:test").await;
        pretend(&world, !is_dry);
        let other = world.start().await;
        let outcome = other.engine.settle(&address).await.unwrap();
        assert_eq!(outcome.stop, StopReason::Approval, "{outcome:?}");
        pretend(&world, is_dry);
        let wanted = if is_dry { Pretence::Wanted } else { Pretence::Refused };
        other.engine.approve(&address, yes(&outcome.approvals[0], "user:boss"), wanted).await.unwrap();
        other.engine.settle(&address).await.unwrap();
        assert_eq!(stubs(&world, &address).await, [is_dry]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_for_the_session_covers_only_what_was_approved() {
    for is_dry in [false, true] {
        let world = careful();
        let process = world.start().await;
        pretend(&world, is_dry);
        let (address, asked) = asking(&process.engine, "careful", "do it").await;
        let for_all = ApprovalGranted { scope: Scope::Session, ..yes(&asked[0], "user:boss") };
        let wanted = if is_dry { Pretence::Wanted } else { Pretence::Refused };
        process.engine.approve(&address, for_all, wanted).await.unwrap();
        process.engine.settle(&address).await.unwrap();
        process.engine.say(&address, said("do it again")).await.unwrap();
        assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::End, "it is covered");
        pretend(&world, !is_dry);
        process.engine.say(&address, said("do it")).await.unwrap();
        assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Approval, "it is not");
        assert_eq!(stubs(&world, &address).await, [is_dry, is_dry]);
    }
}

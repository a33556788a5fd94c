//! Approvals that are not waited for for ever: they expire on time, whoever is there; and others may decide meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_engine::{Address, Adopt, Pretence, StopReason};
use weir_journal::{Attrs, NewEvent, Part, Status};
use weir_types::{Escalate, Explain, SessionId, Timestamp};

use crate::approving::yes;
use crate::kit::*;

const HOUR: u64 = 3_600_000;

/// Longer than anything takes, by the clock of a test.
const A_WHILE: std::time::Duration = std::time::Duration::from_secs(30);

/// An agent that asks before it acts, for an hour; after half of it the night shift may decide, too.
fn world() -> World {
    let world = World::new();
    let replies = vec![calling(on_user("^do", ""), &[("ask", "{}")]), on_tool("ask", "so: {{result}}")];
    world.agent_with("clerk", replies, &["ask"], |agent| {
        agent.tools[0].approval.within_ms = Some(HOUR);
        agent.tools[0].approval.escalate =
            Some(Escalate { to: "group:night".to_owned(), after_ms: HOUR / 2 });
    });
    world
}

fn later(millis: u64) -> Timestamp {
    weir_journal::now().after_millis(millis)
}

fn in_time() -> Timestamp {
    later(0)
}

fn at_night() -> Timestamp {
    later(HOUR * 3 / 4)
}

fn too_late() -> Timestamp {
    later(2 * HOUR)
}

async fn at(world: &World, clock: fn() -> Timestamp, adopt: Adopt) -> Process {
    world.start_with(Fuse::default(), |options| (options.clock, options.adopt) = (clock, adopt)).await
}

async fn asked(world: &World) -> Address {
    let process = at(world, in_time, Adopt::Asked).await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("clerk"), said("do it")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Approval);
    let left = outcome.approvals[0].expires.unwrap().as_micros() - weir_journal::now().as_micros();
    assert!((3_500_000_000..=3_600_000_000).contains(&left), "{left}");
    process.die();
    address
}

async fn count(world: &World, address: &Address, kind: &str) -> usize {
    world.kinds(address).await.iter().filter(|known| *known == kind).count()
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_next_brings_an_expiry_about() {
    let world = world();
    let address = asked(&world).await;
    let question =
        at(&world, in_time, Adopt::Asked).await.engine.approvals(&address).await.unwrap().remove(0);
    // To open is enough: nobody has to run the session.
    let late = at(&world, too_late, Adopt::Asked).await;
    assert_eq!(count(&world, &address, "approval.expired").await, 1);
    assert_eq!(late.engine.all_approvals(None, None, 10).await.unwrap().approvals, []);
    // Nobody can approve it any more, whatever their clock says.
    for clock in [too_late as fn() -> Timestamp, in_time] {
        let process = at(&world, clock, Adopt::Asked).await;
        let refused = process.engine.approve(&address, yes(&question, "user:boss"), Pretence::Allowed).await;
        assert_eq!(refused.unwrap_err().code(), "engine::approval-decided");
    }
    assert_eq!(count(&world, &address, "approval.expired").await, 1);
    let outcome = late.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::End);
    assert!(outcome.answer.unwrap().contains("nobody approved it in time"), "the model is told");
    assert_eq!(*world.deeds.lock().unwrap(), []);
}

/// A journal on a medium that is only read, or a command that runs while the time comes: the list is true all the same.
#[tokio::test(start_paused = true)]
async fn what_nobody_can_approve_any_more_is_in_no_list() {
    let world = world();
    static AHEAD: AtomicU64 = AtomicU64::new(0);
    let clock = || later(AHEAD.load(Ordering::SeqCst));
    let address = asked(&world).await;
    let process = at(&world, clock, Adopt::Asked).await;
    let listed = async || process.engine.all_approvals(None, None, 10).await.unwrap().approvals.len();
    assert_eq!(listed().await, 1);
    AHEAD.store(2 * HOUR, Ordering::SeqCst);
    assert_eq!(listed().await, 0);
    assert_eq!(count(&world, &address, "approval.expired").await, 0, "nothing is written down by looking");
}

#[tokio::test(start_paused = true)]
async fn a_server_notices_by_itself_that_an_approval_expired() {
    let world = world();
    static AHEAD: AtomicU64 = AtomicU64::new(0);
    let clock = || later(AHEAD.load(Ordering::SeqCst));
    let address = asked(&world).await;
    let server = at(&world, clock, Adopt::All).await;
    let question = server.engine.approvals(&address).await.unwrap().remove(0);
    AHEAD.store(2 * HOUR, Ordering::SeqCst);
    world.until(&address, "run.finished").await;
    assert_eq!(count(&world, &address, "approval.expired").await, 1);
    let refused = server.engine.approve(&address, yes(&question, "user:boss"), Pretence::Allowed).await;
    assert_eq!(refused.unwrap_err().code(), "engine::approval-decided");
    assert_eq!(*world.deeds.lock().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_approval_expires_once_whatever_crashes() {
    for adopt in [Adopt::Asked, Adopt::All] {
        let mut crash = 1;
        loop {
            let mut crashed = 0;
            for side in [Side::Before, Side::After] {
                let world = world();
                let address = asked(&world).await;
                let process = world.start_with(Fuse::at(crash, side), |options| {
                    (options.clock, options.adopt) = (too_late, adopt);
                });
                // It may end while it opens.
                match tokio::time::timeout(A_WHILE, process).await {
                    Ok(process) => {
                        let settled = tokio::time::timeout(A_WHILE, process.engine.settle(&address)).await;
                        crashed += u32::from(settled.is_err());
                        process.die();
                    }
                    Err(_) => crashed += 1,
                }
                let next = at(&world, too_late, adopt).await;
                if adopt == Adopt::Asked {
                    next.engine.settle(&address).await.unwrap();
                }
                world.until(&address, "run.finished").await;
                let context = format!("{adopt:?}: crash {side:?} append {crash}");
                assert_eq!(count(&world, &address, "approval.expired").await, 1, "{context}");
                assert_eq!(count(&world, &address, "tool.failed").await, 1, "{context}");
                assert_eq!(*world.deeds.lock().unwrap(), [], "{context}");
            }
            if crashed == 0 {
                break;
            }
            crash += 1;
            assert!(crash < 20, "it goes on and on");
        }
        assert!(crash > 2, "{crash}: nothing was interrupted");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_while_another_group_may_decide_too() {
    let world = world();
    let address = asked(&world).await;
    let early = at(&world, in_time, Adopt::Asked).await;
    let question = early.engine.approvals(&address).await.unwrap().remove(0);
    let eves = || yes(&question, "user:eve");
    let refused = early.engine.approve(&address, eves(), Pretence::Allowed).await.unwrap_err();
    assert_eq!(refused.code(), "engine::denied");
    assert!(!early.engine.may_decide(&question, "user:eve").await.unwrap());
    let night = at(&world, at_night, Adopt::Asked).await;
    assert!(night.engine.may_decide(&question, "user:eve").await.unwrap());
    assert!(!night.engine.may_decide(&question, "user:mallory").await.unwrap(), "not of that group");
}

#[tokio::test(start_paused = true)]
async fn what_another_group_approved_runs() {
    let world = world();
    let replies = vec![calling(on_user("^do", ""), &[("ask", "{}")]), on_tool("ask", "so: {{result}}")];
    world.agent_with("hasty", replies, &["ask"], |agent| {
        agent.tools[0].approval.escalate = Some(Escalate { to: "group:night".to_owned(), after_ms: 0 });
    });
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("hasty"), said("do it")).await.unwrap();
    let question = process.engine.settle(&address).await.unwrap().approvals.remove(0);
    process.engine.approve(&address, yes(&question, "user:eve"), Pretence::Allowed).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("so: ask {}"));
    // Her yes is for this call: for later ones the half hour begins anew, and someone with the role decides.
    assert_eq!(world.deeds.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_uses_an_approval_up_for_nothing() {
    let world = world();
    let address = asked(&world).await;
    world.agents.2.pretending.lock().unwrap().insert("ask".to_owned());
    let process = at(&world, in_time, Adopt::Asked).await;
    let question = process.engine.approvals(&address).await.unwrap().remove(0);
    let approve =
        async |pretence| process.engine.approve(&address, yes(&question, "user:boss"), pretence).await;
    assert_eq!(approve(Pretence::Refused).await.unwrap_err().code(), "engine::would-pretend");
    assert_eq!(process.engine.approvals(&address).await.unwrap().len(), 1, "it still waits");
    world.agents.2.pretending.lock().unwrap().clear();
    assert_eq!(approve(Pretence::Wanted).await.unwrap_err().code(), "engine::would-happen");
    assert_eq!(process.engine.approvals(&address).await.unwrap().len(), 1, "it still waits");
    world.agents.2.pretending.lock().unwrap().insert("ask".to_owned());
    approve(Pretence::Wanted).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    assert_eq!(count(&world, &address, "approval.granted").await, 1);
}

/// A server goes through all that is due, however many sessions stay due because they cannot be run.
#[tokio::test(start_paused = true)]
async fn an_expiry_is_noticed_behind_a_page_of_sessions_that_cannot_be_run() {
    let world = world();
    static AHEAD: AtomicU64 = AtomicU64::new(0);
    let clock = || later(AHEAD.load(Ordering::SeqCst));
    for n in 1..=weir_journal::PAGE_MAX as u128 {
        let event = NewEvent::new("note.added".parse().unwrap(), b"{}".to_vec());
        let attrs = Attrs { due: Some(Timestamp::default()), ..Attrs::new(Status::Waiting) };
        let branch = Address::main(SessionId::from_u128(n)).branch_id();
        let part = Part { attrs: Some(attrs), ..Part::new(branch, vec![event]) };
        world.journal.append(vec![part]).await.unwrap();
    }
    let address = asked(&world).await;
    let _server = at(&world, clock, Adopt::All).await;
    AHEAD.store(2 * HOUR, Ordering::SeqCst);
    world.until(&address, "run.finished").await;
    assert_eq!(count(&world, &address, "approval.expired").await, 1);
}

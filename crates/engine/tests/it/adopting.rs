//! What a server takes up by itself: a bounded number at once, and all of it in the end.

use std::time::Duration;

use weir_engine::{Address, Adopt, Approval, Engine, Pretence, StopReason};
use weir_journal::{ListFilter, Status};

use crate::approving::yes;
use crate::kit::*;
use weir_models::scripted::Reply;

const SESSIONS: usize = 60;
const AT_ONCE: usize = 4;

/// Sessions that wait for approvals, begun by a process that is gone.
async fn waiting(world: &World, calls: &[(&str, &str)]) -> Vec<(Address, Vec<Approval>)> {
    // What comes after takes longer than a decision.
    let after = Reply { delay: Some(Duration::from_millis(20)), ..on_tool("ask", "done") };
    world.agent("careful", vec![calling(on_user("^do", "May I?"), calls), after], &["ask"]);
    let process = world.start().await;
    let mut found = Vec::new();
    for _ in 0..SESSIONS {
        let address = process.engine.new_address();
        process.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
        let outcome = process.engine.settle(&address).await.unwrap();
        assert_eq!(outcome.stop, StopReason::Approval);
        found.push((address, outcome.approvals));
    }
    process.die();
    found
}

/// Waits until nothing is left to do, in real time, and says how many sessions were in memory at most.
async fn most_at_once(world: &World, server: &Engine) -> usize {
    let mut most = 0;
    let watch = async {
        for look in 0_u64.. {
            most = most.max(server.active());
            if look % 100 == 0 && is_done(world).await {
                break;
            }
            match look % 10 {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, watch).await.expect("every session is taken up in the end");
    most
}

async fn is_done(world: &World) -> bool {
    let mut left = 0;
    for status in [Status::Running, Status::Waiting] {
        let filter = ListFilter { status: Some(status), ..ListFilter::default() };
        left += world.journal.list(filter, None, 1).await.unwrap().len();
    }
    left == 0
}

#[tokio::test]
async fn no_more_than_so_many_are_taken_up_at_once_and_none_is_forgotten() {
    let world = World::new();
    let asked = waiting(&world, &[("ask", "{}")]).await;
    let server = world
        .start_with(Fuse::default(), |options| (options.adopt, options.adopt_max) = (Adopt::All, AT_ONCE))
        .await;
    let other = world.start().await;
    for (address, approvals) in &asked {
        other.engine.approve(address, yes(&approvals[0], "user:boss"), Pretence::Allowed).await.unwrap();
    }
    let most = most_at_once(&world, &server.engine).await;
    assert!((1..=AT_ONCE).contains(&most), "{most} sessions were in memory at once");
    assert_eq!(world.deeds.lock().unwrap().len(), SESSIONS);
}

#[tokio::test]
async fn what_a_crash_left_is_taken_up_in_turn() {
    let world = World::new();
    let asked = waiting(&world, &[("ask", "{}")]).await;
    let other = world.start().await;
    for (address, approvals) in &asked {
        other.engine.approve(address, yes(&approvals[0], "user:boss"), Pretence::Allowed).await.unwrap();
    }
    other.die();
    let server = world
        .start_with(Fuse::default(), |options| (options.adopt, options.adopt_max) = (Adopt::All, AT_ONCE))
        .await;
    let most = most_at_once(&world, &server.engine).await;
    assert!((1..=AT_ONCE).contains(&most), "{most} sessions were in memory at once");
    assert_eq!(world.deeds.lock().unwrap().len(), SESSIONS);
}

/// Sessions leave as soon as they rest. Whoever speaks to one in that moment is heard.
#[tokio::test]
async fn a_session_that_is_spoken_to_when_it_leaves_hears_it() {
    let world = World::new();
    let calls: Vec<String> = (0..4).map(|n| format!("{{\"n\":{n}}}")).collect();
    let calls: Vec<(&str, &str)> = calls.iter().map(|input| ("ask", input.as_str())).collect();
    let asked = waiting(&world, &calls).await;
    let server = world
        .start_with(Fuse::default(), |options| (options.adopt, options.adopt_max) = (Adopt::All, AT_ONCE))
        .await;
    let other = world.start().await;
    // At all kinds of moments after the one before.
    let decide = |(index, (address, approvals)): (usize, &(Address, Vec<Approval>))| {
        let (engine, address, approvals) = (other.engine.clone(), address.clone(), approvals.clone());
        async move {
            for approval in &approvals {
                engine.approve(&address, yes(approval, "user:boss"), Pretence::Allowed).await.unwrap();
                for _ in 0..index * 3 {
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    futures_util::future::join_all(asked.iter().enumerate().map(decide)).await;
    most_at_once(&world, &server.engine).await;
    assert_eq!(world.deeds.lock().unwrap().len(), SESSIONS * calls.len());
}

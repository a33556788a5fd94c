//! Recorded decisions made again: with the arguments, the approvals and the depth that they were made with.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use weir_engine::{Counts, Pretence, Redecided, Redecisions, Tools, Which};
use weir_events::{ApprovalGranted, Scope};
use weir_tools::{Asked, Decision, Done, NoResult, Permit};
use weir_types::{Json, Verdict, Who};

use crate::approving::yes;
use crate::kit::*;

/// Lets calls of `ask` happen whose arguments the boss has approved; those arguments are `{"n":3}`, or all, if it is lax.
struct Judge {
    boss_may: bool,
    lax: bool,
    lets_in: bool,
}

const JUDGE: Judge = Judge { boss_may: true, lax: false, lets_in: true };

impl Tools for Judge {
    fn admit(&self, _: Who<'_>, _: &str) -> Decision {
        if self.lets_in { Decision::allow("so") } else { Decision::deny("not you") }
    }

    fn may_approve(&self, by: Who<'_>, _: &str, _: &str) -> Decision {
        let by = by.principal;
        if self.boss_may && by == "user:boss" { Decision::allow("so") } else { Decision::deny("no") }
    }

    fn authorize(&self, asked: &Asked<'_>) -> Decision {
        assert_eq!((asked.principal, asked.agent, asked.depth), ("user:test", "careful", 0));
        match (asked.tool, asked.approved_by, asked.input.as_str()) {
            _ if self.lax => Decision::allow("whatever"),
            ("ask", Some("user:boss"), r#"{"n":3}"#) => Decision::allow("so"),
            _ => Decision::ask("ask-first", "it needs a yes"),
        }
    }

    fn execute(&self, _: Permit) -> BoxFuture<'static, Result<Done, NoResult>> {
        unreachable!("nothing happens again")
    }
}

async fn again(world: &World, judge: Option<Judge>, remembered_max: usize) -> (Vec<Redecided>, Counts) {
    let judge = judge.map(|judge| Arc::new(judge) as Arc<dyn Tools>);
    let tools = Box::new(move |agent: &str| judge.clone().filter(|_| agent == "careful"));
    let mut again = Redecisions::new(&*world.journal, Which::default(), tools);
    again.remembered_max = remembered_max;
    let mut changes = Vec::new();
    while let Some(page) = again.next_page().await.unwrap() {
        changes.extend(page);
    }
    (changes, again.counts)
}

/// A session in which two calls were asked about and approved with other arguments, one of them for the session, and a third that
/// was covered by that.
async fn recorded() -> World {
    let world = World::new();
    let two = [("ask", r#"{"n":1}"#), ("ask", r#"{"n":2}"#)];
    let ask = calling(on_user("^two", "May I?"), &two);
    let third = calling(on_user("^one", "May I?"), &[("ask", r#"{"n":3}"#)]);
    world.agent("careful", vec![ask, third, on_tool("ask", "Done.")], &["ask"]);
    let process = world.start().await;
    let engine = &process.engine;
    let address = engine.new_address();
    engine.begin(&address, new("careful"), said("two")).await.unwrap();
    let asked = engine.settle(&address).await.unwrap().approvals;
    for (approval, scope) in asked.iter().zip([Scope::Once, Scope::Session]) {
        let input = Some(Json::parse(r#"{"n":3}"#).unwrap());
        let edited = ApprovalGranted { input, scope, ..yes(approval, "user:boss") };
        engine.approve(&address, edited, Pretence::Allowed).await.unwrap();
    }
    engine.settle(&address).await.unwrap();
    engine.say(&address, said("one")).await.unwrap();
    engine.settle(&address).await.unwrap();
    assert_eq!(world.deeds.lock().unwrap().len(), 3);
    world
}

#[tokio::test(start_paused = true)]
async fn the_same_rules_decide_the_same() {
    let world = recorded().await;
    for remembered_max in [1_000, 1] {
        let (changes, counts) = again(&world, Some(JUDGE), remembered_max).await;
        assert_eq!(changes, []);
        assert_eq!(counts, Counts { decisions: 5, ..Counts::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn every_change_is_found_and_no_other() {
    let world = recorded().await;
    let of = async |judge: Option<Judge>| {
        let (changes, counts) = again(&world, judge, 1_000).await;
        assert_eq!(counts.changed, changes.len() as u64);
        changes.iter().map(|change| (change.before.outcome, change.after.verdict)).collect::<Vec<_>>()
    };
    let (allow, ask, deny) = (Verdict::Allow, Verdict::Ask, Verdict::Deny);
    // Whoever said yes may no longer; that is no yes.
    assert_eq!(of(Some(Judge { boss_may: false, ..JUDGE })).await, [(allow, ask); 3]);
    assert_eq!(of(Some(Judge { lax: true, ..JUDGE })).await, [(ask, allow); 2]);
    // Nobody is let in any more, or the agent is gone.
    let denied = [(ask, deny), (ask, deny), (allow, deny), (allow, deny), (allow, deny)];
    assert_eq!(of(Some(Judge { lets_in: false, ..JUDGE })).await, denied);
    assert_eq!(of(None).await, denied);
}

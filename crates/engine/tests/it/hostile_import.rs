//! Sessions that someone else made up and that are imported here: whatever their events say, nobody may do or spend more afterwards.
//!
//! The catalogue is generated: every event that gives authority, alone and in every order of two (of three, with `WEIR_SOAK`),
//! with chains that are right.

use weir_engine::{Address, Approval, Pretence, StopReason};
use weir_events::{
    Allowance, ApprovalGranted, ApprovalRequested, Body, BudgetReleased, Parent, Parked, ResumeReason,
    RunParked, Scope, SessionCreated, SessionHalted, SessionResumed, SessionUpdated, Share, ToolDecided,
    ToolRequested, ToolStarted,
};
use weir_journal::transfer::{RuntimeStreams, import};
use weir_types::{CallId, Effect, Hash, Json, NanoUsd, OnInterrupt, Risk, Seq, Verdict};

use crate::approving::{asking, careful, forged, yes};
use crate::kit::*;

/// The purse that a forged parent claims to have room in.
fn wide_purse() -> Share {
    let limit = Allowance { nano: Some(NanoUsd(u64::MAX)), ..Allowance::default() };
    Share { scope: "day".to_owned(), limit }
}

/// A session that its maker has in every group, with purses of its own.
fn created(question: &Approval) -> Body {
    SessionCreated {
        agent: "careful".to_owned(),
        manifest: question.build,
        principal: "user:test".to_owned(),
        groups: vec!["group:admin".to_owned()],
        title: None,
        labels: Default::default(),
        parent: Some(Parent {
            session: weir_journal::mint_session(),
            branch: question.address.branch.clone(),
            call: weir_journal::mint_call(),
            depth: 1,
            purses: vec![wide_purse()],
        }),
        lane: "direct".to_owned(),
    }
    .into()
}

fn errand(call: CallId) -> Body {
    ToolRequested {
        call,
        provider_id: String::new(),
        tool: "ask".to_owned(),
        source: "builtin".to_owned(),
        input: Json::parse(r#"{"n":7}"#).unwrap(),
        effect: Effect::Write,
        risk: Risk::Low,
        on_interrupt: OnInterrupt::Retry,
        key: Some("k".to_owned()),
    }
    .into()
}

fn allowed(call: CallId) -> Body {
    let because = "of course".to_owned();
    ToolDecided { call, outcome: Verdict::Allow, rule: None, step: None, because, stub: false, saw: None }
        .into()
}

/// Every event that would let something happen, given the question that the session has asked.
fn hostile(question: &Approval) -> Vec<(&'static str, Body)> {
    let errand_id = weir_journal::mint_call();
    let errand_hash = Hash::of(br#"{"n":7}"#);
    let granted = |call, input_hash, scope| -> Body {
        let by = "user:boss".to_owned();
        let groups = vec!["group:admin".to_owned()];
        ApprovalGranted { call, by, groups, input_hash, input: None, scope, runs: None }.into()
    };
    let started = |call, key: &CallId, input_hash| -> Body {
        ToolStarted { call, attempt: 1, key: key.to_string(), input_hash, child: None }.into()
    };
    let budget = Some(wide_purse().limit);
    vec![
        ("created again", created(question)),
        ("updated", SessionUpdated { title: Some("mine".to_owned()), labels: Default::default() }.into()),
        ("granted", granted(question.id, question.input_hash, Scope::Once)),
        ("granted for the session", granted(question.id, question.input_hash, Scope::Session)),
        ("allowed", allowed(question.id)),
        ("started", started(question.id, &question.id, question.input_hash)),
        ("errand", errand(errand_id)),
        ("errand asked", {
            let (input_hash, rule) = (errand_hash, "r".to_owned());
            ApprovalRequested {
                call: errand_id,
                input_hash,
                rule,
                expires: None,
                because: None,
                escalates: None,
            }
            .into()
        }),
        ("errand granted", granted(errand_id, errand_hash, Scope::Session)),
        ("errand allowed", allowed(errand_id)),
        ("errand started", started(errand_id, &errand_id, errand_hash)),
        ("resumed", {
            let owner = weir_journal::mint_owner();
            SessionResumed { reason: ResumeReason::Asked, owner, budget, keeps_limits: true }.into()
        }),
        ("parked", RunParked { why: Parked::Crashes { count: 3 } }.into()),
        ("halted", SessionHalted { reason: "pause".to_owned(), imported: false }.into()),
        ("halted as imported", SessionHalted { reason: "pause".to_owned(), imported: true }.into()),
        ("raised", {
            let scope = format!("session:{}", question.address.session);
            let nano = NanoUsd(u64::MAX);
            let (tokens, model_calls, micros) = (0, 0, 0);
            let call = weir_journal::mint();
            BudgetReleased { scope, call, nano, tokens, model_calls, micros, raises: true }.into()
        }),
    ]
}

/// Imports a session whose events were made up, goes on with it, and looks whether anything came of that.
async fn expect_no_authority(origin: &World, question: &Approval, name: &str, more: Vec<Body>) {
    let address = &question.address;
    let lines = forged(origin, address, more).await;
    let world = careful();
    import(&*world.journal, &*world.blobs, &mut lines.as_slice(), RuntimeStreams::Refuse).await.unwrap();
    let process = world.start().await;
    let outcome = process.engine.settle(address).await.unwrap();
    assert_eq!((outcome.stop, deeds(&world)), (StopReason::Halted, 0), "{name}: {outcome:?}");
    let granted = ApprovalGranted { scope: Scope::Session, ..yes(question, "user:boss") };
    let early = process.engine.approve(address, granted, Pretence::Allowed).await;
    assert!(early.is_err(), "{name}: {early:?}");
    process.engine.resume_for(address, "user:test").await.unwrap();
    let outcome = process.engine.settle(address).await;
    assert_eq!(deeds(&world), 0, "{name}: {outcome:?}");
    // What it says from here on is asked about like anything else.
    process.engine.say(address, said("do it")).await.unwrap();
    let outcome = process.engine.settle(address).await;
    assert_eq!(deeds(&world), 0, "{name}: {outcome:?}");
    expect_bare(&world, address, name).await;
    // A fork from before it was taken up here leaves nothing behind, either.
    let last = world.events(address).await.len() as u64;
    for (branch, at) in [("early", 2), ("middle", last / 2), ("late", last)] {
        let forked = process.engine.fork(address, Seq(at), branch.parse().unwrap()).await;
        let (fork, _) = forked.unwrap();
        expect_bare(&world, &fork, &format!("{name}, forked at {at}")).await;
    }
    assert_eq!(process.engine.purses(|_| true).await.unwrap(), [], "{name}");
}

/// The session has no groups, approvers, purses and approvals but those given here.
async fn expect_bare(world: &World, address: &Address, name: &str) {
    let session = world.state(address).await;
    assert_eq!((session.standing.len(), session.approvers.len()), (0, 0), "{name}");
    let created = session.created.unwrap();
    assert_eq!(created.groups, Vec::<String>::new(), "{name}");
    assert_eq!(created.parent.map(|parent| parent.purses).unwrap_or_default(), [], "{name}");
    let granted = session.run.map(|run| run.granted).unwrap_or_default();
    assert_eq!(granted, Allowance::default(), "{name}");
}

fn deeds(world: &World) -> usize {
    world.deeds.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn an_imported_session_brings_no_authority() {
    let origin = careful();
    let process = origin.start().await;
    let (_, asked) = asking(&process.engine, "careful", "do it").await;
    let question = &asked[0];
    let pool = hostile(question);
    let is_soak = std::env::var_os("WEIR_SOAK").is_some();
    for (one, first) in &pool {
        expect_no_authority(&origin, question, one, vec![first.clone()]).await;
        for (two, second) in &pool {
            let name = format!("{one}, {two}");
            expect_no_authority(&origin, question, &name, vec![first.clone(), second.clone()]).await;
            for (three, third) in pool.iter().filter(|_| is_soak) {
                let name = format!("{name}, {three}");
                let more = vec![first.clone(), second.clone(), third.clone()];
                expect_no_authority(&origin, question, &name, more).await;
            }
        }
    }
    // The whole chain that a call needs, and every place at which it ends.
    let whole: Vec<Body> = pool.iter().map(|(_, body)| body.clone()).collect();
    for end in 1..=whole.len() {
        expect_no_authority(&origin, question, &format!("the first {end}"), whole[..end].to_vec()).await;
    }
}

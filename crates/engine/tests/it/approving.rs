//! What people decide about calls: who may, what a yes covers, and what is not one.

use std::time::Duration;

use weir_engine::{Address, Adopt, Answered, Approval, Engine, EngineError, Pretence, StopReason};
use weir_events::{
    About, ApprovalDenied, ApprovalGranted, ApprovalRequested, Body, Parked, ResumeReason, RunParked, Scope,
    SessionHalted, SessionResumed, ToolDecided, ToolStarted,
};
use weir_journal::transfer::{RuntimeStreams, Selection, export, import};
use weir_journal::{NewEvent, Part};
use weir_types::{Explain, Json, Verdict};

use crate::kit::*;

/// An agent that asks before it does one thing, or three, and goes on for as long as it is told to.
pub(crate) fn careful() -> World {
    let world = World::new();
    let one = calling(on_user("^do", "May I?"), &[("ask", r#"{"n":1}"#)]);
    let three = [("ask", r#"{"n":1}"#), ("ask", r#"{"n":2}"#), ("ask", r#"{"n":3}"#)];
    let replies = vec![one, calling(on_user("^all", "May I?"), &three), on_tool("ask", "result: {{result}}")];
    world.agent("careful", replies, &["ask"]);
    world
}

/// Begins a session that asks, and says what.
pub(crate) async fn asking(engine: &Engine, agent: &str, message: &str) -> (Address, Vec<Approval>) {
    let address = engine.new_address();
    engine.begin(&address, new(agent), said(message)).await.unwrap();
    let outcome = engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Approval, "{outcome:?}");
    (address, outcome.approvals)
}

pub(crate) fn yes(approval: &Approval, by: &str) -> ApprovalGranted {
    let (call, input_hash) = (approval.id, approval.input_hash);
    ApprovalGranted {
        call,
        by: by.to_owned(),
        groups: vec![],
        input_hash,
        input: None,
        scope: Scope::Once,
        runs: None,
    }
}

pub(crate) fn no(approval: &Approval, by: &str, message: &str) -> ApprovalDenied {
    ApprovalDenied { call: approval.id, by: by.to_owned(), groups: vec![], message: Some(message.to_owned()) }
}

fn code(answered: Result<Answered, EngineError>) -> String {
    answered.map_or_else(|error| error.code().to_owned(), |_| "written down".to_owned())
}

fn deeds(world: &World) -> usize {
    world.deeds.lock().unwrap().len()
}

async fn count(world: &World, address: &Address, kind: &str) -> usize {
    world.kinds(address).await.iter().filter(|found| *found == kind).count()
}

#[tokio::test(start_paused = true)]
async fn only_who_may_decides_and_only_about_what_is_asked() {
    let world = careful();
    let process = world.start().await;
    let engine = &process.engine;
    let (address, asked) = asking(engine, "careful", "do it").await;
    let question = &asked[0];
    assert_eq!((question.tool.as_str(), question.input.as_str()), ("ask", r#"{"n":1}"#));
    assert_eq!((question.agent.as_str(), question.asker.as_str()), ("careful", "user:test"));
    assert_eq!(question.why, "tool 'ask' requires approval: it needs a yes");
    let before = world.kinds(&address).await;

    let eve = engine.approve(&address, yes(question, "user:eve"), Pretence::Allowed).await.unwrap_err();
    assert_eq!(eve.to_string(), "`user:eve` may not approve what `careful` does for `user:test`");
    assert_eq!(eve.fault(), weir_types::Fault::Denied);
    assert_eq!(code(engine.deny(&address, no(question, "user:eve", "")).await), "engine::denied");
    let other = ApprovalGranted { input_hash: weir_types::Hash::ZERO, ..yes(question, "user:boss") };
    assert_eq!(code(engine.approve(&address, other, Pretence::Allowed).await), "engine::approval-arguments");
    let unknown = ApprovalGranted { call: weir_journal::mint_call(), ..yes(question, "user:boss") };
    assert_eq!(code(engine.approve(&address, unknown, Pretence::Allowed).await), "engine::no-approval");
    let nowhere = engine.approve(&engine.new_address(), yes(question, "user:boss"), Pretence::Allowed).await;
    assert_eq!(code(nowhere), "engine::no-session");
    assert_eq!(world.kinds(&address).await, before, "what is refused is not written down");

    engine.approve(&address, yes(question, "user:boss"), Pretence::Allowed).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().answer.as_deref(), Some(r#"result: ask {"n":1}"#));
    let late = engine.deny(&address, no(question, "user:other", "")).await.unwrap_err();
    assert_eq!(late.code(), "engine::approval-decided");
    assert_eq!(late.to_string(), format!("call {} was approved by `user:boss` already", question.id));
    assert_eq!(deeds(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn a_yes_to_what_would_only_pretend_is_not_taken_where_that_is_refused() {
    let world = careful();
    let process = world.start().await;
    let engine = &process.engine;
    let (address, asked) = asking(engine, "careful", "do it").await;
    let before = world.kinds(&address).await;
    // It was asked for where it really happens.
    world.agents.2.pretending.lock().unwrap().insert("ask".to_owned());

    let refused = engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Refused).await.unwrap_err();
    assert_eq!(refused.code(), "engine::would-pretend");
    assert_eq!(
        refused.to_string(),
        "the call of `ask` would be a dry run: nothing would happen, and the approval would be used up"
    );
    let other = ApprovalGranted { input_hash: weir_types::Hash::ZERO, ..yes(&asked[0], "user:boss") };
    assert_eq!(
        code(engine.approve(&address, other, Pretence::Refused).await),
        "engine::approval-arguments",
        "what it would do is only said about what is asked"
    );
    assert_eq!(world.kinds(&address).await, before, "it still waits");

    let taken = engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    assert!(taken.pretends);
    // Not that it would pretend: it waits for nobody.
    let late = engine.approve(&address, yes(&asked[0], "user:other"), Pretence::Refused).await;
    assert_eq!(code(late), "engine::approval-decided");
}

#[tokio::test(start_paused = true)]
async fn a_no_is_told_to_the_model_and_to_whoever_comes_later() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    process.engine.deny(&address, no(&asked[0], "user:boss", "not today")).await.unwrap();
    let answer = process.engine.settle(&address).await.unwrap().answer.unwrap();
    assert_eq!(answer, "result: tool 'ask' blocked: user:boss said no: not today");
    let late =
        process.engine.approve(&address, yes(&asked[0], "user:other"), Pretence::Allowed).await.unwrap_err();
    assert_eq!(late.to_string(), format!("call {} was denied by `user:boss` already", asked[0].id));
    assert_eq!(deeds(&world), 0);
}

/// Also when the process of the second has not heard of the first yet.
#[tokio::test(start_paused = true)]
async fn of_two_who_decide_at_once_the_second_is_told() {
    let world = careful();
    let (one, two) = (world.start().await, world.start().await);
    for first_says_yes in [true, false] {
        let (address, asked) = asking(&one.engine, "careful", "do it").await;
        let (first, second) = match first_says_yes {
            true => {
                let first =
                    code(two.engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await);
                (first, code(one.engine.deny(&address, no(&asked[0], "user:other", "")).await))
            }
            false => {
                let first = code(two.engine.deny(&address, no(&asked[0], "user:boss", "")).await);
                (
                    first,
                    code(one.engine.approve(&address, yes(&asked[0], "user:other"), Pretence::Allowed).await),
                )
            }
        };
        assert_eq!((first.as_str(), second.as_str()), ("written down", "engine::approval-decided"));
        assert_eq!(one.engine.settle(&address).await.unwrap().stop, StopReason::End);
        assert_eq!(deeds(&world), 1, "only the first time, somebody said yes");
    }
}

#[tokio::test(start_paused = true)]
async fn too_late_is_too_late_also_where_no_server_runs() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    process.die();
    let question = &asked[0];
    let (call, input_hash, rule) = (question.id, question.input_hash, "ask-first".to_owned());
    let expires = Some(weir_journal::now());
    append(
        &world,
        &address,
        ApprovalRequested { call, input_hash, rule, expires, because: None, escalates: None },
        "user:test",
    )
    .await;
    // Nobody has run since; a command that only writes down what was decided does not write that down.
    let other = world.start().await;
    let refused =
        other.engine.approve(&address, yes(question, "user:boss"), Pretence::Allowed).await.unwrap_err();
    assert_eq!(refused.code(), "engine::approval-expired");
    // Whoever goes on with it tells the model.
    let outcome = other.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("result: tool 'ask' blocked: nobody approved it in time"));
    assert_eq!(count(&world, &address, "approval.expired").await, 1);
    let refused =
        other.engine.approve(&address, yes(question, "user:boss"), Pretence::Allowed).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("call {} expired: nobody approved it in time", question.id));
    assert_eq!(deeds(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn an_approver_may_change_the_arguments_to_what_is_allowed() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    let edit = |json: &str| ApprovalGranted {
        input: Some(Json::parse(json).unwrap()),
        ..yes(&asked[0], "user:boss")
    };
    let refused = process.engine.approve(&address, edit(r#""bad""#), Pretence::Allowed).await.unwrap_err();
    assert_eq!(refused.to_string(), "with these arguments the call would be refused: the arguments are bad");
    assert_eq!(process.engine.settle(&address).await.unwrap().approvals, asked, "it still waits");
    process.engine.approve(&address, edit(r#"{"n":7}"#), Pretence::Allowed).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert!(outcome.answer.unwrap().ends_with(r#"ask {"n":7}"#));
    // The model's own words are as they were, and it is told.
    let request = process.engine.request(&address, 2).await.unwrap();
    let text = String::from_utf8(request.bytes.to_vec()).unwrap();
    assert!(text.contains(r#"(an approver changed the arguments to: {\"n\":7})"#), "{text}");
    let session = world.state(&address).await;
    let entry = session.transcript.entries[1].as_assistant().unwrap();
    assert_eq!(entry.uses().next().unwrap().2.as_str(), r#"{"n":1}"#);
}

/// What an approver changed is authorised again when it is taken up: by then it may no longer be allowed.
#[tokio::test(start_paused = true)]
async fn an_edit_that_is_refused_when_it_is_taken_up_is_told_to_the_model() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    process.die();
    let input = Some(Json::parse(r#"{"n":"bad"}"#).unwrap());
    append(&world, &address, ApprovalGranted { input, ..yes(&asked[0], "user:boss") }, "user:boss").await;
    let next = world.start().await;
    let answer = next.engine.settle(&address).await.unwrap().answer.unwrap();
    assert!(answer.ends_with("tool 'ask' blocked: the arguments are bad"), "{answer}");
    assert_eq!(deeds(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn several_are_decided_one_by_one_and_what_is_granted_does_not_wait() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "all of it").await;
    assert_eq!(asked.len(), 3);
    process.engine.approve(&address, yes(&asked[1], "user:boss"), Pretence::Allowed).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, deeds(&world)), (StopReason::Approval, 1), "it ran while the others wait");
    assert_eq!(outcome.approvals, [asked[0].clone(), asked[2].clone()]);
    process.engine.deny(&address, no(&asked[0], "user:boss", "no")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().approvals, [asked[2].clone()]);
    process.engine.approve(&address, yes(&asked[2], "user:other"), Pretence::Allowed).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::End);
    let said = conversation(&world.state(&address).await);
    let expected = [
        "ask: Some(Denied) tool 'ask' blocked: user:boss said no: no",
        r#"ask: None ask {"n":2}"#,
        r#"ask: None ask {"n":3}"#,
    ];
    assert_eq!(said[2..5], expected);
    assert_eq!(deeds(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn a_yes_for_the_session_covers_later_calls_until_a_fork_or_a_halt() {
    let world = careful();
    let process = world.start().await;
    let engine = &process.engine;
    let (address, asked) = asking(engine, "careful", "do it").await;
    let granted = ApprovalGranted { scope: Scope::Session, ..yes(&asked[0], "user:boss") };
    engine.approve(&address, granted, Pretence::Allowed).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().stop, StopReason::End);
    engine.say(&address, said("do it again")).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().stop, StopReason::End);
    assert_eq!(deeds(&world), 2);
    let because = decisions(&world, &address).await.pop().unwrap();
    assert_eq!(because, ("ask-first".to_owned(), "`user:boss` approved `ask` for this session".to_owned()));

    let at = world.state(&address).await.seq;
    let (fork, _) = engine.fork(&address, at, "side".parse().unwrap()).await.unwrap();
    engine.say(&fork, said("do it there")).await.unwrap();
    assert_eq!(engine.settle(&fork).await.unwrap().stop, StopReason::Approval, "a fork forgets it");

    // Whoever may no longer approve has approved nothing that is still to come.
    world.agents.2.no_approvers.lock().unwrap().insert("user:boss".to_owned());
    engine.say(&address, said("do it")).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().stop, StopReason::Approval);
    world.agents.2.no_approvers.lock().unwrap().clear();
    engine.cancel(&address, "user:test").await.unwrap();
    engine.settle(&address).await.unwrap();

    engine.halt(&address, "lunch", "user:test").await.unwrap();
    engine.settle(&address).await.unwrap();
    let _ = engine.resume(&address).await;
    engine.say(&address, said("do it")).await.unwrap();
    assert_eq!(engine.settle(&address).await.unwrap().stop, StopReason::Approval, "a halt ends it");
    assert_eq!(deeds(&world), 2);
}

/// What was decided about calls: rule and reason.
async fn decisions(world: &World, address: &Address) -> Vec<(String, String)> {
    let events = world.events(address).await;
    let bodies = events.iter().filter_map(|event| Body::decode(&event.kind, &event.payload).unwrap());
    bodies
        .filter_map(|body| match body {
            Body::ToolDecided(decided) => Some((decided.rule.unwrap_or_default(), decided.because)),
            _ => None,
        })
        .collect()
}

/// The yes that a call ran under is in its decision, given for it or for the session.
#[tokio::test(start_paused = true)]
async fn a_decision_names_whose_yes_it_counted() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    let for_all = ApprovalGranted { scope: Scope::Session, ..yes(&asked[0], "user:boss") };
    process.engine.approve(&address, for_all, Pretence::Allowed).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    process.engine.say(&address, said("do it")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let events = world.events(&address).await;
    let saw = events.iter().filter_map(|event| match Body::decode(&event.kind, &event.payload).unwrap() {
        Some(Body::ToolDecided(decided)) => {
            let saw = decided.saw.expect("every decision says what it saw");
            Some((decided.outcome, saw.principal, saw.approved_by))
        }
        _ => None,
    });
    let boss = || Some("user:boss".to_owned());
    let mine = || "user:test".to_owned();
    assert_eq!(
        saw.collect::<Vec<_>>(),
        [(Verdict::Ask, mine(), None), (Verdict::Allow, mine(), boss()), (Verdict::Allow, mine(), boss())]
    );
}

/// Appends an event as somebody could who has the journal in hand.
pub(crate) async fn append(world: &World, address: &Address, body: impl Into<Body>, actor: &str) {
    let body = body.into();
    let about = About { actor: Some(actor.to_owned()), ..About::default() };
    let event = NewEvent::new(body.kind_str().parse().unwrap(), body.encode().unwrap())
        .with_meta(about.encode().unwrap());
    world.journal.append(vec![Part::new(address.branch_id(), vec![event])]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_counts_for_nothing_asks_again_and_says_why() {
    let world = careful();
    let cases: [(&str, &str, &str); 2] = [
        (
            "user:eve",
            "user:eve",
            "`user:eve` said yes, which does not count: `user:eve` may not approve what `careful` does for `user:test`; \
             it needs a yes",
        ),
        ("user:boss", "user:eve", "a yes of `user:boss` came from `user:eve` and does not count"),
    ];
    for (by, actor, because) in cases {
        let process = world.start().await;
        let (address, asked) = asking(&process.engine, "careful", "do it").await;
        process.die();
        append(&world, &address, yes(&asked[0], by), actor).await;
        let next = world.start().await;
        let outcome = next.engine.settle(&address).await.unwrap();
        assert_eq!(outcome.stop, StopReason::Approval, "{by} {actor}");
        assert_eq!(outcome.approvals[0].why, format!("tool 'ask' requires approval: {because}"));
        assert_eq!(deeds(&world), 0);
        // And a real one still can be given.
        next.engine.approve(&address, yes(&asked[0], "user:other"), Pretence::Allowed).await.unwrap();
        assert_eq!(next.engine.settle(&address).await.unwrap().stop, StopReason::End);
        assert_eq!(world.deeds.lock().unwrap().drain(..).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_while_it_waited_does_not_run() {
    // The right to approve, after the yes and before it is taken up; the grant to use the tool.
    for (revoked, stop, word) in [
        ("approver", StopReason::Approval, "`user:boss` said yes, which does not count"),
        ("tool", StopReason::End, "tool 'ask' blocked: the grant was taken back"),
    ] {
        let world = careful();
        let process = world.start().await;
        let (address, asked) = asking(&process.engine, "careful", "do it").await;
        process.die();
        let other = world.start().await;
        other.engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
        let rights = &world.agents.2;
        match revoked {
            "approver" => _ = rights.no_approvers.lock().unwrap().insert("user:boss".to_owned()),
            _ => _ = rights.revoked.lock().unwrap().insert("ask".to_owned()),
        }
        let outcome = other.engine.settle(&address).await.unwrap();
        assert_eq!(outcome.stop, stop, "{revoked}");
        let told = format!("{:?} {:?}", outcome.answer, outcome.approvals);
        assert!(told.contains(word), "{revoked}: {told}");
        assert_eq!(deeds(&world), 0, "{revoked}");
    }
}

/// A call that was approved, started and cut off is repeated under the same yes, if that still counts.
#[tokio::test(start_paused = true)]
async fn a_repetition_needs_the_yes_as_well() {
    for (may_still, stop) in [(true, StopReason::End), (false, StopReason::Approval)] {
        let world = careful();
        let place = calling(on_user("^do", "May I?"), &[("place", "{}")]);
        world.agent("placer", vec![place, on_tool("place", "result: {{result}}")], &["place"]);
        let process = world.start().await;
        let (address, asked) = asking(&process.engine, "placer", "do it").await;
        process.die();
        let question = &asked[0];
        append(&world, &address, yes(question, "user:boss"), "user:boss").await;
        let (call, input_hash) = (question.id, question.input_hash);
        let because = "it was approved".to_owned();
        let allowed = ToolDecided {
            call,
            outcome: Verdict::Allow,
            rule: None,
            step: None,
            because,
            stub: false,
            saw: None,
        };
        append(&world, &address, allowed, "user:test").await;
        let started = ToolStarted { call, attempt: 1, key: call.to_string(), input_hash, child: None };
        append(&world, &address, started, "user:test").await;
        if !may_still {
            world.agents.2.no_approvers.lock().unwrap().insert("user:boss".to_owned());
        }
        let next = world.start().await;
        let outcome = next.engine.settle(&address).await.unwrap();
        assert_eq!((outcome.stop, deeds(&world)), (stop, usize::from(may_still)), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_halted_session_can_be_told_nothing() {
    let world = careful();
    let process = world.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    process.engine.halt(&address, "lunch", "user:test").await.unwrap();
    let refused = process.engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await;
    assert_eq!(code(refused), "engine::halted");
    process.engine.resume(&address).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("result: interrupted: the call did not finish"));
    assert_eq!(deeds(&world), 0);
}

/// The export of a session as somebody could make it up: its events and more, with chains that are right.
pub(crate) async fn forged(world: &World, address: &Address, more: Vec<Body>) -> Vec<u8> {
    let other = World::new();
    for event in world.events(address).await {
        for hash in &event.refs {
            let content = world.blobs.get_bytes(*hash, 1 << 20).await.unwrap();
            other.blobs.put_bytes(content).await.unwrap();
        }
        let new = NewEvent::new(event.kind, event.payload)
            .with_meta(event.meta)
            .with_refs(event.refs)
            .with_identity(event.id, event.ts);
        other.journal.append(vec![Part::new(address.branch_id(), vec![new])]).await.unwrap();
    }
    for body in more {
        append(&other, address, body, "user:boss").await;
    }
    let mut lines = Vec::new();
    export(&*other.journal, &*other.blobs, Selection::Everything, &mut lines).await.unwrap();
    lines
}

/// Ways to bring a yes along, given the question.
fn forgeries(question: &Approval) -> Vec<(&'static str, Vec<Body>)> {
    let granted: Body = ApprovalGranted { scope: Scope::Session, ..yes(question, "user:boss") }.into();
    let allowed: Body = ToolDecided {
        call: question.id,
        outcome: Verdict::Allow,
        rule: None,
        step: None,
        because: "of course".into(),
        stub: false,
        saw: None,
    }
    .into();
    let started: Body = ToolStarted {
        call: question.id,
        attempt: 1,
        key: question.id.to_string(),
        input_hash: question.input_hash,
        child: Some(question.address.session),
    }
    .into();
    let parked: Body = RunParked { why: Parked::Crashes { count: 3 } }.into();
    let halted: Body = SessionHalted { reason: "pause".into(), imported: false }.into();
    let resumed: Body = SessionResumed {
        reason: ResumeReason::Asked,
        owner: weir_journal::mint_owner(),
        budget: None,
        keeps_limits: true,
    }
    .into();
    vec![
        ("granted", vec![granted.clone()]),
        ("allowed", vec![granted.clone(), allowed.clone()]),
        ("started", vec![granted.clone(), allowed.clone(), started.clone(), resumed.clone()]),
        ("granted and parked", vec![granted.clone(), parked.clone()]),
        ("allowed and parked", vec![granted.clone(), allowed.clone(), parked.clone()]),
        ("granted after a halt", vec![halted.clone(), granted.clone(), parked.clone()]),
        ("allowed after a halt", vec![halted.clone(), granted.clone(), allowed.clone(), parked.clone()]),
        ("halted and resumed", vec![halted, granted, resumed, allowed, started, parked]),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_was_imported_is_none() {
    let origin = careful();
    let process = origin.start().await;
    let (address, asked) = asking(&process.engine, "careful", "do it").await;
    for (name, more) in forgeries(&asked[0]) {
        let lines = forged(&origin, &address, more).await;
        // Into a journal that does not know the session, where a command goes on with it; into one where a server is.
        for adopt in [Adopt::Asked, Adopt::All] {
            let world = careful();
            let server = world.start_with(Fuse::default(), |options| options.adopt = adopt).await;
            import(&*world.journal, &*world.blobs, &mut lines.as_slice(), RuntimeStreams::Refuse)
                .await
                .unwrap();
            refuses_what_it_brought(&world, &server, &address, name).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_an_import_adds_to_a_session_that_waits_here_is_none() {
    for index in 0..forgeries(&approval_of_nothing()).len() {
        let world = careful();
        let process = world.start().await;
        let (address, asked) = asking(&process.engine, "careful", "do it").await;
        let (name, more) = forgeries(&asked[0]).swap_remove(index);
        let lines = forged(&world, &address, more).await;
        // Its task is still in memory, and hears of it at once.
        assert_eq!(process.engine.active(), 1);
        import(&*world.journal, &*world.blobs, &mut lines.as_slice(), RuntimeStreams::Refuse).await.unwrap();
        refuses_what_it_brought(&world, &process, &address, name).await;
    }
}

fn approval_of_nothing() -> Approval {
    Approval {
        id: weir_journal::mint_call(),
        address: Address::main(weir_journal::mint_session()),
        agent: String::new(),
        build: weir_types::Hash::ZERO,
        asker: String::new(),
        tool: String::new(),
        input: Json::null(),
        input_hash: weir_types::Hash::ZERO,
        why: String::new(),
        expires: None,
        escalates: None,
        stub: false,
    }
}

/// It stays where it is until someone resumes it, and then begins without what it brought along.
async fn refuses_what_it_brought(world: &World, process: &Process, address: &Address, name: &str) {
    tokio::time::sleep(Duration::from_secs(60)).await;
    let outcome = process.engine.settle(address).await.unwrap();
    assert_eq!((outcome.stop, deeds(world)), (StopReason::Halted, 0), "{name}: {outcome:?}");
    let spoken = process.engine.say(address, said("go on")).await.unwrap_err();
    assert_eq!(spoken.code(), "engine::halted", "{name}");
    process.engine.resume(address).await.unwrap();
    let outcome = process.engine.settle(address).await.unwrap();
    assert_eq!((outcome.stop, deeds(world)), (StopReason::End, 0), "{name}: {outcome:?}");
    assert!(outcome.answer.as_ref().is_some_and(|said| said.starts_with("result: ")), "{name}: {outcome:?}");
    assert_eq!(world.state(address).await.standing, [], "{name}");
    // From here on it is a session like any other.
    process.engine.say(address, said("do it")).await.unwrap();
    let outcome = process.engine.settle(address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Approval, "{name}: {outcome:?}");
    process
        .engine
        .approve(address, yes(&outcome.approvals[0], "user:boss"), Pretence::Allowed)
        .await
        .unwrap();
    assert_eq!(process.engine.settle(address).await.unwrap().stop, StopReason::End, "{name}");
    assert_eq!(deeds(world), 1, "{name}");
}

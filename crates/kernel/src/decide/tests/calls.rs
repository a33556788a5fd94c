use super::*;
use crate::decide::calls::CALLS_AT_ONCE_MAX;
use crate::story::{asked, tool_use};

fn blocked(call: CallId, class: &str, message: &str) -> Closing {
    Closing { call, class: class.into(), message: message.into(), outcome: Outcome::Denied }
}

fn unknown(call: CallId, tool: &str) -> Closing {
    let message = format!(
        "outcome unknown: the process ended while `{tool}` was running; it may or may not have taken effect and was \
         not repeated; find out before you call it again"
    );
    Closing { call, class: "interrupted".into(), message, outcome: Outcome::Unknown }
}

#[test]
fn calls_of_one_answer_go_side_by_side() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_blocks(vec![tool_use("x", "read"), tool_use("x", "nope")], Stop::ToolUse);
    let wanted =
        |tool: &str| ToolUse { provider_id: "x".into(), tool: tool.into(), input: Json::empty_object() };
    assert_eq!(story.next(), Next::RequestTools(vec![wanted("read"), wanted("nope")]));
    let calls = story.take_up();
    assert_eq!(story.next(), Next::Authorise(calls.clone()));
    calls.iter().for_each(|call| story.decided(*call, Verdict::Allow));
    assert_eq!(story.next(), Next::Execute(calls.clone()));
    calls.iter().for_each(|call| story.started(*call));
    assert_eq!(story.next(), Next::Busy);
    story.completed(calls[1], "b");
    assert_eq!(story.next(), Next::Busy);
    story.completed(calls[0], "a");
    assert_eq!(story.next(), Next::CallModel { begin: Some(2), attempt: 1, not_before: None });
}

#[test]
fn however_many_calls_there_are_so_many_run_at_once_in_their_order() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_with_calls(&["read"; 3 * CALLS_AT_ONCE_MAX]);
    let calls = story.take_up();
    calls.iter().for_each(|call| story.decided(*call, Verdict::Allow));
    let (first, rest) = calls.split_at(CALLS_AT_ONCE_MAX);
    assert_eq!(story.next(), Next::Execute(first.to_vec()));
    first.iter().for_each(|call| story.started(*call));
    assert_eq!(story.next(), Next::Busy);
    // Whoever is done makes room for the next, wherever it was.
    story.completed(first[7], "a");
    assert_eq!(story.next(), Next::Execute(vec![rest[0]]));
    story.started(rest[0]);
    assert_eq!(story.next(), Next::Busy);
}

#[test]
fn calls_that_were_not_taken_up_before_a_crash_are_taken_up_after_it() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_with_calls(&["read", "put"]);
    let first = story.take_up()[0];
    // Only the first made it into the journal.
    let mut crashed = Story::of_a_run();
    crashed.ask();
    crashed.answer_with_calls(&["read", "put"]);
    crashed.add(ToolRequested {
        call: first,
        provider_id: "t0".into(),
        tool: "read".into(),
        source: "test".into(),
        input: Json::empty_object(),
        effect: weir_types::Effect::Read,
        risk: weir_types::Risk::Low,
        on_interrupt: weir_types::OnInterrupt::Report,
        key: None,
    });
    crashed.resumed(ResumeReason::Recovery);
    let rest = ToolUse { provider_id: "t1".into(), tool: "put".into(), input: Json::empty_object() };
    assert_eq!(crashed.next(), Next::RequestTools(vec![rest]));
}

#[test]
fn a_refused_call_is_closed_and_the_others_go_on() {
    let (mut story, [bad, good]) = Story::of_calls(["write", "read"]);
    story.decided(bad, Verdict::Deny);
    story.decided(good, Verdict::Allow);
    let closing = blocked(bad, "denied", "tool 'write' blocked: so");
    assert_eq!(story.next(), Next::Close(vec![closing.clone()]));
    failed(&mut story, closing);
    assert_eq!(story.next(), Next::Execute(vec![good]));
}

#[test]
fn an_approved_call_is_decided_again_before_it_runs() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    assert_eq!((story.next(), story.session.is_waiting()), (Next::Wait { due: None }, true));
    let hash = story.call(call).input_hash();
    story.granted(call, hash, None);
    assert_eq!(story.next(), Next::Authorise(vec![call]));
    story.decided(call, Verdict::Allow);
    assert_eq!(story.next(), Next::Execute(vec![call]));
    story.decided(call, Verdict::Deny);
    assert_eq!(story.next(), Next::Close(vec![blocked(call, "denied", "tool 'write' blocked: so")]));
}

#[test]
fn a_grant_for_other_arguments_is_none() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    story.granted(call, weir_types::Hash::ZERO, None);
    assert_eq!(story.next(), Next::Wait { due: None });
}

#[test]
fn an_approver_can_change_the_arguments() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    let asked = story.call(call).input_hash();
    let edited = Json::parse(r#"{"less":true}"#).unwrap();
    story.granted(call, asked, Some(edited.clone()));
    let found = story.call(call);
    assert_eq!((found.input_to_run(), &found.input), (&edited, &Json::empty_object()));
    let input_hash = weir_types::Hash::of(edited.as_str().as_bytes());
    assert_eq!(found.state, crate::CallState::Granted { by: "bob".into(), input_hash });
    assert_eq!(found.input_hash(), input_hash);
    assert_eq!(story.next(), Next::Authorise(vec![call]));
}

#[test]
fn a_grant_that_comes_too_late_is_none_and_the_call_expires() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    let expires = story.at().after_millis(10);
    story.ask_someone(call, Some(expires));
    assert_eq!(story.next(), Next::Wait { due: Some(expires) });
    story.now = expires.as_micros() - 1;
    assert_eq!(story.next(), Next::Wait { due: Some(expires) });
    story.now = expires.as_micros();
    let closing = blocked(call, "expired", "tool 'write' blocked: nobody approved it in time");
    assert_eq!(story.next(), Next::Close(vec![closing.clone()]));
    let hash = story.call(call).input_hash();
    // The event comes at the very moment.
    story.now -= 1_000;
    story.granted(call, hash, None);
    assert_eq!(story.next(), Next::Close(vec![closing.clone()]));
    story.add(ApprovalExpired { call });
    let (class, message) = ("expired".to_owned(), "nobody approved it in time".to_owned());
    assert_eq!(story.call(call).state, crate::CallState::Refused { class, message });
    assert_eq!(story.next(), Next::Close(vec![closing]));
}

#[test]
fn the_first_of_several_approvals_to_expire_is_waited_for() {
    let (mut story, [first, second, third]) = Story::of_calls(["write", "write", "write"]);
    let (soon, later) = (story.at().after_millis(1_000), story.at().after_millis(2_000));
    story.ask_someone(first, Some(later));
    story.ask_someone(second, Some(soon));
    story.ask_someone(third, None);
    assert_eq!(story.next(), Next::Wait { due: Some(soon) });
}

#[test]
fn a_call_someone_said_no_to_is_closed() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    let mut silent = Story::of_calls(["write"]).0;
    silent.ask_someone(call, None);
    story.add(ApprovalDenied { call, by: "bob".into(), groups: vec![], message: Some("not today".into()) });
    silent.add(ApprovalDenied { call, by: "bob".into(), groups: vec![], message: None });
    let closing = blocked(call, "denied", "tool 'write' blocked: bob said no: not today");
    assert_eq!(story.next(), Next::Close(vec![closing]));
    assert_eq!(
        silent.next(),
        Next::Close(vec![blocked(call, "denied", "tool 'write' blocked: bob said no")])
    );
    // It is too late to change one's mind.
    let hash = story.call(call).input_hash();
    story.granted(call, hash, None);
    assert!(matches!(story.next(), Next::Close(_)));
}

#[test]
fn an_approval_is_awaited_beside_a_call_that_runs() {
    let (mut story, [asks, runs]) = Story::of_calls(["write", "read"]);
    story.ask_someone(asks, None);
    story.decided(runs, Verdict::Allow);
    assert_eq!(story.next(), Next::Execute(vec![runs]));
    story.started(runs);
    assert_eq!((story.next(), story.session.is_waiting()), (Next::Busy, false));
    story.completed(runs, "42");
    assert_eq!(story.next(), Next::Wait { due: None });
}

#[test]
fn what_a_crash_interrupted_is_repeated_if_that_does_no_harm() {
    for tool in ["read", "put", "retry", "child"] {
        let (mut story, call) = Story::of_a_running_call(tool);
        let key = story.call(call).key();
        assert_eq!(key, call.to_string());
        story.resumed(ResumeReason::Recovery);
        assert_eq!(story.next(), Next::Execute(vec![call]), "{tool}");
        story.started(call);
        let again = story.call(call);
        assert_eq!((again.attempt, again.key()), (2, key), "{tool}");
        assert_eq!(again.child.is_some(), tool == "child");
    }
}

#[test]
fn a_plain_write_that_a_crash_interrupted_is_not_repeated() {
    let (mut story, call) = Story::of_a_running_call("write");
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::Close(vec![unknown(call, "write")]));
    failed(&mut story, unknown(call, "write"));
    assert_eq!(story.next(), Next::CallModel { begin: Some(2), attempt: 1, not_before: None });
}

#[test]
fn someone_can_be_asked_whether_to_repeat_a_write() {
    let (mut story, call) = Story::of_a_running_call("ask");
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::AskAgain(vec![call]));
    let hash = story.call(call).input_hash();
    story.add(asked(call, hash, "on_interrupt", None));
    assert_eq!(story.next(), Next::Wait { due: None });
    // Stopped meanwhile, its effect is as unknown as before.
    let mut cancelled = Story::of_a_running_call("ask").0;
    cancelled.resumed(ResumeReason::Recovery);
    cancelled.add(asked(call, hash, "on_interrupt", None));
    cancelled.add(RunCancelRequested {});
    assert_eq!(cancelled.next(), Next::Cancel(vec![stopped(call)]));

    story.granted(call, hash, None);
    story.decided(call, Verdict::Allow);
    assert_eq!(story.next(), Next::Execute(vec![call]));
    story.started(call);
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::AskAgain(vec![call]));
}

#[test]
fn a_no_to_repeating_a_write_does_not_make_it_undone() {
    let (mut story, call) = Story::of_a_running_call("ask");
    story.resumed(ResumeReason::Recovery);
    let input_hash = story.call(call).input_hash();
    story.add(asked(call, input_hash, "on_interrupt", None));
    story.add(ApprovalDenied { call, by: "bob".into(), groups: vec![], message: None });
    let message = format!("tool 'ask' blocked: bob said no; {}", unknown(call, "ask").message);
    let closing = Closing { call, class: "denied".into(), message, outcome: Outcome::Unknown };
    assert_eq!(story.next(), Next::Close(vec![closing]));
}

#[test]
fn what_was_done_before_the_crash_stays_done() {
    let (mut story, [done, lost]) = Story::of_calls(["write", "read"]);
    for call in [done, lost] {
        story.decided(call, Verdict::Allow);
    }
    for call in [done, lost] {
        story.started(call);
    }
    story.completed(done, "ok");
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::Execute(vec![lost]));
}

#[test]
fn a_call_that_was_allowed_but_not_started_runs_after_a_crash() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.decided(call, Verdict::Allow);
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::Execute(vec![call]));
}

#[test]
fn a_call_whose_session_waits_for_someone_waits_too_and_is_attached_to_again() {
    let (mut story, call) = Story::of_a_running_call("child");
    let input_hash = story.call(call).input_hash();
    let asks = asked(call, input_hash, "child", None);
    story.add(asks.clone());
    assert_eq!(story.call(call).state, crate::CallState::Suspended);
    assert_eq!((story.next(), story.session.is_waiting()), (Next::Wait { due: None }, true));
    let worked = story.run().spent.micros;
    story.now += 60_000_000;
    // A process that takes it up meanwhile interrupts nothing.
    story.resumed(ResumeReason::Recovery);
    assert_eq!((story.run().spent.micros, story.run().crashes), (worked, 0));
    assert_eq!(story.next(), Next::Wait { due: None });
    story.add(ApprovalGranted {
        call,
        by: "session:7".into(),
        groups: vec![],
        input_hash,
        input: None,
        scope: Scope::Once,
        runs: None,
    });
    assert_eq!(story.next(), Next::Execute(vec![call]));
    story.started(call);
    assert_eq!((story.call(call).attempt, story.next()), (2, Next::Busy));
    // It may take more than one person's word.
    story.add(asks);
    assert_eq!(story.next(), Next::Wait { due: None });
    story.add(RunCancelRequested {});
    let Next::Cancel(closings) = story.next() else { panic!("{:?}", story.next()) };
    assert_eq!((closings[0].call, closings[0].outcome), (call, Outcome::Unknown));
}

#[test]
fn only_a_call_of_an_agent_can_be_suspended() {
    let (mut story, call) = Story::of_a_running_call("write");
    let input_hash = story.call(call).input_hash();
    story.add(asked(call, input_hash, "child", None));
    assert!(matches!(story.call(call).state, crate::CallState::Awaiting { .. }));
}

use super::*;
use crate::compact::Plan;
use crate::window;
use weir_types::Seq;

/// A run of six steps with results of some 1,300 tokens each, so that the next call needs a summary first.
fn long() -> Story {
    let mut story = Story::of_a_run();
    for _ in 0..6 {
        story.use_tool("read", &"r".repeat(5_200));
    }
    story
}

/// The summary that is wanted now.
fn plan(story: &Story) -> Plan {
    match story.next() {
        Next::Compact { plan, .. } => plan,
        other => panic!("no summary is wanted: {other:?}"),
    }
}

#[test]
fn a_conversation_that_grows_too_long_is_summarised_first() {
    let mut story = long();
    let plan = plan(&story);
    assert_eq!(
        story.next(),
        Next::Compact { begin: Some(7), attempt: 1, not_before: None, plan: plan.clone() }
    );
    story.ask();
    assert_eq!(story.next(), Next::Busy);
    let newest = story.session.transcript.entries.last().unwrap().seq();
    story.summarised(plan.through, "so far so good");
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 1, not_before: None });
    assert_eq!(story.session.transcript.entries.last().unwrap().seq(), newest);
}

#[test]
fn a_summariser_that_fails_is_tried_twice_and_the_turn_goes_on_without() {
    let mut story = long();
    story.ask();
    story.fails(FailureClass::Overloaded);
    let not_before = Some(story.at().after_millis(5_000));
    let plan = plan(&story);
    assert_eq!(story.next(), Next::Compact { begin: None, attempt: 2, not_before, plan });
    story.ask();
    let before = story.session.transcript.clone();
    story.fails(FailureClass::Overloaded);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 1, not_before: None });
    assert_eq!(story.session.transcript, before);
    // The next iteration tries again.
    story.ask();
    story.answer_with_calls(&["read"]);
    let call = story.take_up()[0];
    story.decided(call, Verdict::Allow);
    story.started(call);
    story.completed(call, "42");
    assert!(matches!(story.next(), Next::Compact { begin: Some(8), attempt: 1, .. }));
}

#[test]
fn a_summary_that_cannot_be_used_is_not_asked_for_twice() {
    let mut story = long();
    story.ask();
    story.fails(FailureClass::Invalid);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 1, not_before: None });
}

#[test]
fn a_crash_during_a_summary_asks_for_it_again() {
    let mut story = long();
    story.ask();
    story.resumed(ResumeReason::Recovery);
    let plan = plan(&story);
    assert_eq!(story.next(), Next::Compact { begin: None, attempt: 2, not_before: None, plan });
}

#[test]
fn a_request_that_is_too_long_after_all_is_made_shorter_once() {
    let mut story = Story::of_a_run();
    for _ in 0..3 {
        story.use_tool("read", &"r".repeat(5_200));
    }
    assert!(matches!(story.next(), Next::CallModel { begin: Some(4), .. }));
    story.ask();
    story.fails(FailureClass::ContextOverflow);
    let plan = plan(&story);
    story.ask();
    story.summarised(plan.through, "so far so good");
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 2, not_before: None });
    story.ask();
    story.fails(FailureClass::ContextOverflow);
    assert_eq!(story.next(), Next::Fail { class: FailureClass::ContextOverflow, message: "no".into() });
}

#[test]
fn a_request_that_is_too_long_and_cannot_be_summarised_is_trimmed() {
    let mut story = Story::of_a_run();
    for _ in 0..3 {
        story.use_tool("read", &"r".repeat(5_200));
    }
    story.ask();
    let whole = window::select(&story.session, &story.agent).unwrap();
    story.fails(FailureClass::ContextOverflow);
    story.ask();
    story.fails(FailureClass::Refused);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 2, not_before: None });
    let trimmed = window::select(&story.session, &story.agent).unwrap();
    assert_eq!((whole.dropped, trimmed.dropped), (0, 2));
    assert!(trimmed.tokens <= whole.tokens / 2);
}

#[test]
fn a_single_message_that_is_too_long_after_all_is_cut() {
    let mut story = Story::new();
    story.say(&"long ".repeat(1_000));
    story.start_run();
    let whole = window::select(&story.session, &story.agent).unwrap();
    story.ask();
    story.fails(FailureClass::ContextOverflow);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 2, not_before: None });
    let cut = window::select(&story.session, &story.agent).unwrap();
    assert!(cut.tokens <= whole.tokens / 2, "{} of {}", cut.tokens, whole.tokens);
    story.ask();
    story.fails(FailureClass::ContextOverflow);
    assert_eq!(story.next(), Next::Fail { class: FailureClass::ContextOverflow, message: "no".into() });
}

#[test]
fn a_short_request_that_is_too_long_all_the_same_is_tried_once_more() {
    let mut story = Story::of_a_run();
    story.ask();
    story.fails(FailureClass::ContextOverflow);
    assert_eq!(window::budget(&story.session, &story.agent), 256);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 2, not_before: None });
    story.ask();
    story.fails(FailureClass::ContextOverflow);
    assert_eq!(story.next(), Next::Fail { class: FailureClass::ContextOverflow, message: "no".into() });
}

#[test]
fn a_summary_counts_as_a_call() {
    let mut story = long();
    story.agent.limits.model_calls = Some(6);
    assert_eq!(
        story.next(),
        Next::Park { why: Parked::Limit { limit: Limit::ModelCalls, max: 6 }, closing: vec![] }
    );
}

#[test]
fn a_long_conversation_is_summarised_in_chunks() {
    let mut story = Story::of_a_run();
    story.agent.limits.iterations = 100;
    for _ in 0..14 {
        story.use_tool("read", &"r".repeat(2_000));
    }
    // A quarter of the window is left.
    story.agent.limits.context_tokens = Some(2_500);
    let mut through = Seq(0);
    for chunk in 0.. {
        let Next::Compact { plan, .. } = story.next() else {
            assert!(chunk > 1, "one chunk was enough");
            break;
        };
        assert!(plan.through > through);
        through = plan.through;
        story.ask();
        story.summarised(plan.through, "short");
    }
    assert!(matches!(story.next(), Next::CallModel { begin: None, attempt: 1, .. }));
}

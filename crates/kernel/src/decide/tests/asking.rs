use super::*;
use crate::window;

#[test]
fn a_provider_that_is_busy_is_asked_again_five_times_in_all() {
    use FailureClass::{Overloaded, RateLimited, Transport, Truncated};
    for class in [RateLimited, Overloaded, Transport, Truncated] {
        let mut story = Story::of_a_run();
        story.ask();
        for attempt in 2..=5 {
            story.fails(class);
            let not_before = Some(story.at().after_millis(5_000));
            assert_eq!(story.next(), Next::CallModel { begin: None, attempt, not_before });
            story.ask();
        }
        story.fails(class);
        assert_eq!(story.next(), Next::Fail { class, message: "no".into() });
    }
}

#[test]
fn what_waiting_does_not_help_fails_at_once() {
    use FailureClass::{Auth, Invalid, Quota, Refused};
    for class in [Auth, Quota, Refused, Invalid] {
        let mut story = Story::of_a_run();
        story.ask();
        story.fails(class);
        assert_eq!(story.next(), Next::Fail { class, message: "no".into() });
    }
}

#[test]
fn a_crash_is_no_failure_of_the_provider() {
    let mut story = Story::of_a_run();
    story.ask();
    for _ in 0..4 {
        story.fails(FailureClass::Overloaded);
        story.ask();
    }
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 6, not_before: None });
}

#[test]
fn an_answer_that_was_paused_is_asked_for_more() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_blocks(vec![weir_types::Block::text("so far")], Stop::Paused);
    assert_eq!(story.next(), Next::CallModel { begin: Some(2), attempt: 1, not_before: None });
    story.ask();
    story.answer("and done");
    assert_eq!(story.next(), Next::Finish { stop: Stop::End });
}

#[test]
fn an_answer_of_another_run_is_no_answer() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer("done");
    let (usage, cost) = Default::default();
    story.add(RunFinished { stop: Stop::End, answer: None, usage, cost });
    let run = weir_types::RunId::from_u128(9);
    story.add(RunStarted { run, trigger: Trigger::Resume, lane: "direct".into() });
    assert_eq!(story.next(), Next::CallModel { begin: Some(1), attempt: 1, not_before: None });
}

#[test]
fn a_run_ends_as_its_answer_does() {
    for stop in [Stop::End, Stop::MaxTokens, Stop::Refused, Stop::ToolUse] {
        let mut story = Story::of_a_run();
        story.ask();
        story.answer_blocks(vec![], stop);
        assert_eq!(story.next(), Next::Finish { stop });
    }
}

#[test]
fn a_window_without_room_for_the_latest_message_fails_with_advice() {
    let mut story = Story::of_a_run();
    story.agent.limits.context_tokens = Some(120);
    story.agent.limits.output_tokens = Some(100);
    assert_eq!(window::select(&story.session, &story.agent), None);
    let message = "the latest message does not fit: of 120 tokens the system prompt and the tools take about 39 and \
                   100 are kept for the answer; shorten the prompt, offer fewer tools, lower \
                   `limits.output_tokens`, raise `limits.context_tokens`, or choose a model with a larger window";
    assert_eq!(story.next(), Next::Fail { class: FailureClass::Invalid, message: message.into() });
    story.add(RunErrored { class: FailureClass::Invalid, message: message.into() });
    assert_eq!(story.next(), Next::Rest);
}

#[test]
fn a_run_without_any_message_fails_with_advice() {
    let mut story = Story::new();
    let run = weir_types::RunId::from_u128(1);
    story.add(RunStarted { run, trigger: Trigger::Resume, lane: "direct".into() });
    let message = "there is no message to answer: send one".to_owned();
    assert_eq!(story.next(), Next::Fail { class: FailureClass::Invalid, message });
}

use weir_events::*;
use weir_types::{Outcome, Verdict, text_of};

use crate::decide::Next;
use crate::story::Story;

/// What the model was told of the newest call.
fn told(story: &Story) -> String {
    let entry = story.session.transcript.last_assistant().unwrap();
    match &entry.calls.last().unwrap().state {
        crate::CallState::Done(result) => text_of(&result.content),
        open => panic!("{open:?}"),
    }
}

fn is_warned(story: &Story) -> bool {
    told(story).contains("the same call of `read` with the same arguments and the same result")
}

/// The same call, and what comes of it.
fn again(story: &mut Story, tool: &str, result: &str) {
    story.use_tool_with(tool, weir_types::Json::empty_object(), result);
}

fn of_a_long_run() -> Story {
    let mut story = Story::of_a_run();
    story.agent.limits.iterations = 1_000;
    story
}

fn is_stopped(story: &Story) -> bool {
    matches!(story.next(), Next::Park { why: Parked::Loop { .. }, .. })
}

#[test]
fn the_third_time_it_is_told_and_after_the_sixth_it_is_stopped() {
    let mut story = of_a_long_run();
    for time in 1..=6 {
        assert!(!is_stopped(&story), "{time}");
        again(&mut story, "read", "42");
        assert_eq!(is_warned(&story), time >= 3, "{time}");
        assert!(told(&story).ends_with("42"));
    }
    let why = Parked::Loop { tool: "read".into(), count: 6 };
    assert_eq!(story.next(), Next::Park { why: why.clone(), closing: vec![] });
    // Whoever resumes it knows.
    story.add(RunParked { why });
    story.resumed(ResumeReason::Asked);
    again(&mut story, "read", "42");
    assert!(!is_warned(&story) && !is_stopped(&story));
}

#[test]
fn another_result_or_another_call_is_progress() {
    let mut story = of_a_long_run();
    for time in 0..20 {
        again(&mut story, "read", &format!("{time} percent"));
        assert!(!is_warned(&story));
    }
    // The same file is read before each piece of work.
    for time in 0..20 {
        again(&mut story, "read", "rules");
        assert!(!is_warned(&story), "{time}");
        again(&mut story, "put", &format!("done {time}"));
    }
    assert!(!is_stopped(&story));
}

#[test]
fn loops_over_several_calls_are_noticed() {
    for period in [2, 3, 30] {
        let mut story = of_a_long_run();
        let mut calls = 0;
        while !is_stopped(&story) {
            again(&mut story, "read", &format!("answer {}", calls % period));
            calls += 1;
            assert_eq!(is_warned(&story), calls > 2 * period, "period {period}, call {calls}");
        }
        assert_eq!(calls, 5 * period + 1, "period {period}");
    }
}

#[test]
fn what_fails_the_same_way_is_the_same_and_memory_is_bounded() {
    let mut story = of_a_long_run();
    for time in 1..=6 {
        story.ask();
        story.answer_with_calls(&["write"]);
        let call = story.take_up()[0];
        story.decided(call, Verdict::Deny);
        let (class, message) = ("denied".to_owned(), "no".to_owned());
        story.add(ToolFailed { call, class, message, outcome: Outcome::Denied, log: vec![], bill: None });
        assert_eq!(told(&story).contains("the same call of `write`"), time >= 3);
    }
    assert!(is_stopped(&story));
    let mut story = of_a_long_run();
    for time in 0..200 {
        again(&mut story, "read", &time.to_string());
    }
    assert_eq!(story.run().repeats.0.len(), super::REMEMBERED_MAX);
}

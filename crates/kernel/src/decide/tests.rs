use weir_events::*;
use weir_types::Verdict;

use super::*;
use crate::fold::INTERRUPTED;
use crate::session::{Ending, Entry};
use crate::story::Story;

mod asking;
mod calls;
mod errands;
mod limits;
mod summaries;

/// A call that was cut off before it had any effect.
fn interrupted(call: CallId) -> Closing {
    let (class, message) = ("cancelled".to_owned(), INTERRUPTED.to_owned());
    Closing { call, class, message, outcome: Outcome::Interrupted }
}

/// A call that was stopped and may have had an effect.
fn stopped(call: CallId) -> Closing {
    let message =
        "outcome unknown: the run was stopped while it was running; it may or may not have taken effect";
    Closing { message: message.to_owned(), outcome: Outcome::Unknown, ..interrupted(call) }
}

fn failed(story: &mut Story, closing: Closing) {
    let Closing { call, class, message, outcome } = closing;
    story.add(ToolFailed { call, class, message, outcome, log: vec![], bill: None });
}

#[test]
fn nothing_is_done_until_someone_says_something() {
    let mut story = Story::new();
    assert_eq!(story.next(), Next::Rest);
    story.say("hello");
    assert_eq!(story.next(), Next::StartRun);
    let mut story = Story::new();
    story.add(ExternalSignal { name: "tick".into(), data: Json::null() });
    assert_eq!(story.next(), Next::StartRun);
}

#[test]
fn a_turn_without_tools() {
    let mut story = Story::of_a_run();
    assert_eq!(story.next(), Next::CallModel { begin: Some(1), attempt: 1, not_before: None });
    story.add(IterationStarted { n: 1 });
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 1, not_before: None });
    story.requested(1, Purpose::Turn);
    assert_eq!(story.next(), Next::Busy);
    story.answer("hi");
    assert_eq!(story.next(), Next::Finish { stop: Stop::End });
    story.add(RunFinished {
        stop: Stop::End,
        answer: None,
        usage: Default::default(),
        cost: Default::default(),
    });
    assert_eq!(story.next(), Next::Rest);
}

#[test]
fn a_message_during_a_run_is_told_with_the_next_call_or_starts_another_run() {
    let (mut story, call) = Story::of_a_running_call("read");
    story.say("and this");
    assert_eq!(story.next(), Next::Busy);
    story.completed(call, "42");
    assert_eq!(story.session.inbox.len(), 1);
    story.ask();
    assert_eq!(story.session.inbox.len(), 0);
    story.say("and that");
    story.answer("done");
    assert_eq!(story.next(), Next::Finish { stop: Stop::End });
    let (usage, cost) = Default::default();
    story.add(RunFinished { stop: Stop::End, answer: None, usage, cost });
    assert_eq!(story.next(), Next::StartRun);
}

#[test]
fn a_run_is_not_started_again_for_what_it_was_stopped_at() {
    let stops: [fn(&mut Story); 3] = [
        |story| {
            story.add(RunCancelled { said: None });
        },
        |story| {
            story.add(RunErrored { class: FailureClass::Auth, message: "no".into() });
        },
        |story| {
            story.add(RunParked { why: Parked::Limit { limit: Limit::Tokens, max: 1 } });
        },
    ];
    for stop in stops {
        // Before the first model call, so that the model has not been told anything.
        let mut story = Story::of_a_run();
        stop(&mut story);
        assert_eq!(story.next(), Next::Rest);
        story.say("again");
        assert_eq!(story.next(), Next::StartRun);
    }
}

#[test]
fn cancelling_ends_the_run_in_every_phase() {
    let cancel = |mut story: Story, closings: Vec<Closing>| {
        story.add(RunCancelRequested {});
        assert_eq!(story.next(), Next::Cancel(closings.clone()));
        closings.into_iter().for_each(|closing| failed(&mut story, closing));
        story.add(RunCancelled { said: None });
        assert_eq!(story.next(), Next::Rest);
        assert_eq!(story.session.ended.as_ref().unwrap().how, Ending::Cancelled);
        story
    };
    cancel(Story::of_a_run(), vec![]);
    let mut story = Story::of_a_run();
    story.ask();
    cancel(story, vec![]);
    let mut story = Story::of_a_run();
    story.ask();
    story.fails(FailureClass::Overloaded);
    cancel(story, vec![]);
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_with_calls(&["write"]);
    cancel(story, vec![]);
    let (mut story, [done, awaiting, running, read]) = Story::of_calls(["put", "ask", "write", "read"]);
    story.decided(done, Verdict::Allow);
    story.started(done);
    story.completed(done, "ok");
    story.ask_someone(awaiting, None);
    for call in [running, read] {
        story.decided(call, Verdict::Allow);
    }
    for call in [running, read] {
        story.started(call);
    }
    cancel(story, vec![interrupted(awaiting), stopped(running), interrupted(read)]);
}

#[test]
fn cancelling_without_a_run_is_nothing() {
    let mut story = Story::new();
    story.add(RunCancelRequested {});
    story.say("hello");
    assert_eq!(story.next(), Next::StartRun);
}

#[test]
fn a_parked_run_can_be_cancelled() {
    let mut story = Story::of_a_run();
    story.add(RunParked { why: Parked::Halted });
    story.add(RunCancelRequested {});
    assert_eq!(story.next(), Next::Cancel(vec![]));
}

#[test]
fn halting_parks_the_run_until_someone_resumes_it() {
    let (mut story, call) = Story::of_a_running_call("write");
    story.add(SessionHalted { reason: "look".into(), imported: false });
    assert_eq!(story.next(), Next::Park { why: Parked::Halted, closing: vec![stopped(call)] });
    failed(&mut story, stopped(call));
    story.add(RunParked { why: Parked::Halted });
    assert_eq!(story.next(), Next::Rest);
    story.say("more");
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::Rest);
    story.resumed(ResumeReason::Asked);
    assert_eq!(story.next(), Next::CallModel { begin: Some(2), attempt: 1, not_before: None });
    assert_eq!(story.session.lifecycle, Lifecycle::Open);
}

#[test]
fn a_halted_session_starts_nothing() {
    let mut story = Story::new();
    story.add(SessionHalted { reason: "look".into(), imported: false });
    story.add(SessionHalted { reason: "again".into(), imported: false });
    assert_eq!(story.session.lifecycle, Lifecycle::Halted("look".into()));
    story.say("hello");
    assert_eq!(story.next(), Next::Rest);
    story.resumed(ResumeReason::Asked);
    assert_eq!(story.next(), Next::StartRun);
}

#[test]
fn a_model_call_that_a_halt_interrupted_is_made_again() {
    let mut story = Story::of_a_run();
    story.ask();
    story.add(SessionHalted { reason: "look".into(), imported: false });
    assert_eq!(story.next(), Next::Park { why: Parked::Halted, closing: vec![] });
    story.add(RunParked { why: Parked::Halted });
    story.resumed(ResumeReason::Asked);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 2, not_before: None });
}

#[test]
fn closing_cancels_and_is_for_good() {
    let (mut story, call) = Story::of_a_running_call("put");
    story.add(SessionClosed { reason: "done".into() });
    assert_eq!(story.next(), Next::Cancel(vec![stopped(call)]));
    failed(&mut story, stopped(call));
    story.add(RunCancelled { said: None });
    story.say("hello?");
    assert_eq!(story.next(), Next::Rest);
    story.resumed(ResumeReason::Asked);
    story.add(SessionHalted { reason: "look".into(), imported: false });
    assert_eq!((story.next(), story.session.lifecycle), (Next::Rest, Lifecycle::Closed("done".into())));
    let mut story = Story::of_a_run();
    story.add(RunParked { why: Parked::Halted });
    story.add(SessionClosed { reason: "done".into() });
    assert_eq!(story.next(), Next::Rest);
}

#[test]
fn a_new_message_takes_the_place_of_a_parked_run() {
    let mut story = Story::of_a_run();
    story.ask();
    story.add(RunParked { why: Parked::Limit { limit: Limit::Iterations, max: 1 } });
    assert_eq!(story.next(), Next::Rest);
    let parked = story.run().id;
    story.say("never mind");
    story.start_run();
    let ended = story.session.ended.clone().unwrap();
    assert_eq!((ended.run, ended.how), (parked, Ending::Abandoned));
    assert_eq!(story.next(), Next::CallModel { begin: Some(1), attempt: 1, not_before: None });
    let told = story.session.transcript.entries.iter().filter_map(Entry::as_user).count();
    assert_eq!(told, 2);
}

#[test]
fn three_crashes_in_one_iteration_park_the_run_and_asking_to_resume_forgives_them() {
    let mut story = Story::of_a_run();
    story.ask();
    story.resumed(ResumeReason::Recovery);
    story.ask();
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 3, not_before: None });
    story.ask();
    story.resumed(ResumeReason::Recovery);
    let park = Next::Park { why: Parked::Crashes { count: 3 }, closing: vec![] };
    assert_eq!(story.next(), park);
    story.add(RunParked { why: Parked::Crashes { count: 3 } });
    story.resumed(ResumeReason::Recovery);
    assert_eq!((story.next(), story.run().crashes), (Next::Rest, 3));
    story.resumed(ResumeReason::Asked);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 4, not_before: None });
}

#[test]
fn crashes_of_another_iteration_do_not_count() {
    let mut story = Story::of_a_run();
    story.ask();
    for _ in 0..2 {
        story.resumed(ResumeReason::Recovery);
        story.ask();
    }
    story.answer_with_calls(&["read"]);
    let call = story.take_up()[0];
    story.decided(call, Verdict::Allow);
    story.started(call);
    story.completed(call, "42");
    story.ask();
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.next(), Next::CallModel { begin: None, attempt: 2, not_before: None });
}

#[test]
fn crashes_park_the_calls_too() {
    let (mut story, call) = Story::of_a_running_call("write");
    (0..3).for_each(|_| story.resumed(ResumeReason::Recovery));
    assert_eq!(story.next(), Next::Park { why: Parked::Crashes { count: 3 }, closing: vec![stopped(call)] });
}

#[test]
fn a_run_that_waits_for_someone_survives_any_number_of_restarts() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    (0..10).for_each(|_| story.resumed(ResumeReason::Recovery));
    assert_eq!((story.next(), story.run().crashes), (Next::Wait { due: None }, 0));
}

#[test]
fn taking_a_session_up_for_an_input_is_no_crash() {
    let mut story = Story::of_a_run();
    (0..5).for_each(|_| story.resumed(ResumeReason::Input));
    assert_eq!(story.next(), Next::CallModel { begin: Some(1), attempt: 1, not_before: None });
}

#[test]
fn a_process_that_stops_in_good_order_is_no_crash_and_what_it_was_at_goes_on() {
    let mut story = Story::of_a_run();
    for attempt in 2..=9 {
        story.ask();
        story.add(SessionReleased { reason: "the process stops".to_owned() });
        assert_eq!(story.next(), Next::CallModel { begin: None, attempt, not_before: None });
        story.resumed(ResumeReason::Input);
        assert_eq!(story.next(), Next::CallModel { begin: None, attempt, not_before: None });
    }
}

#[test]
fn a_fork_in_the_middle_of_anything_rests() {
    let stories: [fn() -> Story; 5] = [
        Story::of_a_run,
        || {
            let mut story = Story::of_a_run();
            story.ask();
            story
        },
        || Story::of_calls(["write"]).0,
        || {
            let (mut story, [call]) = Story::of_calls(["write"]);
            story.ask_someone(call, None);
            story
        },
        || Story::of_a_running_call("write").0,
    ];
    for story in stories {
        let mut story = story();
        story.forked();
        assert_eq!(story.next(), Next::Rest);
        assert_eq!(story.session.ended.as_ref().unwrap().how, Ending::Abandoned);
        assert_eq!(story.session.calls(), []);
        story.say("instead");
        story.start_run();
        assert_eq!(story.next(), Next::CallModel { begin: Some(1), attempt: 1, not_before: None });
    }
    // What nobody has taken up yet is taken up on the branch.
    let mut story = Story::new();
    story.say("hello");
    story.forked();
    assert_eq!(story.next(), Next::StartRun);
}

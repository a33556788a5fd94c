use super::*;
use crate::session::CallState;

fn allowed(story: &mut Story, tool: &str) -> CallId {
    let errand = story.errand(tool);
    assert_eq!(story.next(), Next::Authorise(vec![errand]));
    story.decided(errand, Verdict::Allow);
    assert_eq!(story.next(), Next::Execute(vec![errand]));
    story.started(errand);
    errand
}

#[test]
fn an_errand_needs_no_run_and_leaves_nothing_in_the_conversation() {
    let mut story = Story::new();
    let errand = allowed(&mut story, "read");
    assert_eq!(story.next(), Next::Busy);
    story.completed(errand, "done");
    assert_eq!((story.next(), story.session.errands.len()), (Next::Rest, 0));
    assert!(story.session.transcript.entries.is_empty() && story.session.inbox.is_empty());
}

#[test]
fn errands_go_beside_a_run_and_their_results_are_not_the_models() {
    let mut story = Story::of_a_run();
    story.ask();
    let errand = allowed(&mut story, "write");
    assert_eq!(story.next(), Next::Busy);
    let before = story.session.transcript.clone();
    story.add(ToolFailed {
        call: errand,
        class: "boom".into(),
        message: "it failed".into(),
        outcome: Outcome::Failed,
        log: vec![],
        bill: None,
    });
    assert_eq!((&story.session.transcript, &story.session.activity.failures), (&before, &vec![]));
    story.answer_with_calls(&["read"]);
    let call = story.take_up()[0];
    let other = story.errand("read");
    assert_eq!(story.next(), Next::Authorise(vec![other]));
    story.decided(other, Verdict::Allow);
    story.started(other);
    assert_eq!(story.next(), Next::Authorise(vec![call]));
}

#[test]
fn a_run_does_not_end_under_an_errand() {
    let mut story = Story::of_a_run();
    story.ask();
    let errand = allowed(&mut story, "read");
    story.answer("hi");
    assert_eq!(story.next(), Next::Busy);
    story.completed(errand, "done");
    assert_eq!(story.next(), Next::Finish { stop: Stop::End });
}

#[test]
fn an_errand_that_waits_for_people_keeps_nothing_else_waiting() {
    let mut story = Story::of_a_run();
    story.ask();
    let errand = story.errand("write");
    let expires = story.at().after_millis(60_000);
    story.ask_someone(errand, Some(expires));
    story.answer("hi");
    assert_eq!(story.next(), Next::Finish { stop: Stop::End });
    let (usage, cost) = Default::default();
    story.add(RunFinished { stop: Stop::End, answer: None, usage, cost });
    assert_eq!(story.next(), Next::Wait { due: Some(expires) });
    let hash = story.call(errand).input_hash();
    story.granted(errand, hash, None);
    assert_eq!(story.next(), Next::Authorise(vec![errand]));
    story.decided(errand, Verdict::Allow);
    assert_eq!(story.next(), Next::Execute(vec![errand]));
}

#[test]
fn an_errand_nobody_approves_is_over_in_time() {
    let mut story = Story::new();
    let errand = story.errand("write");
    let expires = story.at().after_millis(5);
    story.ask_someone(errand, Some(expires));
    story.now += 5_000;
    let message = "tool 'write' blocked: nobody approved it in time".to_owned();
    let closing = Closing { call: errand, class: "expired".into(), message, outcome: Outcome::Denied };
    assert_eq!(story.next(), Next::Close(vec![closing]));
}

#[test]
fn whatever_stops_the_session_stops_its_errands() {
    let stops: [fn(&mut Story); 2] = [
        |story| _ = story.add(SessionHalted { reason: "stop".into(), imported: false }),
        |story| _ = story.add(SessionClosed { reason: "stop".into() }),
    ];
    for stop in stops {
        let mut story = Story::new();
        let errand = allowed(&mut story, "write");
        stop(&mut story);
        let Next::Drop(closings) = story.next() else { panic!("{:?}", story.next()) };
        assert_eq!((closings.len(), closings[0].call, closings[0].outcome), (1, errand, Outcome::Unknown));
        failed(&mut story, closings[0].clone());
        assert_eq!(story.next(), Next::Rest);
        // Too late.
        story.errand("read");
        assert!(story.session.errands.is_empty());
    }
    let mut story = Story::of_a_run();
    story.ask();
    let errand = allowed(&mut story, "read");
    story.add(RunCancelRequested {});
    let Next::Cancel(closings) = story.next() else { panic!("{:?}", story.next()) };
    assert_eq!(closings.iter().map(|closing| closing.call).collect::<Vec<_>>(), [errand]);
}

#[test]
fn an_errand_is_not_decided_while_its_session_is_halted_or_parked() {
    let mut story = Story::new();
    let errand = story.errand("write");
    story.add(SessionHalted { reason: "stop".into(), imported: false });
    story.decided(errand, Verdict::Allow);
    story.started(errand);
    assert_eq!(story.call(errand).state, CallState::Requested);
    let mut story = Story::of_a_run();
    story.add(RunParked { why: Parked::Crashes { count: 3 } });
    let errand = story.errand("write");
    story.decided(errand, Verdict::Allow);
    assert_eq!(story.call(errand).state, CallState::Requested);
    assert!(matches!(story.next(), Next::Drop(closings) if closings.len() == 1));
}

#[test]
fn a_crash_repeats_harmless_errands_and_no_others_and_not_for_ever() {
    for (tool, repeats) in [("read", true), ("put", true), ("retry", true), ("write", false)] {
        let mut story = Story::new();
        let errand = allowed(&mut story, tool);
        for attempt in 1..=3 {
            story.resumed(ResumeReason::Recovery);
            match story.next() {
                Next::Execute(calls) if repeats && attempt < 3 => {
                    assert_eq!(calls, [errand]);
                    story.started(errand);
                }
                Next::Close(closings) if !repeats || attempt == 3 => {
                    let unknown = if tool == "read" { Outcome::Interrupted } else { Outcome::Unknown };
                    assert_eq!(closings[0].outcome, unknown);
                    break;
                }
                next => panic!("{tool} {attempt}: {next:?}"),
            }
        }
    }
}

#[test]
fn a_fork_leaves_errands_behind() {
    let mut story = Story::new();
    allowed(&mut story, "read");
    story.forked();
    assert_eq!((story.next(), story.session.errands.len()), (Next::Rest, 0));
}

#[test]
fn an_errand_asked_for_twice_is_one_and_there_are_only_so_many() {
    let mut story = Story::new();
    for n in 0..2 * crate::ERRANDS_MAX {
        story.errand("read");
        assert_eq!(story.session.errands.len(), (n + 1).min(crate::ERRANDS_MAX));
    }
    let mut story = Story::new();
    let errand = story.errand("read");
    let again = ToolRequested {
        call: errand,
        provider_id: String::new(),
        tool: "write".into(),
        source: "test".into(),
        input: Json::empty_object(),
        effect: weir_types::Effect::Write,
        risk: weir_types::Risk::Low,
        on_interrupt: weir_types::OnInterrupt::Report,
        key: Some("k".into()),
    };
    story.add(again);
    assert_eq!((story.session.errands.len(), story.call(errand).tool.as_str()), (1, "read"));
}

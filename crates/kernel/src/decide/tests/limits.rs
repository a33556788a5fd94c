use super::*;
use crate::agent::Limits;
use weir_types::NanoUsd;

fn parked(limit: Limit, max: u64) -> Next {
    Next::Park { why: Parked::Limit { limit, max }, closing: vec![] }
}

/// A run after one iteration with a tool.
fn second_iteration(limits: Limits) -> Story {
    let mut story = Story::of_a_run();
    story.use_tool("read", "42");
    story.agent.limits = limits;
    story
}

/// What is reserved for the next call: its tokens, which cost a thousand billionths each.
fn reserve(story: &Story) -> u64 {
    crate::window::reserve(&story.session, &story.agent).tokens
}

#[test]
fn each_limit_parks_the_run_before_the_call_that_would_break_it() {
    let free = second_iteration(Limits::default());
    let tokens = free.run().spent.usage.total() + reserve(&free);
    let millis = free.run().spent.micros / 1_000;
    let check = |limits: Limits, next: Next| assert_eq!(second_iteration(limits).next(), next, "{limits:?}");
    let go_on = || Next::CallModel { begin: Some(2), attempt: 1, not_before: None };
    let none = Limits { iterations: 2, ..Limits::default() };
    check(none, go_on());
    check(Limits { iterations: 1, ..none }, parked(Limit::Iterations, 1));
    check(Limits { model_calls: Some(2), ..none }, go_on());
    check(Limits { model_calls: Some(1), ..none }, parked(Limit::ModelCalls, 1));
    check(Limits { tokens: Some(tokens), ..none }, go_on());
    check(Limits { tokens: Some(tokens - 1), ..none }, parked(Limit::Tokens, tokens - 1));
    let nano = tokens * 1_000;
    check(Limits { usd: Some(NanoUsd(nano)), ..none }, go_on());
    check(Limits { usd: Some(NanoUsd(nano - 1)), ..none }, parked(Limit::Usd, nano - 1));
    check(Limits { wall_clock_ms: Some(millis), ..none }, go_on());
    check(Limits { wall_clock_ms: Some(millis - 1), ..none }, parked(Limit::WallClock, millis - 1));
}

#[test]
fn asking_to_resume_grants_as_much_again() {
    let mut story = second_iteration(Limits { iterations: 1, ..Limits::default() });
    story.add(RunParked { why: Parked::Limit { limit: Limit::Iterations, max: 1 } });
    assert_eq!(story.next(), Next::Rest);
    story.resumed(ResumeReason::Asked);
    assert_eq!(story.next(), Next::CallModel { begin: Some(2), attempt: 1, not_before: None });
    story.use_tool("read", "43");
    assert_eq!(story.next(), parked(Limit::Iterations, 1));
}

#[test]
fn whoever_resumes_says_how_much_more() {
    let limits = Limits {
        model_calls: Some(1),
        tokens: Some(100_000),
        wall_clock_ms: Some(60_000),
        ..Limits::default()
    };
    let mut story = second_iteration(limits);
    let stopped = |story: &Story| match story.next() {
        Next::Park { why: Parked::Limit { limit, max }, .. } => Some((limit, max)),
        _ => None,
    };
    assert_eq!(stopped(&story), Some((Limit::ModelCalls, 1)));
    let mut resume = |budget| {
        story.add(SessionResumed {
            reason: ResumeReason::Asked,
            owner: weir_types::OwnerId::from_u128(1),
            budget,
            keeps_limits: false,
        });
        let mut calls = 0;
        while stopped(&story).is_none() {
            story.use_tool("read", "42");
            calls += 1;
        }
        (calls, stopped(&story).unwrap())
    };
    let given = |model_calls, tokens| Some(Allowance { model_calls, tokens, ..Allowance::default() });
    assert_eq!(resume(given(Some(3), None)), (3, (Limit::ModelCalls, 3)));
    assert_eq!(resume(None), (1, (Limit::ModelCalls, 1)), "the next one says nothing: as much again");
    assert_eq!(
        resume(given(Some(3), Some(7))),
        (0, (Limit::Tokens, 7)),
        "less than it was is also an answer"
    );
    let budget = Some(Allowance { wall_clock_ms: Some(9), ..Allowance::default() });
    story.add(SessionResumed {
        reason: ResumeReason::Asked,
        owner: weir_types::OwnerId::from_u128(1),
        budget,
        keeps_limits: false,
    });
    assert_eq!(time_left_ms(&story.session, &story.agent, story.at()), Some(9));
}

#[test]
fn an_attempt_more_is_no_iteration_more_but_a_call_more() {
    let mut story = Story::of_a_run();
    story.agent.limits.iterations = 1;
    story.ask();
    story.fails(FailureClass::Overloaded);
    assert!(matches!(story.next(), Next::CallModel { attempt: 2, .. }));
    story.agent.limits.model_calls = Some(1);
    assert_eq!(story.next(), parked(Limit::ModelCalls, 1));
}

#[test]
fn a_failure_for_good_is_told_even_at_a_limit() {
    let mut story = Story::of_a_run();
    story.agent.limits.model_calls = Some(1);
    story.ask();
    story.fails(FailureClass::Auth);
    assert_eq!(story.next(), Next::Fail { class: FailureClass::Auth, message: "no".into() });
}

#[test]
fn an_answer_is_an_answer_even_at_a_limit() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer("done");
    story.agent.limits = Limits { iterations: 0, tokens: Some(0), ..Limits::default() };
    assert_eq!(story.next(), Next::Finish { stop: Stop::End });
}

#[test]
fn the_clock_stands_still_for_people_and_while_the_process_is_down() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.agent.limits.wall_clock_ms = Some(100);
    story.ask_someone(call, None);
    let worked = story.run().spent.micros;
    story.now += 60_000_000;
    let hash = story.call(call).input_hash();
    story.granted(call, hash, None);
    assert_eq!(story.run().spent.micros, worked);
    story.decided(call, Verdict::Allow);
    story.started(call);
    story.completed(call, "ok");
    assert_eq!(story.run().spent.micros, worked + 3_000);
    story.now += 60_000_000;
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.run().spent.micros, worked + 3_000);
    assert!(matches!(story.next(), Next::CallModel { .. }));
    // But a wait for the provider is work.
    story.ask();
    story.fails(FailureClass::RateLimited);
    story.now += 5_000_000;
    assert_eq!(story.next(), parked(Limit::WallClock, 100));
}

#[test]
fn a_parked_run_does_not_age() {
    let mut story = Story::of_a_run();
    story.add(RunParked { why: Parked::Halted });
    let worked = story.run().spent.micros;
    story.now += 60_000_000;
    story.resumed(ResumeReason::Asked);
    assert_eq!(story.run().spent.micros, worked);
}

#[test]
fn nothing_is_waited_for_beyond_the_time_of_the_run() {
    let out_of_time = |mut story: Story, closing: Vec<Closing>| {
        let left = |story: &Story| time_left_ms(&story.session, &story.agent, story.at());
        assert_eq!(left(&story), None);
        story.agent.limits.wall_clock_ms = Some(story.run().spent.micros / 1_000 + 50);
        assert_eq!((left(&story), story.next()), (Some(50), Next::Busy));
        story.now += 49_000;
        assert_eq!((left(&story), story.next()), (Some(1), Next::Busy));
        story.now += 1_000;
        let max = story.agent.limits.wall_clock_ms.unwrap();
        let park = Next::Park { why: Parked::Limit { limit: Limit::WallClock, max }, closing };
        assert_eq!((left(&story), story.next()), (Some(0), park));
        story
    };
    let mut story = Story::of_a_run();
    story.ask();
    let mut story = out_of_time(story, vec![]);
    story.add(RunParked { why: Parked::Limit { limit: Limit::WallClock, max: 1 } });
    assert_eq!(time_left_ms(&story.session, &story.agent, story.at()), None);
    let (story, call) = Story::of_a_running_call("write");
    out_of_time(story, vec![stopped(call)]);
}

#[test]
fn people_have_all_the_time_there_is() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.agent.limits.wall_clock_ms = Some(10);
    story.ask_someone(call, None);
    story.now += 60_000_000;
    assert_eq!(time_left_ms(&story.session, &story.agent, story.at()), None);
    assert_eq!(story.next(), Next::Wait { due: None });
}

#[test]
fn time_is_counted_by_whoever_runs_the_session_whatever_the_clock_says() {
    let mut story = Story::of_a_run();
    story.agent.limits.wall_clock_ms = Some(100);
    story.held_us = Some(0);
    story.resumed(ResumeReason::Input);
    // The clock is set back and forth: the time of the session stands still, then leaps.
    story.held_us = Some(60_000);
    story.now -= 3_600_000_000;
    story.ask();
    assert_eq!(story.run().spent.micros / 1_000, 60);
    story.now += 7_200_000_000;
    story.held_us = Some(90_000);
    story.answer_with_calls(&["read"]);
    assert_eq!(story.run().spent.micros / 1_000, 90);
    // Others do not count: what they say costs no time, and takes none.
    story.held_us = None;
    story.now += 3_600_000_000;
    story.say("hurry");
    assert_eq!(story.run().spent.micros / 1_000, 90);
    story.held_us = Some(99_000);
    assert!(!matches!(story.next(), Next::Park { .. }), "{:?}", story.next());
    story.held_us = Some(101_000);
    assert!(matches!(story.next(), Next::Park { why: Parked::Limit { limit: Limit::WallClock, .. }, .. }));
    // A process of an older version takes it up, and counts by the clock.
    story.held_us = None;
    story.resumed(ResumeReason::Recovery);
    story.now += 5_000;
    story.say("more");
    assert_eq!(story.run().spent.micros / 1_000, 96);
}

#[test]
fn a_plain_resume_gives_iterations_and_nothing_else() {
    let (nano, tokens) = (Some(NanoUsd(1)), Some(1));
    let of = |limits: Limits| second_iteration(Limits { iterations: 1, ..limits });
    let resume = |story: &mut Story, budget: Option<Allowance>| {
        let (reason, owner) = (ResumeReason::Asked, weir_types::OwnerId::from_u128(1));
        story.add(SessionResumed { reason, owner, budget, keeps_limits: true });
        match story.next() {
            Next::Park { why: Parked::Limit { limit, max }, .. } => Some((limit, max)),
            _ => None,
        }
    };
    let mut iterations = of(Limits::default());
    assert_eq!(resume(&mut iterations, None), None, "someone looked at it, and lets it go on");
    let limited: [(Limits, Limit, Allowance); 3] = [
        (
            Limits { model_calls: Some(1), ..Limits::default() },
            Limit::ModelCalls,
            Allowance { model_calls: Some(1), ..Allowance::default() },
        ),
        (
            Limits { tokens: Some(500), ..Limits::default() },
            Limit::Tokens,
            Allowance { tokens: Some(100_000), ..Allowance::default() },
        ),
        (
            Limits { usd: Some(NanoUsd(500_000)), ..Limits::default() },
            Limit::Usd,
            Allowance { nano: Some(NanoUsd(NanoUsd::PER_USD)), ..Allowance::default() },
        ),
    ];
    for (limits, limit, more) in limited {
        let mut story = of(limits);
        let stopped = |found: Option<(Limit, u64)>| found.map(|(limit, _)| limit);
        for _ in 0..2 {
            assert_eq!(stopped(resume(&mut story, None)), Some(limit), "as often as one likes");
        }
        let other = if limit == Limit::Tokens {
            Allowance { nano, ..Allowance::default() }
        } else {
            Allowance { tokens, ..Allowance::default() }
        };
        assert_eq!(stopped(resume(&mut story, Some(other))), Some(limit), "of something else");
        assert_eq!(resume(&mut story, Some(more)), None, "{limit:?}");
    }
}

use weir_events::*;
use weir_types::FailureClass;

use super::*;
use crate::story::Story;

const LIMIT: Allowance =
    Allowance { model_calls: None, tokens: None, nano: Some(NanoUsd(100)), wall_clock_ms: None };

fn call(n: u128) -> EventId {
    EventId::from_u128(n)
}

/// A purse of a hundred billionths, told event by event.
#[derive(Default)]
struct Told(Purse);

impl Told {
    fn tell(&mut self, body: impl Into<Body>) -> &mut Self {
        self.0.apply_body(self.0.seq.next(), Some(&body.into()));
        self
    }

    fn reserve(&mut self, n: u128, nano: u64) -> &mut Self {
        let (scope, nano) = ("day:x".to_owned(), NanoUsd(nano));
        self.tell(BudgetReserved { scope, call: call(n), nano, tokens: 10, model_calls: 1, limit: LIMIT })
    }

    fn settle(&mut self, n: u128, nano: u64) -> &mut Self {
        let (scope, nano) = ("day:x".to_owned(), NanoUsd(nano));
        self.tell(BudgetSettled { scope, call: call(n), nano, tokens: 4, model_calls: 1, micros: 7_000 })
    }

    fn release(&mut self, n: u128, nano: u64, raises: bool) -> &mut Self {
        let (scope, nano) = ("day:x".to_owned(), NanoUsd(nano));
        self.tell(BudgetReleased { scope, call: call(n), nano, tokens: 0, model_calls: 0, micros: 0, raises })
    }

    fn nano(&self) -> (u64, u64) {
        (self.0.settled.nano.0, self.0.held().nano.0)
    }
}

#[test]
fn of_two_that_do_not_fit_together_the_second_is_void_and_counts_nothing() {
    let mut told = Told::default();
    told.reserve(1, 60).reserve(2, 60).reserve(3, 40);
    assert_eq!(told.nano(), (0, 100), "the third fits");
    assert!(told.0.holds(call(1)) && !told.0.holds(call(2)) && told.0.holds(call(3)));
    let short = Short { which: Limit::Usd, max: 100, raised: 0, spent: 60, need: 60, may_pass: true };
    assert_eq!((told.0.refusal(call(2)), told.0.refusal(call(1))), (Some(short), None));
    // Whoever crashed before it knew settles it, in full; that is nobody's cost.
    told.settle(2, 60);
    assert_eq!(told.nano(), (0, 100));
}

#[test]
fn what_comes_of_a_call_replaces_what_was_set_aside() {
    let mut told = Told::default();
    told.reserve(1, 60).settle(1, 10).settle(1, 10);
    assert_eq!((told.nano(), told.0.settled.tokens, told.0.settled.micros), ((10, 0), 4, 7_000), "once");
    told.reserve(2, 90).settle(2, 95);
    assert_eq!(told.nano(), (105, 0), "a provider may count more than we thought");
    told.reserve(3, 0);
    assert_eq!(told.0.refusal(call(3)).map(|short| short.may_pass), Some(false));
    told.release(0, 50, true).reserve(4, 45);
    assert_eq!(told.nano(), (105, 45));
    assert_eq!(told.0.lacks(Amount { nano: NanoUsd(1), ..Amount::default() }, &LIMIT).unwrap().max, 150);
    told.release(4, 45, false);
    assert_eq!((told.nano(), told.0.calls()), ((105, 0), 0));
}

#[test]
fn every_limit_is_counted_and_time_only_when_it_has_passed() {
    let mut told = Told::default();
    told.reserve(1, 1);
    let need = Amount { tokens: 10, model_calls: 1, ..Amount::default() };
    let which = |purse: &Purse, limit: Allowance| purse.lacks(need, &limit).map(|short| short.which);
    let tokens = |tokens| Allowance { tokens: Some(tokens), ..Allowance::default() };
    assert_eq!((which(&told.0, tokens(20)), which(&told.0, tokens(19))), (None, Some(Limit::Tokens)));
    let calls = |calls| Allowance { model_calls: Some(calls), ..Allowance::default() };
    assert_eq!((which(&told.0, calls(2)), which(&told.0, calls(1))), (None, Some(Limit::ModelCalls)));
    let millis = |millis| Allowance { wall_clock_ms: Some(millis), ..Allowance::default() };
    assert_eq!(which(&told.0, millis(7)), None);
    told.settle(1, 1);
    assert_eq!((which(&told.0, millis(8)), which(&told.0, millis(7))), (None, Some(Limit::WallClock)));
    assert_eq!(which(&told.0, Allowance::default()), None);
}

/// A request paid from a purse of its own and one that its parent has, too.
fn asked() -> Story {
    let mut story = Story::of_a_run();
    let draw = |scope: &str, shared| Draw { scope: scope.to_owned(), shared };
    story.purses = vec![draw("day:1", false), draw("run:9", true)];
    story.ask();
    story
}

/// What the purses are told when this happens: kind, scope, money, calls and microseconds of each.
fn told(story: &mut Story, body: impl Into<Body>) -> Vec<(&'static str, String, Amount)> {
    let (pending, body) = (story.session.pending().unwrap(), body.into());
    let id = pending.request.id;
    story.add(body.clone());
    let told = pending.ended_by(&body, &story.session);
    told.into_iter()
        .map(|body| match body {
            Body::BudgetSettled(body) => {
                assert_eq!(body.call, id);
                ("settled", body.scope.clone(), body.amount())
            }
            Body::BudgetReleased(body) => {
                assert_eq!((body.call, body.raises), (id, false));
                ("released", body.scope.clone(), body.amount())
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn an_answer_is_settled_as_the_provider_counts_and_time_counts_once() {
    let mut story = asked();
    let usage = weir_types::Usage { input_tokens: 30, output_tokens: 10, ..Default::default() };
    let micros = story.session.totals.micros;
    let answer = AssistantMessage {
        content: vec![weir_types::Block::text("hi")],
        stop: weir_types::Stop::End,
        usage,
        cost: NanoUsd(40),
        model: "m".into(),
        provider_id: None,
    };
    let amount = Amount { nano: NanoUsd(40), tokens: 40, model_calls: 1, micros: 0 };
    let own = Amount { micros: micros + 1_000, ..amount };
    let expected = [("settled", "day:1".to_owned(), own), ("settled", "run:9".to_owned(), amount)];
    assert_eq!(told(&mut story, answer), expected);
    assert!(story.session.pending().is_none());
    assert_eq!(story.session.settled_micros, own.micros);
}

#[test]
fn an_end_that_nobody_knows_is_settled_in_full_and_a_fork_settles_nothing() {
    let full = Amount { nano: NanoUsd(1_100_000), tokens: 1_100, model_calls: 1, micros: 0 };
    let resumed = |reason| SessionResumed {
        reason,
        owner: weir_types::OwnerId::from_u128(1),
        budget: None,
        keeps_limits: false,
    };
    let ends: [Body; 6] = [
        resumed(ResumeReason::Recovery).into(),
        resumed(ResumeReason::Asked).into(),
        RunCancelled { said: None }.into(),
        RunParked { why: Parked::Halted }.into(),
        RunErrored { class: FailureClass::Invalid, message: String::new() }.into(),
        RunStarted { run: weir_types::RunId::from_u128(8), trigger: Trigger::Input, lane: String::new() }
            .into(),
    ];
    for end in ends {
        let told = told(&mut asked(), end.clone());
        let settled: Vec<Amount> =
            told.iter().map(|(_, _, amount)| Amount { micros: 0, ..*amount }).collect();
        assert_eq!(settled, [full, full], "{end:?}");
        assert!(told.iter().all(|(how, ..)| *how == "settled"), "{end:?}");
    }
    let mut story = asked();
    let (from, at) = ("main".parse().unwrap(), story.session.seq);
    assert_eq!(told(&mut story, BranchForked { from, at, name: "other".parse().unwrap() }), []);
    assert_eq!(story.session.settled_micros, story.session.totals.micros, "the other branch tells the time");
    assert_eq!(told(&mut asked(), RunCancelRequested {}), [], "it is still out");
}

#[test]
fn a_request_that_cannot_be_paid_never_was() {
    let mut story = asked();
    let before = {
        let mut before = Story::of_a_run();
        before.add(IterationStarted { n: 1 });
        before
    };
    let id = story.session.pending().unwrap().request.id;
    let exceeded = |call| BudgetExceeded {
        scope: "day:1".into(),
        limit: 1,
        spent: 1,
        which: Limit::Usd,
        need: 1,
        waits_ms: 0,
        call,
    };
    assert_eq!(told(&mut story, exceeded(Some(EventId::from_u128(77)))), [], "of another request");
    let released = told(&mut story, exceeded(Some(id)));
    assert_eq!(released.iter().map(|(how, ..)| *how).collect::<Vec<_>>(), ["released", "released"]);
    assert_eq!(story.next(), before.next(), "it is made again when there is money");
    let spent = |story: &Story| Spent { micros: 0, ..story.run().spent };
    assert_eq!(spent(&story), spent(&before));
}

use crate::session::Spent;

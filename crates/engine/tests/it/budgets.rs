//! Purses: over which sessions and days they count, who finds them empty, and who may put more in.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use weir_engine::{Address, Balance, Budgets, Outcome, StopReason, audit, balances};
use weir_events::{Allowance, Amount, Body, BudgetCarried, Parked, Payload};
use weir_journal::{Problem, Report};
use weir_kernel::Purse;
use weir_models::scripted::{Reply, Script};
use weir_models::{Model, ModelError, Piece, Scripted};
use weir_types::{BranchId, Event, Explain, NanoUsd, Price, Request, Seq, Timestamp, Usage, Wire};

use crate::kit::*;
use crate::sharing::drawling;

pub(crate) fn usd(nano: u64) -> Allowance {
    Allowance { nano: Some(NanoUsd(nano)), ..Allowance::default() }
}

fn calls(model_calls: u64) -> Allowance {
    Allowance { model_calls: Some(model_calls), ..Allowance::default() }
}

/// A price at which a token costs a thousand billionths.
pub(crate) fn a_dollar_a_million() -> Option<Price> {
    let usd = NanoUsd(NanoUsd::PER_USD);
    Some(Price { input: usd, output: usd, cache_read: usd, cache_write: usd })
}

/// All purses, by scope.
pub(crate) async fn purses(world: &World) -> Vec<Balance> {
    balances(&*world.journal, |_| true).await.unwrap()
}

async fn settled(world: &World, scope: &str) -> Amount {
    let purses = purses(world).await;
    let found = purses.iter().find(|balance| balance.scope.starts_with(scope));
    found.unwrap_or_else(|| panic!("no {scope} in {purses:?}")).purse.settled
}

/// Nothing is set aside any more.
async fn assert_nothing_held(world: &World) {
    for Balance { scope, purse, .. } in purses(world).await {
        assert_eq!((purse.calls(), purse.held()), (0, Amount::default()), "{scope}");
    }
}

async fn parked(world: &World, address: &Address) -> Option<Parked> {
    world.state(address).await.run.and_then(|run| run.parked)
}

/// An agent that answers at once, in a hundred tokens.
fn world(budgets: Budgets) -> World {
    let world = World::new();
    let usage = Some(Usage { input_tokens: 80, output_tokens: 20, ..Usage::default() });
    world.agent_with("a", vec![Reply { usage, ..on_user("", "yes") }], &[], |agent| {
        agent.limits.output_tokens = Some(1_000);
        agent.card.price = a_dollar_a_million();
    });
    world.allow("a", budgets);
    world
}

async fn turn(process: &Process, address: &Address, text: &str) -> Outcome {
    let is_new = process.engine.state(address, None).await.is_err();
    if is_new {
        process.engine.begin(address, new("a"), said(text)).await.unwrap();
    } else {
        process.engine.say(address, said(text)).await.unwrap();
    }
    process.engine.settle(address).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_scope_is_counted_over_what_it_says() {
    let day = weir_engine::day(weir_journal::now());
    type Set = fn(&mut Budgets);
    let scopes: [(Set, &str, bool); 4] = [
        (|budgets| budgets.session = calls(2), "session:", false),
        (|budgets| budgets.agent = calls(2), "agent:a:", true),
        (|budgets| budgets.principal = calls(2), "principal:user:test:", true),
        (|budgets| budgets.day = calls(2), "day:", true),
    ];
    for (set, scope, over_sessions) in scopes {
        let mut budgets = Budgets::default();
        set(&mut budgets);
        let world = world(budgets);
        let process = world.start().await;
        let (one, two) = (process.engine.new_address(), process.engine.new_address());
        for _ in 0..2 {
            assert_eq!(turn(&process, &one, "hello").await.stop, StopReason::End);
        }
        let third = turn(&process, &one, "hello").await;
        assert_eq!((third.stop, third.usage.total()), (StopReason::Budget, 0), "{scope}");
        let other = turn(&process, &two, "hello").await.stop;
        assert_eq!(other == StopReason::Budget, over_sessions, "{scope}");
        let purse = purses(&world).await.remove(0);
        assert!(purse.scope.starts_with(scope), "{}", purse.scope);
        assert_eq!(purse.scope.ends_with(&day), over_sessions, "{}", purse.scope);
        assert_eq!(settled(&world, scope).await.model_calls, 2);
        assert_nothing_held(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_purse_stops_says_so_and_nothing_was_sent() {
    let world = world(Budgets { day: usd(1_200_000), ..Budgets::default() });
    let process = world.start().await;
    let address = process.engine.new_address();
    assert_eq!(turn(&process, &address, "hello").await.stop, StopReason::End);
    let stopped = turn(&process, &address, "hello").await;
    let kinds = world.kinds(&address).await;
    assert_eq!(kinds[kinds.len() - 3..], ["run.started", "budget.exceeded", "run.parked"]);
    let Some(Parked::Budget { scope, max, spent, need, .. }) = parked(&world, &address).await else {
        panic!()
    };
    assert_eq!((max, spent), (1_200_000, 100_000));
    assert!(need > 1_100_000, "{need}");
    let day = scope.strip_prefix("day:").unwrap();
    let message = stopped.message.unwrap();
    assert!(message.starts_with(&format!("the budget of everybody on {day} (UTC) is too small: of $0.0012 $0.0001 are spent or set aside, and the next call may take $0.00")), "{message}");
    assert_eq!(stopped.budget, Some(usd(1_200_000)));
}

#[tokio::test(start_paused = true)]
async fn more_is_put_in_by_those_who_may() {
    let world = world(Budgets { day: calls(1), ..Budgets::default() });
    let process = world.start().await;
    let (address, other) = (process.engine.new_address(), process.engine.new_address());
    turn(&process, &address, "one").await;
    let raise = async |who, amount| process.engine.resume_with(&address, calls(amount), who).await;
    assert_eq!(raise("user:admin", 1).await.unwrap_err().code(), "engine::nothing-to-raise");
    assert_eq!(turn(&process, &address, "two").await.stop, StopReason::Budget);
    let before = world.kinds(&address).await;
    let denied = raise("user:eve", 2).await.unwrap_err();
    assert_eq!(denied.code(), "engine::denied");
    assert!(denied.to_string().starts_with("`user:eve` may not raise a budget"), "{denied}");
    assert_eq!(world.kinds(&address).await, before);
    // Nobody put anything in: nothing has changed.
    process.engine.resume(&address).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Budget);
    raise("user:admin", 2).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("yes")));
    // It is the day that has more, and everybody who draws from it.
    assert_eq!(turn(&process, &other, "three").await.stop, StopReason::End);
    assert_eq!(turn(&process, &other, "four").await.stop, StopReason::Budget);
    let raised = purses(&world).await.remove(0).purse.raised;
    assert_eq!((raised.model_calls, settled(&world, "day:").await.model_calls), (2, 3));
    let events = world.events(&address).await;
    let resumed = events.iter().rfind(|event| event.kind.as_str() == "session.resumed").unwrap();
    assert_eq!(weir_events::About::decode(&resumed.meta).actor.as_deref(), Some("user:admin"));
}

#[tokio::test(start_paused = true)]
async fn branches_of_a_session_have_one_purse() {
    let world = world(Budgets { session: calls(3), ..Budgets::default() });
    let process = world.start().await;
    let main = process.engine.new_address();
    turn(&process, &main, "one").await;
    let at = world.state(&main).await.seq;
    let (fork, _) = process.engine.fork(&main, at, "other".parse().unwrap()).await.unwrap();
    assert_eq!(turn(&process, &fork, "two").await.stop, StopReason::End);
    assert_eq!(turn(&process, &main, "three").await.stop, StopReason::End);
    assert_eq!(turn(&process, &fork, "four").await.stop, StopReason::Budget);
    assert_eq!(turn(&process, &main, "five").await.stop, StopReason::Budget);
    assert_nothing_held(&world).await;
}

/// What is under way at the fork point is the other branch's to settle.
#[tokio::test(start_paused = true)]
async fn a_fork_in_the_middle_of_a_call_settles_nothing() {
    let world = World::new();
    world.agent("a", vec![drawling(on_user("^slow", "a long answer")), on_user("", "yes")], &[]);
    world.allow("a", Budgets { session: calls(9), ..Budgets::default() });
    let process = world.start().await;
    let main = process.engine.new_address();
    process.engine.begin(&main, new("a"), said("slow")).await.unwrap();
    let request = world.until(&main, "model.requested").await;
    let (fork, _) = process.engine.fork(&main, request.seq, "other".parse().unwrap()).await.unwrap();
    assert_eq!(purses(&world).await[0].purse.calls(), 1);
    process.engine.settle(&main).await.unwrap();
    assert_nothing_held(&world).await;
    assert_eq!(turn(&process, &fork, "hello").await.stop, StopReason::End);
    assert_nothing_held(&world).await;
    assert_eq!(settled(&world, "session:").await.model_calls, 2);
}

/// A boss whose clerk keeps asking for one more tick.
fn boss(world: &World) {
    let go = calling(on_user("go", ""), &[("clerk", r#"{"message":"work"}"#)]);
    world.equip("boss", vec![go, on_tool("clerk", "done")], vec![callee("clerk")], |_, _| {});
    let more = |reply| calling(reply, &[("tick", "{}")]);
    world.agent_with("clerk", vec![more(on_user("", "")), more(on_tool("tick", ""))], &["tick"], |agent| {
        agent.limits.iterations = 1_000;
    });
}

#[tokio::test(start_paused = true)]
async fn resuming_gives_a_tree_as_much_again_and_a_child_draws_from_its_parents_purses() {
    let world = World::new();
    boss(&world);
    let budgets = Budgets { run: calls(4), agent: calls(100), ..Budgets::default() };
    world.allow("boss", budgets.clone()).allow("clerk", Budgets { run: Allowance::default(), ..budgets });
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("boss"), said("go")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    // The boss asked once, the clerk three times; there was nothing left for an answer.
    assert_eq!((outcome.stop, outcome.budget), (StopReason::Budget, Some(calls(4))));
    let words = outcome.message.unwrap();
    assert!(
        words.starts_with("the budget of this run and what it started is too small: of 4 model calls"),
        "{words}"
    );
    assert_eq!(settled(&world, "run:").await.model_calls, 4);
    assert_eq!(settled(&world, "agent:boss:").await.model_calls, 4, "its tree is its own");
    assert_eq!(settled(&world, "agent:clerk:").await.model_calls, 3);
    assert_eq!(process.engine.resume(&address).await.unwrap_err().code(), "engine::needs-budget");
    process.engine.resume_with(&address, calls(4), "user:admin").await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("done")));
    assert_nothing_held(&world).await;
}

#[tokio::test(start_paused = true)]
async fn the_smaller_of_agent_and_project_counts_for_a_run() {
    for (own, project) in [(2, 5), (5, 2)] {
        let world = World::new();
        let more = |reply| calling(reply, &[("tick", "{}")]);
        let replies = vec![more(on_user("", "")), more(on_tool("tick", ""))];
        world.agent_with("a", replies, &["tick"], |agent| agent.limits.model_calls = Some(own));
        world.allow("a", Budgets { run: calls(project), ..Budgets::default() });
        let process = world.start().await;
        let address = process.engine.new_address();
        let outcome = turn(&process, &address, "go").await;
        assert_eq!(outcome.message.as_deref(), Some("the run reached its limit of 2 model calls"));
        assert!(purses(&world).await.is_empty(), "a run without children counts by itself");
        process.engine.resume_with(&address, calls(3), "user:admin").await.unwrap();
        let outcome = process.engine.settle(&address).await.unwrap();
        assert_eq!(outcome.message.as_deref(), Some("the run reached its limit of 3 model calls"));
        assert_eq!(world.state(&address).await.totals.model_calls, 5);
    }
}

/// A model that counts how often it is asked.
struct Counting(Scripted, Arc<AtomicUsize>);

impl Model for Counting {
    fn wire(&self) -> Wire {
        self.0.wire()
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        self.0.encode(request)
    }

    fn stream(&self, body: Bytes, attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.stream(body, attempt)
    }
}

/// Two processes that each have seen an empty purse ask at the same moment; there is room for one.
async fn race(patience: Duration) -> (World, [Outcome; 2], [Address; 2], usize) {
    let world = World::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let reply = drawling(on_user("", "a long answer"));
    let model = Counting(Scripted::new(Script { replies: vec![reply] }).unwrap(), Arc::clone(&asked));
    world.agent_on("a", Arc::new(model), &[], |agent| {
        agent.limits.output_tokens = Some(1_000);
        agent.card.price = a_dollar_a_million();
    });
    world.allow("a", Budgets { day: usd(1_500_000), ..Budgets::default() });
    let set = |options: &mut weir_engine::Options| options.budget_patience = patience;
    let (one, two) =
        (world.start_with(Fuse::default(), set).await, world.start_with(Fuse::default(), set).await);
    let (first, second) = (one.engine.new_address(), two.engine.new_address());
    let outcomes = tokio::join!(turn(&one, &first, "hello"), turn(&two, &second, "hello"));
    (world, outcomes.into(), [first, second], asked.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn of_two_that_race_for_the_last_money_one_is_not_made_and_counts_nothing() {
    let (world, outcomes, addresses, asked) = race(Duration::ZERO).await;
    assert_eq!(asked, 1, "only one was sent");
    let mut stops = outcomes.map(|outcome| outcome.stop.as_str());
    stops.sort_unstable();
    assert_eq!(stops, ["budget", "end"]);
    let mut withdrawn = 0;
    for address in addresses {
        let state = world.state(&address).await;
        let Some(Parked::Budget { .. }) = state.run.as_ref().and_then(|run| run.parked.as_ref()) else {
            continue;
        };
        let kinds = world.kinds(&address).await;
        assert_eq!(kinds[kinds.len() - 3..], ["model.requested", "budget.exceeded", "run.parked"]);
        assert_eq!((state.totals.model_calls, state.totals.cost), (0, NanoUsd(0)));
        withdrawn += 1;
        // There is room once the other has said what it really took.
        let process = world.start().await;
        process.engine.resume(&address).await.unwrap();
        let outcome = process.engine.settle(&address).await.unwrap();
        assert_eq!((outcome.stop, outcome.answer.as_deref()), (StopReason::End, Some("a long answer")));
    }
    assert_eq!(withdrawn, 1);
    assert_nothing_held(&world).await;
}

#[tokio::test(start_paused = true)]
async fn what_others_may_give_back_is_waited_for() {
    let (world, outcomes, _, asked) = race(PATIENCE).await;
    assert_eq!(outcomes.map(|outcome| outcome.stop), [StopReason::End, StopReason::End]);
    assert_eq!(asked, 2);
    assert_nothing_held(&world).await;
}

/// Somebody else appends just before each commit: also before the one that takes a void request back.
#[tokio::test(start_paused = true)]
async fn a_void_request_is_taken_back_whatever_comes_in_between() {
    let world = World::new();
    world.agent_with(
        "a",
        vec![drawling(on_user("^slow", "a long answer")), on_user("", "yes")],
        &[],
        |agent| {
            agent.limits.output_tokens = Some(1_000);
            agent.card.price = a_dollar_a_million();
        },
    );
    world.allow("a", Budgets { day: usd(1_700_000), ..Budgets::default() });
    let set = |options: &mut weir_engine::Options| options.budget_patience = Duration::ZERO;
    let (one, two) =
        (world.start_with(Fuse::default(), set).await, world.start_with(Fuse::default(), set).await);
    let (first, second) = (one.engine.new_address(), two.engine.new_address());
    assert_eq!(turn(&two, &second, "hello").await.stop, StopReason::End);
    // What the other process takes now, this one does not know before it has reserved itself.
    one.engine.begin(&first, new("a"), said("slow")).await.unwrap();
    world.until(&first, "model.requested").await;
    two.fuse.intrude(8);
    let outcome = tokio::time::timeout(PATIENCE, turn(&two, &second, "again")).await;
    assert_eq!(outcome.expect("nobody waits for a request that is not made").stop, StopReason::Budget);
    let kinds = world.kinds(&second).await;
    let requests = kinds.iter().filter(|kind| *kind == "model.requested").count();
    assert_eq!((requests, world.state(&second).await.totals.model_calls), (2, 1), "{kinds:?}");
    one.engine.settle(&first).await.unwrap();
    assert_nothing_held(&world).await;
}

static CLOCK: AtomicI64 = AtomicI64::new(0);

#[tokio::test(start_paused = true)]
async fn a_call_that_begins_before_midnight_is_paid_by_the_day_it_began_on() {
    let set = |text: &str| CLOCK.store(text.parse::<Timestamp>().unwrap().as_micros(), Ordering::SeqCst);
    set("2026-07-31T23:59:59Z");
    let world = World::new();
    world.agent("a", vec![drawling(on_user("^slow", "a long answer")), on_user("", "yes")], &[]);
    world.allow("a", Budgets { day: calls(1), ..Budgets::default() });
    let clock = || Timestamp::from_micros(CLOCK.load(Ordering::SeqCst)).unwrap();
    let process = world.start_with(Fuse::default(), |options| options.clock = clock).await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("a"), said("slow")).await.unwrap();
    world.until(&address, "model.requested").await;
    let other = process.engine.new_address();
    assert_eq!(turn(&process, &other, "hello").await.stop, StopReason::Budget);
    set("2026-08-01T00:00:00Z");
    process.engine.settle(&address).await.unwrap();
    process.engine.resume(&other).await.unwrap();
    assert_eq!(process.engine.settle(&other).await.unwrap().answer.as_deref(), Some("yes"), "a new day");
    let purses = purses(&world).await;
    let spent = purses.iter().map(|balance| (balance.scope.as_str(), balance.purse.settled.model_calls));
    assert_eq!(spent.collect::<Vec<_>>(), [("day:2026-07-31", 1), ("day:2026-08-01", 1)]);
    assert_nothing_held(&world).await;
}

#[tokio::test(start_paused = true)]
async fn dollars_are_not_limited_where_nobody_knows_the_price() {
    for (of_the_run, of_the_day) in [(true, false), (false, true)] {
        let world = World::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let model = Scripted::new(Script { replies: vec![on_user("", "yes")] }).unwrap();
        world.add("a", Arc::new(Counting(model, Arc::clone(&asked))), &[], |agent| {
            agent.card.wire = Wire::OpenaiChat;
            agent.limits.usd = of_the_run.then_some(NanoUsd(1_000_000_000));
        });
        let day = if of_the_day { usd(1_000_000_000) } else { Allowance::default() };
        world.allow("a", Budgets { day, ..Budgets::default() });
        let process = world.start().await;
        let outcome = turn(&process, &process.engine.new_address(), "hello").await;
        assert_eq!((outcome.stop, asked.load(Ordering::SeqCst)), (StopReason::Failed, 0));
        let message = outcome.message.unwrap();
        assert!(
            message.starts_with("a limit in dollars needs a price, and `scripted/test` has none"),
            "{message}"
        );
    }
}

/// On the real clock, which is the one that work is measured with.
#[tokio::test]
async fn time_is_counted_once_for_a_tree_and_stops_it() {
    let world = World::new();
    boss(&world);
    let session = Allowance { wall_clock_ms: Some(20), ..Allowance::default() };
    let budgets = Budgets { session, ..Budgets::default() };
    world.allow("boss", budgets.clone()).allow("clerk", budgets);
    let process = world.start().await;
    let address = process.engine.new_address();
    // The clerk's time is the boss's: only the boss's next call tells the purse, so the clerk has limits of its own.
    {
        let mut agents = world.agents.0.lock().unwrap();
        let mut clerk = (*agents["clerk"]).clone();
        clerk.agent.limits.wall_clock_ms = Some(60);
        agents.insert("clerk".to_owned(), Arc::new(clerk));
    }
    process.engine.begin(&address, new("boss"), said("go")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().answer.as_deref(), Some("done"));
    let (spent, state) = (settled(&world, "session:").await.micros, world.state(&address).await);
    assert!((60_000..=state.totals.micros).contains(&spent), "{spent} of {}", state.totals.micros);
    process.engine.say(&address, said("go")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    let Some(Parked::Budget { limit: weir_events::Limit::WallClock, max: 20, .. }) =
        parked(&world, &address).await
    else {
        panic!("{outcome:?}")
    };
    let message = outcome.message.unwrap();
    assert!(message.starts_with("the budget of this session is used up: 0 s of 0 s"), "{message}");
    assert_nothing_held(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_round_in_circles_is_told_and_stopped_and_its_requests_can_be_made_again() {
    let world = World::new();
    let again = |reply| calling(reply, &[("look", "{}")]);
    world.agent_with("a", vec![again(on_user("", "")), again(on_tool("look", ""))], &["look"], |agent| {
        agent.limits.iterations = 1_000;
    });
    let process = world.start().await;
    let address = process.engine.new_address();
    let outcome = turn(&process, &address, "go").await;
    assert_eq!(outcome.stop, StopReason::Halted);
    let message = outcome.message.unwrap();
    let words = "it called `look` 6 times with the same arguments and the same result";
    assert!(message.ends_with(words), "{message}");
    assert_eq!(parked(&world, &address).await, Some(Parked::Loop { tool: "look".to_owned(), count: 6 }));
    let told = conversation(&world.state(&address).await);
    let warned = told.iter().filter(|line| line.contains("repeating it changes nothing")).count();
    assert_eq!(warned, 4, "{told:#?}");
    for n in 1..=6 {
        let request = process.engine.request(&address, n).await.unwrap();
        assert_eq!(request.hash, request.requested.request_hash, "request {n}");
    }
    process.engine.resume(&address).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Halted);
    assert_eq!(world.deeds.lock().unwrap().len(), 12, "whoever resumes it lets it try again");
}

/// The one purse that there is: its stream, all its events, and what folding them from the first one makes.
async fn whole_purse(world: &World) -> (BranchId, Vec<Event>, Purse) {
    let scope = purses(world).await.remove(0).scope;
    let branch = BranchId::main(format!("budget:{scope}").parse().unwrap());
    let (mut folded, mut events) = (Purse::default(), Vec::new());
    loop {
        let page = world.journal.read(&branch, folded.seq, 500).await.unwrap();
        if page.is_empty() {
            return (branch, events, folded);
        }
        page.iter().for_each(|event| folded.apply(event).unwrap());
        events.extend(page);
    }
}

/// What each `budget.carried` says, and where it is.
fn carried(events: &[Event]) -> Vec<(Seq, BudgetCarried)> {
    let body = |event: &Event| match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::BudgetCarried(body))) => Some((event.seq, body)),
        _ => None,
    };
    events.iter().filter_map(body).collect()
}

async fn audited(world: &World) -> Vec<Problem> {
    let mut report = Report::default();
    audit(&*world.journal, &world.seal, None, &mut report).await.unwrap();
    report.problems
}

/// What a purse comes to is written down in appends that are made anyway, and is what a process begins with
/// that does not know it.
#[tokio::test(start_paused = true)]
async fn a_purse_with_a_long_history_is_carried() {
    let world = world(Budgets { day: calls(1_000), ..Budgets::default() });
    let process = world.start().await;
    let mut appends = Vec::new();
    for _ in 0..300 {
        let before = process.fuse.appends();
        turn(&process, &process.engine.new_address(), "hello").await;
        appends.push(process.fuse.appends() - before);
    }
    appends.dedup();
    assert_eq!(appends.len(), 1, "no turn takes more appends than another: {appends:?}");
    let next = world.start().await;
    turn(&next, &next.engine.new_address(), "hello").await;
    let (branch, events, folded) = whole_purse(&world).await;
    assert_eq!(folded, purses(&world).await.remove(0).purse);
    let carried = carried(&events);
    let places: Vec<_> = carried.iter().map(|(at, body)| (at.0, body.through.0)).collect();
    assert_eq!(places, [(257, 256), (513, 512)], "as one more event, right after those that are in it");
    assert_eq!((events.len(), folded.settled.model_calls), (604, 301));
    let fold = weir_journal::FoldVersion { fold: "purse".to_owned(), version: 1 };
    assert_eq!(world.journal.snapshot(&branch, &fold).await.unwrap(), None);
    assert_eq!(audited(&world).await, []);
    // Who does not know it begins there. Only who reads all events can tell that it is not true: that is what
    // `weir verify` does.
    let lie = BudgetCarried { settled: Amount::default(), through: folded.seq, ..carried[1].1.clone() };
    let lie = Body::from(lie).encode().unwrap();
    let event = weir_journal::NewEvent::new(BudgetCarried::kind(), lie);
    world.journal.append(vec![weir_journal::Part::new(branch.clone(), vec![event])]).await.unwrap();
    assert_eq!(purses(&world).await.remove(0).purse.settled, Amount::default());
    let found = audited(&world).await;
    let places: Vec<_> = found.iter().map(|problem| (problem.stream.as_ref(), problem.seq)).collect();
    assert_eq!(places, [(Some(&branch.stream), Some(folded.seq.next()))], "{found:?}");
}

/// Purses of journals from before `budget.carried` are read from their first event, and get one.
#[tokio::test(start_paused = true)]
async fn an_old_purse_is_read_from_its_first_event_and_carried() {
    let world = world(Budgets { day: calls(1_000), ..Budgets::default() });
    let old = world.start_with(Fuse::default(), |options| options.carry_every = u64::MAX).await;
    for _ in 0..700 {
        turn(&old, &old.engine.new_address(), "hello").await;
    }
    assert_eq!(carried(&whole_purse(&world).await.1).len(), 0);
    let new = world.start().await;
    turn(&new, &new.engine.new_address(), "hello").await;
    let (_, events, folded) = whole_purse(&world).await;
    assert_eq!(carried(&events).iter().map(|(_, body)| body.through.0).collect::<Vec<_>>(), [1_400]);
    assert_eq!((folded.settled.model_calls, purses(&world).await.remove(0).purse), (701, folded.clone()));
}

/// Processes take turns in any order, and at once: what each of them carries is true, also if another one has
/// appended since.
#[tokio::test(start_paused = true)]
async fn what_processes_carry_is_true_whoever_appends_in_between() {
    let mut late = 0;
    for seed in 0..12_u64 {
        let world = world(Budgets { day: calls(1_000), ..Budgets::default() });
        let mut processes = Vec::new();
        for n in 0..3 {
            processes.push(world.start_with(Fuse::default(), |options| options.carry_every = 2 + n).await);
        }
        let mut random = seed;
        for _ in 0..20 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = |shift: u32| usize::try_from((random >> shift) % 3).unwrap();
            let (one, two) = (&processes[at(33)], &processes[at(41)]);
            let sessions = (one.engine.new_address(), two.engine.new_address());
            match at(50) {
                0 => _ = turn(one, &sessions.0, "hello").await,
                1 => _ = tokio::join!(turn(one, &sessions.0, "hello"), turn(two, &sessions.1, "hello")),
                _ => {
                    let fuse = Fuse::default();
                    processes[at(33)] = world.start_with(fuse, |options| options.carry_every = 3).await;
                }
            }
        }
        let (_, events, folded) = whole_purse(&world).await;
        assert_eq!(purses(&world).await.remove(0).purse, folded, "seed {seed}");
        assert_eq!(audited(&world).await, [], "seed {seed}");
        let carried = carried(&events);
        assert!(carried.len() > 2, "seed {seed}: {}", events.len());
        late += carried.iter().filter(|(at, body)| body.through.next() != *at).count();
    }
    assert!(late > 0, "processes raced");
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_has_set_aside_is_settled_by_whoever_needs_the_room() {
    for takes_up in [false, true] {
        let world = World::new();
        let replies = vec![drawling(on_user("slow", "a very long answer")), on_user("", "yes")];
        world.agent_with("a", replies, &[], |agent| {
            agent.limits.output_tokens = Some(1_000);
            agent.card.price = a_dollar_a_million();
        });
        // One call takes some 1,100 thousandths at most: room for one, not for two.
        world.allow("a", Budgets { day: usd(1_900_000), ..Budgets::default() });
        let first = world.start().await;
        let address = first.engine.new_address();
        first.engine.begin(&address, new("a"), said("slow")).await.unwrap();
        world.until(&address, "model.requested").await;
        first.die();
        let second = world.start().await;
        let (other, began) = (second.engine.new_address(), tokio::time::Instant::now());
        let outcome = turn(&second, &other, "quick").await;
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "it waited for a dead process: {:?}",
            began.elapsed()
        );
        assert_eq!(outcome.stop, StopReason::Budget, "what may have been spent counts");
        assert_nothing_held(&world).await;
        let scope = weir_engine::day(weir_journal::now());
        let before = settled(&world, &format!("day:{scope}")).await;
        assert!(before.nano.0 > 1_000_000, "{before:?}");
        if takes_up {
            let _ = second.engine.settle(&address).await;
            assert_nothing_held(&world).await;
            assert_eq!(settled(&world, &format!("day:{scope}")).await, before, "it counts once");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_budget_is_told() {
    let world = World::new();
    let replies = vec![drawling(on_user("slow", "a very long answer")), on_user("", "yes")];
    world.agent_with("a", replies, &[], |agent| {
        agent.limits.output_tokens = Some(1_000);
        agent.card.price = a_dollar_a_million();
    });
    world.allow("a", Budgets { day: usd(1_900_000), ..Budgets::default() });
    let first = world.start().await;
    let address = first.engine.new_address();
    first.engine.begin(&address, new("a"), said("slow")).await.unwrap();
    world.until(&address, "model.requested").await;
    let second = world.start().await;
    let other = second.engine.new_address();
    second.engine.begin(&other, new("a"), said("quick")).await.unwrap();
    let told = world.until(&other, "budget.exceeded").await;
    let Ok(Some(Body::BudgetExceeded(told))) = Body::decode(&told.kind, &told.payload) else { panic!() };
    assert!(told.waits_ms > 0 && told.call.is_none(), "{told:?}");
    let _ = second.engine.settle(&other).await.unwrap();
    let waiting = world.kinds(&other).await.into_iter().filter(|kind| kind == "budget.exceeded").count();
    assert!(waiting <= 2, "once while it waits: {waiting}");
}

#[tokio::test(start_paused = true)]
async fn a_plain_resume_does_not_give_the_limits_of_a_run_anew() {
    let world = world(Budgets::default());
    world.agent_with("b", vec![on_user("", "yes")], &[], |agent| {
        agent.limits.usd = Some(NanoUsd(1));
        agent.card.price = a_dollar_a_million();
    });
    world.allow("b", Budgets::default());
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("b"), said("hello")).await.unwrap();
    let stopped = process.engine.settle(&address).await.unwrap();
    assert_eq!((stopped.stop, stopped.budget), (StopReason::Budget, Some(usd(1))));
    let before = world.kinds(&address).await;
    for _ in 0..2 {
        assert_eq!(process.engine.resume(&address).await.unwrap_err().code(), "engine::needs-budget");
        let resumed = process.engine.resume_for(&address, "user:test").await;
        assert_eq!(resumed.unwrap_err().code(), "engine::needs-budget");
    }
    let given = process.engine.resume_with(&address, usd(1), "user:test").await;
    assert_eq!(given.unwrap_err().code(), "engine::denied");
    assert_eq!(world.kinds(&address).await, before);
    process.engine.resume_with(&address, usd(NanoUsd::PER_USD), "user:admin").await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().answer.as_deref(), Some("yes"));
}

//! What is promised about money, whatever happens: many sessions at once, providers that count as they like, crashes. What is settled
//! exceeds the limit by no more than the calls in flight took beyond what was set aside for them, and nothing stays set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use weir_engine::{Address, Adopt, Balance, Budgets, audit};
use weir_events::Body;
use weir_journal::{Report, Status};
use weir_kernel::Purse;
use weir_models::scripted::{Reply, Script};
use weir_models::{Model, ModelError, Piece, Scripted};
use weir_types::{BranchId, EventId, FailureClass, NanoUsd, Price, Request, SessionId, Usage, Wire};

use crate::budgets::{purses, usd};
use crate::kit::*;

/// A die that falls the same way in each run of a test.
#[derive(Clone)]
struct Die(Arc<AtomicU64>);

impl Die {
    fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    fn below(&self, sides: u64) -> u64 {
        // SplitMix64.
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// A provider that takes its time, now and then fails, and counts nothing, less or more than was used.
struct Moody(Scripted, Die);

impl Model for Moody {
    fn wire(&self) -> Wire {
        self.0.wire()
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        self.0.encode(request)
    }

    fn stream(&self, body: Bytes, attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        let die = self.1.clone();
        let usage =
            Usage { input_tokens: die.below(400), output_tokens: die.below(1_200), ..Usage::default() };
        let (pause, mood) = (Duration::from_millis(die.below(200)), die.below(10));
        let pieces = self.0.stream(body, attempt).map(move |piece| match piece {
            Ok(Piece::Done(answer)) => Ok(Piece::Done(Box::new(weir_types::Answer { usage, ..*answer }))),
            other => other,
        });
        let told = (mood > 1).then_some(usage);
        let failed = ModelError { usage: told, ..ModelError::new(FailureClass::Overloaded, "not now") };
        let begin = async move {
            tokio::time::sleep(pause).await;
            if mood < 2 { futures_util::stream::iter([Err(failed)]).boxed() } else { pieces.boxed() }
        };
        futures_util::stream::once(begin).flatten().boxed()
    }
}

/// A boss who has all clerks work at once, and a clerk for each price; each takes a look first.
fn company(children: usize, dollars: &Budgets, die: &Die) -> World {
    let world = World::new();
    let names: Vec<String> = (0..children.min(5)).map(|n| format!("clerk{n}")).collect();
    let message = r#"{"message":"work"}"#;
    let orders: Vec<(&str, &str)> =
        (0..children).map(|n| (names[n % names.len()].as_str(), message)).collect();
    let moody = |replies: Vec<Reply>| -> Arc<dyn Model> {
        Arc::new(Moody(Scripted::new(Script { replies }).unwrap(), die.clone()))
    };
    let price = |die: &Die| {
        let usd = |most: u64| NanoUsd((die.below(most) + 1) * NanoUsd::PER_USD);
        Some(Price { input: usd(20), output: usd(60), cache_read: usd(2), cache_write: usd(25) })
    };
    let replies = vec![calling(on_user("go", ""), &orders), Reply { when: None, ..on_user("", "done") }];
    let tools: Vec<&str> = names.iter().map(String::as_str).collect();
    world.add("boss", moody(replies), &tools, |agent| {
        agent.card.price = price(die);
        agent.limits.output_tokens = Some(500);
    });
    world.allow("boss", dollars.clone());
    for name in &names {
        let replies = vec![calling(on_user("", ""), &[("tick", "{}")]), on_tool("tick", "worked")];
        world.add(name, moody(replies), &["tick"], |agent| {
            agent.card.price = price(die);
            agent.limits.output_tokens = Some(500);
        });
        world.allow(name, Budgets { run: Default::default(), ..dollars.clone() });
    }
    world
}

/// How often what a purse comes to is written down, so that it happens in the middle of everything.
const CARRY_EVERY: u64 = 5;

/// Plays a turn through crashes: each process ends at its append of that number, the last one lives.
async fn play(world: &World, address: &Address, fuses: Vec<Fuse>) {
    let last = fuses.len();
    for (n, fuse) in fuses.into_iter().chain([Fuse::default()]).enumerate() {
        let process = world.start_with(fuse, |options| {
            options.adopt = Adopt::All;
            options.budget_patience = Duration::from_secs(5);
            options.carry_every = CARRY_EVERY;
        });
        let process = process.await;
        let turn = async {
            if world.journal.head(&address.branch_id()).await.unwrap().is_none() {
                process.engine.begin(address, new("boss"), said("go")).await.unwrap();
            }
            rest(world).await;
        };
        tokio::select! {
            done = tokio::time::timeout(PATIENCE, turn) => {
                done.expect("nothing is wedged");
                return;
            }
            () = process.fuse.blown() => assert!(n < last),
        }
        process.die();
    }
}

/// Waits until nobody works any more.
async fn rest(world: &World) {
    loop {
        let listed = world.journal.list(Default::default(), None, 1_000).await.unwrap();
        if listed.iter().all(|listed| listed.attrs.status != Status::Running) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What is promised about a purse, from its events alone.
async fn check_purse(world: &World, balance: &Balance, limit: u64, context: &str) -> Seen {
    let branch = BranchId::main(format!("budget:{}", balance.scope).parse().unwrap());
    let mut purse = Purse::default();
    let mut states = vec![purse.clone()];
    // Reserved in flight, what was set aside for each; and which were in flight at the newest reservation that held.
    let (mut reserved, mut in_flight) = (BTreeMap::<EventId, u64>::new(), BTreeSet::new());
    let (mut ends, mut beyond, mut seen) =
        (BTreeMap::<EventId, u32>::new(), BTreeMap::new(), Seen::default());
    loop {
        let page = world.journal.read(&branch, purse.seq, 1_000).await.unwrap();
        for event in &page {
            purse.apply(event).unwrap();
            states.push(purse.clone());
            match Body::decode(&event.kind, &event.payload).unwrap().unwrap() {
                Body::BudgetReserved(body) => {
                    let before = reserved.insert(body.call, body.nano.0);
                    assert_eq!(before, None, "{context}: a request is reserved once");
                    if purse.holds(body.call) {
                        in_flight.insert(body.call);
                        assert!((purse.settled + purse.held()).nano.0 <= limit, "{context}");
                        beyond.retain(|call, _| in_flight.contains(call));
                    } else {
                        seen.void += 1;
                    }
                }
                Body::BudgetSettled(body) => {
                    *ends.entry(body.call).or_default() += 1;
                    let more = body.nano.0.saturating_sub(reserved[&body.call]);
                    if in_flight.remove(&body.call) {
                        beyond.insert(body.call, more);
                    }
                    seen.more += u32::from(more > 0);
                    seen.in_full += u32::from(body.nano.0 == reserved[&body.call]);
                }
                Body::BudgetCarried(body) => {
                    let through = usize::try_from(body.through.0).unwrap();
                    assert_eq!(body, states[through].carried(), "{context}: event {}", event.seq);
                    seen.carried += 1;
                    seen.late += u32::from(body.through.next() != event.seq);
                }
                Body::BudgetReleased(body) => {
                    *ends.entry(body.call).or_default() += 1;
                    in_flight.remove(&body.call);
                }
                other => panic!("{context}: {other:?}"),
            }
        }
        if page.is_empty() {
            break;
        }
    }
    assert_eq!(balance.purse, purse, "{context}: whoever begins at what was carried finds the same");
    let error: u64 = beyond.values().sum();
    let settled = purse.settled.nano.0;
    assert!(settled <= limit + error, "{context}: {settled} of {limit}, {error} beyond what was set aside");
    assert_eq!((purse.calls(), purse.held().nano.0), (0, 0), "{context}: {} leaks", balance.scope);
    assert!(reserved.keys().eq(ends.keys()), "{context}: every reservation ends");
    // Of a dead process both tell: whoever needed the room, and whoever took the session over. The first one counts.
    assert!(ends.values().all(|times| *times <= 2), "{context}: {ends:?}");
    seen
}

/// What must have come to pass for a test to mean anything.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    void: u32,
    more: u32,
    in_full: u32,
    carried: u32,
    /// Those before which somebody else has appended.
    late: u32,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, new: Self) {
        self.void += new.void;
        self.more += new.more;
        self.in_full += new.in_full;
        self.carried += new.carried;
        self.late += new.late;
    }
}

/// What providers said that calls cost, over all sessions.
async fn charged(world: &World) -> u64 {
    let mut total = 0;
    for listed in world.journal.list(Default::default(), None, 1_000).await.unwrap() {
        for event in world.events(&Address::of(&listed.branch).unwrap()).await {
            total += match Body::decode(&event.kind, &event.payload).unwrap() {
                Some(Body::AssistantMessage(body)) => body.cost.0,
                Some(Body::ModelFailed(body)) => body.cost.0,
                _ => 0,
            };
        }
    }
    total
}

#[tokio::test(start_paused = true)]
async fn a_hundred_children_under_one_dollar() {
    const DOLLAR: u64 = NanoUsd::PER_USD;
    let (mut seen, mut most) = (Seen::default(), 0);
    for seed in 1..=6 {
        let die = Die::new(seed);
        let world = company(100, &Budgets { run: usd(DOLLAR), day: usd(DOLLAR), ..Budgets::default() }, &die);
        let address = Address::main(SessionId::from_u128(7));
        let crashes = (0..seed % 4).map(|_| Fuse::at(20 + die.below(300), side(&die))).collect();
        play(&world, &address, crashes).await;
        let balances = purses(&world).await;
        let scopes: Vec<&str> =
            balances.iter().map(|balance| balance.scope.split(':').next().unwrap()).collect();
        assert_eq!(scopes, ["day", "run"]);
        let (charged, settled) = (charged(&world).await, balances[0].purse.settled.nano.0);
        assert!(
            charged <= settled && (seed % 4 > 0 || charged == settled),
            "seed {seed}: {charged} and {settled}"
        );
        for balance in &balances {
            seen += check_purse(&world, balance, DOLLAR, &format!("seed {seed}, {}", balance.scope)).await;
            most = most.max(balance.purse.settled.nano.0);
        }
    }
    assert!(seen.void > 0 && seen.more > 0 && seen.in_full > 0, "{seen:?}");
    assert!(seen.carried > 0 && seen.late > 0, "{seen:?}");
    assert!(most > DOLLAR / 2, "the dollar was needed: {most}");
}

fn side(die: &Die) -> Side {
    if die.below(2) == 0 { Side::Before } else { Side::After }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_append_leaves_nothing_set_aside() {
    const LIMIT: u64 = 400_000_000;
    let budgets = || Budgets { run: usd(LIMIT), session: usd(LIMIT), day: usd(LIMIT), ..Budgets::default() };
    let play_with = async |fuses: Vec<Fuse>, context: &str| {
        let world = company(2, &budgets(), &Die::new(3));
        let address = Address::main(SessionId::from_u128(7));
        play(&world, &address, fuses).await;
        let balances = purses(&world).await;
        assert_eq!(balances.len(), 3, "{context}: {balances:?}");
        let mut seen = Seen::default();
        for balance in &balances {
            seen += check_purse(&world, balance, LIMIT, &format!("{context}, {}", balance.scope)).await;
        }
        let mut report = Report::default();
        audit(&*world.journal, &world.seal, None, &mut report).await.unwrap();
        assert_eq!(report.problems, [], "{context}");
        seen
    };
    let calm = play_with(vec![], "calm").await;
    assert_eq!(calm.in_full, 0);
    assert!(calm.carried > 0, "{calm:?}");
    let mut seen = Seen::default();
    for append in 1..=14 {
        for side in [Side::Before, Side::After] {
            seen += play_with(vec![Fuse::at(append, side)], &format!("crash at {append}, {side:?}")).await;
        }
    }
    assert!(seen.in_full > 0, "some crashes came in the middle of a call");
}

//! The fold of a purse beside a naive model of it, and the promise that both make.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weir_events::{Allowance, Body, BudgetCarried, BudgetReleased, BudgetReserved, BudgetSettled, Payload};
use weir_kernel::Purse;
use weir_types::{EventId, NanoUsd, Seq};

use crate::runner;

/// Something that happens to a purse; calls are few, so that events meet.
#[derive(Clone, Debug)]
enum Happens {
    Reserved { call: u128, need: [u64; 3], limit: [Option<u64>; 4] },
    Settled { call: u128, used: [u64; 4] },
    Released { call: u128 },
    Raised { by: [u64; 4] },
}

fn happens(same_limit: Option<[Option<u64>; 4]>) -> impl Strategy<Value = Happens> {
    let number = || prop_oneof![9 => 0..40u64, 1 => any::<u64>()];
    let limit =
        move || [(); 4].map(|()| option::weighted(0.7, prop_oneof![9 => 0..200u64, 1 => any::<u64>()]));
    let call = || 0..8u128;
    prop_oneof![
        4 => (call(), [number(), number(), number()], limit()).prop_map(move |(call, need, limit)| {
            Happens::Reserved { call, need, limit: same_limit.unwrap_or(limit) }
        }),
        3 => (call(), [number(), number(), number(), number()])
            .prop_map(|(call, used)| Happens::Settled { call, used }),
        1 => call().prop_map(|call| Happens::Released { call }),
        1 => [number(), number(), number(), number()].prop_map(|by| Happens::Raised { by }),
    ]
}

fn body(happens: &Happens) -> Body {
    let (scope, call) = ("day:x".to_owned(), EventId::from_u128);
    match happens.clone() {
        Happens::Reserved { call: of, need: [nano, tokens, model_calls], limit } => BudgetReserved {
            scope,
            call: call(of),
            nano: NanoUsd(nano),
            tokens,
            model_calls,
            limit: Allowance {
                nano: limit[0].map(NanoUsd),
                tokens: limit[1],
                model_calls: limit[2],
                wall_clock_ms: limit[3],
            },
        }
        .into(),
        Happens::Settled { call: of, used: [nano, tokens, model_calls, micros] } => {
            BudgetSettled { scope, call: call(of), nano: NanoUsd(nano), tokens, model_calls, micros }.into()
        }
        Happens::Released { call: of } => released(scope, call(of), [0; 4], false),
        Happens::Raised { by } => released(scope, call(99), by, true),
    }
}

fn released(scope: String, call: EventId, by: [u64; 4], raises: bool) -> Body {
    let [nano, tokens, model_calls, micros] = by;
    BudgetReleased { scope, call, nano: NanoUsd(nano), tokens, model_calls, micros, raises }.into()
}

/// The same in as few ideas as possible: everything is looked up in what happened before.
#[derive(Default)]
struct Naive {
    good: Vec<Good>,
    raised: Vec<[u64; 4]>,
}

/// A reservation that holds or held.
struct Good {
    call: u128,
    need: [u64; 3],
    used: Option<[u64; 4]>,
    released: bool,
}

impl Good {
    fn is_open(&self) -> bool {
        self.used.is_none() && !self.released
    }
}

impl Naive {
    fn settled(&self, unit: usize) -> u128 {
        self.good.iter().filter_map(|good| good.used.map(|used| u128::from(used[unit]))).sum()
    }

    fn held(&self, unit: usize) -> u128 {
        let open = self.good.iter().filter(|good| good.is_open());
        open.map(|good| if unit < 3 { u128::from(good.need[unit]) } else { 0 }).sum()
    }

    fn open(&mut self, of: u128) -> Option<&mut Good> {
        self.good.iter_mut().find(|good| good.call == of && good.is_open())
    }

    fn happen(&mut self, happens: &Happens) {
        match happens {
            Happens::Reserved { call, need, limit } => {
                if self.open(*call).is_none() && self.fits(need, limit) {
                    self.good.push(Good { call: *call, need: *need, used: None, released: false });
                }
            }
            Happens::Settled { call, used } => {
                if let Some(good) = self.open(*call) {
                    good.used = Some(*used);
                }
            }
            Happens::Released { call } => {
                if let Some(good) = self.open(*call) {
                    good.released = true;
                }
            }
            Happens::Raised { by } => self.raised.push(*by),
        }
    }

    fn fits(&self, need: &[u64; 3], limit: &[Option<u64>; 4]) -> bool {
        (0..4).all(|unit| {
            let Some(limit) = limit[unit] else { return true };
            let raised: u128 = self.raised.iter().map(|by| u128::from(by[unit])).sum();
            if unit == 3 {
                return self.settled(3) / 1_000 < u128::from(limit) + raised / 1_000;
            }
            let asked = self.settled(unit) + self.held(unit) + u128::from(need[unit]);
            asked <= u128::from(limit) + raised
        })
    }
}

fn clipped(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn in_units(amount: weir_events::Amount) -> [u64; 4] {
    [amount.nano.0, amount.tokens, amount.model_calls, amount.micros]
}

#[test]
fn a_purse_is_what_a_naive_model_says() {
    let outcome = runner(400).run(&vec(happens(None), 0..60), |story| {
        let (mut purse, mut naive) = (Purse::default(), Naive::default());
        for (seq, happens) in (1u64..).zip(&story) {
            // Beyond what can be counted they may differ.
            let asked = |unit: usize| match happens {
                Happens::Reserved { need, .. } => need.get(unit).copied().unwrap_or_default(),
                Happens::Settled { .. } | Happens::Released { .. } | Happens::Raised { .. } => 0,
            };
            let counted = |unit| naive.settled(unit) + naive.held(unit) + u128::from(asked(unit));
            if (0..4).any(|unit| counted(unit) > u128::from(u64::MAX)) {
                break;
            }
            purse.apply_body(Seq(seq), Some(&body(happens)));
            naive.happen(happens);
            let units = [0, 1, 2, 3];
            assert_eq!(
                in_units(purse.settled),
                units.map(|unit| clipped(naive.settled(unit))),
                "{happens:?}"
            );
            assert_eq!(in_units(purse.held()), units.map(|unit| clipped(naive.held(unit))), "{happens:?}");
        }
        Ok(())
    });
    outcome.unwrap();
}

/// However reservations race: what is settled exceeds the limit by no more than calls cost beyond what was set aside for them.
#[test]
fn a_purse_keeps_its_promise() {
    const LIMIT: u64 = 100;
    let limit = Some([Some(LIMIT), None, None, None]);
    let outcome = runner(400).run(&vec(happens(limit), 0..80), |story| {
        let mut purse = Purse::default();
        let (mut beyond, mut open) = (0u64, std::collections::HashMap::new());
        for (seq, happens) in (1u64..).zip(&story) {
            match happens {
                Happens::Raised { .. } => continue,
                Happens::Settled { call, used } => {
                    if let Some(need) = open.remove(call) {
                        beyond = beyond.saturating_add(used[0].saturating_sub(need));
                    }
                }
                Happens::Released { call } => _ = open.remove(call),
                Happens::Reserved { .. } => {}
            }
            purse.apply_body(Seq(seq), Some(&body(happens)));
            if let Happens::Reserved { call, need, .. } = happens
                && purse.holds(EventId::from_u128(*call))
            {
                open.entry(*call).or_insert(need[0]);
            }
            let total = (purse.settled + purse.held()).nano.0;
            assert!(total <= LIMIT.saturating_add(beyond), "{total} of {LIMIT}, {beyond} beyond");
        }
        Ok(())
    });
    outcome.unwrap();
}

/// Whoever begins at a `budget.carried`, whatever came between the events that are in it and itself, finds
/// the same purse.
#[test]
fn a_carried_purse_goes_on_as_if_it_was_folded_from_the_first_event() {
    let history = (vec(happens(None), 1..80), any::<prop::sample::Index>(), 0..5usize);
    let outcome = runner(400).run(&history, |(story, at, between)| {
        let (through, between) = (at.index(story.len()) + 1, between);
        let place = (through + between).min(story.len());
        let mut bodies: Vec<Body> = story.iter().map(body).collect();
        let mut carried = Purse::default();
        for (seq, body) in (1u64..).zip(&bodies[..through]) {
            carried.apply_body(Seq(seq), Some(body));
        }
        bodies.insert(place, carried.carried().into());
        let (mut whole, mut resumed) = (Purse::default(), None);
        for (seq, body) in (1u64..).map(Seq).zip(&bodies) {
            whole.apply_body(seq, Some(body));
            if let Body::BudgetCarried(_) = body {
                let read = Body::decode(&BudgetCarried::kind(), &body.encode().unwrap());
                let Ok(Some(Body::BudgetCarried(read))) = read else { panic!("{body:?}") };
                resumed = Purse::carried_by(read, seq);
            }
        }
        let mut resumed = resumed.unwrap();
        assert_eq!(resumed, carried);
        for (seq, body) in (1u64..).map(Seq).zip(&bodies).skip(through) {
            resumed.apply_body(seq, Some(body));
        }
        assert_eq!(resumed, whole);
        Ok(())
    });
    outcome.unwrap();
}

/// What says something of events after itself, or was made by another version of the fold, is not believed.
#[test]
fn a_carried_purse_speaks_of_earlier_events_in_our_version() {
    let mut purse = Purse::default();
    purse.apply_body(Seq(7), None);
    let carried = purse.carried();
    assert_eq!(Purse::carried_by(carried.clone(), Seq(8)), Some(purse));
    assert_eq!(Purse::carried_by(carried.clone(), Seq(7)), None);
    let newer = BudgetCarried { version: carried.version + 1, ..carried };
    assert_eq!(Purse::carried_by(newer, Seq(8)), None);
}

/// What `budget.carried` says changes nothing for a reader that folds from the first event.
#[test]
fn a_carried_purse_changes_nothing_that_was_folded() {
    let mut purse = Purse::default();
    purse.apply_body(Seq(1), Some(&released("day:x".to_owned(), EventId::from_u128(1), [5; 4], true)));
    let mut expected = purse.clone();
    expected.seq = Seq(2);
    purse.apply_body(Seq(2), Some(&Purse::default().carried().into()));
    assert_eq!(purse, expected);
}

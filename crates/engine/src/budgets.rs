//! What a project allows in all, and which purses a call is paid from.
//!
//! A purse belongs to a scope: `run:<run>`, `session:<root>`, `agent:<name>:<day>`, `principal:<who>:<day>` or `day:<day>`, where
//! days are UTC. Whatever a session starts draws from its purses, too.

use weir_events::{Allowance, Draw, Limit, SessionCreated, Share};
use weir_journal::{Expected, NewEvent, Ownership, Part};
use weir_types::{BranchId, Hash, NanoUsd, RunId, SessionId, StreamName, Timestamp};

/// What a project allows, and over what it is counted. Nothing said means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// By one run, with everything it starts.
    pub run: Allowance,
    /// By one session, with its branches and everything it starts.
    pub session: Allowance,
    /// By one agent a day.
    pub agent: Allowance,
    /// By whoever asks, a day.
    pub principal: Allowance,
    /// By everybody, a day.
    pub day: Allowance,
    /// Who may put more in than that.
    pub raised_by: Vec<String>,
}

/// What a purse's day is called, and all days are without their date.
const DAY: &str = "day";

/// Kinds of scopes that have a purse for each day.
const DAILY: [&str; 2] = ["agent:", "principal:"];

/// A purse that a call is paid from, and what it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paid {
    pub(crate) draw: Draw,
    pub(crate) limit: Allowance,
}

/// The purses that a session draws from, each once. Those of its parent come first: they are the larger ones.
pub(crate) fn shares(
    budgets: &Budgets,
    session: SessionId,
    created: &SessionCreated,
    run: Option<RunId>,
) -> Vec<Share> {
    let inherited = created.parent.as_ref().map_or(&[][..], |parent| &parent.purses);
    let mut shares: Vec<Share> = inherited.to_vec();
    let own = [
        run.map(|run| (run_scope(run), budgets.run)),
        // The children of a session are part of it.
        created.parent.is_none().then(|| (format!("session:{session}"), budgets.session)),
        Some((format!("agent:{}", created.agent), budgets.agent)),
        Some((format!("principal:{}", created.principal), budgets.principal)),
        Some((DAY.to_owned(), budgets.day)),
    ];
    for (scope, limit) in own.into_iter().flatten() {
        if !limit.is_unlimited() && shares.iter().all(|share| share.scope != scope) {
            shares.push(Share { scope, limit });
        }
    }
    shares
}

/// The purse of a run.
pub(crate) fn run_scope(run: RunId) -> String {
    format!("run:{run}")
}

/// Whether a purse is a run's.
pub(crate) fn is_of_a_run(scope: &str) -> bool {
    scope.starts_with("run:")
}

/// The purses that a call at this moment is paid from.
pub(crate) fn paid_from(shares: &[Share], created: &SessionCreated, now: Timestamp) -> Vec<Paid> {
    let inherited = created.parent.as_ref().map_or(&[][..], |parent| &parent.purses);
    let paid = |share: &Share| Paid {
        draw: Draw {
            scope: on_day(&share.scope, now),
            shared: inherited.iter().any(|other| other.scope == share.scope),
        },
        limit: share.limit,
    };
    shares.iter().map(paid).collect()
}

/// The scope of that day, if there is one for each.
fn on_day(scope: &str, now: Timestamp) -> String {
    if scope == DAY || DAILY.iter().any(|kind| scope.starts_with(kind)) {
        return format!("{scope}:{}", day(now));
    }
    scope.to_owned()
}

/// The date in UTC.
pub fn day(now: Timestamp) -> String {
    now.to_string().chars().take_while(|c| *c != 'T').collect()
}

/// The stream of a purse. A scope that cannot be part of a name, whoever thought of it, is there by its hash.
pub(crate) fn stream(scope: &str) -> BranchId {
    let named: Result<StreamName, _> = format!("{PREFIX}{scope}").parse();
    #[expect(clippy::expect_used, reason = "a hash is a valid name")]
    let name = named.unwrap_or_else(|_| {
        format!("{PREFIX}#{}", Hash::of(scope.as_bytes())).parse().expect("a hash is a valid name")
    });
    BranchId::main(name)
}

/// What the names of all streams of purses begin with. It is reserved: nobody else can write there.
pub(crate) const PREFIX: &str = "budget:";

/// An event for a purse, in the same append as what it is about.
pub(crate) fn beside(scope: &str, event: NewEvent) -> Part {
    let (expected, owner) = (Expected::Any, Ownership::Unchecked);
    Part { branch: stream(scope), expected, key: None, owner, events: vec![event], attrs: None }
}

/// So much of this, and nothing else.
pub(crate) fn only(limit: Limit, amount: u64) -> Allowance {
    let nothing = Allowance::default();
    match limit {
        Limit::Usd => Allowance { nano: Some(NanoUsd(amount)), ..nothing },
        Limit::Tokens => Allowance { tokens: Some(amount), ..nothing },
        Limit::ModelCalls => Allowance { model_calls: Some(amount), ..nothing },
        Limit::WallClock => Allowance { wall_clock_ms: Some(amount), ..nothing },
        Limit::Iterations => nothing,
    }
}

/// A scope in words, for people.
pub fn scope_words(scope: &str) -> String {
    let dated = |rest: &str, words: fn(&str) -> String| match rest.rsplit_once(':') {
        Some((name, day)) => format!("{} on {day} (UTC)", words(name)),
        None => words(rest),
    };
    match scope.split_once(':') {
        Some(("run", _)) => "this run and what it started".to_owned(),
        Some(("session", _)) => "this session".to_owned(),
        Some(("agent", rest)) => dated(rest, |name| format!("agent `{name}`")),
        Some(("principal", rest)) => dated(rest, |name| format!("`{name}`")),
        Some(("day", day)) => format!("everybody on {day} (UTC)"),
        Some(_) | None => format!("`{scope}`"),
    }
}

#[cfg(test)]
mod tests {
    use weir_events::Parent;
    use weir_types::{CallId, NanoUsd};

    use super::*;

    fn usd(nano: u64) -> Allowance {
        Allowance { nano: Some(NanoUsd(nano)), ..Allowance::default() }
    }

    fn created(agent: &str, parent: Option<Parent>) -> SessionCreated {
        SessionCreated {
            agent: agent.to_owned(),
            manifest: Hash::ZERO,
            principal: "user:ada".to_owned(),
            groups: vec![],
            title: None,
            labels: Default::default(),
            parent,
            lane: "direct".to_owned(),
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_tree_draws_from_the_same_purses_each_once() {
        let budgets = Budgets {
            run: usd(1),
            session: usd(2),
            agent: usd(3),
            principal: usd(4),
            day: usd(5),
            raised_by: vec![],
        };
        let (root, child) = (SessionId::from_u128(1), SessionId::from_u128(2));
        let (run, inner) = (RunId::from_u128(3), RunId::from_u128(4));
        let boss = created("boss", None);
        let of_boss = shares(&budgets, root, &boss, Some(run));
        let purses = of_boss.clone();
        let clerk = created(
            "clerk",
            Some(Parent {
                session: root,
                branch: weir_types::BranchName::main(),
                call: CallId::from_u128(9),
                depth: 1,
                purses,
            }),
        );
        let of_clerk = shares(&budgets, child, &clerk, Some(inner));
        let scopes = |shares: &[Share], created, now| -> Vec<(String, bool)> {
            let paid = paid_from(shares, created, at(now));
            paid.into_iter().map(|paid| (paid.draw.scope, paid.draw.shared)).collect()
        };
        let own = |scope: &str| (scope.to_owned(), false);
        assert_eq!(
            scopes(&of_boss, &boss, "2026-07-31T23:59:59.999999Z"),
            [
                own(&format!("run:{run}")),
                own(&format!("session:{root}")),
                own("agent:boss:2026-07-31"),
                own("principal:user:ada:2026-07-31"),
                own("day:2026-07-31"),
            ]
        );
        let shared = |scope: &str| (scope.to_owned(), true);
        // After midnight it is the next day's purse, for the child of yesterday's call, too.
        assert_eq!(
            scopes(&of_clerk, &clerk, "2026-08-01T00:00:00Z"),
            [
                shared(&format!("run:{run}")),
                shared(&format!("session:{root}")),
                shared("agent:boss:2026-08-01"),
                shared("principal:user:ada:2026-08-01"),
                shared("day:2026-08-01"),
                own(&format!("run:{inner}")),
                own("agent:clerk:2026-08-01"),
            ]
        );
        assert_eq!(shares(&Budgets::default(), root, &boss, Some(run)), []);
    }

    #[test]
    fn every_scope_has_a_stream() {
        assert_eq!(stream("day:2026-07-31").stream.as_str(), "budget:day:2026-07-31");
        for odd in ["principal:user:\u{7}:2026-07-31".to_owned(), format!("agent:{}", "a".repeat(300))] {
            assert!(stream(&odd).stream.as_str().starts_with("budget:#"), "{odd}");
            assert_ne!(stream(&odd), stream(&format!("{odd}x")));
        }
    }
}

//! Paying for model calls: what one may cost is set aside in every purse it is paid from, in the append of its intent. A call
//! whose reservation does not hold is not made.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_events::{
    About, Allowance, Amount, BudgetExceeded, BudgetReleased, BudgetReserved, Limit, ModelRequested, Parked,
    Reserve, RunErrored, RunParked, Share, Short,
};
use weir_journal::{Part, mint};
use weir_types::{EventId, FailureClass, Wire};

use super::{Actor, Flow, Release};
use crate::budgets::{self, Paid, beside, is_of_a_run};
use crate::draft::{Beside, Nature, new_event};
use crate::error::EngineError;
use crate::lost;
use crate::outcome::budget;
use crate::purses::Reservation;
use crate::setup::Runnable;

/// How often a purse is looked at while others may give something back: first, and at most.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// How often what dead processes have set aside is looked for.
const LOST_EVERY: Duration = Duration::from_secs(2);

/// A call that waits for others to give back what they have set aside.
pub(super) struct Shortage {
    since: Instant,
    pause: Duration,
    /// When what dead processes have set aside was last looked for.
    looked: Option<Instant>,
    /// Whether it was said that a call waits.
    told: bool,
}

/// What someone who asks a session to go on gives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resume {
    /// Who, if that is known.
    pub(crate) actor: Option<String>,
    /// How much more it may use.
    pub(crate) budget: Option<Allowance>,
    /// The event that led to it.
    pub(crate) cause: Option<EventId>,
}

/// The agent with the limits that count: the smaller of its own and its project's. Where it can have others work for it, those
/// that count for all of them are a purse; else the run's own fold counts.
pub(crate) fn within_budgets(runnable: Arc<Runnable>) -> Arc<Runnable> {
    let limits = runnable.agent.limits.within(&runnable.budgets.run);
    let (own, tree) = match runnable.agent.calls_agents() {
        true => (limits.without_the_tree(), limits.of_the_tree()),
        false => (limits, Allowance::default()),
    };
    if own == runnable.agent.limits && tree == runnable.budgets.run {
        return runnable;
    }
    let mut narrowed = (*runnable).clone();
    (narrowed.agent.limits, narrowed.budgets.run) = (own, tree);
    Arc::new(narrowed)
}

impl Actor {
    /// The purses that this session and whatever it starts draw from.
    pub(super) fn shares(&self, runnable: &Runnable) -> Vec<Share> {
        let Some(created) = &self.session.created else { return Vec::new() };
        let run = self.session.run.as_ref().map(|run| run.id);
        budgets::shares(&runnable.budgets, self.address.session, created, run)
    }

    /// The purses that a call is paid from now.
    pub(super) fn paid_from(&self, runnable: &Runnable) -> Vec<Paid> {
        let Some(created) = &self.session.created else { return Vec::new() };
        let now = (self.shared.setup.options.clock)();
        budgets::paid_from(&self.shares(runnable), created, now)
    }

    /// What is to be done instead of a call that cannot be paid; nothing, if it seems that it can.
    pub(super) async fn cannot_pay(
        &mut self,
        runnable: &Runnable,
        paid: &[Paid],
        reserve: Reserve,
    ) -> Result<Option<Flow>, EngineError> {
        let in_dollars =
            runnable.agent.limits.usd.is_some() || paid.iter().any(|paid| paid.limit.nano.is_some());
        if in_dollars && !has_price(runnable) {
            let message = no_price(&runnable.agent.model);
            let errored = RunErrored { class: FailureClass::Invalid, message };
            return self.end(Vec::new(), errored.into()).await.map(Some);
        }
        for paid in paid {
            let journal = &*self.shared.setup.journal;
            if let Some(short) = self.shared.purses.lacks(journal, paid, reserve.into()).await? {
                if !self.draft.is_empty() {
                    // It may be there already: what was just settled, or put in, is not written down yet.
                    self.commit(Release::No).await?;
                    return Ok(Some(Flow::Again));
                }
                return self.fall_short(&paid.draw.scope, short, None).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Drafts the request, and what is set aside for it; the request's id.
    pub(super) fn reserve(&mut self, requested: ModelRequested, paid: &[Paid]) -> EventId {
        self.claim();
        let (call, about, need) = (mint(), self.about(None), Amount::from(requested.reserve));
        let reserved = paid.iter().map(|paid| reservation(paid, call, need, &about)).collect();
        let beside = Beside { id: call, parts: reserved };
        self.draft.add_with(&mut self.session, requested.into(), about, Nature::Decision, beside);
        call
    }

    /// What is to be done instead of a call whose reservation is in the journal and does not hold; nothing, if it does.
    pub(super) async fn is_void(
        &mut self,
        paid: &[Paid],
        call: EventId,
        reserve: Reserve,
    ) -> Result<Option<Flow>, EngineError> {
        for paid in paid {
            let journal = &*self.shared.setup.journal;
            let verdict = self.shared.purses.verdict(journal, paid, call, reserve.into()).await?;
            if let Reservation::Void(short) = verdict {
                return self.fall_short(&paid.draw.scope, short, Some(call)).await.map(Some);
            }
        }
        self.shortage = None;
        Ok(None)
    }

    /// A purse has too little left. If that is only because others have set more aside than they may need, it is worth a
    /// while; else the run pauses until someone puts more in.
    async fn fall_short(
        &mut self,
        scope: &str,
        short: Short,
        call: Option<EventId>,
    ) -> Result<Flow, EngineError> {
        let patience = self.shared.setup.options.budget_patience;
        let now = Instant::now();
        let shortage =
            self.shortage.get_or_insert(Shortage { since: now, pause: LOOK_MIN, looked: None, told: false });
        let waits = short.may_pass && now.duration_since(shortage.since) < patience;
        let pause = shortage.pause;
        shortage.pause = (pause * 2).min(LOOK_MAX);
        let looks = short.may_pass && shortage.looked.is_none_or(|at| now.duration_since(at) >= LOST_EVERY);
        let tells = call.is_some() || !shortage.told;
        if looks {
            shortage.looked = Some(now);
        }
        shortage.told |= waits;
        let is_freed = looks && lost::settle(&self.shared, scope).await?;
        let left = self
            .shortage
            .as_ref()
            .map_or(patience, |shortage| patience.saturating_sub(now.duration_since(shortage.since)));
        let waits_ms =
            if waits && !is_freed { u64::try_from(left.as_millis()).unwrap_or(u64::MAX) } else { 0 };
        let exceeded = BudgetExceeded {
            scope: scope.to_owned(),
            limit: short.max,
            spent: short.spent,
            which: short.which,
            need: short.need,
            waits_ms,
            call,
        };
        if is_freed {
            // What they had set aside is spent now: what is left is known.
            if call.is_some() {
                self.tell_exceeded(exceeded);
            }
            return Ok(Flow::Again);
        }
        if waits {
            self.claim();
            if tells {
                self.tell_exceeded(exceeded);
            }
            self.retry_at = Some(now + pause);
            return self.write_down_and_wait().await;
        }
        self.shortage = None;
        self.tell_exceeded(exceeded);
        let why = Parked::Budget {
            scope: scope.to_owned(),
            limit: short.which,
            max: short.max,
            raised: short.raised,
            spent: short.spent,
            need: short.need,
        };
        self.end(Vec::new(), RunParked { why }.into()).await
    }

    /// A request that is in the journal and will not be made is a fact: whatever else has happened, nobody waits for it.
    fn tell_exceeded(&mut self, exceeded: BudgetExceeded) {
        self.claim();
        let nature = if exceeded.call.is_some() { Nature::Fact } else { Nature::Decision };
        let about = self.about(None);
        self.draft.add(&mut self.session, exceeded.into(), about, nature);
    }

    /// What goes into a purse when someone lets the run go on: what they give.
    pub(super) fn raise(&self, resume: &Resume, by: EventId, about: &About) -> Vec<Part> {
        let Some(run) = &self.session.run else { return Vec::new() };
        let Some(Parked::Budget { scope, .. }) = &run.parked else { return Vec::new() };
        let Some(given) = resume.budget else { return Vec::new() };
        let Amount { nano, tokens, model_calls, micros } = Amount::from(given);
        let raised = BudgetReleased {
            scope: scope.clone(),
            call: by,
            nano,
            tokens,
            model_calls,
            micros,
            raises: true,
        };
        vec![beside(scope, new_event(&raised.into(), about))]
    }

    /// How much someone has to give for the run to go on, if a limit of the run had stopped it. What a session, a day and the like
    /// may use can have changed meanwhile: then it is tried again.
    pub(super) fn needs_budget(&self) -> Option<Allowance> {
        let run = self.session.run.as_ref()?;
        match run.parked.as_ref()? {
            Parked::Limit { limit: Limit::Iterations, .. } => None,
            Parked::Limit { .. } => budget(run),
            Parked::Budget { scope, .. } if is_of_a_run(scope) => budget(run),
            _ => None,
        }
    }

    /// Whether a limit had stopped the run that can be raised.
    pub(super) fn is_out_of_budget(&self) -> bool {
        match self.session.run.as_ref().and_then(|run| run.parked.as_ref()) {
            Some(Parked::Limit { limit, .. }) => *limit != Limit::Iterations,
            Some(Parked::Budget { .. }) => true,
            Some(Parked::Loop { .. } | Parked::Halted | Parked::Crashes { .. } | Parked::Storage { .. })
            | None => false,
        }
    }
}

fn reservation(paid: &Paid, call: EventId, need: Amount, about: &About) -> Part {
    let Amount { nano, tokens, model_calls, .. } = need;
    let (scope, limit) = (paid.draw.scope.clone(), paid.limit);
    let reserved = BudgetReserved { scope, call, nano, tokens, model_calls, limit };
    beside(&paid.draw.scope, new_event(&reserved.into(), about))
}

/// Whether dollars can be counted. Nobody is paid for what needs no network.
fn has_price(runnable: &Runnable) -> bool {
    let card = &runnable.agent.card;
    card.price.is_some() || matches!(card.wire, Wire::Scripted | Wire::Echo | Wire::Replay)
}

fn no_price(model: &str) -> String {
    format!(
        "a limit in dollars needs a price, and `{model}` has none; give it one under `models:` in weir.yaml, or limit tokens \
         instead"
    )
}

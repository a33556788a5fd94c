//! Comparing what the `budget.carried` of a purse say with the events that they speak of. Readers of a purse
//! begin at the newest of them, so only a fold of all events finds one that says something else.

use weir_events::{Body, BudgetCarried, Payload};
use weir_journal::{Journal, OfKind, PAGE_MAX, Problem, ReadError};
use weir_kernel::Purse;
use weir_types::{BranchId, Hash, Seq};

/// What one of them says. There can be many: only the hash of the state is kept.
struct Claim {
    at: Seq,
    through: Seq,
    state: Hash,
}

/// Folds all events of a purse, and names each `budget.carried` that says something else. Those of another
/// version of the fold are left out: they are never used.
pub(super) async fn of_purse(journal: &dyn Journal, id: &BranchId) -> Result<Vec<Problem>, ReadError> {
    let (claims, mut problems) = claims(journal, id).await?;
    let mut claims = claims.into_iter().peekable();
    let mut purse = Purse::default();
    loop {
        while let Some(claim) = claims.next_if(|claim| claim.through == purse.seq) {
            if Some(claim.state) != state(purse.carried()) {
                let what = format!("it does not say what the events up to seq {} come to", claim.through);
                problems.push(Problem::at_event(id, claim.at, what));
            }
        }
        let Some(next) = claims.peek() else { return Ok(problems) };
        let limit = usize::try_from(next.through.0 - purse.seq.0).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = journal.read(id, purse.seq, limit).await?;
        // Without those events, or if they cannot be folded, nobody reads the purse either.
        if page.is_empty() || !page.iter().all(|event| purse.apply(event).is_ok()) {
            return Ok(problems);
        }
    }
}

/// What they say, by the events that are in it; and those that say nothing.
async fn claims(journal: &dyn Journal, id: &BranchId) -> Result<(Vec<Claim>, Vec<Problem>), ReadError> {
    let (mut claims, mut problems) = (Vec::new(), Vec::new());
    let mut pages = OfKind::new(journal, id, BudgetCarried::kind());
    while let Some(page) = pages.next().await? {
        for event in page {
            let at = event.seq;
            let Ok(Some(Body::BudgetCarried(body))) = Body::decode(&event.kind, &event.payload) else {
                problems.push(Problem::at_event(id, at, "it cannot be read"));
                continue;
            };
            if body.version != BudgetCarried::VERSION {
                continue;
            }
            let through = body.through;
            match state(body).filter(|_| through < at) {
                Some(state) => claims.push(Claim { at, through, state }),
                None => problems.push(Problem::at_event(id, at, "it speaks of events that came after it")),
            }
        }
    }
    claims.sort_by_key(|claim| claim.through);
    Ok((claims, problems))
}

fn state(body: BudgetCarried) -> Option<Hash> {
    Body::from(body).encode().ok().map(|state| Hash::of(&state))
}

//! Comparing what is stored about sessions, so that they are found and resumed without their events, with those events.
//!
//! A journal checks its own tables; what the attributes of a session and the state of a snapshot must say, only folds of the
//! events tell. The same goes for what an event of a purse says of those before it.

mod carried;

use futures_util::{FutureExt, StreamExt};
use weir_journal::{Attrs, Journal, PAGE_MAX, Problem, ReadError, Report, Snapshot, Status};
use weir_kernel::Session;
use weir_types::{BranchId, Event, Explain, Fault, Seq, StreamName};

use crate::actor::attrs;
use crate::address::Address;
use crate::budgets::PREFIX;
use crate::snapshots::{SnapshotCheck, SnapshotError, SnapshotSeal};

/// Branches folded at the same time. More would compete for the same disk and cores.
const AT_ONCE: usize = 4;

/// Folds every session and purse (of one stream, or all), and everything of which there are snapshots, and
/// adds to `report` what attributes, snapshots and `budget.carried` say otherwise. Branches whose events
/// cannot be read are left out: the check of the journal names them. Snapshots that are never used, because
/// their seal does not fit or their fold is unknown, are left out, too.
///
/// # Errors
/// When the journal cannot be read for another reason than damage.
pub async fn audit(
    journal: &dyn Journal,
    seal: &SnapshotSeal,
    stream: Option<&StreamName>,
    report: &mut Report,
) -> Result<(), ReadError> {
    let mut after = None;
    loop {
        let page = match stream {
            Some(stream) => vec![stream.clone()],
            None => match journal.streams(after.take(), PAGE_MAX).await {
                Ok(page) => page.into_iter().map(|summary| summary.stream).collect(),
                Err(error) => return damage_is_known(error),
            },
        };
        let last = page.last().cloned();
        let mut audits = futures_util::stream::iter(page)
            .map(|stream| async move { of_stream(journal, seal, &stream).await }.boxed())
            .buffered(AT_ONCE);
        while let Some(found) = audits.next().await {
            found?.into_iter().for_each(|problem| report.note(problem));
        }
        match last {
            Some(last) if stream.is_none() => after = Some(last),
            _ => return Ok(()),
        }
    }
}

/// Damage is what the check of the journal itself finds, and says better.
fn damage_is_known(error: ReadError) -> Result<(), ReadError> {
    if error.fault() == Fault::Damaged { Ok(()) } else { Err(error) }
}

async fn of_stream(
    journal: &dyn Journal,
    seal: &SnapshotSeal,
    stream: &StreamName,
) -> Result<Vec<Problem>, ReadError> {
    let branches = match journal.branches(stream).await {
        Ok(branches) => branches,
        Err(error) => return damage_is_known(error).map(|()| Vec::new()),
    };
    let mut problems = Vec::new();
    for made in branches {
        // A branch without events of its own is listed once something is appended to it.
        if made.own_events() == 0 {
            continue;
        }
        let id = BranchId { stream: stream.clone(), branch: made.name.clone() };
        match of_branch(journal, seal, &id).await {
            Ok(found) => problems.extend(found),
            Err(error) => damage_is_known(error)?,
        }
    }
    Ok(problems)
}

async fn of_branch(
    journal: &dyn Journal,
    seal: &SnapshotSeal,
    id: &BranchId,
) -> Result<Vec<Problem>, ReadError> {
    let mut problems = match id.stream.as_str().starts_with(PREFIX) {
        true => carried::of_purse(journal, id).await?,
        false => Vec::new(),
    };
    let mut folds =
        Folds { snapshots: journal.stored_snapshots(id).await?, checks: Vec::new(), session: None };
    folds.begin(seal);
    let mut to = folds.snapshots.last().map_or(Seq(0), |snapshot| snapshot.seq);
    let mut listed = None;
    if Address::of(id).is_some() {
        listed = journal.listed(id).await?;
        match &listed {
            None => problems.push(in_attrs(id, "it has no attributes, and no list shows it")),
            Some(row) => {
                folds.session = Some(Session::default());
                to = to.max(row.head.seq);
            }
        }
    }
    if folds.is_empty() {
        return Ok(problems);
    }
    let mut seq = Seq(0);
    while seq < to {
        let limit = usize::try_from(to.0 - seq.0).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = journal.read(id, seq, limit).await?;
        let Some(last) = page.last() else { break };
        seq = last.seq;
        page.iter().for_each(|event| folds.apply(id, event, &mut problems));
    }
    if let (Some(row), Some(session)) = (listed, folds.session)
        && session.seq == row.head.seq
        && let Some(what) = difference(&row.attrs, &attrs(&session))
    {
        problems.push(in_attrs(id, what));
    }
    Ok(problems)
}

fn in_attrs(id: &BranchId, what: impl Into<String>) -> Problem {
    Problem::at_branch(id, what).in_place("table `attrs`")
}

/// What is folded of one branch: the session itself, and whatever has snapshots.
struct Folds {
    /// By seq.
    snapshots: Vec<Snapshot>,
    checks: Vec<SnapshotCheck>,
    /// Nothing once an event could not be folded by this version.
    session: Option<Session>,
}

impl Folds {
    /// A check for each known fold that there are snapshots of.
    fn begin(&mut self, seal: &SnapshotSeal) {
        self.snapshots.sort_by_key(|snapshot| snapshot.seq);
        let mut folds: Vec<_> = self.snapshots.iter().map(|snapshot| &snapshot.fold).collect();
        folds.sort_by(|a, b| (&a.fold, a.version).cmp(&(&b.fold, b.version)));
        folds.dedup();
        self.checks = folds.into_iter().filter_map(|fold| SnapshotCheck::new(seal, fold)).collect();
    }

    fn is_empty(&self) -> bool {
        self.session.is_none() && self.checks.is_empty()
    }

    fn apply(&mut self, id: &BranchId, event: &Event, problems: &mut Vec<Problem>) {
        if let Some(session) = &mut self.session
            && session.apply(event).is_err()
        {
            self.session = None;
        }
        self.checks.retain_mut(|check| check.apply(event).is_ok());
        for snapshot in self.snapshots.iter().filter(|snapshot| snapshot.seq == event.seq) {
            for check in &self.checks {
                // Without a fitting seal, and of unknown folds, snapshots are never used.
                if let Err(error @ (SnapshotError::Contradicts | SnapshotError::OtherEvents)) =
                    check.check(snapshot)
                {
                    let found = Problem::at_event(id, snapshot.seq, error.to_string());
                    problems.push(found.in_place("table `snapshots`"));
                }
            }
        }
    }
}

/// The first attribute that is not what the events say.
fn difference(stored: &Attrs, folded: &Attrs) -> Option<String> {
    // An import lists what it brings as halted, and no more, until the session is taken up.
    if *stored == Attrs::new(Status::Halted) {
        return None;
    }
    if stored.status != folded.status {
        return Some(format!("the status is {}, its events say {}", stored.status, folded.status));
    }
    let texts = [
        ("principal", &stored.principal, &folded.principal),
        ("agent", &stored.agent, &folded.agent),
        ("title", &stored.title, &folded.title),
    ];
    for (name, stored, folded) in texts {
        if stored != folded {
            let said =
                |text: &Option<String>| text.as_ref().map_or("none".to_owned(), |text| format!("`{text}`"));
            return Some(format!("the {name} is {}, its events say {}", said(stored), said(folded)));
        }
    }
    let is_same = stored.due == folded.due;
    (!is_same).then(|| "the time when something is due is not what its events say".to_owned())
}

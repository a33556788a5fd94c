//! What a check has found so far, from all of its threads.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_journal::{Problem, Report};
use weir_types::{Hash, Seq};

use crate::rows::BranchRow;

/// Findings about one branch that are kept, so that one broken branch does not hide the findings in others.
const PER_BRANCH_MAX: usize = 3;

/// Branches with findings that are told apart.
const BRANCHES_MAX: usize = 1_000;

/// Of the findings reported, this many are kept free for those that belong to no branch.
const ELSEWHERE_MIN: usize = 20;

/// The event that needs a blob.
pub(super) struct Needed {
    pub(super) branch: Arc<BranchRow>,
    pub(super) seq: u64,
}

#[derive(Default)]
pub(super) struct Findings(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// By the number of the branch: the first bad event, and what else is wrong with the branch.
    branches: BTreeMap<i64, OfBranch>,
    elsewhere: Report,
    blobs: HashMap<Hash, Needed>,
}

#[derive(Default)]
struct OfBranch {
    first: Option<Problem>,
    others: Vec<Problem>,
}

impl Findings {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bad event. The first one of each branch is kept: what follows it may be wrong because of it.
    pub(super) fn at_event(&self, branch: &BranchRow, seq: u64, what: impl Into<String>) {
        let mut inner = self.inner();
        let Some(of_branch) = inner.of_branch(branch.no) else { return };
        if of_branch.first.as_ref().and_then(|first| first.seq).is_none_or(|first| seq < first.0) {
            of_branch.first = Some(Problem::at_event(&branch.id, Seq(seq), what));
        }
    }

    /// Something wrong with what finds an event of a branch, in a table.
    pub(super) fn in_table(&self, branch: &BranchRow, seq: u64, table: &str, what: impl Into<String>) {
        let problem = Problem::at_event(&branch.id, Seq(seq), what).in_place(format!("table `{table}`"));
        self.of_branch(branch.no, problem);
    }

    /// Something wrong with a branch.
    pub(super) fn of_branch(&self, no: i64, problem: Problem) {
        let mut inner = self.inner();
        let Some(of_branch) = inner.of_branch(no) else { return };
        if of_branch.others.len() < PER_BRANCH_MAX && !of_branch.others.contains(&problem) {
            of_branch.others.push(problem);
        }
    }

    /// Something wrong elsewhere.
    pub(super) fn note(&self, problem: Problem) {
        self.inner().elsewhere.note(problem);
    }

    /// An event needs these blobs.
    pub(super) fn needs(&self, branch: &Arc<BranchRow>, seq: u64, hashes: &[Hash]) {
        let mut inner = self.inner();
        for hash in hashes {
            let needed = inner.blobs.entry(*hash).or_insert_with(|| Needed { branch: branch.clone(), seq });
            if (branch.no, seq) < (needed.branch.no, needed.seq) {
                *needed = Needed { branch: branch.clone(), seq };
            }
        }
    }

    pub(super) fn take_blobs(&self) -> HashMap<Hash, Needed> {
        std::mem::take(&mut self.inner().blobs)
    }

    /// Everything found: by branch and seq, then what belongs to no branch.
    pub(super) fn into_problems(self: Arc<Self>) -> Vec<Problem> {
        let inner = std::mem::take(&mut *self.inner());
        let mut found = Report::default();
        let elsewhere = inner.elsewhere.problems;
        let room = Report::PROBLEMS_MAX - elsewhere.len().min(ELSEWHERE_MIN);
        for of_branch in inner.branches.into_values() {
            let mut problems: Vec<Problem> = of_branch.first.into_iter().chain(of_branch.others).collect();
            problems.sort_by_key(|problem| problem.seq);
            let left = room - found.problems.len();
            problems.into_iter().take(left).for_each(|problem| found.note(problem));
        }
        elsewhere.into_iter().for_each(|problem| found.note(problem));
        found.problems
    }
}

impl Inner {
    fn of_branch(&mut self, no: i64) -> Option<&mut OfBranch> {
        if self.branches.len() >= BRANCHES_MAX && !self.branches.contains_key(&no) {
            return None;
        }
        Some(self.branches.entry(no).or_default())
    }
}

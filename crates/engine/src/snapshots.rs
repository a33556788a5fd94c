//! Snapshots of folds: a cache of `fold(events)` that saves reading, and never anybody's word.
//!
//! A snapshot counts if its seal fits. Which of what it says opens a door is read from events all the same: see
//! [`evidence`](crate::evidence).

mod seal;

use std::ops::Deref;

use bytes::Bytes;
use weir_journal::{FoldVersion, Journal, PAGE_MAX, ReadError, SNAPSHOT_MAX, Snapshot};
use weir_kernel::{FOLD_VERSION, FoldError, Session};
use weir_types::{BranchId, Event, Explain, Seq};

pub use self::seal::SnapshotSeal;
use self::seal::Unsealed;
use crate::files::SessionFilesFold;

/// A journal, with the seal of the snapshots in it.
#[derive(Clone, Copy)]
pub(crate) struct SealedJournal<'a> {
    journal: &'a dyn Journal,
    seal: &'a SnapshotSeal,
}

impl<'a> SealedJournal<'a> {
    pub(crate) fn new(journal: &'a dyn Journal, seal: &'a SnapshotSeal) -> Self {
        Self { journal, seal }
    }
}

impl Deref for SealedJournal<'_> {
    type Target = dyn Journal;

    fn deref(&self) -> &Self::Target {
        self.journal
    }
}

/// A state folded from the events of a branch, of which snapshots are kept.
pub(crate) trait Fold: Default + PartialEq + Send {
    /// What its snapshots are called.
    const NAME: &'static str;
    /// Raised whenever the fold or its encoding changes.
    const VERSION: u32;

    /// The newest event folded.
    fn seq(&self) -> Seq;

    /// Folds the next event.
    fn apply(&mut self, event: &Event) -> Result<(), FoldError>;

    /// The state as bytes; nothing, if it cannot be written.
    fn encode(&self) -> Option<Vec<u8>>;

    /// The state that [`Fold::encode`] wrote after event `seq`.
    fn decode(state: &[u8], seq: Seq) -> Option<Self>;
}

impl Fold for Session {
    const NAME: &'static str = "session";
    const VERSION: u32 = FOLD_VERSION;

    fn seq(&self) -> Seq {
        self.seq
    }

    fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        Self::apply(self, event)
    }

    fn encode(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    fn decode(state: &[u8], seq: Seq) -> Option<Self> {
        serde_json::from_slice(state).ok().filter(|session: &Self| session.seq == seq)
    }
}

fn fold_version<F: Fold>() -> FoldVersion {
    FoldVersion { fold: F::NAME.to_owned(), version: F::VERSION }
}

/// The newest snapshot of a fold that can be believed. One that cannot is as good as none.
pub(crate) async fn newest<F: Fold>(
    journal: SealedJournal<'_>,
    branch: &BranchId,
) -> Result<Option<F>, ReadError> {
    let Some(stored) = journal.snapshot(branch, &fold_version::<F>()).await? else { return Ok(None) };
    let place = (stored.branch.to_string(), stored.seq.0);
    match journal.seal.open_snapshot(&stored) {
        Unsealed::Fits(state) => Ok(F::decode(&state, stored.seq)),
        Unsealed::Absent => {
            tracing::debug!(
                branch = place.0,
                seq = place.1,
                fold = F::NAME,
                "a snapshot without a seal is ignored"
            );
            Ok(None)
        }
        Unsealed::Differs => {
            tracing::warn!(
                branch = place.0,
                seq = place.1,
                fold = F::NAME,
                "a snapshot whose seal does not fit is ignored; the events are read instead"
            );
            Ok(None)
        }
    }
}

/// Stores the fold of everything up to the head, unless the branch has grown since. It is a cache: failing to is no failure.
pub(crate) async fn remember<F: Fold>(journal: SealedJournal<'_>, branch: &BranchId, fold: &F) {
    let Some(state) = fold.encode() else { return };
    let head = match journal.head(branch).await {
        Ok(Some(head)) => head,
        Ok(None) => return,
        Err(error) => {
            tracing::debug!(%branch, %error, "no snapshot is stored: the head cannot be read");
            return;
        }
    };
    if head.seq != fold.seq() {
        return;
    }
    let snapshot = Snapshot {
        branch: branch.clone(),
        seq: head.seq,
        chain: head.chain,
        fold: fold_version::<F>(),
        state: Bytes::from(state),
    };
    let sealed = journal.seal.sealed(snapshot);
    if sealed.state.len() <= SNAPSHOT_MAX
        && let Err(error) = journal.put_snapshot(sealed).await
    {
        tracing::debug!(%branch, code = error.code(), "a snapshot cannot be stored");
    }
}

/// Why a stored snapshot is not believed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It has no seal: an older version stored it. It is ignored, and replaced in time.
    #[error("the snapshot has no seal")]
    Unsealed,
    /// The seal does not fit.
    #[error("the seal of the snapshot does not fit: it was changed, or stored with another key")]
    Seal,
    /// No fold of that name and version is known here.
    #[error("no fold `{}` of version {} is known", .0.fold, .0.version)]
    Unknown(FoldVersion),
    /// It says something else than the events do.
    #[error("the snapshot contradicts the events of its branch")]
    Contradicts,
    /// The event it names has another hash chain.
    #[error("the snapshot was made of other events than those of its branch")]
    OtherEvents,
    /// An event before it cannot be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The events cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Folds the events of a branch once, and compares every snapshot of one fold with it.
///
/// Feed it all events of the branch's lineage in order, and ask it about a snapshot when its event has been folded.
pub struct SnapshotCheck {
    folded: Folded,
    seal: SnapshotSeal,
    fold: FoldVersion,
    newest: Option<(Seq, weir_types::Hash)>,
}

enum Folded {
    Session(Box<Session>),
    Files(Box<SessionFilesFold>),
}

impl SnapshotCheck {
    /// A check of the snapshots of one fold; nothing, if no such fold is known here. What is not known is never used.
    pub fn new(seal: &SnapshotSeal, fold: &FoldVersion) -> Option<Self> {
        let is = |name, version| (fold.fold.as_str(), fold.version) == (name, version);
        let folded = if is(Session::NAME, Session::VERSION) {
            Folded::Session(Box::default())
        } else if is(SessionFilesFold::NAME, SessionFilesFold::VERSION) {
            Folded::Files(Box::default())
        } else {
            return None;
        };
        Some(Self { folded, seal: seal.clone(), fold: fold.clone(), newest: None })
    }

    /// Folds the next event.
    ///
    /// # Errors
    /// When the event cannot be folded.
    pub fn apply(&mut self, event: &Event) -> Result<(), SnapshotError> {
        match &mut self.folded {
            Folded::Session(fold) => Fold::apply(&mut **fold, event)?,
            Folded::Files(fold) => fold.apply(event)?,
        }
        self.newest = Some((event.seq, event.chain));
        Ok(())
    }

    /// Whether a stored snapshot is ours and says what the events up to here say.
    ///
    /// # Errors
    /// When it is not, or does not.
    pub fn check(&self, stored: &Snapshot) -> Result<(), SnapshotError> {
        if stored.fold != self.fold {
            return Err(SnapshotError::Unknown(stored.fold.clone()));
        }
        let state = match self.seal.open_snapshot(stored) {
            Unsealed::Fits(state) => state,
            Unsealed::Absent => return Err(SnapshotError::Unsealed),
            Unsealed::Differs => return Err(SnapshotError::Seal),
        };
        if self.newest != Some((stored.seq, stored.chain)) {
            return Err(SnapshotError::OtherEvents);
        }
        let is_same = match &self.folded {
            Folded::Session(fold) => says_the_same(&**fold, &state),
            Folded::Files(fold) => says_the_same(&**fold, &state),
        };
        if is_same { Ok(()) } else { Err(SnapshotError::Contradicts) }
    }
}

/// Whether a stored state is what was folded, as it would be read back.
fn says_the_same<F: Fold>(folded: &F, state: &[u8]) -> bool {
    let read_back = |state: &[u8]| F::decode(state, folded.seq());
    let stored = read_back(state);
    stored.is_some() && stored == folded.encode().as_deref().and_then(read_back)
}

/// Whether a stored snapshot is ours and says what the events of its branch say.
///
/// # Errors
/// When it is not, does not, or the events cannot be read.
pub async fn check_snapshot(
    journal: &dyn Journal,
    seal: &SnapshotSeal,
    stored: &Snapshot,
) -> Result<(), SnapshotError> {
    let unknown = || SnapshotError::Unknown(stored.fold.clone());
    let mut check = SnapshotCheck::new(seal, &stored.fold).ok_or_else(unknown)?;
    let mut after = Seq(0);
    while after < stored.seq {
        let page = journal.read(&stored.branch, after, PAGE_MAX).await?;
        for event in page.iter().filter(|event| event.seq <= stored.seq) {
            check.apply(event)?;
        }
        match page.last() {
            Some(last) => after = last.seq,
            None => break,
        }
    }
    check.check(stored)
}

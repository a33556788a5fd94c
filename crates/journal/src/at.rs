//! A time as a place on a branch.

use weir_types::{BranchId, Seq, Timestamp};

use crate::error::ReadError;
use crate::port::Journal;

/// The last event of a branch at or before a time; nothing, if all are later.
///
/// # Errors
/// When the branch cannot be read.
pub async fn last_at(
    journal: &(impl Journal + ?Sized),
    branch: &BranchId,
    time: Timestamp,
) -> Result<Option<Seq>, ReadError> {
    // Times never go back along a branch: the events at or before one are the first so many.
    let (mut known, mut unknown) = (0, journal.head(branch).await?.map_or(0, |head| head.seq.0));
    while known < unknown {
        let middle = known + (unknown - known).div_ceil(2);
        let event = journal.read(branch, Seq(middle - 1), 1).await?;
        match event.first() {
            Some(event) if event.ts <= time => known = middle,
            _ => unknown = middle - 1,
        }
    }
    Ok((known > 0).then_some(Seq(known)))
}

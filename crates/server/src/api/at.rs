//! A place in the past: the number of an event, or a time.

use weir_journal::{Journal, last_at};
use weir_types::{BranchId, Seq, Timestamp};

use crate::error::Error;

/// The event that is meant by `at`; the newest, if nothing is said.
pub(super) async fn place(
    journal: &dyn Journal,
    branch: &BranchId,
    at: Option<&str>,
) -> Result<Option<Seq>, Error> {
    let Some(at) = at else { return Ok(None) };
    let head = journal.head(branch).await?.map_or(0, |head| head.seq.0);
    if let Ok(seq) = at.parse::<u64>() {
        return match seq {
            1.. if seq <= head => Ok(Some(Seq(seq))),
            _ => Err(too_far(head)),
        };
    }
    let time: Timestamp = at.parse().map_err(|_| {
        Error::bad(
            "`at` is neither the number of an event nor a time",
            "write a number, or a time like `2026-01-31T12:00:00Z` with `+` as `%2B`",
        )
    })?;
    last_at(journal, branch, time).await?.ok_or_else(|| too_far(head)).map(Some)
}

fn too_far(head: u64) -> Error {
    Error::new(
        axum::http::StatusCode::NOT_FOUND,
        "server::no-event",
        "there was no such event",
        format!("choose a number from 1 to {head}, or a later time"),
    )
}

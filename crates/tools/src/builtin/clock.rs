//! The time.

use serde_json::json;
use weir_journal::now;

use super::Says;
use crate::call::{Done, Failed};

pub(super) fn says() -> Says {
    (
        "Tells the date and time right now, in UTC (RFC 3339). Use it when an answer depends on today's date or on how much time \
         has passed.",
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
    )
}

pub(super) fn run() -> Result<Done, Failed> {
    Ok(Done::text(now().to_string()))
}

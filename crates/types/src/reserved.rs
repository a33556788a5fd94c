//! Streams that only the runtime writes. Generic append and ingest refuse them; `weir-events` says the same of kinds.

use crate::StreamName;

/// Prefixes of streams whose events are the runtime's own.
pub const RESERVED_STREAMS: [&str; 4] = ["session:", "loop:", "budget:", "engine:"];

/// Whether only the runtime may write to `stream`.
pub fn is_reserved_stream(stream: &StreamName) -> bool {
    RESERVED_STREAMS.iter().any(|prefix| stream.as_str().starts_with(prefix))
}

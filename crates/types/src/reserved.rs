//! Streams and kinds that only the runtime writes. Generic append, ingest and hooks refuse them.

use crate::{Kind, StreamName};

/// Prefixes of streams whose events are the runtime's own.
pub const RESERVED_STREAMS: [&str; 4] = ["session:", "loop:", "budget:", "engine:"];

/// Kinds whose meaning the runtime defines.
#[rustfmt::skip]
pub const RESERVED_KINDS: [&str; 47] = [
    "session.created", "session.updated", "session.resumed", "session.released", "session.halted", "session.closed",
    "branch.forked", "branch.merged",
    "user.message", "external.signal",
    "run.started", "iteration.started", "model.requested", "model.failed", "text.delta", "assistant.message",
    "state.patched", "context.compacted", "run.finished", "run.errored", "run.cancel_requested", "run.cancelled",
    "run.parked",
    "tool.requested", "tool.decided", "tool.started", "tool.completed", "tool.failed",
    "approval.requested", "approval.granted", "approval.denied", "approval.expired",
    "memory.stored", "memory.retrieved",
    "file.written", "file.deleted", "snapshot.taken",
    "budget.reserved", "budget.settled", "budget.released", "budget.carried", "budget.exceeded",
    "lane.chosen", "lane.rolled_back",
    "loop.fired", "loop.skipped", "loop.finished",
];

/// Kinds of the runtime's own that say what came from outside. Only they can be refused before they are written down: whoever
/// wants to stop something is not kept from it, so of what people say about calls only a yes can be; and what has happened or was
/// decided stays so.
#[rustfmt::skip]
pub const REFUSABLE_KINDS: [&str; 7] = [
    "session.created", "session.updated", "user.message", "external.signal", "approval.granted", "file.written",
    "file.deleted",
];

/// Whether only the runtime may write to `stream`.
pub fn is_reserved_stream(stream: &StreamName) -> bool {
    RESERVED_STREAMS.iter().any(|prefix| stream.as_str().starts_with(prefix))
}

/// Whether only the runtime may write events of this `kind`.
pub fn is_reserved_kind(kind: &Kind) -> bool {
    RESERVED_KINDS.contains(&kind.as_str())
}

/// Whether an event of this `kind` can be refused before it is written down, if it comes from outside.
pub fn is_refusable_kind(kind: &str) -> bool {
    REFUSABLE_KINDS.contains(&kind) || !RESERVED_KINDS.contains(&kind)
}

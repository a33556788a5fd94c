//! Log records of what sessions do: ids, names, counts, durations and classes. Messages, arguments and
//! results are never in a record.
//!
//! A record is made from an event once that event is stored, so the log tells nothing that the journal does
//! not hold.

use tracing::{Level, debug, enabled};
use weir_events::{About, Body};
use weir_kernel::Session;
use weir_types::{CallId, Verdict};

use crate::address::Address;

/// Most characters of a name that a model or a tool has chosen.
const NAME_CHARS_MAX: usize = 64;

/// Logs events of a session that are stored.
pub(crate) fn stored<'a>(
    address: &Address,
    session: &Session,
    events: impl Iterator<Item = (&'a Body, &'a About)>,
) {
    if enabled!(Level::DEBUG) {
        events.for_each(|(body, about)| event(address, session, body, about));
    }
}

fn event(address: &Address, session: &Session, body: &Body, about: &About) {
    /// A record with the fields that all of them have.
    macro_rules! record {
        ($($rest:tt)+) => {
            debug!(
                session = %address.session,
                branch = %address.branch,
                run = about.run.map(display),
                $($rest)+
            )
        };
    }
    let tool = |call: CallId| session.call(call).map(|call| short(&call.tool));
    let took_ms = about.duration_ms;
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are no news for an operator")]
    match body {
        Body::SessionResumed(resumed) => record!(reason = ?resumed.reason, "session claimed"),
        Body::RunStarted(started) => record!(trigger = ?started.trigger, "run started"),
        Body::RunFinished(finished) => record!(
            stop = ?finished.stop,
            input_tokens = finished.usage.input_tokens,
            output_tokens = finished.usage.output_tokens,
            "run finished"
        ),
        Body::RunErrored(errored) => record!(class = %errored.class, "run failed"),
        Body::RunCancelled(_) => record!("run cancelled"),
        Body::RunParked(parked) => record!(why = ?parked.why, "run parked"),
        Body::ModelRequested(asked) => record!(
            model = asked.model,
            attempt = asked.attempt,
            purpose = ?asked.params.purpose,
            "model call started"
        ),
        Body::AssistantMessage(answer) => record!(
            model = answer.model,
            stop = ?answer.stop,
            input_tokens = answer.usage.input_tokens,
            output_tokens = answer.usage.output_tokens,
            took_ms,
            "model call completed"
        ),
        Body::ContextCompacted(compacted) => record!(
            model = compacted.model,
            input_tokens = compacted.usage.input_tokens,
            output_tokens = compacted.usage.output_tokens,
            took_ms,
            "conversation summarised"
        ),
        Body::ModelFailed(failed) if failed.delay_ms > 0 => record!(
            class = %failed.class,
            attempt = failed.attempt,
            delay_ms = failed.delay_ms,
            took_ms,
            "model call failed; it is tried again"
        ),
        Body::ModelFailed(failed) => {
            record!(class = %failed.class, attempt = failed.attempt, took_ms, "model call failed");
        }
        Body::ToolDecided(decided) if decided.outcome != Verdict::Allow => record!(
            call = %decided.call,
            tool = tool(decided.call),
            outcome = ?decided.outcome,
            step = decided.step.map(display),
            "tool call not allowed yet"
        ),
        Body::ToolStarted(started) => record!(
            call = %started.call,
            tool = tool(started.call),
            attempt = started.attempt,
            "tool call started"
        ),
        Body::ToolCompleted(completed) => record!(
            call = %completed.call,
            tool = tool(completed.call),
            stub = completed.stub,
            took_ms,
            "tool call completed"
        ),
        Body::ToolFailed(failed) => record!(
            call = %failed.call,
            tool = tool(failed.call),
            class = short(&failed.class),
            outcome = ?failed.outcome,
            took_ms,
            "tool call failed"
        ),
        _ => {}
    }
}

fn short(name: &str) -> &str {
    name.char_indices().nth(NAME_CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}

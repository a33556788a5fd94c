//! A session at a glance.

use serde::Serialize;
use weir_engine::{Address, Outcome as Came, StopReason};
use weir_kernel::{Call, CallState, Lifecycle, Session};
use weir_types::{CallId, Json, Usage};

use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, thousands};
use crate::table;

/// A label and what it says, for people.
pub(super) type Row = (&'static str, String);

/// A call that has not ended.
#[derive(Serialize)]
pub(super) struct OpenCall {
    id: CallId,
    tool: String,
    input: Json,
    state: &'static str,
}

/// The calls that have not ended.
pub(super) fn open_calls(session: &Session) -> Vec<OpenCall> {
    let open = session.calls().iter().filter(|call| !matches!(call.state, CallState::Done(_)));
    open.map(|call| OpenCall {
        id: call.id,
        tool: call.tool.clone(),
        input: call.input_to_run().clone(),
        state: state_of(call),
    })
    .collect()
}

fn state_of(call: &Call) -> &'static str {
    match call.state {
        CallState::Requested => "requested",
        CallState::Allowed => "allowed",
        CallState::Awaiting { .. } => "awaiting approval",
        CallState::Granted { .. } => "granted",
        CallState::Refused { .. } => "refused",
        CallState::Running => "running",
        CallState::Suspended => "waiting for the approval of what its agent does",
        CallState::Interrupted => "interrupted",
        CallState::Done(_) => "done",
    }
}

/// What every view of a session tells.
pub(super) fn rows(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(created) = &session.created {
        rows.push(("agent", created.agent.clone()));
        rows.push(("principal", created.principal.clone()));
    }
    if let Some(title) = &session.title {
        rows.push(("title", title.clone()));
    }
    for (label, value) in &session.labels {
        rows.push(("label", format!("{label}={value}")));
    }
    if let Lifecycle::Halted(why) | Lifecycle::Closed(why) = &session.lifecycle {
        rows.push(("reason", why.clone()));
    }
    rows
}

/// What came of its latest run.
pub(super) fn latest(address: &Address, session: &Session) -> Option<String> {
    let came = Came::of(address, session);
    came.run?;
    let running = session.active_run().is_some() && came.stop != StopReason::Approval;
    let message =
        came.message.filter(|_| !running).map_or_else(String::new, |message| format!(": {message}"));
    Some(if running { "in progress".to_owned() } else { format!("{}{message}", came.stop.as_str()) })
}

/// Tokens, in a line.
pub(super) fn tokens(usage: Usage) -> String {
    let cached = match (usage.cache_read_tokens, usage.cache_write_tokens) {
        (0, 0) => String::new(),
        (read, write) => format!(" (cache: {} read, {} written)", thousands(read), thousands(write)),
    };
    format!("{} tokens in{cached}, {} out", thousands(usage.input_tokens), thousands(usage.output_tokens))
}

/// Prints rows, and the calls that have not ended.
pub(super) fn print(rows: &[Row], calls: &[OpenCall], out: &mut Out) -> Outcome {
    let rows = rows.iter().map(|(label, value)| (*label, printable(value).into_owned()));
    let calls = calls.iter().map(|OpenCall { id, tool, input, state }| {
        let input = printable(input.as_str());
        ("call", format!("{id} {} {input}: {state}", printable(tool)))
    });
    table::facts(&rows.chain(calls).collect::<Vec<_>>(), out)
}

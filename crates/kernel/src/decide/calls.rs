//! Dealing with the calls of an answer: taking them up, having them decided, running them, closing them.

use weir_types::{CallId, Effect, OnInterrupt, Outcome, Timestamp};

use super::{CRASHES_MAX, Closing, Next, ToolUse};
use crate::fold::{EXPIRED, INTERRUPTED};
use crate::session::{AssistantEntry, Call, CallState, Session};

/// Most calls of an answer that run at once. A model that asks for a thousand gets all of them, a hundred or so at a time.
pub(crate) const CALLS_AT_ONCE_MAX: usize = 128;

/// What the calls of an answer need next. Those that do not depend on one another go together.
pub(super) fn deal_with(entry: &AssistantEntry, now: Timestamp) -> Next {
    let untaken: Vec<ToolUse> = (entry.uses().skip(entry.calls.len()))
        .map(|(id, tool, input)| ToolUse {
            provider_id: id.to_owned(),
            tool: tool.to_owned(),
            input: input.clone(),
        })
        .collect();
    if !untaken.is_empty() {
        return Next::RequestTools(untaken);
    }
    bring_on(&entry.calls, now)
}

/// What the errands of a session need next; nothing, if there are none.
pub(super) fn errands(session: &Session, now: Timestamp) -> Option<Next> {
    let first = session.errands.first()?;
    if session.rests_for(first.id) {
        return Some(Next::Drop(closings_of(session.errands.iter())));
    }
    // What takes the process down each time is not tried for ever. There may be no run to park for that.
    let hopeless = |call: &&Call| is_interrupted(call) && call.attempt >= CRASHES_MAX;
    let closings = closings_of(session.errands.iter().filter(hopeless));
    Some(if closings.is_empty() { bring_on(&session.errands, now) } else { Next::Close(closings) })
}

/// What calls need next.
fn bring_on(calls: &[Call], now: Timestamp) -> Next {
    let select = |wanted: fn(&Call) -> bool| -> Vec<CallId> {
        calls.iter().filter(|call| wanted(call)).map(|call| call.id).collect()
    };
    let undecided = select(|call| matches!(call.state, CallState::Requested | CallState::Granted { .. }));
    if !undecided.is_empty() {
        return Next::Authorise(undecided);
    }
    let ended: Vec<Closing> = calls.iter().filter_map(|call| over(call, now)).collect();
    if !ended.is_empty() {
        return Next::Close(ended);
    }
    let doubtful = select(|call| is_interrupted(call) && !repeatable(call));
    if !doubtful.is_empty() {
        return Next::AskAgain(doubtful);
    }
    let running = calls.iter().filter(|call| call.state == CallState::Running).count();
    let mut ready =
        select(|call| call.state == CallState::Allowed || (is_interrupted(call) && repeatable(call)));
    ready.truncate(CALLS_AT_ONCE_MAX.saturating_sub(running));
    if !ready.is_empty() {
        return Next::Execute(ready);
    }
    if running > 0 {
        return Next::Busy;
    }
    let expiry = |call: &Call| match &call.state {
        CallState::Awaiting { expires, .. } => *expires,
        _ => None,
    };
    Next::Wait { due: calls.iter().filter_map(expiry).min() }
}

fn is_interrupted(call: &Call) -> bool {
    call.state == CallState::Interrupted
}

/// Whether running it again does no harm, or its author wants it.
fn repeatable(call: &Call) -> bool {
    match call.effect {
        Effect::Read | Effect::Idempotent => true,
        Effect::Write => call.child.is_some() || call.on_interrupt == OnInterrupt::Retry,
    }
}

/// Calls that are over without having answered.
fn over(call: &Call, now: Timestamp) -> Option<Closing> {
    let close = |class: &str, message: String, outcome| {
        Some(Closing { call: call.id, class: class.to_owned(), message, outcome })
    };
    // A call that was started before has an effect nobody knows, whatever is decided about repeating it.
    let refuse = |class: &str, why: &str| {
        let blocked = format!("tool '{}' blocked: {why}", call.tool);
        match call.may_have_happened() {
            true => close(class, format!("{blocked}; {}", unknown(call)), Outcome::Unknown),
            false => close(class, blocked, Outcome::Denied),
        }
    };
    match &call.state {
        CallState::Refused { class, message } => refuse(class, message),
        CallState::Awaiting { expires: Some(expires), .. } if now >= *expires => refuse("expired", EXPIRED),
        CallState::Interrupted if !repeatable(call) && call.on_interrupt == OnInterrupt::Report => {
            close("interrupted", unknown(call), Outcome::Unknown)
        }
        _ => None,
    }
}

fn unknown(call: &Call) -> String {
    format!(
        "outcome unknown: the process ended while `{}` was running; it may or may not have taken effect and was not \
         repeated; find out before you call it again",
        call.tool
    )
}

/// How to close everything that is open, when the run stops here.
pub(super) fn closings(session: &Session) -> Vec<Closing> {
    closings_of(session.all_calls())
}

fn closings_of<'a>(calls: impl Iterator<Item = &'a Call>) -> Vec<Closing> {
    let open = calls.filter(|call| !matches!(call.state, CallState::Done(_)));
    open.map(|call| {
        let (message, outcome) = if call.may_have_happened() {
            let message = "outcome unknown: the run was stopped while it was running; it may or may not have \
                           taken effect";
            (message, Outcome::Unknown)
        } else {
            (INTERRUPTED, Outcome::Interrupted)
        };
        Closing { call: call.id, class: "cancelled".to_owned(), message: message.to_owned(), outcome }
    })
    .collect()
}

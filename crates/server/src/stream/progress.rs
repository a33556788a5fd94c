//! How far a run is, as its events tell: whether it goes on, waits for people, pauses or is over.
//!
//! The same as the kernel's fold says, of one run and without its conversation, so that many streams cost little.

use std::collections::HashMap;

use weir_events::{About, Body, Parked};
use weir_types::{CallId, Event, Hash, RunId, SessionId, Timestamp};

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    calls: HashMap<CallId, Call>,
    parked: Option<Parked>,
    over: bool,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    /// Something is to be done about it, or is being done.
    Open,
    /// It runs; another session does it, if there is one.
    Running(Option<SessionId>),
    /// Someone has to say yes.
    Awaiting { input_hash: Hash, expires: Option<Timestamp> },
    /// The session behind it waits for someone.
    Suspended(SessionId),
}

/// Whether a run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Going,
    /// Everything that is left to do is for people to do.
    Waiting,
    Parked(Parked),
    Over,
}

impl Progress {
    /// An event of the run, or of someone who speaks to it.
    pub(super) fn apply(&mut self, run: RunId, event: &Event, body: &Body) {
        match body {
            Body::RunFinished(_) | Body::RunErrored(_) | Body::RunCancelled(_) => self.over = true,
            Body::RunStarted(started) => self.over = started.run != run,
            Body::BranchForked(_) => self.over = true,
            Body::RunParked(parked) => {
                self.calls.clear();
                self.parked = Some(parked.why.clone());
            }
            Body::SessionResumed(resumed) => {
                for call in self.calls.values_mut() {
                    if let Call::Running(_) = call {
                        *call = Call::Open;
                    }
                }
                if resumed.reason == weir_events::ResumeReason::Asked {
                    self.parked = None;
                }
            }
            Body::AssistantMessage(_) => self.calls.clear(),
            // What someone outside asked for is not the run's.
            Body::ToolRequested(body) if body.key.is_some() => {}
            Body::ToolRequested(body) => drop(self.calls.insert(body.call, Call::Open)),
            Body::ToolDecided(body) => self.change(body.call, |_| Some(Call::Open)),
            Body::ToolStarted(body) => self.change(body.call, |call| {
                let before = match call {
                    Call::Running(child) => *child,
                    Call::Suspended(child) => Some(*child),
                    Call::Open | Call::Awaiting { .. } => None,
                };
                Some(Call::Running(body.child.or(before)))
            }),
            Body::ToolCompleted(body) => drop(self.calls.remove(&body.call)),
            Body::ToolFailed(body) => drop(self.calls.remove(&body.call)),
            Body::ApprovalRequested(body) => self.change(body.call, |call| {
                Some(match call {
                    Call::Running(Some(child)) => Call::Suspended(*child),
                    _ => Call::Awaiting { input_hash: body.input_hash, expires: body.expires },
                })
            }),
            Body::ApprovalGranted(body) => {
                let is_theirs = About::decode(&event.meta).actor.as_deref() == Some(&body.by);
                self.change(body.call, |call| match call {
                    Call::Suspended(_) if is_theirs => Some(Call::Open),
                    Call::Awaiting { input_hash, expires } if is_theirs => {
                        let in_time = expires.is_none_or(|expires| event.ts < expires);
                        (*input_hash == body.input_hash && in_time).then_some(Call::Open)
                    }
                    _ => None,
                });
            }
            Body::ApprovalDenied(body) => self.refused(body.call),
            Body::ApprovalExpired(body) => self.refused(body.call),
            _ => {}
        }
    }

    /// The call that another session deals with.
    pub(super) fn call_behind(&self, child: SessionId) -> Option<CallId> {
        let is_its = |call: &Call| *call == Call::Suspended(child);
        self.calls.iter().find(|(_, call)| is_its(call)).map(|(id, _)| *id)
    }

    /// Any call that another session deals with and that waits.
    pub(super) fn any_suspended(&self) -> Option<CallId> {
        self.calls.iter().find(|(_, call)| matches!(call, Call::Suspended(_))).map(|(id, _)| *id)
    }

    pub(super) fn standing(&self) -> Standing {
        if self.over {
            return Standing::Over;
        }
        if let Some(parked) = &self.parked {
            return Standing::Parked(parked.clone());
        }
        let for_people = |call: &Call| matches!(call, Call::Awaiting { .. } | Call::Suspended(_));
        if !self.calls.is_empty() && self.calls.values().all(for_people) {
            return Standing::Waiting;
        }
        Standing::Going
    }

    fn refused(&mut self, call: CallId) {
        self.change(call, |call| matches!(call, Call::Awaiting { .. }).then_some(Call::Open));
    }

    fn change(&mut self, id: CallId, change: impl FnOnce(&Call) -> Option<Call>) {
        if let Some(call) = self.calls.get_mut(&id)
            && let Some(changed) = change(call)
        {
            *call = changed;
        }
    }
}

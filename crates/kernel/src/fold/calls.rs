//! What happens to tool calls. They belong to the newest answer, or are errands; each is found by its id.

use weir_events::{
    ApprovalDenied, ApprovalExpired, ApprovalGranted, ApprovalRequested, Bill, Scope, ToolCompleted,
    ToolDecided, ToolFailed, ToolRequested, ToolStarted,
};
use weir_types::{Block, CallId, Outcome, Verdict};

use crate::fold::At;
use crate::session::{Activity, Call, CallResult, CallState, Lifecycle, Phase, Session, StandingApproval};

/// How many names and failures summaries carry along.
const REMEMBERED_MAX: usize = 50;

/// Longest of them.
const REMEMBERED_BYTES_MAX: usize = 4_096;

/// How many of its newest long results a session can read on in.
const LONG_RESULTS_MAX: usize = 200;

/// Most errands at once. Whoever asks for more is refused before it is written down.
pub const ERRANDS_MAX: usize = 64;

/// What the model reads when a call was cut off.
pub(crate) const INTERRUPTED: &str = "interrupted: the call did not finish";

/// What the model reads when an approval did not come.
pub(crate) const EXPIRED: &str = "nobody approved it in time";

impl Session {
    /// A call of the newest answer is taken up. Once the run is over, or goes on, it is too late for that.
    pub(super) fn tool_requested(&mut self, body: &ToolRequested) {
        if body.key.is_some() {
            return self.errand_requested(body);
        }
        if self.run.as_ref().is_none_or(|run| run.phase != Phase::Tools) {
            return;
        }
        let Some(entry) = self.transcript.last_assistant_mut() else { return };
        let Some(wire_id) = entry.wire_ids.get(entry.calls.len()).cloned() else { return };
        entry.calls.push(requested(body, wire_id));
    }

    /// An errand begins. What cannot run any more, or was asked for before, does not.
    fn errand_requested(&mut self, body: &ToolRequested) {
        let is_known = self.call(body.call).is_some();
        if !is_known && self.lifecycle == Lifecycle::Open && self.errands.len() < ERRANDS_MAX {
            self.errands.push(requested(body, String::new()));
        }
    }

    pub(super) fn tool_decided(&mut self, body: &ToolDecided) {
        self.change(body.call, |call| {
            call.stub = body.stub;
            call.because.clone_from(&body.because);
            if let (Verdict::Allow, CallState::Granted { by, .. }) = (body.outcome, &call.state) {
                call.approved_by = Some(by.clone());
            }
            call.state = match body.outcome {
                Verdict::Allow => CallState::Allowed,
                Verdict::Deny => {
                    CallState::Refused { class: "denied".to_owned(), message: body.because.clone() }
                }
                // Until the request for approval that comes with it says more.
                Verdict::Ask => CallState::Requested,
            };
        });
    }

    pub(super) fn tool_started(&mut self, body: &ToolStarted) {
        self.change(body.call, |call| {
            call.attempt = body.attempt;
            call.child = body.child.or(call.child);
            call.state = CallState::Running;
        });
    }

    pub(super) fn tool_completed(&mut self, body: &ToolCompleted) {
        let is_errand = self.errand(body.call).is_some();
        if let Some(path) = self.call(body.call).filter(|_| !is_errand).and_then(path_read) {
            remember(&mut self.activity.read, path);
        }
        self.pay(body.call, body.bill);
        if let Some(whole) = body.whole {
            self.long_results.push(whole);
            let surplus = self.long_results.len().saturating_sub(LONG_RESULTS_MAX);
            self.long_results.drain(..surplus);
        }
        self.finish(body.call, CallResult { content: body.content.clone(), failed: None });
        for path in &body.changed_files {
            self.activity.file_changed(path);
        }
    }

    pub(super) fn tool_failed(&mut self, body: &ToolFailed) {
        if let Some(call) = self.call(body.call).filter(|call| self.errand(call.id).is_none()) {
            let line = format!("{}: {}", call.tool, first_line(&body.message));
            remember(&mut self.activity.failures, line);
        }
        self.pay(body.call, body.bill);
        let content = vec![Block::text(body.message.clone())];
        self.finish(body.call, CallResult { content, failed: Some(body.outcome) });
    }

    /// What a child used comes out of its parent's purse, once.
    fn pay(&mut self, call: CallId, bill: Option<Bill>) {
        let is_open = self.call(call).is_some_and(|call| !matches!(call.state, CallState::Done(_)));
        let Some(bill) = bill.filter(|_| is_open) else { return };
        self.spend(|spent| {
            spent.usage += bill.usage;
            spent.reserved_tokens = spent.reserved_tokens.saturating_add(bill.reserved_tokens);
            spent.cost += bill.cost;
            spent.model_calls = spent.model_calls.saturating_add(bill.model_calls);
        });
    }

    /// Someone has to say yes. A call that runs has been allowed: it is the session behind it that asks.
    pub(super) fn approval_requested(&mut self, body: &ApprovalRequested) {
        self.change(body.call, |call| {
            call.state = match call.state {
                CallState::Running if call.child.is_some() => CallState::Suspended,
                _ => CallState::Awaiting {
                    input_hash: body.input_hash,
                    expires: body.expires,
                    rule: body.rule.clone(),
                    because: body.asked_because(),
                    escalates: body.escalates.clone(),
                },
            };
        });
    }

    /// A grant counts only for the arguments it names, while it is awaited, and not after its time.
    pub(super) fn approval_granted(&mut self, at: At, body: &ApprovalGranted) {
        let mut standing = None;
        self.change(body.call, |call| {
            let (input_hash, expires, rule, escalates) = match &call.state {
                CallState::Awaiting { input_hash, expires, rule, escalates, .. } => {
                    (input_hash, expires, rule, escalates)
                }
                // Nobody waits for anybody behind it any more: it is attached to again.
                CallState::Suspended => return call.state = CallState::Interrupted,
                _ => return,
            };
            if *input_hash != body.input_hash || expires.is_some_and(|expires| at.ts >= expires) {
                return;
            }
            // To repeat what was cut off is asked about each time.
            if body.scope == Scope::Session && call.attempt == 0 {
                let (tool, rule, by) = (call.tool.clone(), rule.clone(), body.by.clone());
                standing = Some(StandingApproval { tool, rule, by, runs: body.runs, granted: Some(at.seq) });
            }
            let escalated = escalates.as_ref().filter(|escalates| at.ts >= escalates.at);
            call.escalated_to = escalated.map(|escalates| escalates.to.clone());
            call.edited.clone_from(&body.input);
            call.approved_as = body.runs;
            call.state = CallState::Granted { by: body.by.clone(), input_hash: call.input_hash() };
        });
        self.approved_with(body);
        if let Some(standing) = standing {
            self.standing.retain(|known| (&known.tool, &known.rule) != (&standing.tool, &standing.rule));
            self.standing.push(standing);
        }
    }

    /// Whoever said yes is asked about again when the call starts, with the groups they had.
    fn approved_with(&mut self, body: &ApprovalGranted) {
        match body.groups.is_empty() {
            true => self.approvers.remove(&body.by),
            false => self.approvers.insert(body.by.clone(), body.groups.clone()),
        };
    }

    /// A grant in the name of someone who did not give it is none; whoever is asked can see that there was one.
    pub(super) fn approval_disowned(&mut self, body: &ApprovalGranted, actor: Option<&str>) {
        let actor = actor.unwrap_or("nobody");
        self.change(body.call, |call| {
            if let CallState::Awaiting { .. } = call.state {
                call.because = format!("a yes of `{}` came from `{actor}` and does not count", body.by);
            }
        });
    }

    pub(super) fn approval_denied(&mut self, body: &ApprovalDenied) {
        let message = body.message.as_deref().map_or(String::new(), |message| format!(": {message}"));
        self.refuse(body.call, "denied", format!("{} said no{message}", body.by));
    }

    pub(super) fn approval_expired(&mut self, body: &ApprovalExpired) {
        self.refuse(body.call, "expired", EXPIRED.to_owned());
    }

    fn refuse(&mut self, call: CallId, class: &str, message: String) {
        self.change(call, |call| {
            if let CallState::Awaiting { .. } = call.state {
                call.state = CallState::Refused { class: class.to_owned(), message };
            }
        });
    }

    /// The process that ran them is gone.
    pub(super) fn interrupt_calls(&mut self) {
        let cut_off = |call: &mut Call| {
            if call.state == CallState::Running {
                call.state = CallState::Interrupted;
            }
        };
        self.newest_calls_mut().iter_mut().for_each(cut_off);
        self.errands.iter_mut().for_each(cut_off);
    }

    fn newest_calls_mut(&mut self) -> &mut [Call] {
        self.transcript.last_assistant_mut().map_or(&mut [], |entry| &mut entry.calls)
    }

    /// Everything that is still open in the newest answer becomes an interrupted call.
    pub(super) fn close_open_calls(&mut self) {
        for call in self.newest_calls_mut() {
            if !matches!(call.state, CallState::Done(_)) {
                let content = vec![Block::text(INTERRUPTED)];
                call.state = CallState::Done(CallResult { content, failed: Some(Outcome::Interrupted) });
            }
        }
    }

    fn finish(&mut self, call: CallId, mut result: CallResult) {
        if self.errand(call).is_some() {
            // What came of it is in the journal, where whoever asked for it looks.
            return self.errands.retain(|errand| errand.id != call);
        }
        self.guard_against_loops(call, &mut result);
        self.change(call, |call| call.state = CallState::Done(result));
        self.go_on_if_all_in();
    }

    /// Once every call has come to something, the model can be asked again.
    pub(super) fn go_on_if_all_in(&mut self) {
        let Some(entry) = self.transcript.last_assistant() else { return };
        let all_in = entry.calls.len() == entry.wire_ids.len()
            && entry.calls.iter().all(|call| matches!(call.state, CallState::Done(_)));
        if let Some(run) = self.run.as_mut().filter(|run| all_in && run.phase == Phase::Tools) {
            run.phase = Phase::Ready;
        }
    }

    /// Changes a call of the newest answer, or an errand, that is not done.
    fn change(&mut self, id: CallId, change: impl FnOnce(&mut Call)) {
        let calls = self.transcript.last_assistant_mut().map_or(&mut [][..], |entry| &mut entry.calls);
        let call = calls.iter_mut().chain(&mut self.errands).find(|call| call.id == id);
        if let Some(call) = call.filter(|call| !matches!(call.state, CallState::Done(_))) {
            change(call);
        }
    }
}

fn requested(body: &ToolRequested, wire_id: String) -> Call {
    Call {
        id: body.call,
        wire_id,
        tool: body.tool.clone(),
        source: body.source.clone(),
        input: body.input.clone(),
        edited: None,
        effect: body.effect,
        risk: body.risk,
        on_interrupt: body.on_interrupt,
        attempt: 0,
        child: None,
        stub: false,
        because: String::new(),
        approved_by: None,
        approved_as: None,
        escalated_to: None,
        state: CallState::Requested,
    }
}

impl Activity {
    pub(super) fn file_changed(&mut self, path: &str) {
        remember(&mut self.changed, path.to_owned());
    }
}

/// The file a call reads. Changes have events of their own; reading leaves no other trace.
fn path_read(call: &Call) -> Option<String> {
    let input = (call.tool == "fs_read").then(|| call.input_to_run().to_value())?;
    input.get("path")?.as_str().map(str::to_owned)
}

/// Keeps the newest, each once. What is absurdly long is no name of a file.
fn remember(list: &mut Vec<String>, item: String) {
    if item.len() > REMEMBERED_BYTES_MAX {
        return;
    }
    list.retain(|known| *known != item);
    list.push(item);
    if list.len() > REMEMBERED_MAX {
        list.remove(0);
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

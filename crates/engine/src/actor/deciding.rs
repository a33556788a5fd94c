//! Whether a call may run, in the light of what people said about it.

use weir_events::RunsAs;
use weir_kernel::{Call, CallState};
use weir_tools::{Asked, Decision};
use weir_types::{GateStep, Verdict, Who};

use super::Actor;
use crate::approvals;
use crate::setup::Runnable;

impl Actor {
    /// Whether a call may run, in the light of what people said. Whoever said yes must still be someone who may, and what they said yes
    /// to must be what would happen here.
    pub(super) fn decision(&self, runnable: &Runnable, call: &Call) -> Decision {
        let approved_by = match &call.state {
            CallState::Granted { by, input_hash } => Some(by).filter(|_| *input_hash == call.input_hash()),
            _ => call.approved_by.as_ref(),
        };
        let Some(by) = approved_by else {
            let decision = self.asked(runnable, call, None);
            return self.under_standing_approval(runnable, call, decision);
        };
        if let Some(why) = self.refused_as_approver(runnable, by, call.escalated_to.as_deref()) {
            let why = format!("`{by}` said yes, which does not count: {why}");
            let decision = self.asked(runnable, call, None);
            let decision = self.under_standing_approval(runnable, call, decision);
            return match decision.verdict {
                Verdict::Ask => Decision { because: format!("{why}; {}", decision.because), ..decision },
                Verdict::Allow | Verdict::Deny => decision,
            };
        }
        let decision = self.asked(runnable, call, Some(by));
        match other_than_approved(call, &decision) {
            None => decision,
            Some(approved) => self.ask_for_what_would_happen(runnable, call, approved),
        }
    }

    /// Nobody approves something for nothing: a yes to a live write is not used up by a dry run, nor the other way round. It is asked
    /// again, by whatever asked before.
    fn ask_for_what_would_happen(&self, runnable: &Runnable, call: &Call, approved: &str) -> Decision {
        let decision = self.asked(runnable, call, None);
        match decision.verdict {
            Verdict::Deny => decision,
            Verdict::Ask => Decision { because: format!("{approved}; {}", decision.because), ..decision },
            // Nothing asks any more, or never did but for the crash.
            Verdict::Allow => {
                let (step, rule) = (Some(GateStep::Stub), Some(GateStep::Stub.to_string()));
                Decision { verdict: Verdict::Ask, step, rule, because: approved.to_owned(), ..decision }
            }
        }
    }

    fn asked(&self, runnable: &Runnable, call: &Call, approved_by: Option<&str>) -> Decision {
        runnable.tools.authorize(&Asked {
            call: call.id,
            tool: &call.tool,
            input: call.input_to_run(),
            session: self.address.session,
            depth: self.depth(),
            agent: &runnable.agent.name,
            principal: self.principal(),
            groups: self.groups(),
            approved_by,
        })
    }

    /// Why someone's yes does not count, if it does not. `through` is the group that could say yes, too, when they did.
    fn refused_as_approver(&self, runnable: &Runnable, by: &str, through: Option<&str>) -> Option<String> {
        let groups = self.session.approvers.get(by).map_or(&[][..], Vec::as_slice);
        let (by, agent) = (Who::new(by, groups), &runnable.agent.name);
        let decision = approvals::may_approve(&*runnable.tools, by, self.principal(), agent, through);
        (decision.verdict != Verdict::Allow).then_some(decision.because)
    }

    /// Someone may have said yes to such calls for the whole session.
    fn under_standing_approval(&self, runnable: &Runnable, call: &Call, decision: Decision) -> Decision {
        let Some(rule) = decision.rule.as_deref().filter(|_| decision.verdict == Verdict::Ask) else {
            return decision;
        };
        let standing = self.session.standing.iter().find(|standing| {
            (standing.tool.as_str(), standing.rule.as_str()) == (call.tool.as_str(), rule)
                && self.refused_as_approver(runnable, &standing.by, None).is_none()
        });
        let Some(standing) = standing else { return decision };
        let approved = self.asked(runnable, call, Some(&standing.by));
        match approved.verdict {
            Verdict::Allow if standing.runs.is_some_and(|runs| !runs.fits(approved.stub)) => decision,
            Verdict::Allow => {
                let because = format!("`{}` approved `{}` for this session", standing.by, call.tool);
                Decision { rule: decision.rule, because, ..approved }
            }
            Verdict::Deny | Verdict::Ask => approved,
        }
    }
}

/// What was approved, if a call that has not begun would do something else here.
fn other_than_approved(call: &Call, decision: &Decision) -> Option<&'static str> {
    let has_begun = !matches!(call.state, CallState::Granted { .. } | CallState::Allowed);
    let runs = call.approved_as.filter(|_| !has_begun && decision.verdict == Verdict::Allow)?;
    match runs {
        _ if runs.fits(decision.stub) => None,
        RunsAs::Live => Some("a live write was approved, and here it would be a dry run"),
        RunsAs::DryRun => Some("a dry run was approved, and here it would really happen"),
    }
}

//! Whose calls someone is shown in a list: their own, and those about which they may decide.

use weir_engine::Address;
use weir_journal::{ListFilter, Listed};
use weir_types::Verdict;

use super::{Known, gate, is_admin, may_be_escalated_to};
use crate::app::App;
use crate::auth::Caller;

/// Nobody is called that.
const SOMEBODY_ELSE: &str = "";

/// What one person looks at.
pub(crate) struct Inbox<'a> {
    app: &'a App,
    caller: &'a Caller,
    is_admin: bool,
    /// Whether they may decide when nobody else has for a while: then only the call itself tells whether they do.
    is_escalated_to: bool,
}

impl<'a> Inbox<'a> {
    pub(crate) fn of(app: &'a App, caller: &'a Caller) -> Self {
        let is_escalated_to = may_be_escalated_to(app, caller);
        Self { app, caller, is_admin: is_admin(app, caller), is_escalated_to }
    }

    /// Among which sessions to look: whoever decides about nobody else's calls is not led past them.
    pub(crate) fn among(&self, agent: Option<String>) -> ListFilter {
        let is_own = !self.is_admin && !self.is_escalated_to && !self.decides_at_all();
        ListFilter {
            agent,
            principal: is_own.then(|| self.caller.principal.clone()),
            ..ListFilter::default()
        }
    }

    /// Whether a session is one whose calls they are shown.
    pub(crate) fn has(&self, listed: &Listed) -> bool {
        if self.is_admin {
            return true;
        }
        let Some(address) = Address::of(&listed.branch) else { return false };
        let (owner, agent) = (listed.attrs.principal.clone(), listed.attrs.agent.clone());
        if owner.as_ref() != Some(&self.caller.principal) {
            return self.is_escalated_to || agent.is_some_and(|agent| self.decides(&agent));
        }
        let known = Known { session: address.session, owner, agent };
        known.is_visible(self.app, self.caller) || known.may_be_decided(self.app, self.caller)
    }

    pub(super) fn decides_at_all(&self) -> bool {
        let build = self.app.builds.current();
        build.is_some_and(|build| build.manifest.agents.keys().any(|agent| self.decides(agent)))
    }

    /// Whether they may decide about what an agent does for others. The gate remembers what it said before.
    fn decides(&self, agent: &str) -> bool {
        gate(self.app).may_approve(self.caller.who(), SOMEBODY_ELSE, agent).verdict == Verdict::Allow
    }
}

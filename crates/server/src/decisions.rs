//! What someone says about a call that waits: one way for every route, so that none of them checks less than another.

use std::borrow::Cow;

use serde::Deserialize;
use weir_engine::{Address, Answered, Approval, ApprovalError, Engine, EngineError, Pretence};
use weir_events::{ApprovalDenied, ApprovalGranted, RunsAs, Scope};
use weir_types::{CallId, Explain, Fault, Hash, Json};

use crate::auth::Caller;

/// The longest reason for a no, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// What someone says about a call.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// It may run: with these arguments instead of its own, if there are any, and for so long. It is refused where the call would do
    /// something else than what is said yes to.
    Yes { input: Option<Json>, scope: Scope, runs: RunsAs },
    /// It may not. The agent is told why.
    No { message: Option<String> },
}

impl Answer {
    /// A yes to a call as it is, and to no other.
    pub(crate) fn yes(runs: RunsAs) -> Self {
        Self::Yes { input: None, scope: Scope::Once, runs }
    }
}

/// What a call is approved as, in the words of protocols that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunsAsWord {
    LiveWrites,
    DryRun,
}

impl RunsAsWord {
    /// Nothing said is a live write, as `weir approve` has it.
    pub(crate) fn runs(word: Option<Self>) -> RunsAs {
        match word {
            None | Some(Self::LiveWrites) => RunsAs::Live,
            Some(Self::DryRun) => RunsAs::DryRun,
        }
    }
}

/// Why a decision was not written down. The call still waits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecided {
    #[error(
        "the call of `{tool}` would be a dry run on this server: nothing would happen, and the approval would be used up"
    )]
    WouldPretend { tool: String },
    #[error("a message has at most {MESSAGE_CHARS_MAX} characters")]
    TooLong,
    #[error(transparent)]
    Refused(#[from] EngineError),
}

impl Explain for Undecided {
    fn code(&self) -> &'static str {
        match self {
            Self::WouldPretend { .. } => "server::would-pretend",
            Self::TooLong => "server::bad-request",
            Self::Refused(error) => error.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::WouldPretend { .. } => {
                "let a server decide that was started with `--live-writes`, or approve the dry run with `\"dry_run\": true`; \
                 it still waits"
                    .into()
            }
            Self::TooLong => "be brief: the agent reads it".into(),
            Self::Refused(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::WouldPretend { .. } => Fault::Conflict,
            Self::TooLong => Fault::Input,
            Self::Refused(error) => error.fault(),
        }
    }
}

/// Writes down what someone says about a call of a session, or of one behind it. `asked` is what they were shown: a yes is to those
/// arguments.
pub(crate) async fn decide(
    engine: &Engine,
    caller: &Caller,
    address: &Address,
    call: CallId,
    asked: &[Approval],
    answer: Answer,
) -> Result<Answered, Undecided> {
    let approval = asked.iter().find(|approval| approval.id == call);
    match answer {
        Answer::Yes { input, scope, runs } => {
            // Whatever is not asked any more is refused, and why is found out there.
            let input_hash = approval.map_or(Hash::ZERO, |approval| approval.input_hash);
            let granted = granted(caller, call, input_hash, input, scope);
            let pretence = match runs {
                RunsAs::Live => Pretence::Refused,
                RunsAs::DryRun => Pretence::Wanted,
            };
            match engine.approve(address, granted, pretence).await {
                Err(EngineError::Approval(ApprovalError::WouldPretend { tool })) => {
                    Err(Undecided::WouldPretend { tool })
                }
                answered => Ok(answered?),
            }
        }
        Answer::No { message } => {
            if message.as_ref().is_some_and(|message| message.chars().count() > MESSAGE_CHARS_MAX) {
                return Err(Undecided::TooLong);
            }
            let (by, groups) = (caller.principal.clone(), caller.groups.clone());
            let message = message.filter(|message| !message.trim().is_empty());
            Ok(engine.deny(address, ApprovalDenied { call, by, groups, message }).await?)
        }
    }
}

/// What a yes of someone would be to; nothing, if it makes no sense to ask them.
pub(crate) async fn can_be_asked(
    engine: &Engine,
    caller: &Caller,
    approval: &Approval,
) -> Result<Option<RunsAs>, EngineError> {
    if !engine.may_decide(approval, caller.who()).await? {
        return Ok(None);
    }
    let granted = granted(caller, approval.id, approval.input_hash, None, Scope::Once);
    match engine.would_pretend(&approval.address, &granted).await {
        // Somebody else has decided meanwhile.
        Err(EngineError::Approval(_)) => Ok(None),
        pretends => Ok(Some(if pretends? { RunsAs::DryRun } else { RunsAs::Live })),
    }
}

fn granted(
    caller: &Caller,
    call: CallId,
    input_hash: Hash,
    input: Option<Json>,
    scope: Scope,
) -> ApprovalGranted {
    let (by, groups) = (caller.principal.clone(), caller.groups.clone());
    ApprovalGranted { call, by, groups, input_hash, input, scope, runs: None }
}

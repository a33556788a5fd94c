//! Things as programs read them; the same words as `--json` on the command line.

use serde::Serialize;
use utoipa::ToSchema;
use weir_engine::{Address, Approval, Outcome};
use weir_types::{Hash, Json, Seq, StopReason, Usage};

/// Tokens of one or more model calls.
#[derive(Serialize, ToSchema)]
#[schema(as = Usage)]
pub(crate) struct UsageView {
    /// Tokens sent, cached ones included.
    input_tokens: u64,
    /// Tokens received.
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = usage;
        Self { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens }
    }
}

/// Why a run stopped.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Stop)]
pub(crate) enum StopView {
    End,
    MaxTokens,
    Refused,
    Iterations,
    Budget,
    Approval,
    Cancelled,
    Halted,
    Failed,
}

impl From<StopReason> for StopView {
    fn from(stop: StopReason) -> Self {
        match stop {
            StopReason::End => Self::End,
            StopReason::MaxTokens => Self::MaxTokens,
            StopReason::Refused => Self::Refused,
            StopReason::Iterations => Self::Iterations,
            StopReason::Budget => Self::Budget,
            StopReason::Approval => Self::Approval,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::Halted => Self::Halted,
            StopReason::Failed => Self::Failed,
        }
    }
}

/// A call that someone has to decide about.
#[derive(Serialize, ToSchema)]
#[schema(as = Asked)]
pub(crate) struct AskedView {
    /// The call.
    id: String,
    tool: String,
    /// The arguments.
    #[schema(value_type = Value)]
    input: Json,
    /// Why it is asked.
    why: String,
}

impl From<&Approval> for AskedView {
    fn from(approval: &Approval) -> Self {
        Self {
            id: approval.id.to_string(),
            tool: approval.tool.clone(),
            input: approval.input.clone(),
            why: approval.why.clone(),
        }
    }
}

/// What came of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = Turn)]
pub(crate) struct TurnView {
    session: String,
    branch: String,
    #[schema(required = true)]
    run: Option<String>,
    /// What the agent said; null, if it did not come to that.
    #[schema(required = true)]
    answer: Option<String>,
    stop: StopView,
    /// What went wrong, or what it waits for.
    #[schema(required = true)]
    message: Option<String>,
    usage: UsageView,
    cost_usd: f64,
    /// What someone has to decide before it goes on.
    approvals: Vec<AskedView>,
}

impl TurnView {
    pub(crate) fn new(address: &Address, outcome: &Outcome) -> Self {
        Self {
            session: address.session.to_string(),
            branch: address.branch.to_string(),
            run: outcome.run.map(|run| run.to_string()),
            answer: outcome.answer.clone(),
            stop: outcome.stop.into(),
            message: outcome.message.clone(),
            usage: outcome.usage.into(),
            cost_usd: outcome.cost.as_usd(),
            approvals: outcome.approvals.iter().map(AskedView::from).collect(),
        }
    }
}

/// Where something was written down.
#[derive(Serialize, ToSchema)]
#[schema(as = Changed)]
pub(crate) struct ChangedView {
    session: String,
    branch: String,
    /// The event.
    seq: u64,
}

impl ChangedView {
    pub(crate) fn new(address: &Address, seq: Seq) -> Self {
        Self { session: address.session.to_string(), branch: address.branch.to_string(), seq: seq.0 }
    }
}

/// A file of a session.
#[derive(Serialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileView {
    path: String,
    size: u64,
    #[schema(value_type = String)]
    hash: Hash,
    executable: bool,
}

/// The files of a session as programs read them.
pub(crate) fn files(files: &weir_workspace::Files) -> Vec<FileView> {
    let views = files.iter().map(|(path, entry)| FileView {
        path: path.as_str().to_owned(),
        size: entry.size,
        hash: entry.hash,
        executable: entry.mode == weir_workspace::Mode::Executable,
    });
    views.collect()
}

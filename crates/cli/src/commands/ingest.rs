//! `weir ingest`: a recorded stream of server-sent events becomes events of the journal.

use serde::Serialize;
use weir_engine::{EngineError, Refusal, describe};
use weir_journal::{Key, NewEvent};
use weir_server::formats::{Format, LeftOut};
use weir_server::ingest::{IngestError, Recording};
use weir_types::{BranchId, BranchName, StreamName};

use crate::agents::ProjectAgents;
use crate::args::{self, branch_id};
use crate::commands::Context;
use crate::input::Input;
use crate::project::ProjectArgs;
use crate::report::{Bug, Outcome};
use crate::store::IfAbsent;
use crate::workbench::ToolArgs;

const EXAMPLES: &str = "\
Examples:
  weir ingest --format openai recorded.sse
  curl -N https://api.example/v1/messages … | tee answer.sse | weir ingest --format anthropic --stream answers -
  weir cat --stream recordings

Text becomes `ingested.text`, calls of tools `ingested.called`, and so on; of a native stream, events keep their kinds, unless only
the runtime writes them. What has no kind of its own becomes `ingested.part`; what is not taken is counted. All of it is appended,
or nothing.";

/// The longest recording.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The arguments of `weir ingest`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How it was recorded: native (also lago), openai, anthropic or vercel.
    #[arg(long, short)]
    format: Format,
    /// The stream; it is made if it is not there.
    #[arg(long, short, default_value = "recordings")]
    stream: String,
    /// The branch; `main` if left out.
    #[arg(long, short)]
    branch: Option<String>,
    /// Makes it safe to repeat: the second time with a key only returns the result of the first.
    #[arg(long)]
    key: Option<String>,
    /// The recording; standard input for `-`.
    #[arg(value_name = "FILE", default_value = "-")]
    input: Input,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct View<'a> {
    stream: &'a StreamName,
    branch: &'a BranchName,
    first: u64,
    seq: u64,
    events: usize,
    cut: bool,
    left_out: &'a [LeftOut],
    replayed: bool,
}

/// Reads a recording and appends what it says.
pub(crate) async fn run(args: Args, context: &mut Context) -> Outcome {
    let branch = branch_id(&args.stream, args.branch.as_deref())?;
    if weir_types::is_reserved_stream(&branch.stream) {
        return Err(IngestError::Reserved(branch).into());
    }
    let key: Option<Key> = args.key.as_deref().map(args::key).transpose()?;
    let bytes = args.input.read(BYTES_MAX, &context.out).await?;
    let (format, actor) = (args.format, context.identity.real().to_owned());
    let read = tokio::task::spawn_blocking(move || Recording::read(format, &bytes, &actor)).await;
    let recording = read.map_err(|error| Bug { what: error.to_string() })??;
    ask_hooks(&recording.events, &branch, &args.project, context).await?;

    let (events, cut, left_out) = (recording.events.len(), recording.is_cut, recording.left_out.clone());
    let if_absent = if branch.branch == BranchName::main() { IfAbsent::Create } else { IfAbsent::Fail };
    let store = context.open_store(if_absent).await?;
    let appended = recording.append(&store.journal, branch.clone(), key).await;
    store.close().await;
    let Some(appended) = appended? else {
        return Err(Bug { what: "an append without an answer".to_owned() }.into());
    };
    let (first, seq, replayed) = (appended.first.0, appended.last.0, appended.replayed);
    if context.out.json {
        let BranchId { stream, branch } = &branch;
        return context.out.object(&View {
            stream,
            branch,
            first,
            seq,
            events,
            cut,
            left_out: &left_out,
            replayed,
        });
    }
    if cut {
        context.out.note(format_args!("the recording ends in the middle; what is complete in it was taken"));
    }
    for LeftOut { part, count, frame } in &left_out {
        context.out.note(format_args!("not taken: {part}, {count} times, first in frame {frame}"));
    }
    let verb = if replayed { "already there" } else { "appended" };
    context.out.line(format_args!("{verb}: events {first} to {seq} of {branch}"))
}

/// Asks whom the project wants asked before something from outside is written down.
async fn ask_hooks(
    events: &[NewEvent],
    branch: &BranchId,
    project: &ProjectArgs,
    context: &Context,
) -> Outcome {
    let agents = ProjectAgents::new(&project.directory, &context.data_dir, &ToolArgs::default());
    let Some(hooks) = agents.asked_first(None).await? else { return Ok(()) };
    for event in events {
        let kind = event.kind().as_str();
        let described = describe(branch, kind, event.payload(), context.identity.real());
        if let Some(Refusal { hook, why }) = hooks.refusal(kind, &described).await {
            return Err(EngineError::Refused { kind: kind.to_owned(), hook, why }.into());
        }
    }
    Ok(())
}

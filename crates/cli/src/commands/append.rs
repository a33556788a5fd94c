//! `weir append`.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use weir_engine::{EngineError, Refusal, describe};
use weir_events::is_reserved_kind;
use weir_journal::{Expected, Journal, Key, NewEvent, PAYLOAD_MAX, Part};
use weir_journal_sqlite::SqliteJournal;
use weir_types::{
    BranchId, BranchName, EventId, Explain, Fault, Kind, Meta, MetaError, Position, RESERVED_STREAMS, Seq,
    StreamName, is_reserved_stream,
};

use crate::args::{self, branch_id};
use crate::commands::Context;
use crate::hooks;
use crate::identity;
use crate::input::Input;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::{Failure, Outcome, Snippet};
use crate::store::{IfAbsent, JOURNAL, Store};

const EXAMPLES: &str = "\
Examples:
  weir append --stream notes --kind note.added --payload '{\"text\":\"hello\"}'
  weir append --stream notes --kind note.added --expect 1 --key note-2
  head -c 100 /dev/urandom | weir append --stream raw --kind bytes.seen --payload -";

/// The arguments of `weir append`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The stream; it is made if it is not there.
    #[arg(long, short)]
    stream: String,
    /// What happened, as `area.verb`.
    #[arg(long, short)]
    kind: String,
    /// The content: JSON, or `-` for raw bytes from standard input; `{}` if left out.
    #[arg(long, short, value_name = "JSON|-", conflicts_with = "payload_file", allow_hyphen_values = true)]
    payload: Option<String>,
    /// The content: the raw bytes of a file.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<std::path::PathBuf>,
    /// The branch; `main` if left out.
    #[arg(long, short)]
    branch: Option<String>,
    /// Append only if the newest event is this one; 0: only if there is no such stream.
    #[arg(long, value_name = "SEQ")]
    expect: Option<u64>,
    /// Makes it safe to repeat: the second append with a key only returns the result of the first.
    #[arg(long)]
    key: Option<String>,
    /// More to keep beside the event, as a JSON object; `actor` is set by weir.
    #[arg(long, value_name = "JSON")]
    meta: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

/// What is wrong with an event that somebody wants to append.
#[derive(Debug, thiserror::Error)]
enum EventError {
    #[error("stream `{0}` is reserved: only the runtime writes streams that begin with {list}", list = prefixes())]
    ReservedStream(StreamName),
    #[error("kind `{0}` is reserved: only the runtime writes it, because it acts on what it says")]
    ReservedKind(Kind),
    #[error("the payload is not JSON: {what} at line {line}, column {column}")]
    NotJson { what: String, line: usize, column: usize },
    #[error("--meta cannot be used")]
    Meta(#[from] MetaError),
    #[error("--meta cannot set `actor`: it is always the user who runs the command")]
    Actor,
}

fn prefixes() -> String {
    RESERVED_STREAMS.map(|prefix| format!("`{prefix}`")).join(", ")
}

impl Explain for EventError {
    fn code(&self) -> &'static str {
        match self {
            Self::ReservedStream(_) => "cli::reserved-stream",
            Self::ReservedKind(_) => "cli::reserved-kind",
            Self::NotJson { .. } => "cli::not-json",
            Self::Meta(_) | Self::Actor => "cli::meta",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::ReservedStream(_) => "choose a name without that prefix, like `notes`".into(),
            Self::ReservedKind(kind) => {
                let verb = kind.as_str().split_once('.').map_or("happened", |(_, verb)| verb);
                format!("choose a kind of your own, like `my.{verb}`").into()
            }
            Self::NotJson { .. } => {
                "quote JSON for the shell, like `--payload '{\"text\":\"hello\"}'`; for anything else pass the bytes \
                 with `--payload -` or `--payload-file FILE`"
                    .into()
            }
            Self::Meta(_) => "give a small JSON object, like `--meta '{\"source\":\"cron\"}'`".into(),
            Self::Actor => "leave `actor` out".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

#[derive(Serialize)]
struct View<'a> {
    stream: &'a StreamName,
    branch: &'a BranchName,
    seq: Seq,
    position: Position,
    id: EventId,
    replayed: bool,
}

/// Appends one event.
pub(crate) async fn run(args: Args, context: &mut Context) -> Outcome {
    let branch = branch_id(&args.stream, args.branch.as_deref())?;
    let event = event(&args, &branch, &context.out).await?;
    let expected = match args.expect {
        None => Expected::Any,
        Some(0) => Expected::NoStream,
        Some(seq) => Expected::Exactly(Seq(seq)),
    };
    let key: Option<Key> = args.key.as_deref().map(args::key).transpose()?;
    let if_absent = if_absent(&branch, expected);
    let store = match context.data_dir.join(JOURNAL).exists() {
        true => Some(context.open_store(IfAbsent::Fail).await?),
        false => None,
    };
    let journal = store.as_ref().map(|store| &store.journal);
    if let Err(refused) = ask_hooks(&event, &branch, &args.project, journal, context).await {
        if let Some(store) = store {
            store.close().await;
        }
        return Err(refused);
    }
    // Nothing is made for an event that a hook refuses.
    let store = match store {
        Some(store) => store,
        None => context.open_store(if_absent).await?,
    };
    let (id, part) = (event.id(), Part { expected, key, ..Part::new(branch.clone(), vec![event]) });
    let appended = append(&store, part, id).await;
    store.close().await;
    let view = appended?;
    print(&branch, view, &mut context.out)
}

/// Asks the hooks of the build and of the project.
async fn ask_hooks(
    event: &NewEvent,
    branch: &BranchId,
    project: &ProjectArgs,
    journal: Option<&SqliteJournal>,
    context: &Context,
) -> Outcome {
    let all = hooks::before_append(&project.directory, &context.data_dir, journal).await?;
    let kind = event.kind().as_str();
    let described = describe(branch, kind, event.payload(), context.identity.real());
    for hooks in all {
        if let Some(Refusal { hook, why }) = hooks.refusal(kind, &described).await {
            return Err(EngineError::Refused { kind: kind.to_owned(), hook, why }.into());
        }
    }
    Ok(())
}

/// An append that expects something of a journal cannot begin one: nothing is made only to refuse it.
fn if_absent(branch: &BranchId, expected: Expected) -> IfAbsent {
    match expected {
        Expected::Any | Expected::NoStream if branch.branch == BranchName::main() => IfAbsent::Create,
        Expected::Any | Expected::NoStream | Expected::Exactly(_) => IfAbsent::Fail,
    }
}

async fn event(args: &Args, branch: &BranchId, out: &Out) -> Outcome<NewEvent> {
    let kind: Kind = args::parse(&args.kind)?;
    if is_reserved_stream(&branch.stream) {
        return Err(EventError::ReservedStream(branch.stream.clone()).into());
    }
    if is_reserved_kind(&kind) {
        return Err(EventError::ReservedKind(kind).into());
    }
    let meta = meta(args.meta.as_deref())?;
    let payload = payload(args, out).await?;
    Ok(NewEvent::new(kind, payload).with_meta(meta))
}

/// The caller's object with the actor put in front; the rest stays as it was written.
fn meta(given: Option<&str>) -> Result<Meta, EventError> {
    let given = Meta::new(given.unwrap_or("{}"))?;
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(given.as_str()).map_err(MetaError::NotAnObject)?;
    if fields.contains_key("actor") {
        return Err(EventError::Actor);
    }
    let actor = serde_json::Value::from(identity::principal());
    let rest = given.as_str().trim_start_matches('{');
    let comma = if fields.is_empty() { "" } else { "," };
    Ok(Meta::new(&format!("{{\"actor\":{actor}{comma}{rest}"))?)
}

async fn payload(args: &Args, out: &Out) -> Outcome<Bytes> {
    let bytes = match (args.payload.as_deref(), &args.payload_file) {
        (Some("-"), _) => Input::Stdin.read(PAYLOAD_MAX, out).await?,
        (Some(json), _) => {
            serde_json::from_str::<serde::de::IgnoredAny>(json).map_err(|error| not_json(json, &error))?;
            json.as_bytes().to_vec()
        }
        (None, Some(path)) => Input::File(path.clone()).read(PAYLOAD_MAX, out).await?,
        (None, None) => b"{}".to_vec(),
    };
    Ok(bytes.into())
}

/// Says where JSON stops being JSON, and shows the place.
fn not_json(json: &str, error: &serde_json::Error) -> Failure {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned();
    let failure = Failure::from(EventError::NotJson { what: what.clone(), line, column });
    // `lines` would drop the very last, empty line, which is where a text that ends too early is wrong.
    let lines: Vec<&str> = json.split('\n').collect();
    let at = line.saturating_sub(1);
    let before = at.checked_sub(1).and_then(|index| lines.get(index)).copied().unwrap_or_default();
    match lines.get(at) {
        Some(bad_line) if !bad_line.is_empty() => {
            let at = column.saturating_sub(1);
            failure.with_snippet(Snippet::cut(
                "--payload",
                (line, column),
                [before, bad_line],
                at..at + 1,
                what,
            ))
        }
        _ => failure,
    }
}

async fn append(store: &Store, part: Part, id: EventId) -> Outcome<(Seq, Position, EventId, bool)> {
    let branch = part.branch.clone();
    let appended = store.journal.append(vec![part]).await?;
    let Some(appended) = appended.into_iter().next() else {
        return Err(crate::report::Bug { what: "an append without an answer".to_owned() }.into());
    };
    let mut id = id;
    if appended.replayed {
        // The event that is there has the id of the first attempt.
        let events = store.journal.read(&branch, Seq(appended.last.0.saturating_sub(1)), 1).await?;
        id = events.first().map_or(id, |event| event.id);
    }
    Ok((appended.last, appended.position, id, appended.replayed))
}

fn print(
    branch: &BranchId,
    (seq, position, id, replayed): (Seq, Position, EventId, bool),
    out: &mut Out,
) -> Outcome {
    if out.json {
        let BranchId { stream, branch } = branch;
        return out.object(&View { stream, branch, seq, position, id, replayed });
    }
    let verb = if replayed { "already there: event" } else { "appended event" };
    out.line(format_args!("{verb} {seq} of {branch} ({id})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actor_stands_before_what_the_caller_wrote() {
        let actor = serde_json::Value::from(identity::principal());
        assert_eq!(meta(None).unwrap().as_str(), format!(r#"{{"actor":{actor}}}"#));
        let given = r#"{ "b": 1.50, "a": {"actor": 2} }"#;
        let expected = format!(r#"{{"actor":{actor}, "b": 1.50, "a": {{"actor": 2}} }}"#);
        assert_eq!(meta(Some(given)).unwrap().as_str(), expected);
        assert!(matches!(meta(Some(r#"{"actor":"root"}"#)), Err(EventError::Actor)));
        assert!(matches!(meta(Some("[1]")), Err(EventError::Meta(_))));
    }
}

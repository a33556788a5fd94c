//! `weir tools call`: one call, in a session of its own, through the same gate and into the same journal as an agent's.
//!
//! The session is an ordinary one, but for its model, which asks for that one call and then is done. So there is no second way
//! to a tool.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use weir_engine::conversation::words;
use weir_engine::{Address, Agents, AsksFirst, Explained, New, Runnable, Said};
use weir_events::{Body, Payload, ToolCompleted, ToolDecided, ToolFailed};
use weir_journal::{Journal, OfKind, PAYLOAD_MAX};
use weir_models::{Recorded, Replay};
use weir_types::{
    Answer, Block, CallId, Explain, Fault, GateStep, Hash, Json, Outcome as Effected, SessionId, Stop, Usage,
    View, Wire,
};

use crate::agents::ProjectAgents;
use crate::commands::Context;
use crate::host::Host;
use crate::input::Input;
use crate::logs;
use crate::output::Out;
use crate::project::{self, ProjectArgs};
use crate::report::Outcome;
use crate::show::{printable, printable_lines};
use crate::storage_watch::StorageWatch;
use crate::workbench::ToolArgs;

const EXAMPLES: &str = r#"Examples:
  weir tools call helper get_time
  weir tools call helper lookup_weather '{"city":"Lisbon"}'
  weir tools call helper post_message '{"text":"hello"}' --live-writes
  weir tools call helper edit_write - < arguments.json"#;

/// The arguments of `weir tools call`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallArgs {
    /// The agent.
    agent: String,
    /// The tool, by the name the model knows.
    tool: String,
    /// The arguments; `-` reads them from standard input.
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true, allow_hyphen_values = true)]
    input: String,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// The arguments are no JSON.
    #[error("the arguments are not JSON: {0}")]
    NotJson(serde_json::Error),
    /// The arguments are no text.
    #[error("what standard input says is not UTF-8 text")]
    NotText,
    /// It was not allowed.
    #[error("tool '{tool}' blocked: {because}")]
    Denied {
        /// The tool.
        tool: String,
        /// Why, and what would allow it.
        because: String,
    },
    /// It was not even looked at: the arguments do not fit.
    #[error("tool '{tool}' blocked: {because}")]
    Unfit {
        /// The tool.
        tool: String,
        /// What does not fit.
        because: String,
    },
    /// It ran, and failed.
    #[error("`{tool}` failed ({class}): {message}")]
    Failed {
        /// The tool.
        tool: String,
        /// A word for how.
        class: String,
        /// In words.
        message: String,
        /// Whether it may have had an effect.
        unknown: bool,
    },
    /// The session stopped before there was a result.
    #[error("there is no result: {0}")]
    NoResult(String),
}

impl Explain for CallError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotJson(_) => "cli::not-json",
            Self::NotText => "cli::not-text",
            Self::Denied { .. } => "tools::denied",
            Self::Unfit { .. } => "tools::arguments",
            Self::Failed { .. } => "tools::failed",
            Self::NoResult(_) => "tools::no-result",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotJson(_) | Self::NotText => {
                r#"write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes"#
            }
            Self::Denied { .. } => "see `weir tools list AGENT`; nothing was done",
            Self::Unfit { .. } => "`weir tools list AGENT --json` shows what a tool takes; nothing was done",
            Self::Failed { unknown: true, .. } => {
                "it may or may not have taken effect: find out before you repeat it"
            }
            Self::Failed { unknown: false, .. } => "mend what it says, then repeat it",
            Self::NoResult(_) => "`weir session history -1` shows how far it came",
        }
        .into()
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotJson(_) | Self::NotText | Self::Unfit { .. } => Fault::Input,
            Self::Denied { .. } => Fault::Denied,
            Self::Failed { .. } | Self::NoResult(_) => Fault::Missing,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    session: SessionId,
    call: CallId,
    tool: &'a str,
    stub: bool,
    content: &'a [Block],
    text: String,
    changed_files: &'a [String],
    log: &'a [String],
}

/// What became of the call.
#[derive(Default)]
struct Became {
    decided: Option<ToolDecided>,
    completed: Option<ToolCompleted>,
    failed: Option<ToolFailed>,
}

/// Calls a tool and prints its result.
pub(crate) async fn run(args: &CallArgs, context: &mut Context) -> Outcome {
    logs::begin_if_asked(&context.out)?;
    let input = arguments(args, &context.out).await?;
    // What is wrong with the agent's files is shown with their lines, before anything is made.
    let built = args.project.build().await?;
    project::agent(&built.manifest, &args.agent, &args.project.directory)?;
    args.tools.warn_unmatched(&built.manifest, &context.out);
    let store = context.store_or_new().await?;
    let journal = Arc::new(store.journal);
    let project = ProjectAgents::new(&args.project.directory, &context.data_dir, &args.tools)
        .over(Arc::clone(&journal));
    let bench = Some(project.bench().clone());
    let agents = OneCall { project, agent: args.agent.clone(), tool: args.tool.clone(), input };
    let host = Host::over(journal, store.blobs, &context.data_dir, agents).await?;
    let host = Host { bench, ..host };
    let done = call(args, &host, context).await;
    host.stop().await;
    done
}

async fn arguments(args: &CallArgs, out: &Out) -> Outcome<Json> {
    let text = match args.input.as_str() {
        "-" => {
            let bytes = Input::Stdin.read(PAYLOAD_MAX, out).await?;
            String::from_utf8(bytes).map_err(|_| CallError::NotText)?
        }
        text => text.to_owned(),
    };
    Ok(Json::parse(text.trim()).map_err(CallError::NotJson)?)
}

async fn call(args: &CallArgs, host: &Host, context: &mut Context) -> Outcome {
    let address = host.engine.new_address();
    let new = New {
        agent: args.agent.clone(),
        principal: context.identity.principal().to_owned(),
        title: Some(format!("weir tools call {}", args.tool)),
        ..New::default()
    };
    let said = Said {
        content: vec![Block::text(format!("Call `{}`.", args.tool))],
        actor: context.identity.real().to_owned(),
        ..Said::default()
    };
    let out = &mut context.out;
    let mut storage = StorageWatch::new(&host.engine);
    storage.during(host.engine.begin(&address, new, said), out).await?;
    let came = storage.during(host.engine.settle(&address), out).await?;
    let became = became(&*host.journal, &address).await?;
    print(args, &address, &became, out)?;
    out.flush()?;
    verdict(args, became, came.message, out)
}

async fn became(journal: &dyn Journal, address: &Address) -> Outcome<Became> {
    let mut became = Became::default();
    let branch = address.branch_id();
    for kind in [ToolDecided::kind(), ToolCompleted::kind(), ToolFailed::kind()] {
        let mut pages = OfKind::new(journal, &branch, kind);
        while let Some(page) = pages.next().await? {
            for event in page {
                match Body::decode(&event.kind, &event.payload) {
                    Ok(Some(Body::ToolDecided(decided))) => became.decided = Some(decided),
                    Ok(Some(Body::ToolCompleted(completed))) => became.completed = Some(completed),
                    Ok(Some(Body::ToolFailed(failed))) => became.failed = Some(failed),
                    _ => {}
                }
            }
        }
    }
    Ok(became)
}

fn print(args: &CallArgs, address: &Address, became: &Became, out: &mut Out) -> Outcome {
    let done = became.completed.as_ref();
    let log = done.map(|done| &done.log).or_else(|| became.failed.as_ref().map(|failed| &failed.log));
    for line in log.into_iter().flatten() {
        out.aside(format_args!("{}", out.err.dim(&printable(line))));
    }
    let Some(done) = done else { return Ok(()) };
    let text = words(&done.content);
    if out.json {
        return out.document(&Document {
            session: address.session,
            call: done.call,
            tool: &args.tool,
            stub: done.stub,
            content: &done.content,
            text,
            changed_files: &done.changed_files,
            log: &done.log,
        });
    }
    let text = out.shown(&text).into_owned();
    out.line(format_args!("{text}"))?;
    if !done.changed_files.is_empty() {
        let changed = done.changed_files.join(", ");
        out.note(format_args!("changed {}; see `weir fs ls {address}`", printable(&changed)));
    }
    Ok(())
}

fn verdict(args: &CallArgs, became: Became, message: Option<String>, out: &mut Out) -> Outcome {
    let tool = args.tool.clone();
    match (became.completed, became.failed, became.decided) {
        (Some(_), _, _) => Ok(()),
        (None, Some(failed), Some(decided)) if failed.outcome == Effected::Denied => {
            // What was typed wrong is not what someone may not do.
            let unfit = decided.decided_by() == Some(GateStep::Schema);
            let because = decided.because;
            Err(if unfit { CallError::Unfit { tool, because } } else { CallError::Denied { tool, because } }
                .into())
        }
        (None, Some(ToolFailed { class, message, outcome, .. }), _) => {
            let unknown = outcome == Effected::Unknown;
            let message = if out.json { message } else { first_line(message, out) };
            Err(CallError::Failed { tool, class, message, unknown }.into())
        }
        (None, None, _) => {
            Err(CallError::NoResult(message.unwrap_or_else(|| "it stopped".to_owned())).into())
        }
    }
}

/// The first line of a message. The others, such as what a command printed, are shown before it as they are.
fn first_line(message: String, out: &mut Out) -> String {
    let Some((first, rest)) = message.split_once('\n') else { return message };
    out.aside(format_args!("{}", printable_lines(rest)));
    first.to_owned()
}

/// The agents of a project, one of which does nothing but make one call.
struct OneCall {
    project: ProjectAgents,
    agent: String,
    tool: String,
    input: Json,
}

impl OneCall {
    fn answers(&self) -> Vec<Recorded> {
        let (id, name, input) = ("1".to_owned(), self.tool.clone(), self.input.clone());
        let asks = vec![View::ToolUse { id, name, input }.into()];
        let answer = |content: Vec<Block>, stop| Recorded {
            request_hash: Hash::ZERO,
            answer: Answer { content, stop, usage: Usage::default(), provider_id: None },
        };
        vec![answer(asks, Stop::ToolUse), answer(vec![Block::text("Done.")], Stop::End)]
    }
}

impl Agents for OneCall {
    fn asks_first(&self) -> Option<&dyn AsksFirst> {
        self.project.asks_first()
    }

    fn agent<'a>(
        &'a self,
        name: &'a str,
        build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        async move {
            if name != self.agent {
                return self.project.agent(name, build).await;
            }
            let model = Arc::new(Replay::new(self.answers()));
            match self.project.with_model(name, model).await {
                Ok(mut runnable) => {
                    runnable.agent.card.wire = Wire::Replay;
                    Ok(Arc::new(runnable))
                }
                Err(error) => Err(Arc::new(error) as Explained),
            }
        }
        .boxed()
    }
}

//! `weir chat`: talk to an agent, line by line or once.

mod asking;
mod editor;
mod prompted;
mod slash;
mod type_ahead;

use std::borrow::Cow;
use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

use weir_engine::{Address, EngineError, New};
use weir_events::FileWritten;
use weir_journal::PAYLOAD_MAX;
use weir_kernel::Session;
use weir_tools::CallsForReal;
use weir_types::{Explain, Fault};

use self::type_ahead::TypeAhead;
use crate::agents::ProjectAgents;
use crate::commands::{Context, fs};
use crate::host::Host;
use crate::input::Input;
use crate::logs;
use crate::output::Out;
use crate::piped::{self, Piped, Waits};
use crate::planned;
use crate::project::ProjectArgs;
use crate::report::{Failure, Outcome};
use crate::show::printable;
use crate::turn::{Given, Start, Talk, Words};
use crate::which;
use crate::workbench::ToolArgs;

const EXAMPLES: &str = "\
Examples:
  weir chat helper
  weir chat helper -m 'What time is it?'
  git diff | weir chat reviewer -m 'Review this'
  weir chat helper -m - < question.txt
  weir chat coder --files . --exclude '*.csv' -m 'Mend the tests'
  weir chat helper --session -1 -m 'And in Lisbon?'
  weir chat helper -m hello --json | jq -r .answer";

const STDIN: &str = "\
Standard input: with `-m TEXT`, what is piped in follows the message as a block of its own, up to 1 MB. It is read to its \
end. If it is open but silent for 3 seconds, as one that was inherited may be, it is not read and a warning says so; if it \
falls silent for a minute after it began, the command fails and says nothing to the agent. `--no-stdin` or `< /dev/null` \
does not read it at all: use that in a loop that reads lines itself.";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{STDIN}\n\nFiles: {}", fs::left_out_help())
}

/// The arguments of `weir chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// The agent: its spec is `agents/AGENT/spec.yaml`.
    agent: String,
    /// Say this and print the answer, instead of talking line by line; `-` says what standard input has. Without it,
    /// standard input is said if it is no terminal.
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// With `-m TEXT`, do not read standard input. Otherwise what is piped in follows the message as context.
    #[arg(long)]
    no_stdin: bool,
    /// Go on with a session: `ID`, the beginning of one, `ID@BRANCH`, or `-1` for the latest.
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// The most rounds of model and tools in a run; what the spec says, if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_iterations: Option<u64>,
    /// What to call a new session.
    #[arg(long)]
    title: Option<String>,
    /// Give a new session the files of this directory to work on. They are copied: `weir fs export` brings them back.
    /// What usually holds secrets and what .gitignore names is left out.
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    files: Option<PathBuf>,
    #[command(flatten)]
    taken: fs::TakenArgs,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Why a chat does not begin.
#[derive(Debug, thiserror::Error)]
enum ChatError {
    /// The session is another agent's.
    #[error("session {address} is a chat with `{theirs}`, not `{asked}`")]
    OtherAgent {
        /// The session.
        address: Address,
        /// Its agent.
        theirs: String,
        /// As asked for.
        asked: String,
    },
    /// There is nothing to say.
    #[error("the message is empty")]
    Empty,
    /// What was piped in is no text.
    #[error("standard input is not UTF-8 text")]
    NotText,
    /// Something was said about files, but there are none.
    #[error("`--include` and `--exclude` need `--files DIR`")]
    NoFiles,
}

impl Explain for ChatError {
    fn code(&self) -> &'static str {
        match self {
            Self::OtherAgent { .. } => "cli::other-agent",
            Self::Empty => "cli::empty-message",
            Self::NotText => "cli::not-text",
            Self::NoFiles => "cli::no-files",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::OtherAgent { address, theirs, .. } => {
                format!("go on with `weir chat {theirs} --session {address}`").into()
            }
            Self::Empty => "say something with `-m TEXT`, or pipe it in".into(),
            Self::NotText => {
                "agents read text: convert it first; `--no-stdin` leaves standard input out of the message"
                    .into()
            }
            Self::NoFiles => "name the directory whose files the session is to have".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// A chat before its next words.
struct Chat<'a> {
    args: &'a Args,
    /// On whose behalf a new session acts.
    principal: String,
    /// The name of the agent's model.
    model: String,
    talk: Talk<'a>,
    /// Calls that really happen, whatever else is a dry run.
    for_real: CallsForReal,
    /// The session as it was found, if it was there.
    found: Option<Session>,
    /// What a new session begins with.
    files: Vec<FileWritten>,
    /// What programs are told about what was given.
    given: Given,
    /// What was typed while nobody asked for it.
    ahead: Option<TypeAhead>,
}

/// Runs a chat.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    logs::begin_if_asked(&context.out)?;
    // What is wrong with the agent's files is shown with their lines, before anything is made.
    let built = match args.project.build().await {
        Err(Failure::Problems(problems)) if problems.are_of_others_than(&args.agent) => {
            context.out.note(format_args!(
                "these files are not those of `{}`: all agents of a project are built together, so that one mistake stops them all",
                printable(&args.agent)
            ));
            return Err(Failure::Problems(problems));
        }
        built => built?,
    };
    for (variable, why) in planned::variables() {
        context.out.warn(format_args!("{variable} is set and not used: {why}"));
    }
    let agents = ProjectAgents::new(&args.project.directory, &context.data_dir, &args.tools)
        .with_iterations(args.max_iterations);
    let model = agents.runnable(&built, &args.agent)?.agent.model;
    args.tools.warn_unmatched(&built.manifest, &context.out);
    let interactive =
        args.message.is_none() && !context.out.json && stdin().is_terminal() && context.out.is_terminal();
    if args.taken.is_given() && args.files.is_none() {
        return Err(ChatError::NoFiles.into());
    }
    let words = if interactive { None } else { Some(words(args, &context.out).await?) };
    let store = match args.session {
        Some(_) => context.store().await?,
        None => context.store_or_new().await?,
    };
    let host = Host::start(store, &context.data_dir, agents).await?;
    let ended = Box::pin(chat(args, model, words, &host, context)).await;
    host.stop().await;
    ended
}

async fn chat<'h>(
    args: &'h Args,
    model: String,
    words: Option<Said>,
    host: &'h Host,
    context: &mut Context,
) -> Outcome {
    let (address, found) = match &args.session {
        Some(session) => {
            let sees = context.sees(&args.project).await?;
            let address = which::find(&*host.journal, session, &sees).await?;
            let found = host.engine.state(&address, None).await?;
            check_agent(&found, &address, &args.agent)?;
            if let Some(pid) = host.engine.runner(&address).await? {
                return Err(EngineError::Owned { address, pid }.into());
            }
            (address, Some(found))
        }
        None => (host.engine.new_address(), None),
    };
    let talk = match &found {
        Some(session) => Talk::after(host, address, session.seq),
        None => Talk::new(host, address),
    };
    let imported = match &args.files {
        Some(directory) => fs::imported(directory, &args.taken, &*host.blobs, &context.out).await?,
        None => fs::Imported::default(),
    };
    let stdin = words.as_ref().and_then(|said| said.stdin);
    let given = Given { left_out: imported.left_out, stdin };
    let principal = context.identity.principal().to_owned();
    let for_real = host.bench.as_ref().map(|bench| bench.for_real().clone()).unwrap_or_default();
    let chat =
        Chat { args, principal, model, talk, for_real, found, files: imported.files, given, ahead: None };
    match words {
        Some(said) => once(chat, said.words, &mut context.out).await,
        None => prompted::run(chat, host, context).await,
    }
}

fn check_agent(session: &Session, address: &Address, asked: &str) -> Result<(), ChatError> {
    match &session.created {
        Some(created) if created.agent != asked => Err(ChatError::OtherAgent {
            address: address.clone(),
            theirs: created.agent.clone(),
            asked: asked.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// What is to be said, if it is not typed line by line.
struct Said {
    words: Words,
    /// What became of standard input beside a message, for programs.
    stdin: Option<&'static str>,
}

async fn words(args: &Args, out: &Out) -> Outcome<Said> {
    let is_text = |bytes| String::from_utf8(bytes).map_err(|_| ChatError::NotText);
    let (text, piped) = match args.message.as_deref() {
        None | Some("-") => (is_text(Input::Stdin.read(PAYLOAD_MAX, out).await?)?, Piped::Nothing),
        Some(message) if args.no_stdin || stdin().is_terminal() => (message.to_owned(), Piped::Nothing),
        Some(message) => (message.to_owned(), piped::read(tokio::io::stdin(), &Waits::default()).await?),
    };
    if text.trim().is_empty() {
        return Err(ChatError::Empty.into());
    }
    let (context, stdin) = match piped {
        Piped::Nothing => (None, None),
        Piped::Silent => {
            out.warn(format_args!(
                "standard input is open but nothing came from it, so it was not read; `--no-stdin` does not wait for it"
            ));
            (None, Some("silent"))
        }
        Piped::Content(bytes) => (Some(is_text(bytes)?), Some("read")),
    };
    Ok(Said { words: Words { text, context }, stdin })
}

/// Says one thing, prints the answer, and ends as the run did.
async fn once(mut chat: Chat<'_>, words: Words, out: &mut Out) -> Outcome {
    if chat.is_unfinished() {
        out.note(format_args!("something is still unanswered; that comes first"));
        chat.talk.turn(Start::Finish, out).await?;
    }
    let start = chat.start(words);
    let turn = chat.talk.turn(start, out).await?;
    let address = &chat.talk.address;
    if out.json {
        turn.print_json_with(address, &chat.given, out)?;
    }
    out.flush()?;
    turn.conclude(address, &chat.again(), out)?;
    if !out.json && chat.args.session.is_none() {
        out.aside(format_args!("{}", out.err.dim(&format!("session {address}"))));
    }
    Ok(())
}

impl Chat<'_> {
    /// The flags that a command to paste needs.
    fn again(&self) -> String {
        self.args.tools.again(&self.args.project)
    }

    /// Whether a crash has left a run that nobody has taken up since.
    fn is_unfinished(&self) -> bool {
        self.found.as_ref().is_some_and(|session| {
            session.active_run().is_some() && !session.is_waiting() || !session.inbox.is_empty()
        })
    }

    /// How to say something: first words begin a session.
    fn start(&self, words: Words) -> Start {
        if self.talk.begun {
            return Start::Say(words);
        }
        let new = New {
            agent: self.args.agent.clone(),
            principal: self.principal.clone(),
            title: self.args.title.clone(),
            files: self.files.clone(),
            ..New::default()
        };
        Start::Begin(new, words)
    }
}

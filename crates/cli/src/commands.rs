//! One module per command.

pub(crate) mod append;
pub(crate) mod approvals;
pub(crate) mod auth;
pub(crate) mod backup;
pub(crate) mod blob;
pub(crate) mod branch;
pub(crate) mod budget;
pub(crate) mod build;
pub(crate) mod cat;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod deploy;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod fs;
pub(crate) mod ingest;
pub(crate) mod init;
pub(crate) mod new;
pub(crate) mod policy;
pub(crate) mod prompt;
pub(crate) mod run;
pub(crate) mod sandbox_exec;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod streams;
pub(crate) mod test;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod transfer;
pub(crate) mod verify;
pub(crate) mod whoami;

use std::path::PathBuf;

use crate::args::Command;
use crate::identity::{Identity, Sees};
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::store::{IfAbsent, Store};

/// What every command works with.
pub(crate) struct Context {
    /// Where the data is.
    pub(crate) data_dir: PathBuf,
    /// The project that the data belongs to, if there is one.
    pub(crate) project: ProjectArgs,
    /// Where to print.
    pub(crate) out: Out,
    /// Who asks.
    pub(crate) identity: Identity,
}

impl Context {
    /// Which sessions whoever asks sees.
    pub(crate) async fn sees(&self, project: &ProjectArgs) -> Outcome<Sees> {
        self.identity.sees(&project.directory).await
    }

    /// Opens the data directory, which must have a journal.
    pub(crate) async fn store(&self) -> Outcome<Store> {
        self.open_store(IfAbsent::Fail).await
    }

    /// Opens the data directory, and makes it if need be.
    pub(crate) async fn store_or_new(&self) -> Outcome<Store> {
        self.open_store(IfAbsent::Create).await
    }

    /// Opens the data directory for a command that only reads; it need not be writable.
    pub(crate) async fn store_to_read(&self) -> Outcome<Store> {
        let store = Store::open_to_read(&self.data_dir).await?;
        store.tell_findings(&self.data_dir, &self.out);
        Ok(store)
    }

    /// Opens the data directory, and tells what was found on the way.
    pub(crate) async fn open_store(&self, if_absent: IfAbsent) -> Outcome<Store> {
        let store = Store::open(&self.data_dir, if_absent).await?;
        store.tell_findings(&self.data_dir, &self.out);
        Ok(store)
    }
}

impl Command {
    /// Whether the command's own flags ask for JSON.
    pub(crate) fn wants_json(&self) -> bool {
        matches!(self, Self::Cat(args) if args.format == Some(cat::Format::Json))
    }

    /// Whether it matters to the command who asks. The others work on the journal itself, or on files.
    pub(crate) fn minds_identity(&self) -> bool {
        matches!(
            self,
            Self::Chat(_)
                | Self::Session(_)
                | Self::Tools(_)
                | Self::Policy(_)
                | Self::Fs(_)
                | Self::Approvals(_)
                | Self::Approve(_)
                | Self::Deny(_)
                | Self::Budget(_)
                | Self::Config(_)
                | Self::Whoami(_)
        )
    }

    /// How many threads take turns with its tasks: a server has as many as the machine can use.
    pub(crate) fn workers(&self) -> usize {
        match self {
            Self::Serve(_) | Self::Run(_) => {
                std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 16))
            }
            _ => 2,
        }
    }

    /// Whether the command has its own use for Ctrl-C.
    pub(crate) fn minds_interrupts(&self) -> bool {
        matches!(
            self,
            Self::Chat(_)
                | Self::Run(_)
                | Self::Serve(_)
                | Self::Session(session::Command::Resume(_))
                | Self::Tools(tools::Command::Call(_))
                | Self::Approve(_)
                | Self::Deny(_)
        )
    }
}

/// Runs one command.
pub(crate) async fn run(command: Command, context: &mut Context) -> Outcome {
    match command {
        Command::Demo(args) => demo::run(&args, context).await,
        Command::Init(args) => init::run(&args, context).await,
        Command::New(command) => new::run(command, context).await,
        Command::Build(args) => build::build(&args, context).await,
        Command::Check(args) => build::check(&args, context).await,
        Command::Test(args) => test::run(&args, context).await,
        Command::Diff(args) => diff::run(&args, context).await,
        Command::Lock(args) => build::lock(&args, context).await,
        Command::Schema(args) => schema::run(&args, context),
        Command::Auth(command) => auth::run(command, context).await,
        Command::Append(args) => append::run(args, context).await,
        Command::Ingest(args) => ingest::run(args, context).await,
        Command::Streams(streams::Args {}) => streams::run(context).await,
        Command::Count(args) => streams::count(&args, context).await,
        Command::Cat(args) => cat::run(&args, context).await,
        Command::Branch(command) => branch::run(&command, context).await,
        Command::Verify(args) => verify::run(&args, context).await,
        Command::Export(args) => transfer::export(&args, context).await,
        Command::Import(args) => transfer::import(&args, context).await,
        Command::Backup(args) => backup::run(&args, context).await,
        Command::Blob(command) => blob::run(&command, context).await,
        Command::Doctor(args) => doctor::run(&args, context).await,
        Command::Chat(args) => Box::pin(chat::run(&args, context)).await,
        Command::Run(args) => Box::pin(run::run(&args, context)).await,
        Command::Serve(args) => Box::pin(serve::run(&args, context)).await,
        Command::Deploy(args) => deploy::run(&args, context).await,
        Command::Rollback(args) => deploy::rollback(args, context).await,
        Command::Approvals(args) => approvals::run(&args, context).await,
        Command::Approve(args) => approvals::approve(&args, context).await,
        Command::Deny(args) => approvals::deny(&args, context).await,
        Command::Budget(command) => budget::run(&command, context).await,
        Command::Session(command) => session::run(&command, context).await,
        Command::Token(command) => token::run(&command, context).await,
        Command::Tools(command) => tools::run(&command, context).await,
        Command::Policy(command) => policy::run(&command, context).await,
        Command::Config(command) => config::run(&command, context),
        Command::Whoami(args) => whoami::run(&args, context).await,
        Command::Fs(command) => fs::run(&command, context).await,
        Command::Prompt(command) => prompt::run(&command, context).await,
        Command::Completions(args) => completions::run(&args, &mut context.out),
        Command::DemoDesk(args) => demo::desk(&args, context).await,
    }
}

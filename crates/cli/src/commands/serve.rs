//! `weir serve`: the agents of a build over HTTP, from a manifest and a data directory alone.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weir_engine::{Deploy, Deployments};
use weir_journal::Journal;
use weir_journal_sqlite::SqliteJournal;
use weir_server::auth::{Auth, Caller};
use weir_server::{App, Builds, Parts, Settings, serve};
use weir_types::{Explain, Fault, Hash};

use crate::agents::{AgentError, Makings, missing_keys};
use crate::commands::Context;
use crate::host::Host;
use crate::identity::ADMINS;
use crate::logs;
use crate::report::{Bug, Outcome};
use crate::served::Served;
use crate::store::Store;
use crate::workbench::ToolArgs;

const EXAMPLES: &str = "\
Examples:
  weir build && weir serve --manifest latest
  weir serve --port 3000 --manifest 4f1c
  PORT=3000 LOG_LEVEL=debug weir serve --json
  curl http://127.0.0.1:8080/ready
  curl -H 'content-type: application/json' -d '{\"message\":\"hello\"}' http://127.0.0.1:8080/agents/helper/chat

It needs nothing but the data directory, in which `weir build` keeps what it builds. Without any manifest it serves the
persistence layer alone. Ctrl-C, or SIGTERM, lets what is under way come to a safe point; a run that is cut off goes on when
the server is there again.";

/// How long requests may take to come to their end once the server is told to stop.
const FAREWELL: Duration = Duration::from_secs(10);

/// How long to wait before deployments are followed again after they could not be.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);

/// The arguments of `weir serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0 lets the system choose one.
    #[arg(long, env = "PORT", default_value_t = 8080)]
    port: u16,
    /// Deploy this build first: its hash, the beginning of one, or `latest`. Without it, what was deployed last is served.
    #[arg(long, value_name = "HASH")]
    manifest: Option<String>,
    /// The project's directory, if the build has programs or secrets there.
    #[arg(long = "project", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    #[command(flatten)]
    tools: ToolArgs,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Anyone could reach it, and nobody would have to say who they are.
    #[error("{0} can be reached from elsewhere, and nobody would have to say who they are")]
    Open(IpAddr),
    /// The listener broke.
    #[error("the listener failed")]
    Broke(#[source] io::Error),
}

impl Explain for ServeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Listen { .. } => "cli::listen",
            Self::Open(_) => "cli::no-auth",
            Self::Broke(_) => "cli::listener",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "choose another port with `--port N`; `--port 0` takes any that is free".into()
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "choose a port of 1024 or above with `--port N`".into()
            }
            Self::Listen { .. } => "choose an address of this machine with `--host ADDRESS`".into(),
            Self::Open(_) => "listen on 127.0.0.1, which is the default".into(),
            Self::Broke(_) => "check how many files this process may open, then start it again".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Listen { .. } | Self::Open(_) => Fault::Input,
            Self::Broke(_) => Fault::Storage,
        }
    }
}

/// Serves until it is told to stop.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let began = Instant::now();
    logs::begin(&context.out)?;
    if !args.host.is_loopback() {
        return Err(ServeError::Open(args.host).into());
    }
    let signals = Signals::heed()?;
    // Before anything is made: a port that is taken is the commonest of mistakes.
    let listener = listen(SocketAddr::new(args.host, args.port)).await?;
    let Store { journal, blobs } = context.store_or_new().await?;
    info!(data_dir = %context.data_dir.display(), took_ms = ms(began), "journal opened");
    let journal = Arc::new(journal);
    let makings = Makings::new(&args.directory, &context.data_dir, &args.tools);
    let served = Served::new(makings.over(Arc::clone(&journal), Arc::clone(&blobs)));
    let deployments = deployed(args, &served, &*journal, context.identity.real()).await?;
    tell_deployed(&served, began);
    let host = Host::adopting(journal, blobs, &context.data_dir, &served).await?;
    info!(took_ms = ms(began), "engine started");
    let app = App::new(Parts {
        engine: host.engine.clone(),
        journal: Arc::clone(&host.journal) as Arc<dyn Journal>,
        blobs: Arc::clone(&host.blobs),
        builds: Arc::new(served.clone()),
        auth: auth(context),
        settings: Settings::default(),
    });
    let following = tokio::spawn(follow(served, Arc::clone(&host.journal), deployments));
    let ended = until_told(listener, app, signals, began).await;
    following.abort();
    host.stop().await;
    info!("stopped");
    ended
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}

/// Deploys what the command line names, or takes up what was deployed last. Nothing is written down before it is known to be
/// good.
async fn deployed(args: &Args, served: &Served, journal: &dyn Journal, by: &str) -> Outcome<Deployments> {
    if let Some(which) = &args.manifest {
        let ready = served.find(which).await?;
        served.check(&ready).await?;
        Deployments::make(journal, Deploy::Build(ready.build().hash), by).await?;
    }
    let deployments = Deployments::read(journal).await?;
    if let Some(hash) = deployments.current() {
        take_up(served, hash).await?;
    }
    Ok(deployments)
}

fn tell_deployed(served: &Served, began: Instant) {
    let Some(build) = served.current() else {
        warn!("nothing is deployed: the persistence layer is served alone, until `weir deploy latest`");
        return;
    };
    let agents = build.manifest.agents.len();
    info!(manifest = %build.hash, agents, took_ms = ms(began), "manifest loaded");
    for variable in missing_keys(&build.manifest) {
        warn!(variable, "a model needs a key that is not set; agents that use it cannot answer");
    }
}

/// Takes up whatever is deployed while the server runs. What cannot be had changes nothing.
async fn follow(served: Served, journal: Arc<SqliteJournal>, mut known: Deployments) {
    loop {
        let mut news = known.follow(&*journal);
        while let Some(Ok(made)) = news.next().await {
            let manifest = made.manifest;
            match take_up(&served, manifest).await {
                Ok(()) => info!(%manifest, by = made.by, rollback = made.rollback, "deployed"),
                Err(error) => {
                    error!(%manifest, code = error.code(), %error, "cannot deploy: what was there before goes on");
                }
            }
        }
        // A tail that fails is begun again; nothing is lost by it.
        tokio::time::sleep(FOLLOW_AGAIN).await;
        if let Ok(read) = Deployments::read(&*journal).await {
            if let Some(hash) = read.current().filter(|_| read != known) {
                let _ = take_up(&served, hash).await;
            }
            known = read;
        }
    }
}

async fn take_up(served: &Served, hash: Hash) -> Result<(), AgentError> {
    let ready = served.ready(hash).await?;
    served.check(&ready).await?;
    served.deploy(ready);
    Ok(())
}

/// On loopback nobody has to prove anything: whoever asks is the local user.
fn auth(context: &Context) -> Auth {
    let principal = context.identity.principal().to_owned();
    let groups = if context.identity.is_owner() { vec![ADMINS.to_owned()] } else { Vec::new() };
    Auth { local: Some(Caller { principal, groups }), admins: context.identity.admins() }
}

/// Serves until a signal comes, and then until what is under way has come to its end or the time is up.
async fn until_told(listener: TcpListener, app: App, mut signals: Signals, began: Instant) -> Outcome {
    let address = listener.local_addr().map_err(ServeError::Broke)?;
    info!(url = %format_args!("http://{address}"), took_ms = ms(began), "listening");
    let stop = CancellationToken::new();
    let mut serving = tokio::spawn(serve(listener, app, stop.clone()));
    tokio::select! {
        ended = &mut serving => return broke(ended),
        name = signals.next() => info!(signal = name, "stopping: nothing new is accepted"),
    }
    stop.cancel();
    tokio::select! {
        ended = &mut serving => return broke(ended),
        name = signals.next() => warn!(signal = name, "stopping at once"),
        () = tokio::time::sleep(FAREWELL) => warn!("some requests did not come to their end in time"),
    }
    serving.abort();
    Ok(())
}

fn broke(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Outcome {
    let ended = ended.map_err(|error| Bug { what: error.to_string() })?;
    Ok(ended.map_err(ServeError::Broke)?)
}

fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What tells a server to stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn heed() -> Result<Self, Bug> {
        let heed = |kind| signal(kind).map_err(|error| Bug { what: format!("no signals: {error}") });
        Ok(Self { interrupt: heed(SignalKind::interrupt())?, terminate: heed(SignalKind::terminate())? })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

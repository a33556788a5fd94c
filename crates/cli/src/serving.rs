//! A server over a data directory: what `weir serve` and `weir run` have in common.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use weir_blobs::Blobs;
use weir_journal::Journal;
use weir_journal_sqlite::SqliteJournal;
use weir_server::auth::{Auth, tells_peer_users, tokens};
use weir_server::{App, Parts, Settings, check_bridge_secret, serve};
use weir_types::{Explain, Fault, Secret};

use crate::admission::{AdmissionError, AuthArgs, LimitArgs, in_environment};
use crate::agents::Makings;
use crate::commands::Context;
use crate::host::Host;
use crate::logs;
use crate::report::{Bug, Outcome};
use crate::served::{Served, Sticks};
use crate::store::Store;
use crate::workbench::ToolArgs;

/// Connections that may wait to be accepted: a crowd that comes at once is not told to come back in a second.
const BACKLOG: u32 = 4_096;

/// What every server takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The address to listen on; `localhost` is 127.0.0.1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = host)]
    host: IpAddr,
    /// The port; 0 lets the system choose one.
    #[arg(long, env = "PORT", default_value_t = 8080)]
    port: u16,
    /// The most rounds of model and tools in a run; what the specs say, if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_iterations: Option<u64>,
    #[command(flatten)]
    tools: ToolArgs,
    /// Serve the fixtures of the MCP conformance suite at `/conformance/mcp`, for tests.
    #[arg(long, hide = true)]
    mcp_conformance_fixtures: bool,
    #[command(flatten)]
    auth: AuthArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

impl ServerArgs {
    /// Which writes really happen.
    pub(crate) fn tools(&self) -> &ToolArgs {
        &self.tools
    }
}

fn host(text: &str) -> Result<IpAddr, &'static str> {
    match text {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => {
            text.parse().map_err(|_| "write an address of this machine, such as 127.0.0.1, ::1 or 0.0.0.0")
        }
    }
}

/// A server that is about to accept connections.
pub(crate) struct Prepared {
    /// When this began.
    pub(crate) began: Instant,
    /// The truth.
    pub(crate) journal: Arc<SqliteJournal>,
    /// What it serves; nothing yet.
    pub(crate) served: Served,
    blobs: Arc<dyn Blobs>,
    data_dir: PathBuf,
    auth: Auth,
    settings: Settings,
    listener: TcpListener,
    signals: Signals,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
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
            Self::Open(_) => "listen on 127.0.0.1, which is the default, or ask everyone who they are: `--auth-tokens` for tokens of \
                              `weir token issue`, `--auth-jwks URL --auth-audience AUD` or a secret in $WEIR_AUTH_JWT_SECRET \
                              for JWTs, `--trust-proxy-header NAME --trust-proxy-from ADDRESS` for a proxy that knows"
                .into(),
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

/// Takes the address and opens the data directory. `directory` is the project, for what builds have there.
pub(crate) async fn prepare(
    args: &ServerArgs,
    directory: &Path,
    sticks: Sticks,
    context: &Context,
) -> Outcome<Prepared> {
    let began = Instant::now();
    logs::begin(&context.out)?;
    let auth = with_local_token(args.auth.auth(&context.identity).await?);
    let settings = args.auth.settings(&args.limits)?;
    let bridge_secret = bridge_secret()?;
    if auth.local.is_some() && !args.host.is_loopback() {
        return Err(ServeError::Open(args.host).into());
    }
    let signals = Signals::heed()?;
    allow_open_files();
    // Before anything is made: a port that is taken is the commonest of mistakes.
    let listener = listen(SocketAddr::new(args.host, args.port))?;
    let Store { journal, blobs } = context.store_or_new().await?;
    info!(data_dir = %context.data_dir.display(), took_ms = ms(began), "journal opened");
    let journal = Arc::new(journal);
    let makings =
        Makings::new(directory, &context.data_dir, &args.tools).with_iterations(args.max_iterations);
    let served = Served::new(makings.over(Arc::clone(&journal)), sticks);
    let data_dir = context.data_dir.clone();
    let settings = Settings { bridge_secret, mcp_fixtures: args.mcp_conformance_fixtures, ..settings };
    Ok(Prepared { began, journal, served, blobs, data_dir, auth, settings, listener, signals })
}

/// Where the system does not tell which user a connection belongs to, a listener without authentication asks for a token that is printed
/// once and counts until the server stops.
fn with_local_token(mut auth: Auth) -> Auth {
    let Some(owner) = &auth.local else { return auth };
    if tells_peer_users() {
        return auth;
    }
    match tokens::issue(&owner.principal, &owner.groups, None, None) {
        Ok((token, issued)) => {
            warn!(
                token = token.expose(),
                "this system does not tell which user a connection belongs to: send `Authorization: Bearer TOKEN` with this token"
            );
            auth.local_token = Some(issued.hash);
        }
        Err(error) => warn!(%error, "nobody is let in without a token of `weir token issue`"),
    }
    auth
}

/// The variable that holds what the tokens of the bridge are derived from.
pub(crate) const BRIDGE_SECRET: &str = "WEIR_BRIDGE_SECRET";

/// What the tokens of the bridge are derived from. One that is too short opens nothing, and says so.
fn bridge_secret() -> Result<Option<Secret>, AdmissionError> {
    let Some(secret) = in_environment(BRIDGE_SECRET)? else { return Ok(None) };
    Ok(match check_bridge_secret(&secret) {
        Ok(()) => {
            info!("the bridge is open");
            Some(secret)
        }
        Err(error) => {
            warn!(variable = BRIDGE_SECRET, help = %error.help(), "the bridge stays closed: {error}");
            None
        }
    })
}

impl Prepared {
    /// Serves until it is told to stop, and does something beside it.
    pub(crate) async fn run(self, beside: impl Future<Output = ()> + Send + 'static) -> Outcome {
        let Self { began, journal, served, blobs, data_dir, auth, settings, listener, mut signals } = self;
        let host = Host::adopting(journal, blobs, &data_dir, &served).await?;
        info!(took_ms = ms(began), "engine started");
        let app = App::new(Parts {
            engine: host.engine.clone(),
            journal: Arc::clone(&host.journal) as Arc<dyn Journal>,
            blobs: Arc::clone(&host.blobs),
            builds: Arc::new(served),
            auth,
            settings,
        });
        let beside = tokio::spawn(beside);
        let ended = until_told(listener, app, &mut signals, began).await;
        beside.abort();
        if let Ok(Hurry::No) = ended {
            tokio::select! {
                () = host.wind_down() => {}
                name = signals.next() => at_once(name),
            }
        }
        host.stop().await;
        info!("stopped");
        ended.map(|_| ())
    }
}

/// A connection is an open file: as many as the system lets this user have. What cannot be raised stays as it is.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    debug!(was = current, is = maximum, "open files");
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A server that was killed a moment ago starts again at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| ServeError::Listen { address, source })
}

/// Whether the server was told a second time to stop, by another signal, and so does not wait for what is under way.
enum Hurry {
    Yes,
    No,
}

/// Serves until a signal comes, and then until what is under way has come to its end or the time is up.
async fn until_told(
    listener: TcpListener,
    app: App,
    signals: &mut Signals,
    began: Instant,
) -> Outcome<Hurry> {
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
        name = signals.next() => at_once(name),
    }
    serving.abort();
    Ok(Hurry::Yes)
}

fn at_once(signal: &str) {
    warn!(signal, "stopping at once");
}

fn broke(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Outcome<Hurry> {
    let ended = ended.map_err(|error| Bug { what: error.to_string() })?;
    ended.map_err(ServeError::Broke)?;
    Ok(Hurry::No)
}

/// Milliseconds since then, for a line of the log.
pub(crate) fn ms(since: Instant) -> u64 {
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

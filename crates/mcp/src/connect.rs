//! From a server to a conversation with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FusedFuture, FutureExt};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{Peer, RoleClient, ServiceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ask::{Asker, Unanswered};
use crate::error::Error;
use crate::headers::Headers;
use crate::http::Http;
use crate::ledger::Ledger;
use crate::list::{self, NotListed};
use crate::plain::plain;
use crate::server::{Server, is_private};
use crate::stdio::{Ending, Extent, Program, Start};
use crate::trouble::Trouble;

/// How long a server that is no longer needed may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Most requests under way on one connection.
pub(crate) const CALLS_MAX: usize = 256;

/// Attempts to open a stream again that broke, each twice as long after the one before.
const REOPENED_MAX: usize = 8;

/// The first of those waits, unless the server asks for another, and the longest.
const REOPEN_FIRST: Duration = Duration::from_millis(500);
const REOPEN_LONGEST: Duration = Duration::from_secs(30);

/// What a server is started with and how long it has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where a command is started, and what a program of the project is relative to.
    pub directory: PathBuf,
    /// All variables that a command sees.
    pub environment: BTreeMap<String, String>,
    /// What a server that is reached is told beside the protocol: who asks.
    pub headers: Headers,
    /// What starts a command, in front of its own words. Empty when nothing does.
    pub launcher: Vec<String>,
    /// How long everything together may take.
    pub timeout: Duration,
}

/// How a server is opened.
pub(crate) struct Way<'w> {
    pub(crate) server: &'w Server,
    pub(crate) directory: &'w Path,
    pub(crate) environment: &'w BTreeMap<String, String>,
    pub(crate) headers: &'w Headers,
    pub(crate) launcher: &'w [String],
    pub(crate) extent: Extent,
}

/// A server that has introduced itself.
pub(crate) struct Open {
    service: RunningService<RoleClient, ClientConfig>,
    program: Option<Program>,
    trouble: Trouble,
    pub(crate) ledger: Ledger,
    /// Cancelled when nothing more is to be expected of it.
    pub(crate) broken: CancellationToken,
}

/// Starts or reaches the server and lets it introduce itself.
///
/// # Cancel safety
/// A command that was started is killed.
pub(crate) async fn open(way: &Way<'_>, timeout: Duration) -> Result<Open, Error> {
    let (ledger, trouble, broken) = (Ledger::default(), Trouble::default(), CancellationToken::new());
    let (service, program) = match way.server {
        Server::Stdio { argv } => {
            let start = Start {
                launcher: way.launcher,
                argv,
                directory: way.directory,
                environment: way.environment,
            };
            let (program, pipes) = Program::start(&start, way.extent, ledger.clone(), trouble.clone())?;
            match introduce(pipes, &trouble, timeout).await {
                Ok(service) => (service, Some(program)),
                // Only a program that has ended has said all it has to say.
                Err(error) => return Err(trouble.explain(error.with(program.end().await))),
            }
        }
        Server::Http { url } if !is_private(url) => return Err(Error::InTheClear),
        Server::Http { url } => {
            let headers = way.headers.clone();
            let http = Http::new(headers, way.extent, ledger.clone(), trouble.clone(), broken.clone())?;
            let transport = StreamableHttpClientTransport::with_client(http, config(url));
            (introduce(transport, &trouble, timeout).await?, None)
        }
    };
    Ok(Open { service, program, trouble, ledger, broken })
}

fn config(url: &str) -> StreamableHttpClientTransportConfig {
    let mut reopen = ExponentialBackoff::default();
    reopen.max_times = Some(REOPENED_MAX);
    reopen.base_duration = REOPEN_FIRST;
    reopen.max_delay = Some(REOPEN_LONGEST);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        // Lists of tools go along with the calls.
        .max_concurrent_requests(CALLS_MAX * 2)
        // A new session is for us to begin: its tools have to be checked before it is asked for anything.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(reopen);
    config
}

async fn introduce(
    transport: impl Transport<RoleClient> + 'static,
    trouble: &Trouble,
    timeout: Duration,
) -> Result<RunningService<RoleClient, ClientConfig>, Error> {
    let service = introduction().serve(transport);
    match tokio::time::timeout(timeout, service).await {
        Ok(service) => service.map_err(|error| trouble.take().unwrap_or_else(|| not_introduced(&error))),
        Err(_) => {
            Err(trouble.take().unwrap_or_else(|| Error::Late { after: timeout, stderr: String::new() }))
        }
    }
}

/// Who asks. No capability is declared: a server that wants to sample or elicit is refused.
fn introduction() -> ClientConfig {
    let weir = Implementation::new("weir", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), weir)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn not_introduced(error: &ClientInitializeError) -> Error {
    match error {
        ClientInitializeError::JsonRpcError(refusal) => Error::Refused { why: plain(&refusal.message) },
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            Error::ended()
        }
        other => Error::Refused { why: plain(&other.to_string()) },
    }
}

impl Open {
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Waits until the server is gone by itself, or until `enough` and then ends it. Says why it is gone, if not because
    /// of `enough`, or because `enough` says so; and how it ended.
    pub(crate) async fn until(self, enough: impl Future<Output = Option<Error>>) -> (Option<Error>, Ending) {
        let Self { service, program, trouble, broken, .. } = self;
        let stop = service.cancellation_token();
        let mut serving = Box::pin(service.waiting().fuse());
        let why = tokio::select! {
            _ = &mut serving => Some(trouble.take().unwrap_or_else(Error::ended)),
            () = broken.cancelled() => Some(trouble.take().unwrap_or_else(Error::ended)),
            () = has_ended(program.as_ref()) => Some(trouble.take().unwrap_or_else(Error::ended)),
            why = enough => why,
        };
        stop.cancel();
        if !serving.is_terminated() {
            let _ = tokio::time::timeout(GOODBYE, serving).await;
        }
        let ending = match program {
            Some(program) => program.end().await,
            None => Ending { status: None, stderr: String::new() },
        };
        (why.map(|error| trouble.explain(error.with(ending.clone()))), ending)
    }
}

async fn has_ended(program: Option<&Program>) {
    match program {
        Some(program) => program.ended().await,
        None => std::future::pending().await,
    }
}

/// Starts or reaches the server, lets it introduce itself, and lists its tools.
///
/// # Cancel safety
/// A command that was started is killed.
pub(crate) async fn list_once(server: &Server, options: &Options) -> Result<Vec<list::Definition>, Error> {
    let way = Way {
        server,
        directory: &options.directory,
        environment: &options.environment,
        headers: &options.headers,
        launcher: &options.launcher,
        extent: Extent::Listing,
    };
    let by = Instant::now() + options.timeout;
    let open = open(&way, options.timeout).await?;
    let trouble = open.trouble.clone();
    let listed = tokio::time::timeout_at(by, list::pages(&Asker::new(&open, TaskTracker::new()))).await;
    let (why, ending) = open.until(std::future::ready(None)).await;
    let error = match listed {
        Ok(Ok(tools)) => return Ok(tools),
        Ok(Err(NotListed::Error(error))) => error,
        Ok(Err(NotListed::Unanswered(Unanswered::Refused { words, .. }))) => Error::Refused { why: words },
        Ok(Err(NotListed::Unanswered(Unanswered::Failed(failure)))) => failure.error,
        Ok(Err(NotListed::Unanswered(Unanswered::Gone { .. }))) => {
            trouble.take().or(why).unwrap_or_else(Error::ended)
        }
        Err(_) => Error::Late { after: options.timeout, stderr: String::new() },
    };
    Err(trouble.explain(error.with(ending)))
}

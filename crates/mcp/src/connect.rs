//! From a server's address to a connection that answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{Peer, RoleClient, ServiceExt};

use crate::error::Error;
use crate::http::Http;
use crate::server::{Server, is_private};
use crate::stdio::Program;
use crate::trouble::Trouble;

/// How long a server that is no longer needed may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a server is started with and how long it has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where a command is started, and what a program of the project is relative to.
    pub directory: PathBuf,
    /// All variables that a command sees.
    pub environment: BTreeMap<String, String>,
    /// How long everything together may take.
    pub timeout: Duration,
}

/// A server that has introduced itself. Dropped, a command is killed.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    program: Option<Program>,
    trouble: Trouble,
}

impl Connection {
    /// What requests are sent through.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// What a failed request means.
    pub(crate) fn explain(&self, error: &ServiceError) -> Error {
        self.trouble.take().unwrap_or_else(|| match error {
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let stderr = self.program.as_ref().map(Program::stderr).unwrap_or_default();
                Error::Ended { status: "it closed the connection".to_owned(), stderr }
            }
            ServiceError::McpError(refusal) => Error::Refused { why: plain(&refusal.message) },
            other => Error::Refused { why: other.to_string() },
        })
    }

    /// What it wrote last to its standard error.
    pub(crate) fn stderr(&self) -> String {
        self.program.as_ref().map(Program::stderr).unwrap_or_default()
    }

    /// Ends the conversation, and the server if we started it.
    pub(crate) async fn end(self) {
        let Self { service, program, .. } = self;
        let _ = tokio::time::timeout(GOODBYE, service.cancel()).await;
        if let Some(program) = program {
            program.end().await;
        }
    }
}

/// Starts or reaches the server, and lets it introduce itself.
///
/// # Cancel safety
/// A command that was started is killed.
pub(crate) async fn connect(server: &Server, options: &Options) -> Result<Connection, Error> {
    let trouble = Trouble::default();
    let (made, program) = match server {
        Server::Stdio { argv } => {
            let (program, pipes) =
                Program::start(argv, &options.directory, &options.environment, trouble.clone())?;
            (introduction().serve(pipes).await, Some(program))
        }
        Server::Http { url } if !is_private(url) => return Err(Error::InTheClear),
        Server::Http { url } => {
            let http = Http::new(trouble.clone())?;
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            let transport = StreamableHttpClientTransport::with_client(http, config);
            (introduction().serve(transport).await, None)
        }
    };
    match made {
        Ok(service) => Ok(Connection { service, program, trouble }),
        Err(error) => Err(explain(&error, program, &trouble).await),
    }
}

/// Who asks. No capability is declared: a server that wants to sample or elicit while it lists its tools is refused.
fn introduction() -> ClientConfig {
    ClientConfig::new(ClientCapabilities::default(), Implementation::new("weir", env!("CARGO_PKG_VERSION")))
}

async fn explain(error: &ClientInitializeError, program: Option<Program>, trouble: &Trouble) -> Error {
    let stderr = program.as_ref().map(Program::stderr);
    let status = match program {
        Some(program) => program.end().await,
        None => None,
    };
    if let Some(known) = trouble.take() {
        return known;
    }
    match error {
        ClientInitializeError::JsonRpcError(refusal) => Error::Refused { why: plain(&refusal.message) },
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            let status =
                status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
            Error::Ended { status, stderr: stderr.unwrap_or_default() }
        }
        other => Error::Refused { why: plain(&other.to_string()) },
    }
}

/// A server's words, on one line and not too many of them.
fn plain(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

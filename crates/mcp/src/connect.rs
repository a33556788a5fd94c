//! From a server to a conversation with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
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

/// Starts or reaches the server, lets it introduce itself, and says `conversation` to it.
///
/// # Cancel safety
/// A command that was started is killed.
pub(crate) async fn converse<T>(
    server: &Server,
    options: &Options,
    conversation: impl AsyncFnOnce(&Peer<RoleClient>) -> Result<T, Failure>,
) -> Result<T, Error> {
    let trouble = Trouble::default();
    let late = || Error::Late { after: options.timeout, stderr: String::new() };
    match server {
        Server::Stdio { argv } => {
            let (program, pipes) =
                Program::start(argv, &options.directory, &options.environment, trouble.clone())?;
            let talk = talk(pipes, &trouble, conversation);
            let said = tokio::time::timeout(options.timeout, talk).await.unwrap_or_else(|_| Err(late()));
            // Only a program that has ended has said all it has to say.
            let ending = program.end().await;
            said.map_err(|error| error.with(ending))
        }
        Server::Http { url } if !is_private(url) => Err(Error::InTheClear),
        Server::Http { url } => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            let transport = StreamableHttpClientTransport::with_client(Http::new(trouble.clone())?, config);
            let talk = talk(transport, &trouble, conversation);
            tokio::time::timeout(options.timeout, talk).await.unwrap_or_else(|_| Err(late()))
        }
    }
}

/// Why a conversation broke off.
pub(crate) enum Failure {
    /// A request failed.
    Request(ServiceError),
    /// The server's answer cannot be used.
    Answer(Error),
}

async fn talk<T>(
    transport: impl Transport<RoleClient> + 'static,
    trouble: &Trouble,
    conversation: impl AsyncFnOnce(&Peer<RoleClient>) -> Result<T, Failure>,
) -> Result<T, Error> {
    let service = introduction().serve(transport).await;
    let service = service.map_err(|error| trouble.take().unwrap_or_else(|| not_introduced(&error)))?;
    let said = conversation(service.peer()).await;
    let _ = tokio::time::timeout(GOODBYE, service.cancel()).await;
    said.map_err(|failure| match failure {
        Failure::Request(error) => trouble.take().unwrap_or_else(|| broken_off(&error)),
        Failure::Answer(error) => error,
    })
}

/// Who asks. No capability is declared: a server that wants to sample or elicit is refused.
fn introduction() -> ClientConfig {
    ClientConfig::new(ClientCapabilities::default(), Implementation::new("weir", env!("CARGO_PKG_VERSION")))
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

fn broken_off(error: &ServiceError) -> Error {
    match error {
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => Error::ended(),
        ServiceError::McpError(refusal) => Error::Refused { why: plain(&refusal.message) },
        other => Error::Refused { why: plain(&other.to_string()) },
    }
}

/// A server's words, on one line and not too many of them.
fn plain(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

//! The MCP servers of a project, as its tools reach them: which program or address, with whose credential, and only while a
//! tool is what was pinned.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_mcp::{Accepts, Call, CallError, Connections, Definition, Headers, Server, Target};
use weir_spec::manifest::{self, Manifest, McpSource, Source, Transport};
use weir_spec::{SecretRef, canonical};
use weir_tools::{Done, Failed, Gate, Sandbox, ServerCall, Servers};
use weir_types::{Explain, Hash, SandboxProfile, Who};

use crate::credentials::{CredentialError, Credentials};

/// Whether a program of a project may be started on this machine. Being named by a project is not enough.
pub trait MayStart: Send + Sync {
    /// Why not, and what would allow it; nothing, if it may.
    fn refusal<'a>(&'a self, program: Program<'a>) -> BoxFuture<'a, Option<String>>;
}

/// A program that a project wants started.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The server's address, as specs have it.
    pub server: &'a str,
    /// The program and its arguments.
    pub argv: &'a [String],
    /// The variables it is given, and where their values come from.
    pub env: &'a BTreeMap<String, SecretRef>,
    /// How it is confined.
    pub sandbox: SandboxProfile,
}

/// The MCP servers of one agent of one build of a project.
#[derive(Clone)]
pub(crate) struct AgentServers(Arc<Inner>);

struct Inner {
    means: Means,
    servers: BTreeMap<String, Reached>,
}

/// What servers are reached with.
pub(crate) struct Means {
    pub(crate) connections: Connections,
    pub(crate) credentials: Credentials,
    pub(crate) may_start: Arc<dyn MayStart>,
    /// What starts programs.
    pub(crate) sandbox: Arc<Sandbox>,
    /// Who is in which group.
    pub(crate) gate: Arc<dyn Gate>,
}

/// A server, and what a program is given.
struct Reached {
    source: McpSource,
    env: BTreeMap<String, SecretRef>,
    sandbox: SandboxProfile,
}

impl AgentServers {
    pub(crate) fn new(manifest: &Manifest, agent: &manifest::Agent, means: Means) -> Self {
        let servers = manifest.sources.iter().filter_map(|(name, source)| match source {
            Source::Mcp(source) => {
                let (env, sandbox) = start(agent, name);
                Some((name.clone(), Reached { source: source.clone(), env, sandbox }))
            }
            Source::Script(_) => None,
        });
        let servers = servers.collect();
        Self(Arc::new(Inner { means, servers }))
    }
}

/// The variables that an agent gives a server, and how it confines it. Those of other agents' entries are not its to use: the same program runs once
/// more for each of them.
fn start(agent: &manifest::Agent, server: &str) -> (BTreeMap<String, SecretRef>, SandboxProfile) {
    let entry = agent.tools.iter().find(|tool| tool.source == server);
    entry.map(|tool| (tool.env.clone(), tool.sandbox)).unwrap_or_default()
}

impl Servers for AgentServers {
    fn call(&self, call: ServerCall) -> BoxFuture<'static, Result<Done, Failed>> {
        let inner = Arc::clone(&self.0);
        async move { inner.call(call).await }.boxed()
    }
}

impl Inner {
    async fn call(&self, call: ServerCall) -> Result<Done, Failed> {
        let ServerCall { server, tool, shown_as, principal, groups, arguments, key, deadline, cancelled } =
            call;
        let Some(reached) = self.servers.get(&server) else {
            return Err(Failed::new("missing", format!("the build has no server `{server}`")));
        };
        let target = self.target(&server, reached, Who::new(&principal, &groups), &shown_as).await?;
        let is_sent = target.headers != Headers::default();
        let accepts = accepts(reached.source.tools.get(&tool).map(|pinned| pinned.hash));
        let call = Call { tool, arguments, deadline, cancelled, key: Some(key), accepts };
        let answered = self.means.connections.call(&target, call).await;
        let answered = answered.map_err(|error| match (is_unconvinced(&error), is_sent) {
            (false, _) => failed(&error),
            (true, true) => unwelcome(&shown_as, &CredentialError::NotAccepted { server, principal }),
            (true, false) => unwelcome(&shown_as, &CredentialError::Wanted { server, principal }),
        })?;
        if answered.failed {
            // The tool ran and says that it failed; what it did until then only it knows, and says.
            return Err(Failed::new("tool", weir_types::text_of(&answered.content)));
        }
        Ok(Done { content: answered.content, ..Done::default() })
    }

    /// The server with the credential of whoever asks, looked up at the last moment.
    async fn target(
        &self,
        server: &str,
        reached: &Reached,
        who: Who<'_>,
        shown_as: &str,
    ) -> Result<Target, Failed> {
        let places = self.means.credentials.places();
        let (mut environment, mut headers) = (BTreeMap::new(), Headers::default());
        let spoken_to = match &reached.source.transport {
            Transport::Stdio(argv) => {
                let program = Program { server, argv, env: &reached.env, sandbox: reached.sandbox };
                if let Some(why) = self.means.may_start.refusal(program).await {
                    return Err(Failed::new("not_approved", why));
                }
                let variables = self.means.credentials.environment(&reached.env).await;
                let variables = variables.map_err(|error| unwelcome(shown_as, &error))?;
                environment = places.inherited();
                environment
                    .extend(variables.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
                Server::Stdio { argv: argv.clone() }
            }
            Transport::Http(url) => {
                let groups = self.means.gate.groups_of(who);
                let resolved = self.means.credentials.resolve(server, who.principal, &groups).await;
                let resolved = resolved.map_err(|error| unwelcome(shown_as, &error))?;
                if let Some(resolved) = resolved {
                    let header = [(resolved.header.as_str(), resolved.value.expose())];
                    headers = Headers::new(header).map_err(|error| {
                        Failed::new("credentials", format!("credentials: `{shown_as}` {error}"))
                    })?;
                }
                Server::Http { url: url.clone() }
            }
        };
        Ok(Target {
            server: spoken_to,
            identity: who.principal.to_owned(),
            directory: places.directory.clone(),
            environment,
            headers,
            launcher: self.means.sandbox.supervised_prefix(reached.sandbox),
        })
    }
}

/// The step at which a call ends for want of a credential: which tool, whose, and what would help.
fn unwelcome(shown_as: &str, error: &CredentialError) -> Failed {
    let message = format!("credentials: `{shown_as}` cannot be called: {error}; {}", error.help());
    Failed::new("credentials", message)
}

/// Whether a tool is what was pinned: the whole of its definition, in canonical form.
fn accepts(pinned: Option<Hash>) -> Accepts {
    Arc::new(move |definition: &Definition| {
        let found = canonical::hash(&definition.json).map_err(|error| error.to_string())?;
        match pinned {
            Some(pinned) if pinned == found => Ok(()),
            Some(_) => Err("its definition is not the one in weir.lock".to_owned()),
            None => Err("it is not in weir.lock".to_owned()),
        }
    })
}

/// Whether the server wants another credential, or one at all.
fn is_unconvinced(error: &CallError) -> bool {
    match error {
        CallError::NotConnected(error) | CallError::Broken { error, may_have_happened: false } => {
            matches!(**error, weir_mcp::Error::Credentials { .. })
        }
        _ => false,
    }
}

fn failed(error: &CallError) -> Failed {
    let message = format!("{error}; {}", error.help());
    match error.may_have_happened() {
        true => Failed::unknown("mcp", message),
        false => Failed::new("mcp", message),
    }
}

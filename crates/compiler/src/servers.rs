//! MCP servers: which ones a project needs, asking them, and holding what they say against what is pinned.

mod pins;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use weir_mcp::{Definition, Server};
use weir_spec::{Diagnostic, Launcher, McpServer, SecretRef, Sources, Span, ToolSource};
use weir_types::Explain;

pub(crate) use self::pins::{Offered, pin};
use crate::approve::{Approvals, Approve, Command, key};
use crate::tree::words;
use crate::{Event, Options, Progress, environment};

/// Servers that are asked at once.
const ASKED_AT_ONCE: usize = 8;

/// How long a server has.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long one has that may first have to be downloaded.
const TIMEOUT_OF_PACKAGES: Duration = Duration::from_secs(60);

/// A server that some agent lists.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) address: String,
    pub(crate) server: McpServer,
    pub(crate) env: BTreeMap<String, SecretRef>,
    /// The tools that agents name with `only`; all of them when one agent names none.
    pub(crate) only: Option<BTreeSet<String>>,
    /// Where the first agent lists it.
    pub(crate) file: String,
    pub(crate) span: Span,
}

impl Wanted {
    /// Whether some agent may use a tool of it.
    pub(crate) fn wants(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(tool))
    }
}

/// The servers of all agents, by address.
pub(crate) fn wanted(sources: &Sources) -> Vec<Wanted> {
    let mut servers: BTreeMap<&str, Wanted> = BTreeMap::new();
    for agent in sources.agents.values() {
        for entry in &agent.spec.tools {
            let ToolSource::Mcp(server) = &entry.source else { continue };
            let names = entry.only.as_ref().map(|only| only.iter().map(|name| name.value.clone()).collect());
            match servers.get_mut(entry.name.value.as_str()) {
                Some(known) => match (&mut known.only, names) {
                    (Some(known), Some::<BTreeSet<String>>(names)) => known.extend(names),
                    (only, None) => *only = None,
                    (None, Some(_)) => {}
                },
                None => {
                    let wanted = Wanted {
                        address: entry.name.value.clone(),
                        server: server.clone(),
                        env: entry.env.clone(),
                        only: names,
                        file: agent.spec.file.clone(),
                        span: entry.name.span,
                    };
                    servers.insert(&entry.name.value, wanted);
                }
            }
        }
    }
    servers.into_values().collect()
}

/// What servers said, by address. One that is missing here did not answer, which was told.
pub(crate) type Answers = BTreeMap<String, Vec<Definition>>;

/// Asks all servers. Commands are started only if they were approved, now or before.
pub(crate) async fn ask<'a>(
    wanted: &'a [Wanted],
    root: &'a Path,
    options: &'a Options,
    approve: &dyn Approve,
    progress: &'a dyn Progress,
) -> (Answers, Vec<Diagnostic>) {
    let mut problems = Vec::new();
    let mut allowed = Vec::new();
    // One after the other: a person answers one question at a time.
    for wanted in wanted {
        match may_start(wanted, root, options, approve).await {
            Ok(()) => allowed.push(wanted),
            Err(problem) => problems.push(*problem),
        }
    }
    let ask_one = |wanted: &'a Wanted| {
        async move {
            progress.on(Event::Asking { server: &wanted.address });
            let answer = list(wanted, root, options).await;
            let tools = answer.as_ref().map(Vec::len).ok();
            progress.on(Event::Answered { server: &wanted.address, tools });
            (wanted.address.clone(), answer)
        }
        .boxed()
    };
    let asking: Vec<_> = allowed.into_iter().map(ask_one).collect();
    let mut answers = Answers::new();
    let mut asking = futures_util::stream::iter(asking).buffer_unordered(ASKED_AT_ONCE);
    while let Some((address, answer)) = asking.next().await {
        match answer {
            Ok(definitions) => {
                answers.insert(address, definitions);
            }
            Err(problem) => problems.push(*problem),
        }
    }
    (answers, problems)
}

/// Whether a server may be started or reached.
async fn may_start(
    wanted: &Wanted,
    root: &Path,
    options: &Options,
    approve: &dyn Approve,
) -> Result<(), Box<Diagnostic>> {
    let Some(argv) = argv(&wanted.server) else { return Ok(()) };
    let command =
        Command { server: wanted.address.clone(), directory: root.to_owned(), argv, env: wanted.env.clone() };
    let file = options.approvals.clone();
    let looked_up = {
        let command = command.clone();
        let file = file.clone();
        tokio::task::spawn_blocking(move || {
            let key = key(&command)
                .map_err(|error| format!("`{}` cannot be read: {}", command.argv.join(" "), words(&error)))?;
            let known = file.map(|file| Approvals::load(&file)).transpose();
            let known = known.map_err(|error| format!("your approvals cannot be used: {}", words(&error)))?;
            let known = known.unwrap_or_default();
            Ok((key, known.contains(key), known.contains_other(&command)))
        })
    };
    let looked_up = looked_up.await.unwrap_or_else(|_| Err("looking for its approval broke off".to_owned()));
    let (key, known, changed) = looked_up.map_err(|message: String| {
        let help = "check that the program is there, and that your approvals are yours alone to write";
        Box::new(Diagnostic::error("build::not-approved", &wanted.file, wanted.span, message, help))
    })?;
    if known {
        return Ok(());
    }
    if !approve.approve(&command).await {
        let words = command.argv.join(" ");
        let message = match changed {
            true => format!("`{words}` has changed since it was approved on this machine"),
            false => format!("`{words}` was never approved on this machine"),
        };
        let help = "approve it with `weir build` in a terminal or with `weir build --yes`; `weir build --offline` starts nothing";
        return Err(Box::new(Diagnostic::error(
            "build::not-approved",
            &wanted.file,
            wanted.span,
            message,
            help,
        )));
    }
    if let Some(file) = file {
        // An approval that cannot be kept is good for this time.
        let _ = tokio::task::spawn_blocking(move || Approvals::add(&file, key, &command)).await;
    }
    Ok(())
}

async fn list(wanted: &Wanted, root: &Path, options: &Options) -> Result<Vec<Definition>, Box<Diagnostic>> {
    let refuse = |code, message: String, help: String| {
        Box::new(Diagnostic::error(code, &wanted.file, wanted.span, message, help))
    };
    let argv = argv(&wanted.server);
    // INVARIANT: looking a variable up may start a program, so that it is only done for a command that was approved
    // together with its variables.
    let variables = argv.as_ref().map_or(BTreeMap::new(), |_| wanted.env.clone());
    let environment =
        environment::of_server(&variables, &options.environment, root).await.map_err(|why| {
            let help = "set it, or correct `env` in the spec; `weir build --offline` needs neither";
            refuse("build::no-variable", why, help.to_owned())
        })?;
    let timeout = options.timeout.unwrap_or(match &wanted.server {
        McpServer::Command { launcher: Launcher::Npx | Launcher::Uvx, .. } => TIMEOUT_OF_PACKAGES,
        _ => TIMEOUT,
    });
    let server = match argv {
        Some(argv) => Server::Stdio { argv },
        None => Server::Http { url: url(&wanted.server) },
    };
    let asked = weir_mcp::Options { directory: root.to_owned(), environment, timeout };
    weir_mcp::list_tools(&server, &asked).await.map_err(|error| {
        let message = format!("the tools of `{}` are not known: {}", wanted.address, with_source(&error));
        let message = without_secrets(message, wanted, &asked.environment);
        refuse("build::no-answer", message, error.help().into_owned())
    })
}

/// The program and its arguments; a program of the project begins with `./`.
pub(crate) fn argv(server: &McpServer) -> Option<Vec<String>> {
    let mut argv = server.argv()?;
    if let (McpServer::Command { launcher: Launcher::Project, .. }, Some(program)) =
        (server, argv.first_mut())
    {
        *program = format!("./{program}");
    }
    Some(argv)
}

pub(crate) fn url(server: &McpServer) -> String {
    match server {
        McpServer::Remote { url } => url.clone(),
        McpServer::Command { .. } => String::new(),
    }
}

/// A server that fails may well print what it was given.
fn without_secrets(message: String, wanted: &Wanted, environment: &BTreeMap<String, String>) -> String {
    let secrets = wanted.env.keys().filter_map(|name| environment.get(name)).filter(|value| value.len() > 3);
    secrets.fold(message, |message, secret| message.replace(secret, "***"))
}

fn with_source(error: &weir_mcp::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

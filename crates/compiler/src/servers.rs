//! MCP servers: which ones a project needs, asking them, and holding what they say against what is pinned.

mod pins;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use weir_mcp::{Definition, Headers, Server};
use weir_secrets::Redactor;
use weir_spec::{Diagnostic, Launcher, McpServer, PRE_APPEND, SecretRef, Sources, Span, ToolSource};
use weir_types::{Explain, SandboxProfile, Secret};

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
    /// How agents start it, each its own way: with one of these it is asked, whoever uses it.
    pub(crate) starts: Vec<Start>,
    /// The tools that agents name with `only`; all of them when one agent names none.
    pub(crate) only: Option<BTreeSet<String>>,
    /// Where the first agent lists it.
    pub(crate) file: String,
    pub(crate) span: Span,
}

/// The variables that a program is given, and how it is confined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) env: BTreeMap<String, SecretRef>,
    pub(crate) sandbox: SandboxProfile,
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
            let start = Start { env: entry.env.clone(), sandbox: entry.sandbox };
            match servers.get_mut(entry.name.value.as_str()) {
                Some(known) => {
                    if !known.starts.contains(&start) {
                        known.starts.push(start);
                    }
                    match (&mut known.only, names) {
                        (Some(known), Some::<BTreeSet<String>>(names)) => known.extend(names),
                        (only, None) => *only = None,
                        (None, Some(_)) => {}
                    }
                }
                None => {
                    let wanted = Wanted {
                        address: entry.name.value.clone(),
                        server: server.clone(),
                        starts: vec![start],
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
        let mut is_allowed = true;
        for start in &wanted.starts {
            if let Err(problem) = may_start(wanted, start, root, options, approve).await {
                is_allowed = false;
                problems.push(*problem);
            }
        }
        allowed.extend(is_allowed.then_some(wanted));
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

/// Whether a server may be started in this way, or reached.
async fn may_start(
    wanted: &Wanted,
    start: &Start,
    root: &Path,
    options: &Options,
    approve: &dyn Approve,
) -> Result<(), Box<Diagnostic>> {
    let Some(argv) = argv(&wanted.server) else { return Ok(()) };
    let (server, directory) = (wanted.address.clone(), root.to_owned());
    let Start { env, sandbox } = start.clone();
    let command = Command { server, directory, argv, env, sandbox };
    approved(command, (&wanted.file, wanted.span), options, approve).await
}

/// Asks about the programs that are started before an append. They are not started here.
pub(crate) async fn approve_hooks(
    sources: &Sources,
    root: &Path,
    options: &Options,
    approve: &dyn Approve,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for program in sources.project.hook_programs() {
        let (server, directory, env) = (PRE_APPEND.to_owned(), root.to_owned(), BTreeMap::new());
        let sandbox = SandboxProfile::Off;
        let command = Command { server, directory, argv: program.value, env, sandbox };
        if let Err(problem) = approved(command, ("weir.yaml", program.span), options, approve).await {
            problems.push(*problem);
        }
    }
    problems
}

/// Whether a program may be started, now or before.
async fn approved(
    command: Command,
    (place, span): (&str, Span),
    options: &Options,
    approve: &dyn Approve,
) -> Result<(), Box<Diagnostic>> {
    let file = options.approvals.clone();
    let looked_up = {
        let command = command.clone();
        let file = file.clone();
        tokio::task::spawn_blocking(move || {
            let key = key(&command).map_err(|error| {
                let message = format!("`{}` cannot be read: {}", command.argv.join(" "), words(&error));
                ("build::no-program", message, "check that the program is there, and its permissions")
            })?;
            let known = file.map(|file| Approvals::load(&file)).transpose();
            let known = known.map_err(|error| {
                let message = format!("your approvals cannot be used: {}", words(&error));
                ("build::not-approved", message, "check that your approvals are yours alone to write")
            })?;
            let known = known.unwrap_or_default();
            Ok((key, known.contains(key), known.why_not(&command)))
        })
    };
    let broke_off = || ("build::not-approved", "looking for its approval broke off".to_owned(), "try again");
    let looked_up = looked_up.await.unwrap_or_else(|_| Err(broke_off()));
    let (key, known, why) = looked_up
        .map_err(|(code, message, help)| Box::new(Diagnostic::error(code, place, span, message, help)))?;
    if known {
        return Ok(());
    }
    if !approve.approve(&command).await {
        let help = "approve it with `weir build` in a terminal or with `weir build --yes`; `weir build --offline` starts nothing";
        return Err(Box::new(Diagnostic::error("build::not-approved", place, span, why, help)));
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
    let unknown = |why: String| format!("the tools of `{}` are not known: {why}", wanted.address);
    let told = match argv(&wanted.server) {
        Some(argv) => started(wanted, argv, root, options).await.map_err(|why| {
            let help = "set it, or correct `env` in the spec; `weir build --offline` needs neither";
            refuse("build::no-variable", why, help.to_owned())
        })?,
        None => reached(wanted, root, options).await.map_err(|why| {
            let help = "mend it with `weir auth add`, or forget it with `weir auth remove`";
            refuse("build::no-answer", unknown(why), help.to_owned())
        })?,
    };
    let Told { server, options, secrets, credential } = told;
    let listed = weir_mcp::list_tools(&server, &options).await.map_err(|error| {
        let message = without(&secrets, unknown(with_source(&error)));
        refuse("build::no-answer", message, help(&error, &wanted.address))
    })?;
    // What looks like a key is found later. A token need not look like one.
    match listed.iter().find(|definition| credential.finds(definition.json.as_str())) {
        None => Ok(listed),
        Some(definition) => {
            let message = format!(
                "the definition of `{}` has the credential in it that its server was given, and would end up in weir.lock",
                definition.name
            );
            let help = "do not use it until its author has removed that";
            Err(refuse("spec::secret", message, help.to_owned()))
        }
    }
}

/// A server, and what it is told.
struct Told {
    server: Server,
    options: weir_mcp::Options,
    /// What nobody else is to read.
    secrets: Vec<Secret>,
    /// Finds what convinces it of who asks.
    credential: Redactor,
}

/// A server that is started, with its variables.
///
/// INVARIANT: looking a variable up may start a program, so that it is only done for a command that was approved together with
/// its variables.
async fn started(wanted: &Wanted, argv: Vec<String>, root: &Path, options: &Options) -> Result<Told, String> {
    let Start { env, sandbox } = wanted.starts.first().cloned().unwrap_or_default();
    let environment = environment::of_server(&env, &options.environment, root).await?;
    let secrets = env.keys().filter_map(|name| environment.get(name)).map(Secret::new).collect();
    let launcher = match (&options.launch, sandbox) {
        (_, SandboxProfile::Off) => Vec::new(),
        (Some(launch), profile) => launch.prefix(profile),
        (None, profile) => {
            return Err(format!("nothing here can start it with `sandbox: {}`", profile.as_str()));
        }
    };
    let options = asked_with(wanted, root, options, environment, Headers::default());
    let options = weir_mcp::Options { launcher, ..options };
    Ok(Told { server: Server::Stdio { argv }, options, secrets, credential: Redactor::default() })
}

/// A server that is reached, with the credential that this user has stored for it.
async fn reached(wanted: &Wanted, root: &Path, options: &Options) -> Result<Told, String> {
    let header = match &options.credentials {
        Some(credentials) => credentials.header(&wanted.address).await?,
        None => None,
    };
    let pairs = header.iter().map(|(name, value)| (name.as_str(), value.expose()));
    let headers = Headers::new(pairs).map_err(|error| error.to_string())?;
    let (mut secrets, credential) = (Vec::new(), Redactor::default());
    if let Some((_, value)) = &header {
        // Also without the word before it (`Bearer`), which a server may leave out when it repeats it.
        let bare = value.expose().rsplit(' ').next().unwrap_or_default();
        secrets.extend([value.clone(), Secret::new(bare)]);
    }
    for secret in &secrets {
        credential.learn(secret);
    }
    let options = asked_with(wanted, root, options, BTreeMap::new(), headers);
    Ok(Told { server: Server::Http { url: url(&wanted.server) }, options, secrets, credential })
}

fn asked_with(
    wanted: &Wanted,
    root: &Path,
    options: &Options,
    environment: BTreeMap<String, String>,
    headers: Headers,
) -> weir_mcp::Options {
    let timeout = options.timeout.unwrap_or(usual_timeout(&wanted.server));
    weir_mcp::Options { directory: root.to_owned(), environment, headers, launcher: Vec::new(), timeout }
}

fn usual_timeout(server: &McpServer) -> Duration {
    match server {
        McpServer::Command { launcher: Launcher::Npx | Launcher::Uvx, .. } => TIMEOUT_OF_PACKAGES,
        McpServer::Command { launcher: Launcher::Project, .. } | McpServer::Remote { .. } => TIMEOUT,
    }
}

fn help(error: &weir_mcp::Error, address: &str) -> String {
    match error {
        weir_mcp::Error::Credentials { .. } => {
            format!("store what it wants with `weir auth add {address}`; it is used for building, too")
        }
        other => other.help().into_owned(),
    }
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
fn without(secrets: &[Secret], message: String) -> String {
    let secrets = secrets.iter().map(Secret::expose).filter(|secret| secret.len() > 3);
    secrets.fold(message, |message, secret| message.replace(secret, "***"))
}

fn with_source(error: &weir_mcp::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

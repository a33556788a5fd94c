//! `weir auth add`, `list` and `remove`: the credentials of MCP servers on this machine. No output of any of them has a
//! secret in it, and none takes one from its arguments, which every process can read.

mod typed;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{IsTerminal, stdin};
use std::path::Path;

use serde::Serialize;
use weir_engine::{CredentialFile, Entry, Given, Holder, HolderError, is_header_name};
use weir_secrets::SECRET_BYTES_MAX;
use weir_spec::{CredentialKind, McpServer, SecretRef, SecretRefError, ServerError, ToolSource};
use weir_types::{Explain, Fault, Secret};

use crate::commands::Context;
use crate::compiling;
use crate::input::Input;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::show::{pad, printable, shell};
use crate::store::{blocking, check_directory};

/// `weir auth …`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Store what convinces a server of who is asking, or where it is.
    Add(AddArgs),
    /// List what is stored; never a secret.
    List(ListArgs),
    /// Forget what is stored for a server.
    Remove(RemoveArgs),
}

const ADD_EXAMPLES: &str = "\
The secret is asked for at the terminal, unseen, or read from standard input; it is never an argument. It is kept in
credentials.local in the data directory, for this user alone.

Examples:
  weir auth add mcp://mail.example.com/mcp
  pass show mail | weir auth add mcp://mail.example.com/mcp --principal user:ada
  weir auth add mcp://mail.example.com/mcp --header X-Api-Key --from env:MAIL_KEY";

/// The arguments of `weir auth add`.
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddArgs {
    /// The server, as specs name it: `mcp://…`.
    server: String,
    /// On whose behalf it is sent: `user:…`, `serviceaccount:…`, `group:…`, or `*` for anyone.
    #[arg(long, value_name = "PRINCIPAL", default_value = "*")]
    principal: String,
    /// What is sent; `header` if `--header` is given, else `bearer`.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<Type>,
    /// The header that carries it.
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// Where the secret is, instead of the secret: `env:NAME`, `file:PATH` or `exec:PROGRAM ARG…`.
    #[arg(long, value_name = "REF")]
    from: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
    /// What looks like a secret on the command line. Taken here only to be refused without being repeated.
    #[arg(hide = true)]
    surplus: Vec<String>,
}

/// The arguments of `weir auth list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir auth list\n  weir auth list --json | jq -r .server")]
pub(crate) struct ListArgs {}

/// The arguments of `weir auth remove`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir auth remove mcp://mail.example.com/mcp\n  weir auth remove mcp://mail.example.com/mcp --principal user:ada"
)]
pub(crate) struct RemoveArgs {
    /// The server, as it was added.
    server: String,
    /// On whose behalf it was sent.
    #[arg(long, value_name = "PRINCIPAL", default_value = "*")]
    principal: String,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Type {
    /// `Authorization: Bearer SECRET`.
    Bearer,
    /// `Authorization: Basic …`, from `user:password`.
    Basic,
    /// The secret in a header of its own.
    Header,
    /// A token that was fetched elsewhere, sent like `bearer`.
    Oauth,
}

impl From<Type> for CredentialKind {
    fn from(kind: Type) -> Self {
        match kind {
            Type::Bearer => Self::Bearer,
            Type::Basic => Self::Basic,
            Type::Header => Self::Header,
            Type::Oauth => Self::Oauth,
        }
    }
}

/// Why a credential is not taken.
#[derive(Debug, thiserror::Error)]
enum AuthError {
    #[error("{0}")]
    Server(ServerError),
    #[error("`{0}` is a program that is started here, and is sent no credential")]
    Started(String),
    #[error("{0}")]
    Holder(HolderError),
    #[error("{0}")]
    Reference(SecretRefError),
    #[error("a secret is not taken from the command line, where others can read it")]
    Argument,
    #[error("`{0}` cannot be the name of a header")]
    Header(String),
    #[error("a credential of type `header` needs the name of one")]
    NoHeader,
    #[error("there is no secret in what was given")]
    Empty,
    #[error("the secret {0}")]
    Unusable(&'static str),
    #[error("nothing is stored for `{server}` and `{holder}`")]
    Absent { server: String, holder: Holder, others: Vec<String> },
}

impl Explain for AuthError {
    fn code(&self) -> &'static str {
        match self {
            Self::Server(_) | Self::Started(_) => "cli::server",
            Self::Holder(_) => "cli::principal",
            Self::Reference(_) => "cli::not-a-reference",
            Self::Argument => "cli::secret-argument",
            Self::Header(_) | Self::NoHeader => "cli::header",
            Self::Empty => "cli::no-secret",
            Self::Unusable(_) => "cli::unusable-secret",
            Self::Absent { .. } => "cli::no-credential",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Server(error) => error.help().into(),
            Self::Started(_) => {
                "give it a variable in the agent's spec, as in `env: { TOKEN: \"env:NAME\" }`; `file:` and `exec:` work there, too".into()
            }
            Self::Holder(_) => "write `user:NAME`, `serviceaccount:NAME`, `group:NAME`, or `*` for anyone".into(),
            Self::Reference(_) => SecretRef::HELP.into(),
            Self::Argument => {
                "leave it out and type it when asked, or pipe it in; it may be in your shell's history now, so replace it".into()
            }
            Self::Header(_) | Self::NoHeader => "name it, for example `--header X-Api-Key`".into(),
            Self::Empty => "type it when asked, pipe it in, or say where it is with `--from REF`".into(),
            Self::Unusable(_) => "check what was typed or piped in, and repeat".into(),
            Self::Absent { others, .. } if others.is_empty() => "`weir auth list` shows what is stored".into(),
            Self::Absent { server, others, .. } => {
                let others: Vec<Cow<'_, str>> = others.iter().map(|other| shell(other)).collect();
                let server = shell(server);
                format!("name whose it is: `weir auth remove {server} --principal {}`", others.join("|")).into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Absent { .. } => Fault::Missing,
            _ => Fault::Input,
        }
    }
}

/// Runs `weir auth …`.
pub(crate) async fn run(command: Command, context: &mut Context) -> Outcome {
    let directory = context.data_dir.clone();
    blocking(move || check_directory(&directory)).await??;
    match command {
        Command::Add(args) => add(args, context).await,
        Command::List(ListArgs {}) => list(context).await,
        Command::Remove(args) => remove(args, context).await,
    }
}

#[derive(Serialize)]
struct View<'a> {
    server: &'a str,
    principal: String,
    #[serde(rename = "type")]
    kind: CredentialKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<&'a str>,
    /// Where the secret is; absent if it is stored itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a SecretRef>,
}

impl<'a> From<&'a Entry> for View<'a> {
    fn from(entry: &'a Entry) -> Self {
        let from = match &entry.given {
            Given::Secret(_) => None,
            Given::From(from) => Some(from),
        };
        let (header, kind) = (entry.header.as_deref(), entry.kind);
        Self { server: &entry.server, principal: entry.holder.to_string(), kind, header, from }
    }
}

#[derive(Serialize)]
struct Added<'a> {
    #[serde(flatten)]
    entry: View<'a>,
    replaced: bool,
    /// Whether the project names the server; absent if there is no project here.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_project: Option<bool>,
}

async fn add(args: AddArgs, context: &mut Context) -> Outcome {
    if !args.surplus.is_empty() {
        return Err(AuthError::Argument.into());
    }
    if let McpServer::Command { .. } = McpServer::parse(&args.server).map_err(AuthError::Server)? {
        return Err(AuthError::Started(args.server).into());
    }
    let holder: Holder = args.principal.parse().map_err(AuthError::Holder)?;
    let kind = args.kind.unwrap_or(if args.header.is_some() { Type::Header } else { Type::Bearer });
    match args.header.as_deref() {
        None if kind == Type::Header => return Err(AuthError::NoHeader.into()),
        Some(name) if !is_header_name(name) => {
            return Err(AuthError::Header(name.chars().take(80).collect()).into());
        }
        _ => {}
    }
    let given = match &args.from {
        Some(from) => Given::From(reference(from)?),
        None => Given::Secret(secret(&args.server, kind, &context.out).await?),
    };
    let named = named(&args.project.directory, &args.server).await?;
    let entry = Entry { server: args.server, holder, kind: kind.into(), header: args.header, given };
    let (file, stored) = (CredentialFile::within(&context.data_dir), entry.clone());
    let replaced = blocking(move || file.put(stored)).await??;
    if let Some(Some(others)) = &named {
        let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        context.out.warn(format_args!(
            "no agent of this project uses `{}` (servers it names: {})",
            printable(&entry.server),
            printable(&others)
        ));
    }
    let in_project = named.map(|others| others.is_none());
    if context.out.json {
        return context.out.document(&Added { entry: View::from(&entry), replaced, in_project });
    }
    let verb = if replaced { "replaced" } else { "stored" };
    context.out.line(format_args!("{verb} {}", described(&entry)))
}

/// Where a secret is; a file is named so that it is found from everywhere.
fn reference(text: &str) -> Result<SecretRef, AuthError> {
    match text.parse().map_err(AuthError::Reference)? {
        SecretRef::File(path) => {
            let whole =
                std::path::absolute(&path).ok().and_then(|path| path.into_os_string().into_string().ok());
            Ok(SecretRef::File(whole.unwrap_or(path)))
        }
        other => Ok(other),
    }
}

/// The secret, from the person at the terminal or from a pipe.
async fn secret(server: &str, kind: Type, out: &Out) -> Outcome<Secret> {
    let text = if stdin().is_terminal() {
        let what = if kind == Type::Basic { "user:password" } else { "secret" };
        typed::unseen(format!("{what} for {} (not shown): ", printable(server))).await?
    } else {
        let bytes = Input::Stdin.read(SECRET_BYTES_MAX, out).await?;
        String::from_utf8(bytes).map_err(|_| AuthError::Unusable("is no text"))?
    };
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.trim().is_empty() {
        return Err(AuthError::Empty.into());
    }
    if secret.contains(|c: char| c.is_control()) || secret.trim() != secret {
        return Err(AuthError::Unusable("has line breaks, control characters or spaces around it").into());
    }
    if kind == Type::Basic && !secret.contains(':') {
        return Err(AuthError::Unusable("is not `user:password`").into());
    }
    Ok(Secret::new(secret))
}

/// Whether the project here names a server: nothing if there is no project, the servers that it does name if it does not.
async fn named(directory: &Path, server: &str) -> Outcome<Option<Option<Vec<String>>>> {
    let is_project = directory.join("weir.yaml").exists() || directory.join("agents").is_dir();
    if !is_project {
        return Ok(None);
    }
    let sources = compiling::quietly(directory).await?.sources;
    let tools = sources.agents.values().flat_map(|agent| &agent.spec.tools);
    let used =
        tools.filter(|tool| matches!(tool.source, ToolSource::Mcp(_))).map(|tool| tool.name.value.clone());
    let declared = sources.project.mcp_credentials.iter().map(|server| server.server.value.clone());
    let names: BTreeSet<String> = used.chain(declared).collect();
    Ok(Some((!names.contains(server)).then(|| names.into_iter().collect())))
}

fn word(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Bearer => "bearer",
        CredentialKind::Basic => "basic",
        CredentialKind::Header => "header",
        CredentialKind::Oauth => "oauth",
    }
}

fn described(entry: &Entry) -> String {
    let header = entry.header.as_deref().map_or_else(String::new, |name| format!(" {name}"));
    let from = match &entry.given {
        Given::Secret(_) => String::new(),
        Given::From(from) => format!(" from {}", printable(&from.to_string())),
    };
    let whose = match &entry.holder {
        Holder::Anyone => "anyone".to_owned(),
        Holder::Principal(principal) => printable(&principal.to_string()).into_owned(),
    };
    format!("{}{header}{from} for {}, sent for {whose}", word(entry.kind), printable(&entry.server))
}

async fn list(context: &mut Context) -> Outcome {
    let file = CredentialFile::within(&context.data_dir);
    let entries = blocking(move || file.load()).await??;
    let out = &mut context.out;
    if out.json {
        return entries.iter().try_for_each(|entry| out.object(&View::from(entry)));
    }
    if entries.is_empty() {
        out.note(format_args!("nothing is stored; add a credential with `weir auth add SERVER`"));
        return Ok(());
    }
    let cells = entries.iter().map(|entry| {
        let header = entry.header.as_deref().map_or_else(String::new, |name| format!(" {name}"));
        let from = match &entry.given {
            Given::Secret(_) => "stored here".to_owned(),
            Given::From(from) => printable(&from.to_string()).into_owned(),
        };
        let shown = |text: &str| printable(text).into_owned();
        [
            shown(&entry.server),
            shown(&entry.holder.to_string()),
            format!("{}{header}", word(entry.kind)),
            from,
        ]
    });
    let mut rows = vec![["SERVER", "PRINCIPAL", "TYPE", "SECRET"].map(str::to_owned)];
    rows.extend(cells);
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(unicode_width::UnicodeWidthStr::width(cell.as_str()));
        }
    }
    for (index, row) in rows.iter().enumerate() {
        let padded: Vec<String> = row.iter().zip(widths).map(|(cell, width)| pad(cell, width)).collect();
        let line = padded.join("  ");
        let line = if index == 0 { out.paint.bold(line.trim_end()) } else { line.trim_end().into() };
        let line = line.into_owned();
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Removed<'a> {
    server: &'a str,
    principal: String,
}

async fn remove(args: RemoveArgs, context: &mut Context) -> Outcome {
    let holder: Holder = args.principal.parse().map_err(AuthError::Holder)?;
    let (file, server, whose) =
        (CredentialFile::within(&context.data_dir), args.server.clone(), holder.clone());
    let (removed, left) = blocking(move || {
        // Nothing is made where there is nothing to remove.
        let left = file.load()?;
        let is_there = left.iter().any(|entry| entry.server == server && entry.holder == whose);
        let removed = is_there && file.remove(&server, &whose)?;
        Ok::<_, weir_engine::CredentialFileError>((removed, left))
    })
    .await??;
    if !removed {
        let of_server = left.iter().filter(|entry| entry.server == args.server);
        let others = of_server.map(|entry| entry.holder.to_string()).collect();
        return Err(AuthError::Absent { server: args.server, holder, others }.into());
    }
    if context.out.json {
        return context.out.document(&Removed { server: &args.server, principal: holder.to_string() });
    }
    let (server, whose) = (printable(&args.server), holder.to_string());
    context.out.line(format_args!("removed the credential of {} for {server}", printable(&whose)))
}

//! `weir token issue`, `list` and `revoke`: what somebody shows to a server to be let in. A token is printed once and kept
//! nowhere; the journal has a hash of it. A server that runs knows at once.

use std::borrow::Cow;

use serde::Serialize;
use weir_events::TokenRevoked;
use weir_journal::{Journal, Part, now};
use weir_server::auth::tokens::{self, IssueError, Known, Tokens};
use weir_spec::{Principal, parse_duration};
use weir_types::{Explain, Fault, Timestamp};

use crate::args;
use crate::commands::Context;
use crate::report::Outcome;
use crate::show::printable;
use crate::store::Store;
use crate::table;

/// `weir token …`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a token, and print it: this once.
    Issue(IssueArgs),
    /// List the tokens there are; never what they are.
    List(ListArgs),
    /// Make a token worthless, at once.
    Revoke(RevokeArgs),
}

const ISSUE_EXAMPLES: &str = "\
Examples:
  weir token issue --principal user:ada --expires 30d
  weir token issue --principal serviceaccount:ci --groups group:engineering --name 'the build'
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8080/sessions";

/// The arguments of `weir token issue`.
#[derive(Debug, clap::Args)]
#[command(after_help = ISSUE_EXAMPLES)]
pub(crate) struct IssueArgs {
    /// Whom it is for: `user:…` or `serviceaccount:…`.
    #[arg(long, value_parser = args::principal)]
    principal: Principal,
    /// The groups they come with, besides those in weir.yaml; `group:admin` sees and may do everything.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    groups: Vec<String>,
    /// How long it counts, like `30d` or `12h`; for ever, if left out.
    #[arg(long, value_name = "DURATION")]
    expires: Option<String>,
    /// What it is for, in a few words.
    #[arg(long)]
    name: Option<String>,
}

/// The arguments of `weir token list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir token list\n  weir token list --json | jq -r .id")]
pub(crate) struct ListArgs {}

/// The arguments of `weir token revoke`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir token revoke 01JA8Z5Y7Q6M3N2K1H0G9F8E7D")]
pub(crate) struct RevokeArgs {
    /// The id that `weir token list` shows.
    id: String,
}

/// Why there is no token, or still one.
#[derive(Debug, thiserror::Error)]
enum TokenError {
    /// Whoever owns the data directory decides who is let in.
    #[error("`{0}` may not say who is let in: only the owner of the data directory may")]
    NotOwner(String),
    /// There is none of that id.
    #[error("there is no token `{0}`")]
    Unknown(String),
    /// A time that cannot be.
    #[error("`{0}` is not how long a token can count")]
    Expires(String),
    /// A name that cannot be.
    #[error("`{0}` cannot be the name of a token")]
    Name(String),
    /// It cannot be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
}

impl Explain for TokenError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotOwner(_) => "cli::not-admin",
            Self::Unknown(_) => "cli::no-token",
            Self::Expires(_) => "cli::expires",
            Self::Name(_) | Self::Issue(_) => "cli::token",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotOwner(_) => "ask them, or use a data directory of your own with `--data-dir DIR`",
            Self::Unknown(_) => "see `weir token list`",
            Self::Expires(_) => "write it like `30d`, `12h` or `90m`",
            Self::Name(_) => "use a few plain words on one line, or leave `--name` out",
            Self::Issue(_) => "name someone: `--principal user:NAME` or `--principal serviceaccount:NAME`",
        }
        .into()
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotOwner(_) => Fault::Denied,
            Self::Unknown(_) => Fault::Missing,
            Self::Expires(_) | Self::Name(_) | Self::Issue(_) => Fault::Input,
        }
    }
}

#[derive(Serialize)]
struct IssuedDocument<'a> {
    token: &'a str,
    #[serde(flatten)]
    view: View<'a>,
}

#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    principal: &'a str,
    groups: &'a [String],
    name: Option<&'a str>,
    issued: Timestamp,
    expires: Option<Timestamp>,
    revoked: Option<Timestamp>,
}

#[derive(Serialize)]
struct RevokedDocument<'a> {
    id: &'a str,
    /// Whether it was revoked just now, or had been before.
    changed: bool,
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    if !context.identity.is_owner() {
        return Err(TokenError::NotOwner(context.identity.principal().to_owned()).into());
    }
    match command {
        Command::Issue(args) => issue(args, context).await,
        Command::List(ListArgs {}) => list(context).await,
        Command::Revoke(args) => revoke(args, context).await,
    }
}

async fn issue(args: &IssueArgs, context: &mut Context) -> Outcome {
    if let Some(name) = &args.name {
        // As everything that has a name: it must look like what it is.
        let named = name.parse::<weir_types::BranchName>();
        named.map_err(|_| TokenError::Name(printable(name).chars().take(40).collect()))?;
    }
    let expires = args.expires.as_deref().map(until).transpose()?;
    let made = tokens::issue(&args.principal.to_string(), &args.groups, args.name.clone(), expires);
    let (token, issued) = made.map_err(TokenError::Issue)?;
    let event = tokens::event(&issued, context.identity.real()).map_err(TokenError::Issue)?;
    let store = context.store_or_new().await?;
    let appended = store.journal.append(vec![Part::new(tokens::branch(), vec![event])]).await;
    store.close().await;
    appended?;
    if context.out.json {
        let known = Known { issued, at: now(), revoked: None };
        return context.out.document(&IssuedDocument { token: token.expose(), view: view(&known) });
    }
    let until = issued.expires.map_or_else(String::new, |at| format!(", until {at}"));
    context.out.note(format_args!(
        "token {} for {}{until}; it is shown this once, so keep it where secrets are kept",
        issued.id,
        printable(&issued.principal)
    ));
    context.out.line(format_args!("{}", token.expose()))
}

fn until(text: &str) -> Result<Timestamp, TokenError> {
    let wrong = || TokenError::Expires(text.chars().take(40).collect());
    let millis = parse_duration(text).ok().and_then(|time| u64::try_from(time.as_millis()).ok());
    let at = millis.map(|millis| now().after_millis(millis)).ok_or_else(wrong)?;
    if at > now() { Ok(at) } else { Err(wrong()) }
}

async fn known(store: &Store) -> Outcome<Tokens> {
    let tokens = Tokens::default();
    tokens.load(&store.journal).await?;
    Ok(tokens)
}

async fn list(context: &mut Context) -> Outcome {
    let store = context.store().await?;
    let tokens = known(&store).await;
    store.close().await;
    let listed = tokens?.list();
    if context.out.json {
        return listed.iter().try_for_each(|known| context.out.object(&view(known)));
    }
    if listed.is_empty() {
        context.out.note(format_args!("there are no tokens yet; make one with `weir token issue`"));
        return Ok(());
    }
    let rows: Vec<[String; 6]> = listed.iter().map(row).collect();
    table::print(["ID", "PRINCIPAL", "GROUPS", "NAME", "EXPIRES", "COUNTS"], &rows, &mut context.out)
}

fn row(known: &Known) -> [String; 6] {
    let issued = &known.issued;
    let counts = match (known.revoked, issued.expires) {
        (Some(at), _) => format!("no: revoked {at}"),
        (None, Some(at)) if at <= now() => "no: expired".to_owned(),
        (None, _) => "yes".to_owned(),
    };
    [
        issued.id.clone(),
        printable(&issued.principal).into_owned(),
        printable(&issued.groups.join(",")).into_owned(),
        printable(issued.name.as_deref().unwrap_or_default()).into_owned(),
        issued.expires.map_or_else(|| "never".to_owned(), |at| at.to_string()),
        counts,
    ]
}

fn view(known: &Known) -> View<'_> {
    let Known { issued, at, revoked } = known;
    View {
        id: &issued.id,
        principal: &issued.principal,
        groups: &issued.groups,
        name: issued.name.as_deref(),
        issued: *at,
        expires: issued.expires,
        revoked: *revoked,
    }
}

async fn revoke(args: &RevokeArgs, context: &mut Context) -> Outcome {
    let store = context.store().await?;
    let revoked = revoke_in(&store, &args.id, context.identity.real()).await;
    store.close().await;
    let changed = revoked?;
    if context.out.json {
        return context.out.document(&RevokedDocument { id: &args.id, changed });
    }
    let verb = if changed { "revoked" } else { "already revoked:" };
    context.out.line(format_args!("{verb} {}", printable(&args.id)))
}

/// Whether it had to be.
async fn revoke_in(store: &Store, id: &str, actor: &str) -> Outcome<bool> {
    let listed = known(store).await?.list();
    let Some(found) = listed.iter().find(|known| known.issued.id.eq_ignore_ascii_case(id)) else {
        return Err(TokenError::Unknown(id.chars().take(40).collect()).into());
    };
    if found.revoked.is_some() {
        return Ok(false);
    }
    let revoked = TokenRevoked { id: found.issued.id.clone() };
    let event = tokens::event(&revoked, actor).map_err(TokenError::Issue)?;
    store.journal.append(vec![Part::new(tokens::branch(), vec![event])]).await?;
    Ok(true)
}

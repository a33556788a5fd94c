//! `weir session bridge-token`: the token by which a remote runner calls a session's tools.

use std::borrow::Cow;

use serde::Serialize;
use weir_engine::{Address, EngineError};
use weir_kernel::Lifecycle;
use weir_server::bridge_token;
use weir_types::{BranchName, Explain, Fault, Secret, SessionId};

use crate::commands::Context;
use crate::host::Host;
use crate::identity::Sees;
use crate::report::Outcome;
use crate::serving::BRIDGE_SECRET;
use crate::which::SessionArg;

const EXAMPLES: &str = "\
Examples:
  WEIR_BRIDGE_SECRET=… weir session bridge-token -1
  weir session bridge-token 01J9Z --json | jq -r .token

The server must have the same secret in WEIR_BRIDGE_SECRET. Whoever has the token may call the tools of that session's agent on
behalf of whoever began the session, as far as policy allows, until the session is closed or halted. Calls act on the branch that the
token was made for.";

/// The arguments of `weir session bridge-token`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[error("there is no secret to derive it from")]
struct NoSecret;

impl Explain for NoSecret {
    fn code(&self) -> &'static str {
        "cli::bridge-secret"
    }

    fn help(&self) -> Cow<'static, str> {
        format!("set {BRIDGE_SECRET} to that of the server; `openssl rand -hex 32` makes one").into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

#[derive(Serialize)]
struct Document<'a> {
    session: SessionId,
    branch: &'a BranchName,
    token: String,
}

/// Prints the token. It is told to whoever may see the session.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let secret = std::env::var(BRIDGE_SECRET).map_err(|_| NoSecret)?;
    let sees = context.sees(&context.project).await?;
    let host = super::host(context).await?;
    let address = open(args, &sees, &host).await;
    host.stop().await;
    let address = address?;
    let token = bridge_token(&Secret::new(secret), &address)?.expose().to_owned();
    let out = &mut context.out;
    if !out.json {
        return out.line(format_args!("{token}"));
    }
    out.document(&Document { session: address.session, branch: &address.branch, token })
}

/// The session, if it is one that a token opens: halted and closed ones take no calls.
async fn open(args: &Args, sees: &Sees, host: &Host) -> Outcome<Address> {
    let address = args.session.find(&*host.journal, sees).await?;
    match host.engine.state(&address, None).await?.lifecycle {
        Lifecycle::Open => Ok(address),
        Lifecycle::Halted(_) => Err(EngineError::Halted(address).into()),
        Lifecycle::Closed(_) => Err(EngineError::Closed(address).into()),
    }
}

//! `weir doctor`: looks at everything a journal depends on, and says what to do about what is wrong.

mod checks;
mod damage;
mod locks;

use std::borrow::Cow;

use serde::Serialize;
use weir_types::{Explain, Fault};

use crate::commands::Context;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{count, pad, printable};

/// The arguments of `weir doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Go on with the journal as it is: the damage found so far is no longer reported. Who accepted it, and when, is kept
    /// in `damage.jsonl` in the data directory.
    #[arg(long)]
    accept_damage: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir doctor
  weir doctor --data-dir /srv/weir --json
  weir doctor --accept-damage";

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl Check {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, status: Status::Ok, detail: detail.into(), help: None }
    }

    fn warn(check: &'static str, detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self { check, status: Status::Warn, detail: detail.into(), help: Some(help.into()) }
    }

    fn fail(check: &'static str, detail: impl Into<String>, help: impl Into<String>) -> Self {
        Self { check, status: Status::Fail, detail: detail.into(), help: Some(help.into()) }
    }
}

#[derive(Serialize)]
struct View<'a> {
    healthy: bool,
    checks: &'a [Check],
}

/// Some checks failed.
#[derive(Debug, thiserror::Error)]
#[error("{} failed", count(*.0, "check"))]
struct Unhealthy(u64);

impl Explain for Unhealthy {
    fn code(&self) -> &'static str {
        "cli::unhealthy"
    }

    fn help(&self) -> Cow<'static, str> {
        "take the steps named above, then run `weir doctor` again".into()
    }

    fn fault(&self) -> Fault {
        Fault::Storage
    }
}

/// Looks at everything, prints it, and fails if any check did.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    if args.accept_damage {
        damage::accept(context).await?;
    }
    let checks = checks::all(&context.data_dir).await?;
    let failed = checks.iter().filter(|check| check.status == Status::Fail).count() as u64;
    if context.out.json {
        context.out.document(&View { healthy: failed == 0, checks: &checks })?;
    } else {
        print(&checks, &mut context.out)?;
    }
    if failed > 0 {
        return Err(Unhealthy(failed).into());
    }
    Ok(())
}

fn print(checks: &[Check], out: &mut Out) -> Outcome {
    let width = checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
    let paint = out.paint;
    for check in checks {
        let word = pad(check.status.word(), 4);
        let word = match check.status {
            Status::Ok => paint.ok(&word),
            Status::Warn => paint.warn(&word),
            Status::Fail => paint.error(&word),
        };
        let line = format!("{word}  {}  {}", pad(check.check, width), printable(&check.detail));
        out.prose(format_args!("{line}"), width + 8)?;
        if let Some(help) = &check.help {
            let help = format!("{} {}", paint.hint("help:"), printable(help));
            out.prose(format_args!("      {}  {help}", pad("", width)), 0)?;
        }
    }
    Ok(())
}

//! `weir policy replay`: what another build would have decided about the calls in the journal.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use weir_compiler::Loaded;
use weir_engine::{Counts, Redecided, Redecisions, Tools, Which};
use weir_journal::{Journal, now};
use weir_spec::parse_duration;
use weir_types::{BranchName, CallId, Explain, Fault, Hash, Seq, SessionId, Timestamp, Verdict};

use crate::agents::check_enforced;
use crate::builds;
use crate::commands::Context;
use crate::identity::Sees;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::show::{count, printable};
use crate::store::Store;
use crate::workbench::{ToolArgs, Workbench};

const EXAMPLES: &str = "\
Examples:
  weir policy replay                      what the files as they are now would change
  weir policy replay --since 7d
  weir policy replay --manifest 3fa1 --json | jq -r 'select(.type == \"change\") | .call'";

/// The arguments of `weir policy replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only what was decided since then: `7d`, `90m`, or a time like `2026-01-31T12:00:00Z`.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Decide under a kept build: its hash, the beginning of it, or `latest`; under the files as they are now, if left out.
    #[arg(long, value_name = "HASH")]
    manifest: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Not a time.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is neither a span of time nor a time")]
struct NotATime(String);

impl Explain for NotATime {
    fn code(&self) -> &'static str {
        "cli::since"
    }

    fn help(&self) -> Cow<'static, str> {
        "write `--since 7d`, `--since 90m` or `--since 2026-01-31T12:00:00Z`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// A decision that comes out differently, on a line of its own.
#[derive(Serialize)]
struct Change<'a> {
    r#type: &'static str,
    session: SessionId,
    branch: &'a BranchName,
    seq: Seq,
    ts: Timestamp,
    call: CallId,
    agent: &'a str,
    principal: &'a str,
    tool: &'a str,
    before: Side<'a>,
    after: Side<'a>,
}

#[derive(Serialize)]
struct Side<'a> {
    outcome: Verdict,
    rule: Option<&'a str>,
    because: &'a str,
}

/// What it comes to, on the last line.
#[derive(Serialize)]
struct Totals {
    r#type: &'static str,
    manifest: Hash,
    decisions: u64,
    changed: u64,
    by_another_rule: u64,
    not_policy: u64,
    unknown: u64,
}

/// Decides again.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let since = args.since.as_deref().map(since).transpose()?;
    let Loaded { hash, manifest } = match &args.manifest {
        Some(which) => builds::find(&context.data_dir, which).await?,
        None => {
            let built = args.project.build().await?;
            Loaded { hash: built.hash, manifest: built.manifest }
        }
    };
    check_enforced(&manifest)?;
    let principal = match context.sees(&args.project).await? {
        Sees::Everything => None,
        Sees::Only(principal) => Some(principal),
    };
    let bench = Workbench::new(&ToolArgs::default(), &args.project.directory, &context.data_dir);
    let store = context.store().await?;
    let mut equipped: BTreeMap<String, Option<Arc<dyn Tools>>> = BTreeMap::new();
    let tools = Box::new(|name: &str| {
        if let Some(tools) = equipped.get(name) {
            return tools.clone();
        }
        let equip = |agent| bench.equip(&manifest, agent).toolbox as Arc<dyn Tools>;
        let tools = manifest.agents.get(name).map(equip);
        equipped.insert(name.to_owned(), tools.clone());
        tools
    });
    let again = Redecisions::new(&store.journal, Which { since, principal }, tools);
    let counts = replay(&store, again, &mut context.out).await;
    store.close().await;
    tell(hash, counts?, &mut context.out)
}

/// The time that is meant by one, or by how long ago it was.
fn since(text: &str) -> Result<Timestamp, NotATime> {
    let refuse = || NotATime(text.chars().take(40).collect());
    if let Ok(ago) = parse_duration(text) {
        let micros = i64::try_from(ago.as_micros()).map_err(|_| refuse())?;
        return Timestamp::from_micros(now().as_micros().saturating_sub(micros)).map_err(|_| refuse());
    }
    text.parse().map_err(|_| refuse())
}

async fn replay(store: &Store, mut again: Redecisions<'_>, out: &mut Out) -> Outcome<Counts> {
    let end = store.journal.end().await?;
    let mut progress = out.progress("deciding again:");
    while let Some(changes) = again.next_page().await? {
        for change in &changes {
            print(change, out)?;
        }
        progress.at(again.position().0, Some(end.0), "event");
    }
    Ok(again.counts)
}

fn print(change: &Redecided, out: &mut Out) -> Outcome {
    let Redecided { address, seq, ts, agent, principal, tool, before, after } = change;
    let (old, new) = (before.rule.as_deref(), after.rule.as_deref());
    if out.json {
        return out.object(&Change {
            r#type: "change",
            session: address.session,
            branch: &address.branch,
            seq: *seq,
            ts: *ts,
            call: before.call,
            agent,
            principal,
            tool,
            before: Side { outcome: before.outcome, rule: old, because: &before.because },
            after: Side { outcome: after.verdict, rule: new, because: &after.because },
        });
    }
    let side = |verdict: Verdict, rule: Option<&str>| match rule {
        Some(rule) => format!("{} ({})", verdict.as_str(), printable(rule)),
        None => verdict.as_str().to_owned(),
    };
    let (was, is) = (side(before.outcome, old), side(after.verdict, new));
    let is = match after.verdict {
        // What would no longer be held back is what to look at.
        Verdict::Allow => out.paint.warn(&is).into_owned(),
        Verdict::Deny | Verdict::Ask => is,
    };
    let (call, tool, principal) = (before.call, printable(tool), printable(principal));
    out.line(format_args!("{address}  {call}  {tool}  {was} → {is}  {principal}"))
}

fn tell(manifest: Hash, counts: Counts, out: &mut Out) -> Outcome {
    let Counts { decisions, changed, by_another_rule, not_policy, unknown } = counts;
    if out.json {
        let r#type = "totals";
        return out.object(&Totals {
            r#type,
            manifest,
            decisions,
            changed,
            by_another_rule,
            not_policy,
            unknown,
        });
    }
    let mut words = vec![format!("{}, {changed} would change", count(decisions, "decision"))];
    for (number, what) in [
        (by_another_rule, "the same by another rule"),
        (not_policy, "not made by a policy"),
        (unknown, "about calls that are not in the journal"),
    ] {
        if number > 0 {
            words.push(format!("{number} {what}"));
        }
    }
    out.line(format_args!("{}", words.join("; ")))
}

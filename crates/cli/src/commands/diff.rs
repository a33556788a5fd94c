//! `weir diff`: what the agents of one build may do that those of another may not.

use serde::Serialize;
use weir_compiler::Loaded;
use weir_spec::{Change, diff};
use weir_types::Hash;

use crate::builds;
use crate::commands::Context;
use crate::exit::Exit;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::{Failure, Outcome};
use crate::show::{count, pad, printable};

const EXAMPLES: &str = "\
Examples:
  weir diff latest              the newest build and the files as they are now
  weir diff 3fa1 9c2e
  weir diff 3fa1 latest --deny-widening";

/// The arguments of `weir diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A build: the hash that `weir build` printed, the beginning of one, or `latest`.
    #[arg(value_name = "HASH")]
    before: String,
    /// What it is compared with; the files as they are now, if left out.
    #[arg(value_name = "HASH")]
    after: Option<String>,
    /// Fail if anybody may do more than before: for a check before merging.
    #[arg(long)]
    deny_widening: bool,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    before: Hash,
    after: Hash,
    widens: bool,
    changes: &'a [Change],
}

/// Compares two builds.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let before = builds::find(&context.data_dir, &args.before).await?;
    let after = match &args.after {
        Some(hash) => builds::find(&context.data_dir, hash).await?,
        None => {
            let built = args.project.build().await?;
            Loaded { hash: built.hash, manifest: built.manifest }
        }
    };
    let changes = diff(&before.manifest, &after.manifest);
    let widens = changes.iter().any(|change| change.widens);
    if context.out.json {
        let (before, after) = (before.hash, after.hash);
        context.out.document(&Document { before, after, widens, changes: &changes })?;
    } else {
        print(&changes, &mut context.out)?;
    }
    if widens && args.deny_widening {
        context.out.note(format_args!("`--deny-widening`: somebody may do more than before"));
        return Err(Failure::Ended(Exit::Failed));
    }
    Ok(())
}

fn print(changes: &[Change], out: &mut Out) -> Outcome {
    let columns = changes.iter().map(|change| change.what.chars().count()).max().unwrap_or(0);
    let mut subject = None;
    for change in changes {
        if subject != Some(&change.subject) {
            out.line(format_args!("{}", out.paint.bold(&printable(&change.subject))))?;
            subject = Some(&change.subject);
        }
        let text = words(change, columns);
        let text = if change.widens { out.paint.warn(&text) } else { text.as_str().into() };
        out.line(format_args!("  {text}"))?;
    }
    let wider = changes.iter().filter(|change| change.widens).count() as u64;
    out.line(format_args!("{}", summary(changes.len() as u64, wider)))
}

/// One change in a line: what is new, gone or different, and whether somebody may do more.
fn words(change: &Change, columns: usize) -> String {
    let what = pad(&printable(&change.what), columns);
    let shown = |text: &Option<String>| text.as_deref().map(|text| printable(text).into_owned());
    let (sign, values) = match (shown(&change.before), shown(&change.after)) {
        (Some(before), Some(after)) => ('~', format!("{before} → {after}")),
        (None, Some(after)) => ('+', after),
        (Some(before), None) => ('-', before),
        (None, None) => ('~', String::new()),
    };
    let mark = if change.widens { "  (more)" } else { "" };
    format!("{sign} {what}  {values}{mark}").trim_end().to_owned()
}

fn summary(changes: u64, wider: u64) -> String {
    match (changes, wider) {
        (0, _) => "no difference in what agents may do".to_owned(),
        (changes, 0) => format!("{}; nobody may do more than before", count(changes, "change")),
        (changes, 1) => format!("{}; one lets somebody do more than before", count(changes, "change")),
        (changes, wider) => format!("{}; {wider} let somebody do more than before", count(changes, "change")),
    }
}

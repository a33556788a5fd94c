//! `weir whoami`: who asks, and where that comes from.

use serde::Serialize;
use weir_engine::provision;
use weir_spec::Manifest;

use crate::commands::Context;
use crate::identity::{ADMINS, admins};
use crate::project::{ProjectArgs, within};
use crate::report::Outcome;
use crate::show::printable;
use crate::table;

const EXAMPLES: &str = "\
Examples:
  weir whoami
  weir whoami --as user:bob
  weir whoami --json | jq -r .principal

`--as PRINCIPAL` is for the owner of the data directory, to try what somebody else may do. It means something to `chat`,
`session`, `tools`, `fs`, `policy` and this command.";

/// The arguments of `weir whoami`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    principal: &'a str,
    /// `system` or `--as`.
    from: &'static str,
    groups: Vec<Group>,
    admin: bool,
    /// Whoever runs this process: the actor of whatever is written down.
    actor: &'a str,
}

/// A group, and what says that someone is in it.
#[derive(Serialize)]
struct Group {
    group: String,
    from: &'static str,
}

/// Says who asks.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    // Without a project there are no groups but the one that comes with the data directory.
    let manifest = match within(&args.project.directory, "weir.yaml").exists() {
        true => args.project.build().await?.manifest,
        false => Manifest::default(),
    };
    let identity = context.identity.clone();
    let principal = identity.principal();
    let gate = provision::gate(&manifest, admins(&context.data_dir));
    let mut groups: Vec<Group> = Vec::new();
    if identity.is_owner() {
        groups.push(Group { group: ADMINS.to_owned(), from: "owns the data directory" });
    }
    let of_project = gate.groups_of(principal.into()).into_iter();
    let of_project = of_project.filter(|group| group != ADMINS || !identity.is_owner());
    groups.extend(of_project.map(|group| Group { group, from: "weir.yaml" }));
    let (admin, from) =
        (gate.is_admin(principal.into()), if identity.is_tried() { "--as" } else { "system" });
    let out = &mut context.out;
    if out.json {
        return out.document(&Document { principal, from, groups, admin, actor: identity.real() });
    }
    let from = match identity.is_tried() {
        true => format!("--as, tried by {}", identity.real()),
        false => "the operating system says so".to_owned(),
    };
    let mut rows = vec![("principal", format!("{} ({})", printable(principal), printable(&from)))];
    for group in &groups {
        rows.push(("group", format!("{} ({})", printable(&group.group), group.from)));
    }
    let admin = if admin { "yes: every role and grant; rules and approvals still apply" } else { "no" };
    rows.push(("admin", admin.to_owned()));
    table::facts(&rows, out)
}

//! `weir policy show`: the rules of a project in words, what holds without them, and the text they are compiled to.

use serde::Serialize;
use weir_compiler::Loaded;
use weir_spec::{Condition, Manifest, Mode, Test, Verdict};
use weir_types::Hash;

use crate::builds;
use crate::commands::Context;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::report::Outcome;
use crate::show::{printable, printable_lines};
use crate::table;

const EXAMPLES: &str = "\
Examples:
  weir policy show
  weir policy show --manifest 3fa1
  weir policy show --json | jq -r .text";

/// What holds where no rule says anything else, in the order in which it is asked.
const DEFAULTS: [&str; 6] = [
    "the owner of the data directory and the members of `group:admin` hold every role and grant; rules and approvals apply to them, too",
    "nobody talks to an agent whose `acl` does not let them",
    "a tool that the agent does not list is denied, and so are arguments that do not fit its schema",
    "a call that needs more than its entry's `access` is denied",
    "a tool for which the principal, or a group it is in, has no grant at that level is denied",
    "a call that none of this and no rule is against is allowed",
];

/// The arguments of `weir policy show`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Of a kept build: its hash, the beginning of it, or `latest`; of the files as they are now, if left out.
    #[arg(long, value_name = "HASH")]
    manifest: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    manifest: Hash,
    rules: Vec<Row<'a>>,
    /// Tools that need a yes each time, whatever the rules say.
    approvals: Vec<Always<'a>>,
    four_eyes: bool,
    defaults: [&'static str; 6],
    /// What the groups that always exist may do, and who else without being named.
    builtin: Vec<Builtin<'a>>,
    /// In Cedar.
    text: String,
}

#[derive(Serialize)]
struct Row<'a> {
    order: usize,
    id: &'a str,
    when: String,
    then: Verdict,
    mode: Mode,
    why: Option<&'a str>,
}

#[derive(Serialize)]
struct Builtin<'a> {
    id: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct Always<'a> {
    agent: &'a str,
    tool: &'a str,
}

/// Shows a policy.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let Loaded { hash, manifest } = match &args.manifest {
        Some(which) => builds::find(&context.data_dir, which).await?,
        None => {
            let built = args.project.build().await?;
            Loaded { hash: built.hash, manifest: built.manifest }
        }
    };
    let document = Document {
        manifest: hash,
        rules: rows(&manifest),
        approvals: approvals(&manifest),
        four_eyes: manifest.four_eyes,
        defaults: DEFAULTS,
        builtin: builtin(&manifest.policy),
        text: text(&manifest),
    };
    if context.out.json {
        return context.out.document(&document);
    }
    print(&document, &mut context.out)
}

fn rows(manifest: &Manifest) -> Vec<Row<'_>> {
    let rows = manifest.rules.iter().zip(1..).map(|(rule, order)| {
        let (when, why) = (words(&rule.when), rule.why.as_deref());
        Row { order, id: &rule.id, when, then: rule.then, mode: rule.mode, why }
    });
    rows.collect()
}

fn approvals(manifest: &Manifest) -> Vec<Always<'_>> {
    let mut found = Vec::new();
    for (agent, spec) in &manifest.agents {
        let tools = spec.tools.iter().filter(|tool| tool.approval.is_some());
        found.extend(tools.map(|tool| Always { agent, tool: &tool.name }));
    }
    found
}

/// The rules that are in every build, as its compiled policy annotates them.
fn builtin(policy: &str) -> Vec<Builtin<'_>> {
    let lines: Vec<&str> = policy.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let id = pair[0].strip_prefix("@id(\"")?.strip_suffix("\")")?;
        let why = pair[1].strip_prefix("@why(\"")?.strip_suffix("\")")?;
        id.starts_with("builtin:").then_some(Builtin { id, why })
    });
    pairs.collect()
}

/// The policy as it is evaluated: what the project's YAML is compiled to, and what was written by hand.
fn text(manifest: &Manifest) -> String {
    let compiled = (!manifest.policy.is_empty()).then(|| format!("{}\n", manifest.policy.trim_end()));
    let written = manifest.policies.iter().map(|(path, text)| format!("// {path}\n{}\n", text.trim_end()));
    compiled.into_iter().chain(written).collect::<Vec<_>>().join("\n")
}

/// Which calls a rule is about, in a line.
fn words(condition: &Condition) -> String {
    let words = parts(condition);
    if words.is_empty() { "every call".to_owned() } else { words.join(" and ") }
}

fn parts(condition: &Condition) -> Vec<String> {
    let Condition { tool, source, effect, risk_at_least, principal, group, agent, input, all, any, not } =
        condition;
    let mut parts = Vec::new();
    parts.extend(tool.as_ref().map(|tool| format!("tool is {tool}")));
    parts.extend(source.as_ref().map(|source| format!("source is {source}")));
    parts.extend(effect.map(|effect| format!("effect is {}", effect.as_str())));
    parts.extend(risk_at_least.map(|risk| format!("risk is at least {}", risk.as_str())));
    parts.extend(principal.as_ref().map(|principal| format!("asked by {principal}")));
    parts.extend(group.as_ref().map(|group| format!("asked by group:{group}")));
    parts.extend(agent.as_ref().map(|agent| format!("agent is {agent}")));
    parts.extend(input.iter().map(|(path, test)| format!("input.{path} {}", compared(test))));
    parts.extend(all.iter().map(nested));
    if !any.is_empty() {
        let any: Vec<String> = any.iter().map(nested).collect();
        parts.push(format!("({})", any.join(" or ")));
    }
    parts.extend(not.as_ref().map(|not| format!("not {}", nested(not))));
    parts
}

/// A condition within another.
fn nested(condition: &Condition) -> String {
    let parts = parts(condition);
    match parts.as_slice() {
        [] => "every call".to_owned(),
        [one] => one.clone(),
        _ => format!("({})", parts.join(" and ")),
    }
}

fn compared(test: &Test) -> String {
    match test {
        Test::Equals(value) => format!("is {}", value.as_str()),
        Test::Matches(pattern) => format!("matches /{pattern}/"),
        Test::OneOf(values) => {
            let values: Vec<&str> = values.iter().map(weir_types::Json::as_str).collect();
            format!("is one of {}", values.join(", "))
        }
        Test::Above(value) => format!("is above {}", value.as_str()),
        Test::Below(value) => format!("is below {}", value.as_str()),
    }
}

fn print(document: &Document<'_>, out: &mut Out) -> Outcome {
    if document.rules.is_empty() {
        out.line(format_args!("no rules"))?;
    } else {
        let rows: Vec<[String; 5]> = document.rules.iter().map(cells).collect();
        table::print(["#", "RULE", "WHEN", "THEN", "WHY"], &rows, out)?;
    }
    for always in &document.approvals {
        let (agent, tool) = (printable(always.agent), printable(always.tool));
        out.prose(
            format_args!("calls of `{tool}` by `{agent}` need a yes each time, whatever the rules say"),
            2,
        )?;
    }
    if document.four_eyes {
        out.line(format_args!("nobody approves what they asked for themselves"))?;
    }
    let heading = out.paint.bold("\nBY DEFAULT").into_owned();
    out.line(format_args!("{heading}"))?;
    for default in document.defaults {
        out.prose(format_args!("- {default}"), 2)?;
    }
    for Builtin { why, .. } in &document.builtin {
        out.prose(format_args!("- {}", printable(why)), 2)?;
    }
    if !document.text.is_empty() {
        let heading = out.paint.bold("\nIN CEDAR").into_owned();
        out.line(format_args!("{heading}"))?;
        out.line(format_args!("{}", printable_lines(&document.text)))?;
    }
    Ok(())
}

fn cells(row: &Row<'_>) -> [String; 5] {
    let then = match row.then {
        Verdict::Allow => "allow",
        Verdict::RequireApproval => "require approval",
        Verdict::Deny => "deny",
    };
    let then = match row.mode {
        Mode::Enforce => then.to_owned(),
        Mode::Observe => format!("{then} (observed only)"),
    };
    [
        row.order.to_string(),
        printable(row.id).into_owned(),
        printable(&row.when).into_owned(),
        then,
        printable(row.why.unwrap_or("")).into_owned(),
    ]
}

//! What is written down and has no effect. Nothing of it stands in the way.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::Wire;

use super::agents::script_name;
use super::{Check, PROJECT_FILE, principals};
use crate::Access;
use crate::agent::SkillRef;
use crate::diagnostic::{Diagnostic, Span};
use crate::principal::Principal;
use crate::rules::{Condition, Mode};
use crate::scenario::TestModel;
use crate::server::McpServer;

pub(super) fn check(check: &mut Check<'_>) {
    rules(check);
    not_yet(check);
    silent_agents(check);
    // What is wrong with a file may hide whom it names. A warning that may be false is none.
    if check.is_whole {
        grants(check);
        accounts(check);
        skills(check);
        scripts(check);
    }
}

fn warn(check: &mut Check<'_>, code: &'static str, file: &str, span: Span, message: String, help: String) {
    check.problems.push(Diagnostic::error(code, file, span, message, help).warning());
}

/// Grants and credentials for tools that no agent lists, or not at that level.
fn grants(check: &mut Check<'_>) {
    let sources = check.sources;
    let mut offered: BTreeMap<&str, Access> = BTreeMap::new();
    for entry in sources.agents.values().flat_map(|agent| &agent.spec.tools) {
        let level = offered.entry(entry.name.value.as_str()).or_default();
        *level = entry.ceiling().max(*level);
    }
    for grant in &sources.project.tool_grants {
        let tool = grant.tool.value.as_str();
        let Some(level) = offered.get(tool) else {
            let help = check.suggest(
                tool,
                "",
                offered.keys().copied(),
                "remove it, or give an agent the tool".to_owned(),
            );
            let message = format!("no agent lists the tool `{tool}`");
            warn(check, "spec::unused-grant", PROJECT_FILE, grant.tool.span, message, help);
            continue;
        };
        for entry in grant.grants.iter().filter(|entry| entry.role > *level) {
            let message = format!("no agent offers `{tool}` for writing");
            let help = "write `access: read`, or give an agent the tool with `access: write`".to_owned();
            warn(check, "spec::unused-grant", PROJECT_FILE, entry.principal.span, message, help);
        }
    }
    for server in &sources.project.mcp_credentials {
        let name = server.server.value.as_str();
        if !offered.contains_key(name) {
            let help = check.suggest(
                name,
                "",
                offered.keys().copied(),
                "remove it, or give an agent the server".to_owned(),
            );
            let message = format!("no agent lists the server `{name}`");
            warn(check, "spec::unused-credential", PROJECT_FILE, server.server.span, message, help);
        } else if matches!(McpServer::parse(name), Ok(McpServer::Command { .. })) {
            let message = format!("`{name}` is started here and sent no credential");
            let help =
                "give it a variable, as in `env: { TOKEN: \"env:NAME\" }` in the agent's entry".to_owned();
            warn(check, "spec::unused-credential", PROJECT_FILE, server.server.span, message, help);
        }
    }
}

/// Files that are read, and that nothing runs yet. Fields are told where they are checked.
fn not_yet(check: &mut Check<'_>) {
    let (sources, names) = (check.sources, check.names);
    for spec in sources.loops.values() {
        let message = format!("loops are planned and not in this version: `{}` never fires", spec.name.value);
        let help = "it is checked and kept in the build; until then, start it from elsewhere, as with cron and `weir chat`";
        warn(check, "spec::not-yet", &spec.file, spec.name.span, message, help.to_owned());
    }
    for path in &names.projections {
        let message = format!("projections are planned and not in this version: `{path}` never runs");
        warn(
            check,
            "spec::not-yet",
            path,
            Span::START,
            message,
            "remove it, or keep it for later".to_owned(),
        );
    }
}

/// Agents whose model is told nothing about what they are. Models without a network read no prompt.
fn silent_agents(check: &mut Check<'_>) {
    let sources = check.sources;
    for agent in sources.agents.values() {
        let reads_prompts = agent
            .model
            .as_ref()
            .is_some_and(|model| !matches!(model.card.wire, Wire::Scripted | Wire::Echo | Wire::Replay));
        if reads_prompts && agent.spec.description.trim().is_empty() && agent.identity.is_empty() {
            let name = &agent.spec.name;
            let message =
                format!("nothing says what the agent `{}` is: its system prompt is empty", name.value);
            let help = "add a `description`, or a SOUL.md beside the spec".to_owned();
            warn(check, "spec::no-instructions", &agent.spec.file, name.span, message, help);
        }
    }
}

fn accounts(check: &mut Check<'_>) {
    let sources = check.sources;
    let mut used: BTreeSet<String> = BTreeSet::new();
    principals::each(sources, |_, principal| {
        if let Principal::ServiceAccount(name) = &principal.value {
            used.insert(name.clone());
        }
    });
    for account in sources.project.service_accounts.iter().filter(|account| !used.contains(&account.value)) {
        let message = format!("nothing names the service account `{}`", account.value);
        let help = "remove it, or name it in `run_as`, a grant or an `acl`".to_owned();
        warn(check, "spec::unused-account", PROJECT_FILE, account.span, message, help);
    }
}

fn skills(check: &mut Check<'_>) {
    let listed = check.sources.agents.values().flat_map(|agent| &agent.spec.skills);
    let local = listed.filter_map(|skill| match &skill.source {
        SkillRef::Local(path) => Some(path.as_str()),
        SkillRef::Registry { .. } => None,
    });
    let listed: BTreeSet<&str> = local.collect();
    let names = check.names;
    for path in names.skills.iter().filter(|path| !listed.contains(path.as_str())) {
        let message = format!("no agent lists the skill in `{path}`");
        // Paths begin at the spec's directory.
        let reference = match path.split_once("/skills/") {
            Some((_, name)) if path.starts_with("agents/") => format!("./skills/{name}"),
            _ => format!("../../{path}"),
        };
        let help = format!("add `{reference}` to an agent's `skills`, or remove the directory");
        warn(check, "spec::unused-skill", &format!("{path}/SKILL.md"), Span::START, message, help);
    }
}

fn scripts(check: &mut Check<'_>) {
    let sources = check.sources;
    let models = sources.agents.values().filter_map(|agent| agent.model.as_ref());
    let scripted = models.filter(|model| model.card.wire == Wire::Scripted);
    let of_agents = scripted.map(|model| script_name(&model.name, model.card.api_name.as_deref()));
    let of_tests =
        sources.tests.values().filter_map(|test| match test.model.as_ref().map(|model| &model.value) {
            Some(TestModel::Scripted(name)) => Some(name.as_str()),
            _ => None,
        });
    let used: BTreeSet<&str> = of_agents.chain(of_tests).collect();
    let names = check.names;
    for name in names.scripts.iter().filter(|name| !used.contains(name.as_str())) {
        let message = format!("no agent and no test uses the model `scripted/{name}`");
        let help = format!("write `model: scripted/{name}` in a spec or a test, or remove the file");
        warn(check, "spec::unused-script", &format!("models/{name}.yaml"), Span::START, message, help);
    }
}

/// Rules that come after one which takes all their calls.
fn rules(check: &mut Check<'_>) {
    let sources = check.sources;
    let mut taken: BTreeMap<String, (&str, Span)> = BTreeMap::new();
    let everything = key(&Condition::default());
    for rule in &sources.project.rules {
        let when = key(&rule.value.when);
        let earlier = taken.get(&everything).or_else(|| taken.get(&when)).copied();
        if let Some((id, span)) = earlier {
            let message = format!("the rule `{}` never decides: `{id}` comes first", rule.value.id);
            let help = "the first rule that matches decides; move it up, or remove it";
            let problem = Diagnostic::error("spec::unreachable-rule", PROJECT_FILE, rule.span, message, help);
            let problem = problem.warning().related(PROJECT_FILE, span, "this one decides");
            check.problems.push(problem);
        } else if rule.value.mode == Mode::Enforce {
            taken.insert(when, (rule.value.id.as_str(), rule.span));
        }
    }
}

/// Conditions are the same when their texts are.
fn key(condition: &Condition) -> String {
    serde_json::to_string(condition).unwrap_or_default()
}

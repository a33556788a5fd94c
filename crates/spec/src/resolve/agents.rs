//! What agents, loops and tests refer to: other agents, scripts, skills; and that no agent calls itself in the end.

use std::collections::{BTreeMap, BTreeSet};

use weir_events::{is_refusable_kind, refusable_kinds};
use weir_types::Wire;

use super::{Check, PROJECT_FILE};
use crate::agent::{SkillRef, ToolEntry, ToolSource, builtin_names};
use crate::diagnostic::{Diagnostic, Related, Span, Spanned};
use crate::scenario::TestModel;
use crate::sources::{AgentSource, Sources};

pub(super) fn check(check: &mut Check<'_>) {
    let sources = check.sources;
    homes(check);
    for agent in sources.agents.values() {
        tools(check, agent);
        skills(check, agent);
        script_of(check, agent);
    }
    for spec in sources.loops.values() {
        agent_exists(check, &spec.file, &spec.agent);
    }
    for spec in sources.tests.values() {
        agent_exists(check, &spec.file, &spec.agent);
        if let Some(model) = &spec.model {
            test_model(check, &spec.file, model);
        }
    }
    for agent in &sources.project.mentions.agents {
        agent_exists(check, PROJECT_FILE, agent);
    }
    for script in &sources.project.mentions.scripts {
        hook_script(check, script);
    }
    for kind in &sources.project.mentions.refused_kinds {
        hook_kind(check, kind);
    }
    cycles(check);
}

/// Directories that look like an agent's and are none; and projects that have none at all.
fn homes(check: &mut Check<'_>) {
    let names = check.names;
    for (home, file) in names.identified.iter().filter(|(home, _)| !names.agents.contains(*home)) {
        let message = format!("`agents/{home}` has no spec.yaml, so it is no agent");
        let help = format!("write `agents/{home}/spec.yaml`, or remove the directory");
        check.problems.push(Diagnostic::error("spec::no-spec", file, Span::START, message, help).warning());
    }
    if !names.any_agent_file {
        let help = "make one with `weir new agent helper`";
        let problem = Diagnostic::error(
            "spec::no-agents",
            PROJECT_FILE,
            Span::START,
            "the project has no agents",
            help,
        );
        check.problems.push(problem.warning());
    }
}

fn names(known: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    known.iter().map(String::as_str)
}

fn agent_exists(check: &mut Check<'_>, file: &str, agent: &Spanned<String>) {
    if agent.value.is_empty() || check.names.agents.contains(&agent.value) {
        return;
    }
    let otherwise = format!("make it with `weir new agent {}`", agent.value);
    let help = check.suggest(&agent.value, "", names(&check.names.agents), otherwise);
    let message = format!("there is no agent `{}`", agent.value);
    check.add("spec::unknown-agent", file, agent, message, help);
}

fn tools(check: &mut Check<'_>, agent: &AgentSource) {
    let file = &agent.spec.file;
    let mut seen: BTreeMap<&str, &ToolEntry> = BTreeMap::new();
    for entry in &agent.spec.tools {
        match &entry.source {
            ToolSource::Agent(name) => {
                agent_exists(check, file, &Spanned { value: name.clone(), span: entry.name.span });
            }
            ToolSource::Script(stem) if !check.names.tools.contains(stem) => {
                let otherwise = format!("write `tools/{stem}.ts`; `weir new tool {stem}` begins it");
                let help = check.suggest(stem, "tools/", names(&check.names.tools), otherwise);
                let message = format!("there is no `tools/{stem}.ts`");
                check.add("spec::no-file", file, &entry.name, message, help);
            }
            ToolSource::Builtin(_) | ToolSource::Script(_) | ToolSource::Mcp(_) => {}
        }
        for name in seen_by_the_model(&entry.source) {
            let Some(first) = seen.insert(name, entry) else { continue };
            let message = format!("the model would see two tools called `{name}`");
            let problem = Diagnostic::error(
                "spec::tool-name",
                file,
                entry.name.span,
                message,
                "rename or remove one of them",
            );
            check.problems.push(problem.related(file, first.name.span, "the other one is here"));
        }
    }
}

/// The names of an entry's tools, as far as they are known without asking a server.
fn seen_by_the_model(source: &ToolSource) -> Vec<&str> {
    match source {
        ToolSource::Builtin(name) => builtin_names(name).to_vec(),
        ToolSource::Script(name) | ToolSource::Agent(name) => vec![name],
        ToolSource::Mcp(_) => Vec::new(),
    }
}

fn skills(check: &mut Check<'_>, agent: &AgentSource) {
    for skill in &agent.spec.skills {
        let SkillRef::Local(path) = &skill.source else { continue };
        if check.files.contains_key(&format!("{path}/SKILL.md")) {
            continue;
        }
        let message = format!("there is no `{path}/SKILL.md`");
        let help = "write it, or correct the path: it begins at the spec's directory".to_owned();
        check.add("spec::no-file", &agent.spec.file, &skill.name, message, help);
    }
}

fn script_of(check: &mut Check<'_>, agent: &AgentSource) {
    let Some(model) = agent.model.as_ref().filter(|model| model.card.wire == Wire::Scripted) else { return };
    let name = script_name(&model.name, model.card.api_name.as_deref());
    script_exists(check, &agent.spec.file, name, agent.spec.model.span);
}

/// The script of a scripted model.
pub(super) fn script_name<'m>(model: &'m str, api_name: Option<&'m str>) -> &'m str {
    api_name.unwrap_or_else(|| model.split_once('/').map_or(model, |(_, name)| name))
}

fn script_exists(check: &mut Check<'_>, file: &str, name: &str, span: Span) {
    if check.names.scripts.contains(name) {
        return;
    }
    let otherwise = format!("write `models/{name}.yaml`, for example `replies: [{{ say: \"Hello.\" }}]`");
    let help = check.suggest(name, "scripted/", names(&check.names.scripts), otherwise);
    let message = format!("there is no `models/{name}.yaml`");
    check.problems.push(Diagnostic::error("spec::no-file", file, span, message, help));
}

fn test_model(check: &mut Check<'_>, file: &str, model: &Spanned<TestModel>) {
    match &model.value {
        TestModel::Scripted(name) => script_exists(check, file, name, model.span),
        TestModel::Recorded(name) => {
            let path = format!("tests/recordings/{name}.jsonl");
            if !check.files.contains_key(&path) {
                let help = format!("record it: `weir export --stream session:ID > {path}`");
                check.add("spec::no-file", file, model, format!("there is no `{path}`"), help);
            }
        }
    }
}

/// A hook that is never asked about something must not look as if it were.
fn hook_kind(check: &mut Check<'_>, kind: &Spanned<String>) {
    if is_refusable_kind(&kind.value) {
        return;
    }
    let message = format!(
        "no hook is asked about `{}`: what happened or was decided stays so, and nobody is kept from stopping something",
        kind.value
    );
    let help = format!(
        "remove it; of our own kinds, these can be refused: {}",
        refusable_kinds().collect::<Vec<_>>().join(", ")
    );
    check.add("spec::hook-kind", PROJECT_FILE, kind, message, help);
}

fn hook_script(check: &mut Check<'_>, script: &Spanned<String>) {
    let path = crate::format::normal(&script.value).unwrap_or_default();
    if !check.files.contains_key(&path) {
        let help = "write it, or correct the path: it begins at the project's directory".to_owned();
        check.add("spec::no-file", PROJECT_FILE, script, format!("there is no `{path}`"), help);
    }
}

/// Most circles that are told about. Where everybody calls everybody, there are more than anybody wants to read.
const CYCLES_MAX: usize = 20;

/// Agents that call one another in a circle. Each circle is told once, where the walk over all agents closes it.
fn cycles(check: &mut Check<'_>) {
    let sources = check.sources;
    let edges: Edges<'_> = sources.agents.keys().map(|name| (name.as_str(), calls(sources, name))).collect();
    let mut state: BTreeMap<&str, Visit> = BTreeMap::new();
    let mut told = 0;
    for start in sources.agents.keys() {
        if state.contains_key(start.as_str()) {
            continue;
        }
        // A stack of our own: a chain of ten thousand agents is no reason to overflow another one.
        let mut path: Vec<(&str, usize)> = vec![(start, 0)];
        state.insert(start, Visit::Open);
        while let Some((name, next)) = path.pop() {
            let Some((callee, span)) = edges.get(name).and_then(|calls| calls.get(next)).copied() else {
                state.insert(name, Visit::Done);
                continue;
            };
            path.push((name, next + 1));
            match state.get(callee) {
                Some(Visit::Done) => {}
                Some(Visit::Open) if told < CYCLES_MAX => {
                    told += 1;
                    check.problems.push(cycle(sources, &edges, &path, callee, span));
                }
                Some(Visit::Open) => {}
                None => {
                    state.insert(callee, Visit::Open);
                    path.push((callee, 0));
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Open,
    Done,
}

/// Who calls whom, and where it says so.
type Edges<'s> = BTreeMap<&'s str, Vec<(&'s str, Span)>>;

/// The agents that an agent calls.
fn calls<'s>(sources: &'s Sources, agent: &str) -> Vec<(&'s str, Span)> {
    let tools = sources.agents.get(agent).map(|agent| agent.spec.tools.as_slice()).unwrap_or_default();
    let callee = |entry: &'s ToolEntry| match &entry.source {
        ToolSource::Agent(name) => Some((name.as_str(), entry.name.span)),
        ToolSource::Builtin(_) | ToolSource::Script(_) | ToolSource::Mcp(_) => None,
    };
    tools.iter().filter_map(callee).collect()
}

fn cycle(
    sources: &Sources,
    edges: &Edges<'_>,
    path: &[(&str, usize)],
    closes: &str,
    span: Span,
) -> Diagnostic {
    let start = path.iter().position(|(name, _)| *name == closes).unwrap_or(0);
    let circle: Vec<&str> = path[start..].iter().map(|(name, _)| *name).collect();
    let file = |name: &str| sources.agents.get(name).map(|agent| agent.spec.file.clone()).unwrap_or_default();
    let last = circle.last().copied().unwrap_or(closes);
    let message = match circle.as_slice() {
        [only] => format!("the agent `{only}` calls itself"),
        several => format!("agents call one another in a circle: {} → {closes}", several.join(" → ")),
    };
    let help = "remove one of these calls: such a run would never end";
    let related = circle.windows(2).filter_map(|pair| {
        let (_, span) = edges.get(pair[0])?.iter().find(|(callee, _)| *callee == pair[1])?;
        Some(Related {
            file: file(pair[0]),
            span: *span,
            message: format!("`{}` calls `{}` here", pair[0], pair[1]),
        })
    });
    let related = related.collect();
    Diagnostic { related, ..Diagnostic::error("spec::cycle", &file(last), span, message, help) }
}

//! Everything that was read and found, as one manifest.

mod class;
mod naming;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use weir_spec::manifest::{self, Manifest, Source, Transport};
use weir_spec::{AgentSource, Diagnostic, McpServer, Role, Sources, canonical};
use weir_types::{Hash, Wire};

use self::tools::ToolsOf;
use crate::script;
use crate::servers::{Offered, argv, url};

/// What was found beyond the files of the language.
pub(crate) struct Found {
    /// Servers and their pins, by address. One that is missing has a problem, which was told.
    pub(crate) servers: BTreeMap<String, (McpServer, Offered)>,
    /// Scripts, likewise.
    pub(crate) scripts: script::Read,
    /// Skills by their names in the manifest, likewise.
    pub(crate) skills: BTreeMap<String, manifest::Skill>,
    /// The name in the manifest of each agent's skills, by agent and by how the agent lists it.
    pub(crate) skill_names: BTreeMap<(String, String), String>,
}

/// The manifest, as far as everything for it is there; what is wrong is told.
pub(crate) fn assemble(
    sources: &Sources,
    found: &Found,
    files: &BTreeMap<String, Vec<u8>>,
    problems: &mut Vec<Diagnostic>,
) -> Manifest {
    let mut manifest = Manifest {
        project: sources.project.name.as_ref().map(|name| name.value.clone()),
        ..of_project(sources)
    };
    for (name, source) in &sources.agents {
        let tools = ToolsOf { source, found, sources, problems }.resolve();
        if let Some(agent) = agent(name, source, sources, found, tools, problems) {
            manifest.agents.insert(name.clone(), agent);
        }
        if let Some(model) = &source.model {
            manifest.models.insert(model.name.clone(), model.card.clone());
            if model.card.wire == Wire::Scripted {
                let name = model.card.api_name.as_deref();
                let name = name.or_else(|| Some(model.name.split_once('/')?.1)).unwrap_or(&model.name);
                let script = sources.scripts.get(name);
                manifest.scripts.extend(script.map(|script| (name.to_owned(), script.clone())));
            }
        }
    }
    manifest.loops =
        sources.loops.iter().map(|(name, spec)| (name.clone(), manifest::Loop::from(spec))).collect();
    manifest.policies = sources.policies.clone();
    let listed: BTreeSet<&str> =
        manifest.agents.values().flat_map(|agent| &agent.tools).map(|tool| tool.source.as_str()).collect();
    manifest.sources = used_sources(&listed, found);
    let skills = manifest.agents.values().flat_map(|agent| &agent.skills);
    manifest.skills =
        skills.filter_map(|name| Some((name.clone(), found.skills.get(name)?.clone()))).collect();
    manifest.input = input(&manifest, sources, files);
    manifest
}

fn of_project(sources: &Sources) -> Manifest {
    let project = &sources.project;
    let members =
        |group: &weir_spec::Group| group.members.iter().map(|member| member.value.clone()).collect();
    let mut grants: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    for grant in &project.tool_grants {
        let of_tool = grants.entry(grant.tool.value.clone()).or_default();
        for entry in &grant.grants {
            let access = of_tool.entry(entry.principal.value.clone()).or_insert(entry.role);
            *access = entry.role.max(*access);
        }
    }
    let credentials = project.mcp_credentials.iter().map(|server| {
        let of_server = server.credentials.iter().map(|(who, what)| (who.value.clone(), what.clone()));
        (server.server.value.clone(), of_server.collect())
    });
    Manifest {
        service_accounts: project.service_accounts.iter().map(|account| account.value.clone()).collect(),
        groups: project
            .groups
            .as_ref()
            .map(|groups| groups.iter().map(|group| (group.name.value.clone(), members(group))).collect()),
        grants,
        credentials: credentials.collect(),
        rules: project.rules.iter().map(|rule| rule.value.clone()).collect(),
        budgets: project.budgets.iter().map(|(scope, budget)| (*scope, budget.value)).collect(),
        four_eyes: project.four_eyes,
        hooks: project.hooks.clone(),
        knowledge: project.knowledge.iter().map(|path| path.value.clone()).collect(),
        routing: project.routing.clone(),
        ..Manifest::default()
    }
}

fn agent(
    name: &str,
    source: &AgentSource,
    sources: &Sources,
    found: &Found,
    tools: Vec<manifest::Tool>,
    problems: &mut Vec<Diagnostic>,
) -> Option<manifest::Agent> {
    let spec = &source.spec;
    let mut skills = Vec::new();
    for skill in &spec.skills {
        let Some(known) = found.skill_names.get(&(name.to_owned(), skill.name.value.clone())) else {
            continue;
        };
        skills.push(known.clone());
        let asked = found.skills.get(known).into_iter().flat_map(|skill| &skill.tools);
        let has = |wanted: &str| {
            spec.tools.iter().any(|entry| entry.name.value == wanted)
                || tools.iter().any(|tool| tool.name == wanted)
        };
        for tool in asked.filter(|tool| !has(&tool.name)) {
            let message = format!(
                "the skill `{}` needs `{}`, which the agent does not list",
                skill.name.value, tool.name
            );
            let help = "add it to `tools` if the agent may use it; a skill gives no tools";
            let problem = Diagnostic::error("build::skill-tool", &spec.file, skill.name.span, message, help);
            problems.push(problem.warning());
        }
    }
    let identity = source
        .identity
        .iter()
        .map(|identity| manifest::Identity { file: identity.name.to_owned(), text: identity.text.clone() });
    let having = |role: Role| {
        let entries = spec.acl.iter().filter(move |entry| entry.role == role);
        entries.map(|entry| entry.principal.value.clone())
    };
    let region = spec.region.as_ref().or(sources.project.region.as_ref());
    Some(manifest::Agent {
        model: source.model.as_ref()?.name.clone(),
        description: spec.description.clone(),
        identity: identity.collect(),
        skills,
        tools,
        limits: manifest::Limits::from(&spec.limits),
        acl: having(Role::Execute).map(|principal| (principal, Role::Execute)).collect(),
        approvers: having(Role::Approve).collect(),
        region: region.map(|region| region.value.clone()),
    })
}

fn used_sources(listed: &BTreeSet<&str>, found: &Found) -> BTreeMap<String, Source> {
    let mut sources = BTreeMap::new();
    for (address, (server, offered)) in &found.servers {
        if !listed.contains(address.as_str()) {
            continue;
        }
        let transport = match argv(server) {
            Some(argv) => Transport::Stdio(argv),
            None => Transport::Http(url(server)),
        };
        let tools = offered.pins.iter().map(|(name, pin)| {
            let definition = manifest::Definition { definition: pin.definition.clone(), hash: pin.hash };
            (name.clone(), definition)
        });
        let source = manifest::McpSource { transport, tools: tools.collect() };
        sources.insert(address.clone(), Source::Mcp(source));
    }
    let hooks = found.scripts.hooks.iter();
    sources.extend(hooks.map(|(name, script)| (name.clone(), Source::Script(script.clone()))));
    for (stem, tool) in &found.scripts.tools {
        let name = format!("tools/{stem}");
        if listed.contains(name.as_str()) {
            sources.insert(name, Source::Script(tool.clone()));
        }
    }
    sources
}

/// What identifies everything that the manifest was made of: the files it was read from, and the pins.
fn input(manifest: &Manifest, sources: &Sources, files: &BTreeMap<String, Vec<u8>>) -> Hash {
    let mut inputs: BTreeMap<String, Hash> = BTreeMap::new();
    let mut file = |path: String| {
        if let Some(bytes) = files.get(&path) {
            inputs.insert(path, Hash::of(bytes));
        }
    };
    file("weir.yaml".to_owned());
    for (name, agent) in &sources.agents {
        file(agent.spec.file.clone());
        agent.identity.iter().for_each(|identity| file(format!("agents/{name}/{}", identity.name)));
    }
    sources.loops.keys().for_each(|name| file(format!("loops/{name}.yaml")));
    manifest.scripts.keys().for_each(|name| file(format!("models/{name}.yaml")));
    manifest.policies.keys().for_each(|path| file(path.clone()));
    for source in manifest.sources.values() {
        if let Source::Script(tool) = source {
            tool.modules.keys().for_each(|path| file(path.clone()));
        }
    }
    for (name, source) in &manifest.sources {
        if let Source::Mcp(server) = source {
            inputs.extend(server.tools.iter().map(|(tool, pin)| (format!("{name} {tool}"), pin.hash)));
        }
    }
    inputs.extend(manifest.skills.iter().map(|(name, skill)| (format!("skill {name}"), skill.digest)));
    // INVARIANT: a map from text to hashes has a canonical form.
    canonical::hash(&inputs).unwrap_or(Hash::ZERO)
}

//! Reading a spec: what it says, as far as it can be read.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::Effect;

use super::{
    AGENT, AGENT_ROLES, APPROVALS, AclEntry, AgentSpec, EFFECTS, ITERATIONS_DEFAULT, Limits, ON_INTERRUPT,
    SANDBOX, Skill, SkillRef, ToolEntry, ToolSource,
};
use crate::diagnostic::{Findings, Span, Spanned};
use crate::document;
use crate::fields::Fields;
use crate::{Access, Launcher, McpServer, Principal, terms};

/// What a spec says, as far as it can be read.
pub(crate) fn read(bytes: &[u8], findings: &mut Findings) -> Option<AgentSpec> {
    let root = document::read(bytes, &AGENT, findings)?;
    let fields = Fields::of(&root, &AGENT)?;
    let home = findings.file().strip_suffix("/spec.yaml").unwrap_or("agents/x").to_owned();
    let name = fields.must("name");
    document::check_name(&name, home.rsplit('/').next(), "agent", "directory", findings);
    Some(AgentSpec {
        model: fields.must("model"),
        description: fields.words("description").unwrap_or_default(),
        tools: tools(&fields, findings),
        skills: skills(&fields, &home, findings),
        acl: acl(&fields, AGENT_ROLES, findings),
        region: fields.text("region"),
        limits: fields.fields("limits").map(|fields| limits(&fields)).unwrap_or_default(),
        name,
        file: findings.file().to_owned(),
    })
}

fn limits(fields: &Fields<'_>) -> Limits {
    Limits {
        iterations: fields.count("iterations").unwrap_or(ITERATIONS_DEFAULT),
        usd: fields.usd("usd"),
        wall_clock: fields.duration("wall_clock"),
        output_tokens: fields.count("output_tokens"),
        context_tokens: fields.count("context_tokens"),
        tokens: fields.count("tokens"),
        model_calls: fields.count("model_calls"),
    }
}

/// Entries of an `acl`, of an agent or a loop.
pub(crate) fn acl<R: Copy + PartialEq>(
    fields: &Fields<'_>,
    roles: &[(&str, R)],
    findings: &mut Findings,
) -> Vec<AclEntry<R>> {
    let mut entries: Vec<AclEntry<R>> = Vec::new();
    let mut seen: BTreeMap<(Principal, Option<usize>), Span> = BTreeMap::new();
    for entry in fields.each("acl") {
        let (Some(principal), Some(role)) = (entry.parsed("principal"), entry.word("role", roles)) else {
            continue;
        };
        let number = roles.iter().position(|(_, known)| *known == role);
        let key = (Principal::clone(&principal.value), number);
        if let Some(first) = seen.get(&key) {
            let message = format!("`{}` has this role already", principal.value);
            findings.twice("spec::duplicate", [*first, principal.span], message, "keep one of them");
            continue;
        }
        seen.insert(key, principal.span);
        entries.push(AclEntry { principal, role });
    }
    entries
}

fn skills(fields: &Fields<'_>, home: &str, findings: &mut Findings) -> Vec<Skill> {
    let mut skills = Vec::new();
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    for name in fields.texts("skills") {
        let Some(source) = SkillRef::parse(&name.value, home) else { continue };
        // Two versions of one skill are one too many.
        let key = match &source {
            SkillRef::Local(path) => format!("./{path}"),
            SkillRef::Registry { path, .. } => path.clone(),
        };
        if let Some(first) = seen.get(&key) {
            let message = format!("the skill `{}` is here twice", name.value);
            findings.twice("spec::duplicate", [*first, name.span], message, "keep one of them");
            continue;
        }
        seen.insert(key, name.span);
        skills.push(Skill { name, source });
    }
    skills
}

fn tools(fields: &Fields<'_>, findings: &mut Findings) -> Vec<ToolEntry> {
    let mut entries: Vec<ToolEntry> = Vec::new();
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for entry in fields.each("tools") {
        let Some(entry) = tool(&entry, findings) else { continue };
        let Some(first) = first.get(&entry.name.value).copied() else {
            first.insert(entry.name.value.clone(), entries.len());
            entries.push(entry);
            continue;
        };
        if stands_beside(&entries, first, &entry, findings) {
            entries.push(entry);
        }
    }
    entries
}

/// Whether an entry may stand beside others of the same name, the first of which is given: entries of one server may, each
/// with tools of its own.
fn stands_beside(entries: &[ToolEntry], first: usize, entry: &ToolEntry, findings: &mut Findings) -> bool {
    let code = "spec::duplicate-tool";
    let others = entries.iter().skip(first).filter(|other| other.name.value == entry.name.value);
    let mut fits = true;
    for other in others {
        let (Some(ours), Some(theirs)) = (&entry.only, &other.only) else {
            let places = [other.name.span, entry.name.span];
            let message = format!("the tool `{}` is here twice", entry.name.value);
            let help = match entry.source {
                ToolSource::Mcp(_) => "keep one of them, or give each its own tools with `only`",
                ToolSource::Builtin(_) | ToolSource::Script(_) | ToolSource::Agent(_) => "keep one of them",
            };
            findings.twice(code, places, message, help);
            return false;
        };
        for name in ours {
            if let Some(known) = theirs.iter().find(|known| known.value == name.value) {
                let message = format!("`{}` of this server is here twice", name.value);
                findings.twice(code, [known.span, name.span], message, "keep one of them");
                fits = false;
            }
        }
        if other.env != entry.env {
            let message = "two entries of one server give it different variables, and it is started once";
            let help = "write the same `env` in both";
            findings.twice(
                "spec::contradiction",
                [other.name.span, entry.name.span],
                message.to_owned(),
                help,
            );
            return false;
        }
        if other.sandbox != entry.sandbox {
            let message = "two entries of one server confine it differently, and it is started once";
            let places = [other.name.span, entry.name.span];
            let help = "write the same `sandbox` in both";
            findings.twice("spec::contradiction", places, message.to_owned(), help);
            return false;
        }
    }
    fits
}

fn tool(fields: &Fields<'_>, findings: &mut Findings) -> Option<ToolEntry> {
    let name = fields.text("name").or_else(|| fields.text("server"))?;
    let source = ToolSource::parse(&name.value)?;
    check_sense(fields, &source, findings);
    let (approval_terms, _) = terms::read(fields, findings);
    let only: Vec<Spanned<String>> = fields.texts("only");
    let env = fields.entries("env").iter();
    let env = env.filter_map(|entry| Some((entry.key.value.clone(), entry.value.as_text()?.parse().ok()?)));
    Some(ToolEntry {
        name,
        source,
        access: fields.word("access", Access::WORDS),
        only: fields.has("only").then_some(only),
        approval: fields.word("approval", APPROVALS),
        approval_terms,
        effect: fields.word("effect", EFFECTS),
        on_interrupt: fields.word("on_interrupt", ON_INTERRUPT).unwrap_or_default(),
        hosts: fields.texts("hosts").into_iter().map(|host| host.value).collect(),
        env: env.collect(),
        sandbox: fields.word("sandbox", SANDBOX).unwrap_or_default(),
        timeout: within(fields, "timeout", TIMEOUT, findings),
        cpu: within(fields, "cpu", CPU, findings),
    })
}

/// The shortest and the longest time that one call may be given.
const TIMEOUT: [(Duration, &str); 2] =
    [(Duration::from_millis(100), "100ms"), (Duration::from_secs(60 * 60), "1h")];

/// The least and the most processor time that one call of a script may be given.
const CPU: [(Duration, &str); 2] =
    [(Duration::from_millis(100), "100ms"), (Duration::from_secs(10 * 60), "10m")];

/// A span of time that has to be within bounds.
fn within(
    fields: &Fields<'_>,
    name: &str,
    [(least, least_word), (most, most_word)]: [(Duration, &str); 2],
    findings: &mut Findings,
) -> Option<Duration> {
    let time = fields.duration(name)?;
    if least <= time && time <= most {
        return Some(time);
    }
    let span = fields.get(name).map_or(fields.place, |node| node.span);
    let message = format!("`{name}` is from `{least_word}` to `{most_word}`");
    findings.add("spec::wrong-value", span, message, "choose a span of time within these bounds");
    None
}

/// No field of a tool is without effect.
fn check_sense(fields: &Fields<'_>, source: &ToolSource, findings: &mut Findings) {
    let is_mcp = matches!(source, ToolSource::Mcp(_));
    let is_started = matches!(source, ToolSource::Mcp(McpServer::Command { .. }));
    let is_http = matches!(source, ToolSource::Builtin("http"));
    let mut only_for = |name: &str, fits: bool, whom: &str| {
        if fields.has(name) && !fits {
            let message = format!("`{name}` has no effect here: it is for {whom}");
            findings.add("spec::contradiction", fields.place_of(name), message, "remove it");
        }
    };
    only_for("only", is_mcp, "the tools of an MCP server");
    only_for("env", is_started, "MCP servers that are started here");
    only_for("hosts", is_http || matches!(source, ToolSource::Script(_)), "`http` and scripts");
    only_for(
        "timeout",
        !matches!(source, ToolSource::Agent(_)),
        "tools that are no agent; an agent has `limits`",
    );
    only_for("cpu", matches!(source, ToolSource::Script(_)), "scripts");
    only_for("sandbox", is_started, "MCP servers that are started here");
    check_sandbox(fields, source, findings);
    if is_http && !fields.has("hosts") {
        let help = "add the hosts it may reach, for example `hosts: [api.example.com]`";
        findings.add(
            "spec::missing",
            fields.place,
            "`http` needs `hosts`: without any it reaches nothing",
            help,
        );
    }
    let access = fields.word("access", Access::WORDS).unwrap_or_default();
    let effect = fields.word("effect", EFFECTS);
    if access == Access::Read && effect.is_some_and(|effect| effect != Effect::Read) {
        let message = "a tool that is offered for reading has no other effect";
        let help = "write `access: write`, or remove `effect`";
        findings.add("spec::contradiction", fields.place_of("effect"), message, help);
    }
}

/// What a profile makes impossible, and what would make it mean nothing.
fn check_sandbox(fields: &Fields<'_>, source: &ToolSource, findings: &mut Findings) {
    let profile = fields.word("sandbox", SANDBOX).unwrap_or_default();
    let launcher = match source {
        ToolSource::Mcp(McpServer::Command { launcher, .. }) => launcher,
        _ => return,
    };
    if profile.closes_network() && matches!(launcher, Launcher::Npx | Launcher::Uvx) {
        let message = format!(
            "`sandbox: {}` closes the network, over which this package is fetched when it starts",
            profile.as_str()
        );
        let help =
            "write `sandbox: files`, or install the package in the project and start it as `mcp://./PROGRAM`";
        findings.add("spec::contradiction", fields.place_of("sandbox"), message, help);
    }
    // They would be loaded by what confines the program, too.
    let loaded = fields.entries("env").iter().find(|entry| entry.key.value.starts_with("LD_"));
    if let Some(loaded) = loaded.filter(|_| !profile.is_off()) {
        let message = format!("`{}` cannot be given to a program that is confined", loaded.key.value);
        findings.add(
            "spec::contradiction",
            loaded.key.span,
            message,
            "set it in a script that starts the program",
        );
    }
}

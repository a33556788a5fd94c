//! `agents/<name>/spec.yaml`: one agent.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::{Catalog, Effect, Explain, ModelCard, NanoUsd, OnInterrupt};

use crate::diagnostic::{Diagnostic, Findings, Span, Spanned};
use crate::document;
use crate::fields::Fields;
use crate::format::{self, normal};
use crate::shape::{Choice, Kind, Shape, optional, required, words};
use crate::{Access, Approval, McpServer, Principal, Role, SecretRef};

/// Iterations of a run when the spec says nothing.
pub const ITERATIONS_DEFAULT: u64 = 10;

/// The built-in tools an agent can be given.
pub const BUILTIN_TOOLS: &[&str] = &["fs", "edit", "bash", "http", "memory", "get_time"];

/// The names under which a model sees the tools of a built-in entry; none for anything else.
pub fn builtin_names(entry: &str) -> &'static [&'static str] {
    match entry {
        "fs" => &["fs_read", "fs_list", "fs_glob", "fs_search"],
        "edit" => &["edit_write", "edit_replace", "edit_multi"],
        "bash" => &["bash"],
        "http" => &["http"],
        "memory" => &["memory_store", "memory_search", "memory_related"],
        "get_time" => &["get_time"],
        _ => &[],
    }
}

/// `agents/<name>/spec.yaml`.
pub(crate) static AGENT: Shape = Shape {
    what: "an agent",
    doc: "One agent: who answers, what it is told to be, and what it may do.",
    fields: &[
        required(
            "name",
            "name: helper",
            Kind::Format(&format::NAME),
            "Its name, which is also its directory's.",
        ),
        required(
            "model",
            "model: offline/echo",
            Kind::Text,
            "Who answers: `provider/name`, or a bare name that only one provider has. `scripted/NAME` and `offline/echo` need no network.",
        ),
        optional("description", Kind::Words, "What the agent is told to be: the heart of its system prompt."),
        optional(
            "tools",
            Kind::List(&Kind::Shape(&TOOL)),
            "Everything the agent may call. Nothing else can be reached.",
        ),
        optional(
            "skills",
            Kind::List(&Kind::Format(&format::SKILL)),
            "Skills: `registry/namespace/name@version`, or the path of a directory with a `SKILL.md`.",
        ),
        optional("limits", Kind::Shape(&LIMITS), "What one run may use."),
        optional(
            "acl",
            Kind::List(&Kind::Shape(&AGENT_ACL)),
            "Who may talk to the agent. Nobody else may, but for admins.",
        ),
        optional("region", Kind::Format(&format::REGION), "Where its model has to run."),
    ],
    choice: Choice::Free,
    instead: &[
        ("instructions", "write `description`"),
        ("prompt", "write `description`"),
        ("system_prompt", "write `description`"),
        ("system", "write `description`"),
        ("max_iterations", "write `limits: { iterations: … }`"),
        ("lane", "lanes are chosen under `routing` in weir.yaml"),
        ("hooks", "hooks are under `hooks` in weir.yaml"),
    ],
};

static TOOL: Shape = Shape {
    what: "a tool",
    doc: "One tool, or all tools of a server.",
    fields: &[
        optional(
            "name",
            Kind::Format(&format::TOOL),
            "A built-in tool, or `tools/NAME` for a script of the project.",
        ),
        optional(
            "server",
            Kind::Format(&format::SERVER),
            "An MCP server (`mcp://…`), or another agent (`weir://NAME`).",
        ),
        optional(
            "access",
            Kind::Word(|| words(Access::WORDS)),
            "The highest level it is offered at; `read` by default.",
        ),
        optional("only", Kind::Some(&Kind::Text), "Fewer tools than the server offers."),
        optional("approval", Kind::Word(|| words(APPROVALS)), "Whether someone has to approve every call."),
        optional(
            "effect",
            Kind::Word(|| words(EFFECTS)),
            "What repeating a call does, if you know better than the tool says.",
        ),
        optional(
            "on_interrupt",
            Kind::Word(|| words(ON_INTERRUPT)),
            "What happens to a write that a crash interrupted: its outcome is reported as unknown (the default), someone is asked, or it is repeated.",
        ),
        optional("hosts", Kind::Some(&Kind::Format(&format::HOST)), "The hosts that `http` may reach."),
        optional(
            "env",
            Kind::Map(&format::VARIABLE, &Kind::Format(&format::SECRET)),
            "The environment of a server that is started here. Values are references such as `env:NAME`.",
        ),
    ],
    choice: Choice::One(&["name", "server"]),
    instead: &[
        ("tools", "write `only`"),
        ("allow", "write `only`"),
        ("url", "write `server`"),
        ("mcp", "write `server`"),
        ("requires_approval", "write `approval: always`; the field is `approval`"),
    ],
};

static LIMITS: Shape = Shape {
    what: "`limits`",
    doc: "What one run may use.",
    fields: &[
        optional("iterations", Kind::Count, "Rounds of model and tools; 10 by default."),
        optional("usd", Kind::Usd, "Money, in dollars."),
        optional("wall_clock", Kind::Duration, "Time, without waiting for people."),
        optional("output_tokens", Kind::Count, "Tokens of one answer."),
        optional("context_tokens", Kind::Count, "Tokens of one request."),
        optional("tokens", Kind::Count, "Tokens of all requests and answers."),
        optional("model_calls", Kind::Count, "Calls of the model."),
    ],
    choice: Choice::Free,
    instead: &[
        ("max_iterations", "write `iterations`"),
        ("max_tokens", "write `output_tokens`"),
        ("timeout", "write `wall_clock`"),
        ("cost", "write `usd`"),
    ],
};

static AGENT_ACL: Shape = Shape {
    what: "an entry of `acl`",
    doc: "Who may talk to the agent.",
    fields: &[
        required("principal", "principal: group:engineering", Kind::Format(&format::PRINCIPAL), "Who."),
        required("role", "role: execute", Kind::Word(|| words(AGENT_ROLES)), "What they may do: talk to it."),
    ],
    choice: Choice::Free,
    instead: &[],
};

const AGENT_ROLES: &[(&str, Role)] = &[("execute", Role::Execute)];
const APPROVALS: &[(&str, Approval)] = &[("always", Approval::Always)];
const EFFECTS: &[(&str, Effect)] =
    &[("read", Effect::Read), ("idempotent", Effect::Idempotent), ("write", Effect::Write)];
const ON_INTERRUPT: &[(&str, OnInterrupt)] =
    &[("unknown", OnInterrupt::Report), ("ask", OnInterrupt::Ask), ("retry", OnInterrupt::Retry)];

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// Its name, which is also its directory's.
    pub name: Spanned<String>,
    /// Its model: `provider/name`, or a bare name; see [`AgentSpec::find_model`].
    pub model: Spanned<String>,
    /// What it is told to be; may be empty.
    pub description: String,
    /// The tools it is given, in order.
    pub tools: Vec<ToolEntry>,
    /// The skills it has, as written and as what they stand for.
    pub skills: Vec<Skill>,
    /// Who may talk to it.
    pub acl: Vec<AclEntry<Role>>,
    /// Where its model has to run.
    pub region: Option<Spanned<String>>,
    /// What a run of it may use.
    pub limits: Limits,
    /// Where its file is, for problems that are found later.
    pub file: String,
}

/// One tool of an agent, or all tools of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEntry {
    /// Where it comes from, as written in `name` or `server`.
    pub name: Spanned<String>,
    /// What that stands for.
    pub source: ToolSource,
    /// The highest level it is offered at.
    pub access: Access,
    /// The tools of a server that are offered; all of them, if absent.
    pub only: Option<Vec<Spanned<String>>>,
    /// Whether calls need approval, whatever the rules say.
    pub approval: Option<Approval>,
    /// What repeating a call does, if the author knows better than the tool says.
    pub effect: Option<Effect>,
    /// What happens to a write that a crash interrupted.
    pub on_interrupt: OnInterrupt,
    /// The hosts that `http` may reach.
    pub hosts: Vec<String>,
    /// The environment of a server that is started here.
    pub env: BTreeMap<String, SecretRef>,
}

/// Where a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolSource {
    /// One of [`BUILTIN_TOOLS`].
    Builtin(&'static str),
    /// `tools/<stem>`: the file `tools/<stem>.ts`.
    Script(String),
    /// `weir://<agent>`.
    Agent(String),
    /// `mcp://…`.
    Mcp(McpServer),
}

/// A skill that an agent has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// As written.
    pub name: Spanned<String>,
    /// What it stands for.
    pub source: SkillRef,
}

/// Where a skill is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillRef {
    /// A directory of the project with a `SKILL.md`; the path within the project.
    Local(String),
    /// `registry/namespace/name@version`.
    Registry {
        /// The registry: a name of `registries`, or a host.
        registry: String,
        /// `namespace/name`.
        path: String,
        /// The version.
        version: String,
    },
}

/// Who has which role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry<R> {
    /// Who.
    pub principal: Spanned<Principal>,
    /// The role.
    pub role: R,
}

/// What a run may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rounds of model and tools.
    pub iterations: u64,
    /// Money.
    pub usd: Option<Spanned<NanoUsd>>,
    /// Time, without waiting for people.
    pub wall_clock: Option<Duration>,
    /// Tokens of one answer.
    pub output_tokens: Option<u64>,
    /// Tokens of one request.
    pub context_tokens: Option<u64>,
    /// Tokens of all requests and answers.
    pub tokens: Option<u64>,
    /// Calls of the model.
    pub model_calls: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            iterations: ITERATIONS_DEFAULT,
            usd: None,
            wall_clock: None,
            output_tokens: None,
            context_tokens: None,
            tokens: None,
            model_calls: None,
        }
    }
}

impl AgentSpec {
    /// Reads a spec on its own. `file` is its path within the project; problems name it.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let mut findings = Findings::new(file);
        let spec = read(bytes, &mut findings);
        findings.conclude(spec)
    }

    /// The full name and card of its model.
    ///
    /// # Errors
    /// When the catalog does not know it, or the spec limits dollars and nobody knows its price.
    pub fn find_model(&self, catalog: &Catalog) -> Result<(String, ModelCard), Vec<Diagnostic>> {
        let found = catalog.find(&self.model.value).map_err(|error| {
            self.problem(error.code(), self.model.span, error.to_string(), error.help().into_owned())
        })?;
        match &self.limits.usd {
            Some(limit) if found.1.price.is_none() => {
                let message = format!("a limit in dollars needs a price, and `{}` has none", found.0);
                let help = "remove `usd`, or give the model a price under `models:` in weir.yaml";
                Err(self.problem("spec::no-price", limit.span, message, help.to_owned()))
            }
            _ => Ok(found),
        }
    }

    fn problem(&self, code: &'static str, span: Span, message: String, help: String) -> Vec<Diagnostic> {
        vec![Diagnostic::error(code, &self.file, span, message, help)]
    }
}

impl SkillRef {
    /// What a skill of the agent in `home` stands for.
    pub(crate) fn parse(text: &str, home: &str) -> Option<Self> {
        if text.contains(char::is_whitespace) {
            return None;
        }
        if text.starts_with("./") || text.starts_with("../") {
            return normal(&format!("{home}/{text}")).map(Self::Local);
        }
        let (place, version) = text.split_once('@')?;
        let [registry, namespace, name] = place.split('/').collect::<Vec<_>>().try_into().ok()?;
        let fits = |part: &str| {
            let fits =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b':');
            !part.is_empty() && part.len() <= 128 && !part.starts_with('.') && part.bytes().all(fits)
        };
        let path = format!("{namespace}/{name}");
        let all = [registry, namespace, name, version].into_iter().all(fits);
        all.then(|| Self::Registry { registry: registry.to_owned(), path, version: version.to_owned() })
    }
}

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
    let mut skills: Vec<Skill> = Vec::new();
    for name in fields.texts("skills") {
        let Some(source) = SkillRef::parse(&name.value, home) else { continue };
        let same = |other: &&Skill| match (&other.source, &source) {
            // Two versions of one skill are one too many.
            (SkillRef::Registry { path: a, .. }, SkillRef::Registry { path: b, .. }) => a == b,
            (a, b) => *a == *b,
        };
        if let Some(first) = skills.iter().find(same) {
            let message = format!("the skill `{}` is here twice", name.value);
            findings.twice("spec::duplicate", [first.name.span, name.span], message, "keep one of them");
            continue;
        }
        skills.push(Skill { name, source });
    }
    skills
}

fn tools(fields: &Fields<'_>, findings: &mut Findings) -> Vec<ToolEntry> {
    let mut entries: Vec<ToolEntry> = Vec::new();
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    for entry in fields.each("tools") {
        let Some(entry) = tool(&entry, findings) else { continue };
        if let Some(first) = seen.get(&entry.name.value) {
            let message = format!("the tool `{}` is here twice", entry.name.value);
            findings.twice("spec::duplicate-tool", [*first, entry.name.span], message, "keep one of them");
            continue;
        }
        seen.insert(entry.name.value.clone(), entry.name.span);
        entries.push(entry);
    }
    entries
}

fn tool(fields: &Fields<'_>, findings: &mut Findings) -> Option<ToolEntry> {
    let name = fields.text("name").or_else(|| fields.text("server"))?;
    let source = ToolSource::parse(&name.value)?;
    check_sense(fields, &source, findings);
    let only: Vec<Spanned<String>> = fields.texts("only");
    let env = fields.entries("env").iter();
    let env = env.filter_map(|entry| Some((entry.key.value.clone(), entry.value.as_text()?.parse().ok()?)));
    Some(ToolEntry {
        name,
        source,
        access: fields.word("access", Access::WORDS).unwrap_or_default(),
        only: fields.has("only").then_some(only),
        approval: fields.word("approval", APPROVALS),
        effect: fields.word("effect", EFFECTS),
        on_interrupt: fields.word("on_interrupt", ON_INTERRUPT).unwrap_or_default(),
        hosts: fields.texts("hosts").into_iter().map(|host| host.value).collect(),
        env: env.collect(),
    })
}

impl ToolSource {
    /// What the text of `name`, `server` or a grant stands for.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(builtin) = BUILTIN_TOOLS.iter().find(|builtin| **builtin == text) {
            return Some(Self::Builtin(builtin));
        }
        if let Some(stem) = text.strip_prefix("tools/") {
            return format::is_name(stem).then(|| Self::Script(stem.to_owned()));
        }
        if let Some(agent) = text.strip_prefix("weir://") {
            return format::is_name(agent).then(|| Self::Agent(agent.to_owned()));
        }
        McpServer::parse(text).ok().map(Self::Mcp)
    }
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
    only_for("hosts", is_http, "`http`");
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

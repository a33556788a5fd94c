//! `agents/<name>/spec.yaml`: one agent.

mod read;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::{ApprovalTerms, Effect, NanoUsd, OnInterrupt, SandboxProfile};

pub(crate) use self::read::{acl, read};
use crate::diagnostic::Spanned;
use crate::format::{self, normal};
use crate::shape::{Choice, Kind, Shape, optional, required, words};
use crate::{Access, Approval, McpServer, Principal, Role, SecretRef, terms};

/// Iterations of a run when the spec says nothing.
pub const ITERATIONS_DEFAULT: u64 = 10;

/// How long one call of a tool may take when the spec says nothing.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(120);

/// How much processor time one call of a script may use when the spec says nothing.
pub const SCRIPT_CPU: Duration = Duration::from_secs(10);

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
        optional("limits", Kind::Shape(&LIMITS), "What one run may use, however often it is resumed."),
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
            "The highest level it is offered at. Left out, a built-in tool is offered for reading, a server only with the tools that it calls read-only, and a script counts as a write.",
        ),
        optional(
            "only",
            Kind::Some(&Kind::Text),
            "Fewer tools than the server offers. Several entries of one server, each with tools of its own, may differ in `access` and all else but `env`.",
        ),
        optional("approval", Kind::Word(|| words(APPROVALS)), "Whether someone has to approve every call."),
        terms::WITHIN,
        terms::ESCALATE,
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
        optional(
            "hosts",
            Kind::Some(&Kind::Format(&format::HOST)),
            "The hosts that `http` or a script may reach; a script without any has no network. Plain `http:` is for your own network, and for port 80 where it is written. A private address is reached if it is listed itself.",
        ),
        optional(
            "env",
            Kind::Map(&format::VARIABLE, &Kind::Format(&format::SECRET)),
            "The environment of a server that is started here. Values are references such as `env:NAME`.",
        ),
        optional(
            "sandbox",
            Kind::Word(|| words(SANDBOX)),
            "How a server that is started here is confined: `files` (it reads programs and its own code, and writes temporary files only), `network` (it reaches none), or `full` (both). `off` by default: it has all rights of the user.",
        ),
        optional(
            "timeout",
            Kind::Duration,
            "How long one call may take, from `100ms` to `1h`; `2m` by default. Another agent has `limits` instead.",
        ),
        optional(
            "cpu",
            Kind::Duration,
            "How much processor time one call of a script may use, from `100ms` to `10m`; `10s` by default.",
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
    doc: "What one run may use, however often it is resumed. `weir session resume` gives iterations anew; of everything else it gives what `--budget` says, if an administrator asks.",
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
    doc: "Who may talk to the agent, and who may approve what it does.",
    fields: &[
        required("principal", "principal: group:engineering", Kind::Format(&format::PRINCIPAL), "Who."),
        required(
            "role",
            "role: execute",
            Kind::Word(|| words(AGENT_ROLES)),
            "What they may do: talk to it (`execute`), or say yes to its calls (`approve`).",
        ),
    ],
    choice: Choice::Free,
    instead: &[],
};

const AGENT_ROLES: &[(&str, Role)] = &[("execute", Role::Execute), ("approve", Role::Approve)];
const APPROVALS: &[(&str, Approval)] = &[("always", Approval::Always)];
const EFFECTS: &[(&str, Effect)] =
    &[("read", Effect::Read), ("idempotent", Effect::Idempotent), ("write", Effect::Write)];
const SANDBOX: &[(&str, SandboxProfile)] = &[
    ("off", SandboxProfile::Off),
    ("files", SandboxProfile::Files),
    ("network", SandboxProfile::Network),
    ("full", SandboxProfile::Full),
];
const ON_INTERRUPT: &[(&str, OnInterrupt)] =
    &[("unknown", OnInterrupt::Report), ("ask", OnInterrupt::Ask), ("retry", OnInterrupt::Retry)];

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// Its name, which is also its directory's.
    pub name: Spanned<String>,
    /// Its model as written: `provider/name`, or a bare name. What it stands for is in [`crate::AgentSource`].
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
    /// The highest level it is offered at, if the author says.
    pub access: Option<Access>,
    /// The tools of a server that are offered; all of them, if absent.
    pub only: Option<Vec<Spanned<String>>>,
    /// Whether calls need approval, whatever the rules say.
    pub approval: Option<Approval>,
    /// How long an approval of its calls is waited for, where no rule says so.
    pub approval_terms: ApprovalTerms,
    /// What repeating a call does, if the author knows better than the tool says.
    pub effect: Option<Effect>,
    /// What happens to a write that a crash interrupted.
    pub on_interrupt: OnInterrupt,
    /// The hosts that `http` or a script may reach.
    pub hosts: Vec<String>,
    /// The environment of a server that is started here.
    pub env: BTreeMap<String, SecretRef>,
    /// How a server that is started here is confined.
    pub sandbox: SandboxProfile,
    /// How long one call may take.
    pub timeout: Option<Duration>,
    /// How much processor time one call of a script may use.
    pub cpu: Option<Duration>,
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

impl ToolEntry {
    /// The highest level it is offered at. A script of which the author says nothing may write.
    pub fn ceiling(&self) -> Access {
        self.access.unwrap_or(match (&self.source, self.effect) {
            (ToolSource::Script(_), None) => Access::Write,
            (
                ToolSource::Script(_) | ToolSource::Builtin(_) | ToolSource::Agent(_) | ToolSource::Mcp(_),
                _,
            ) => Access::Read,
        })
    }
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

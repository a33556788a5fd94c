//! `agents/<name>/spec.yaml`: one agent.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::{Catalog, Effect, Explain, ModelCard, NanoUsd, OnInterrupt};

use crate::diagnostic::{Diagnostic, Findings, Span, Spanned};
use crate::fields::{Fields, Shape, similar};
use crate::node::{Node, excerpt};
use crate::{Access, Approval, McpServer, Principal, Role, SecretRef, values, yaml};

/// Iterations of a run when the spec says nothing.
pub const ITERATIONS_DEFAULT: u64 = 10;

/// The built-in tools an agent can be given.
pub const BUILTIN_TOOLS: &[&str] = &["get_time"];

/// Built-in tools of the language that do not exist yet.
const LATER_TOOLS: &[&str] = &["fs", "edit", "bash", "memory", "http"];

const AGENT: Shape = Shape {
    what: "an agent",
    known: &["name", "model", "description", "tools", "limits"],
    later: &["skills", "acl", "region", "lane", "hooks"],
};

const LIMITS: Shape = Shape {
    what: "`limits`",
    known: &["iterations", "usd", "wall_clock", "output_tokens", "context_tokens", "tokens", "model_calls"],
    later: &[],
};

const TOOL: Shape = Shape {
    what: "a tool",
    known: &["name"],
    later: &["server", "access", "only", "approval", "effect", "on_interrupt"],
};

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
    /// Reads a spec. `file` is its path within the project; problems name it.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let mut findings = Findings::new(file);
        let spec = yaml::document(bytes, &mut findings).and_then(|root| agent(&root, &mut findings));
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

fn agent(root: &Node, findings: &mut Findings) -> Option<AgentSpec> {
    let fields = Fields::of(root, &AGENT, findings)?;
    let name = fields.require("name", "name: helper", findings);
    let name = name.and_then(|node| values::name(node, "name", findings));
    if let Some(name) = &name {
        check_directory(name, findings);
    }
    let model = fields.require("model", "model: offline/echo", findings);
    let model = model.and_then(|node| values::text(node, "model", findings));
    let description = fields.get("description").and_then(|node| values::words(node, "description", findings));
    let tools = fields.get("tools").and_then(|node| tools(node, findings)).unwrap_or_default();
    let limits = fields.get("limits").and_then(|node| limits(node, findings)).unwrap_or_default();
    Some(AgentSpec {
        name: name?,
        model: model?,
        description: description.unwrap_or_default(),
        tools,
        skills: Vec::new(),
        acl: Vec::new(),
        region: None,
        limits,
        file: findings.file().to_owned(),
    })
}

/// An agent is found by its directory and known by its name; two names for one agent would be one too many.
fn check_directory(name: &Spanned<String>, findings: &mut Findings) {
    let directory = findings.file().strip_suffix("/spec.yaml").and_then(|path| path.rsplit('/').next());
    let Some(directory) = directory.filter(|directory| *directory != name.value).map(str::to_owned) else {
        return;
    };
    let message = format!("the agent is called `{}`, but its directory is `{directory}`", name.value);
    let help = format!("write `name: {directory}`, or rename the directory");
    findings.add("spec::name-differs", name.span, message, help);
}

fn limits(node: &Node, findings: &mut Findings) -> Option<Limits> {
    let fields = Fields::of(node, &LIMITS, findings)?;
    let usd = fields.get("usd").and_then(|node| {
        let value = values::usd(node, "usd", findings)?;
        Some(Spanned { value, span: node.span })
    });
    let wall_clock = fields.get("wall_clock").and_then(|node| values::duration(node, "wall_clock", findings));
    for (zero, name) in [
        (usd.as_ref().is_some_and(|usd| usd.value.0 == 0), "usd"),
        (wall_clock == Some(Duration::ZERO), "wall_clock"),
    ] {
        if zero {
            let span = fields.place_of(name);
            findings.add(
                "spec::wrong-value",
                span,
                format!("`{name}` cannot be 0"),
                "use more, or remove it",
            );
        }
    }
    let mut count = |name| fields.get(name).and_then(|node| values::count(node, name, findings));
    Some(Limits {
        iterations: count("iterations").unwrap_or(ITERATIONS_DEFAULT),
        usd,
        wall_clock,
        output_tokens: count("output_tokens"),
        context_tokens: count("context_tokens"),
        tokens: count("tokens"),
        model_calls: count("model_calls"),
    })
}

fn tools(node: &Node, findings: &mut Findings) -> Option<Vec<ToolEntry>> {
    let items = values::list(node, "tools", findings)?;
    let mut entries: Vec<ToolEntry> = Vec::new();
    for item in items {
        let Some(entry) = tool(item, findings) else { continue };
        if entries.iter().any(|other| other.name.value == entry.name.value) {
            let message = format!("the tool `{}` is here twice", entry.name.value);
            findings.add("spec::duplicate-tool", entry.name.span, message, "keep one of them");
            continue;
        }
        entries.push(entry);
    }
    Some(entries)
}

fn tool(node: &Node, findings: &mut Findings) -> Option<ToolEntry> {
    if let Some(bare) = node.as_text() {
        let message = format!("a tool is a mapping of fields, not `{}`", excerpt(bare));
        findings.add("spec::wrong-value", node.span, message, format!("write `name: {}`", excerpt(bare)));
        return None;
    }
    let fields = Fields::of(node, &TOOL, findings)?;
    if fields.get("server").is_some() {
        return None;
    }
    let name = fields.require("name", "name: get_time", findings)?;
    let name = values::text(name, "name", findings)?;
    if BUILTIN_TOOLS.contains(&name.value.as_str()) {
        return Some(ToolEntry {
            name,
            source: ToolSource::Builtin("get_time"),
            access: Access::Read,
            only: None,
            approval: None,
            effect: None,
            on_interrupt: OnInterrupt::default(),
            hosts: vec![],
            env: BTreeMap::new(),
        });
    }
    let shown = excerpt(&name.value);
    let offered = format!("this version offers: {}", BUILTIN_TOOLS.join(", "));
    if LATER_TOOLS.contains(&name.value.as_str()) || name.value.starts_with("tools/") {
        let message = format!("the tool `{shown}` is not supported yet");
        findings.add("spec::not-supported-yet", name.span, message, offered);
        return None;
    }
    let close = similar(&name.value, BUILTIN_TOOLS.iter().copied());
    let help = close.map_or(offered, |close| format!("did you mean `{close}`?"));
    findings.add("spec::unknown-tool", name.span, format!("no tool `{shown}`"), help);
    None
}

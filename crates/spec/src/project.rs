//! `weir.yaml`: what the agents of a project share.

mod access;
mod governance;
mod models;

use std::collections::BTreeMap;

use weir_types::ModelCard;

use crate::agent::AclEntry;
use crate::diagnostic::{Findings, Span, Spanned};
use crate::document;
use crate::fields::Fields;
use crate::format;
use crate::rules::{Budget, Hooks, Routing, Rule, Scope};
use crate::shape::{Choice, Kind, Shape, optional, planned};
use crate::{Access, Credential, Principal};

/// `weir.yaml`.
pub(crate) static PROJECT: Shape = Shape {
    what: "a project",
    doc: "What the agents of a project share.",
    fields: &[
        optional("project", Kind::Format(&format::NAME), "The project's name."),
        optional(
            "models",
            Kind::Map(&format::MODEL_NAME, &Kind::Shape(&models::MODEL)),
            "Models that the catalog lacks, or knows differently, by `provider/name`.",
        ),
        optional(
            "service_accounts",
            Kind::List(&Kind::Shape(&access::SERVICE_ACCOUNT)),
            "Identities that are nobody's, for loops and programs.",
        ),
        optional(
            "groups",
            Kind::Map(&format::NAME, &Kind::List(&Kind::Format(&format::USER))),
            "Groups and their members. `admin`, `user` and `reader` always exist.",
        ),
        optional(
            "tool_grants",
            Kind::List(&Kind::Shape(&access::TOOL_GRANT)),
            "Who may use which tool. What an agent can do is in its spec; who may have it done is here.",
        ),
        optional(
            "mcp_credentials",
            Kind::Map(&format::MCP, &Kind::Map(&format::PRINCIPAL, &Kind::Shape(&access::CREDENTIAL))),
            "How MCP servers are convinced of who is asking, by server and principal.",
        ),
        optional(
            "rules",
            Kind::List(&Kind::Shape(&governance::RULE)),
            "What happens to calls. The first rule that matches, from the top, decides.",
        ),
        optional("budgets", Kind::Shape(&governance::BUDGETS), "What may be used."),
        optional("four_eyes", Kind::Truth, "Whether nobody may approve what they asked for themselves."),
        optional(
            "hooks",
            Kind::Shape(&governance::HOOKS),
            "What happens around every append to the journal.",
        ),
        planned("knowledge", Kind::Shape(&KNOWLEDGE), "What agents can search."),
        planned("routing", Kind::Shape(&governance::ROUTING), "Where turns run."),
        optional(
            "region",
            Kind::Format(&format::REGION),
            "Where models have to run, unless an agent says otherwise.",
        ),
        optional(
            "registries",
            Kind::Map(&format::REGISTRY_NAME, &Kind::Format(&format::REGISTRY)),
            "Where skills are fetched from, if not from the host that their name begins with.",
        ),
    ],
    choice: Choice::Free,
    instead: &[
        ("name", "write `project`"),
        ("credentials", "write `mcp_credentials`"),
        ("grants", "write `tool_grants`"),
        ("policies", "policies are files: policies/*.cedar; simple ones are `rules`"),
        ("agents", "an agent is a file of its own: agents/NAME/spec.yaml"),
        ("loops", "a loop is a file of its own: loops/NAME.yaml"),
    ],
};

static KNOWLEDGE: Shape = Shape {
    what: "`knowledge`",
    doc: "What agents can search.",
    fields: &[optional(
        "paths",
        Kind::Some(&Kind::Format(&format::PATH)),
        "Files and directories of the project.",
    )],
    choice: Choice::Some(&["paths"]),
    instead: &[],
};

/// What the agents of a project share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// Its name.
    pub name: Option<Spanned<String>>,
    /// What it adds to the model catalog, in the order of the file.
    pub models: Vec<(String, ModelCard)>,
    /// Identities that are nobody's.
    pub service_accounts: Vec<Spanned<String>>,
    /// Groups and their members; absent when groups come from somewhere else.
    pub groups: Option<Vec<Group>>,
    /// Who may use which tool.
    pub tool_grants: Vec<ToolGrant>,
    /// How servers are convinced of who is asking.
    pub mcp_credentials: Vec<ServerCredentials>,
    /// What happens to calls; the first that matches decides.
    pub rules: Vec<Spanned<Rule>>,
    /// Where the parts of each rule are, in the same order.
    pub rule_places: Vec<RulePlaces>,
    /// What may be used, each with the place of its dollars or its name.
    pub budgets: BTreeMap<Scope, Spanned<Budget>>,
    /// Whether nobody approves what they asked for themselves.
    pub four_eyes: bool,
    /// What happens around every append.
    pub hooks: Hooks,
    /// Files that agents can search.
    pub knowledge: Vec<Spanned<String>>,
    /// Where turns run.
    pub routing: Routing,
    /// Where models have to run, unless an agent says otherwise.
    pub region: Option<Spanned<String>>,
    /// Where skills are fetched from: a URL, or a directory.
    pub registries: BTreeMap<String, Spanned<String>>,
    /// What else it names, for whoever checks that it exists.
    pub(crate) mentions: Mentions,
}

/// Where the parts of a rule are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulePlaces {
    /// The tools that its conditions name.
    pub tools: Vec<Spanned<String>>,
    /// Each example of a call it is about.
    pub matches: Vec<Span>,
    /// Each example of a call it is not about.
    pub not: Vec<Span>,
}

/// What rules, hooks and routing name, with its places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mentions {
    pub(crate) principals: Vec<Spanned<Principal>>,
    pub(crate) agents: Vec<Spanned<String>>,
    pub(crate) scripts: Vec<Spanned<String>>,
    /// Programs that are asked before an append.
    pub(crate) programs: Vec<Spanned<String>>,
    /// Kinds that hooks want to be asked about before an append.
    pub(crate) refused_kinds: Vec<Spanned<String>>,
}

impl Project {
    /// The programs that are asked before an append, with their places.
    pub fn hook_programs(&self) -> impl Iterator<Item = Spanned<Vec<String>>> {
        let programs = self.mentions.programs.iter();
        programs.map(|run| Spanned { value: governance::words_of(&run.value), span: run.span })
    }
}

/// A group and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Spanned<String>,
    /// Its members.
    pub members: Vec<Spanned<Principal>>,
}

/// Who may use a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolGrant {
    /// The tool, as agents list it: `mcp://…`, `weir://…`, `tools/…` or the name of a built-in.
    pub tool: Spanned<String>,
    /// Who may use it, up to which level.
    pub grants: Vec<AclEntry<Access>>,
}

/// The credentials of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCredentials {
    /// The server, as agents list it.
    pub server: Spanned<String>,
    /// Whose credential it is.
    pub credentials: Vec<(Spanned<Principal>, Credential)>,
}

/// What a project says, as far as it can be read.
pub(crate) fn read(bytes: &[u8], findings: &mut Findings) -> Option<Project> {
    let root = document::read(bytes, &PROJECT, findings)?;
    let fields = Fields::of(&root, &PROJECT)?;
    let registries = fields.entries("registries").iter().filter_map(|entry| {
        let value = entry.value.as_text()?.to_owned();
        Some((entry.key.value.clone(), Spanned { value, span: entry.value.span }))
    });
    let mut mentions = Mentions::default();
    let (rules, rule_places) = governance::rules(&fields, &mut mentions, findings).into_iter().unzip();
    Some(Project {
        name: fields.text("project"),
        models: models::read(&fields, findings),
        service_accounts: access::service_accounts(&fields, findings),
        groups: fields.has("groups").then(|| access::groups(&fields)),
        tool_grants: access::tool_grants(&fields, findings),
        mcp_credentials: access::credentials(&fields, findings),
        rules,
        rule_places,
        budgets: governance::budgets(&fields),
        four_eyes: fields.truth("four_eyes").unwrap_or(false),
        hooks: governance::hooks(&fields, &mut mentions),
        knowledge: fields.fields("knowledge").map(|fields| fields.texts("paths")).unwrap_or_default(),
        routing: governance::routing(&fields, &mut mentions),
        region: fields.text("region"),
        registries: registries.collect(),
        mentions,
    })
}

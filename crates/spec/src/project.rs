//! `weir.yaml`: what the agents of a project share.

use std::collections::BTreeMap;

use weir_types::{ModelCard, Price, Wire};

use crate::agent::AclEntry;
use crate::diagnostic::{Diagnostic, Findings, Spanned};
use crate::fields::{Fields, Shape};
use crate::node::{Node, Value, excerpt};
use crate::rules::{Budget, Hooks, Routing, Rule, Scope};
use crate::{Access, Credential, Principal, values, yaml};

const PROJECT: Shape = Shape {
    what: "a project",
    known: &["project", "models"],
    later: &[
        "service_accounts",
        "tool_grants",
        "mcp_credentials",
        "credentials",
        "rules",
        "budgets",
        "knowledge",
        "routing",
        "four_eyes",
        "groups",
        "hooks",
    ],
};

const MODEL: Shape = Shape {
    what: "a model",
    known: &["wire", "api_name", "base_url", "key_env", "context_window", "output_max", "price", "regions"],
    later: &[],
};

const PRICE: Shape = Shape {
    what: "a price, in dollars per million tokens,",
    known: &["input", "output", "cache_read", "cache_write"],
    later: &[],
};

const WIRES: [(&str, Wire); 7] = [
    (Wire::Anthropic.as_str(), Wire::Anthropic),
    (Wire::OpenaiChat.as_str(), Wire::OpenaiChat),
    (Wire::OpenaiResponses.as_str(), Wire::OpenaiResponses),
    (Wire::Gemini.as_str(), Wire::Gemini),
    (Wire::Scripted.as_str(), Wire::Scripted),
    (Wire::Echo.as_str(), Wire::Echo),
    (Wire::Replay.as_str(), Wire::Replay),
];

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

impl Project {
    /// Reads a project. `file` is its path; problems name it.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let mut findings = Findings::new(file);
        let project = yaml::document(bytes, &mut findings).and_then(|root| project(&root, &mut findings));
        findings.conclude(project)
    }
}

fn project(root: &Node, findings: &mut Findings) -> Option<Project> {
    let fields = Fields::of(root, &PROJECT, findings)?;
    let name = fields.get("project").and_then(|node| values::name(node, "project", findings));
    let models = fields.get("models").and_then(|node| models(node, findings)).unwrap_or_default();
    Some(Project { name, models, ..Project::default() })
}

fn models(node: &Node, findings: &mut Findings) -> Option<Vec<(String, ModelCard)>> {
    let Value::Map(entries) = &node.value else {
        let message = format!("`models` is a mapping from name to model, not {}", node.kind());
        findings.add(
            "spec::wrong-value",
            node.span,
            message,
            "write `models: { provider/name: { wire: … } }`",
        );
        return None;
    };
    let mut models = Vec::new();
    for entry in entries {
        let name = &entry.key.value;
        let full =
            name.split_once('/').is_some_and(|(provider, bare)| !provider.is_empty() && !bare.is_empty());
        if !full || name.chars().any(char::is_whitespace) {
            let message = format!("`{}` is not the name of a model", excerpt(name));
            findings.add("spec::bad-name", entry.key.span, message, "write `provider/name`");
        }
        if let Some(card) = model(&entry.value, findings) {
            models.push((name.clone(), card));
        }
    }
    Some(models)
}

fn model(node: &Node, findings: &mut Findings) -> Option<ModelCard> {
    let fields = Fields::of(node, &MODEL, findings)?;
    let text = |name, findings: &mut Findings| {
        fields.get(name).and_then(|node| values::text(node, name, findings)).map(|text| text.value)
    };
    let wire = fields.require("wire", "wire: openai-chat", findings);
    let wire = wire.and_then(|node| values::word(node, "wire", &WIRES, findings));
    let context_window = fields.require("context_window", "context_window: 128000", findings);
    let context_window = context_window.and_then(|node| values::count(node, "context_window", findings));
    let output_max = fields.require("output_max", "output_max: 8192", findings);
    let output_max = output_max.and_then(|node| values::count(node, "output_max", findings));
    let card = ModelCard {
        wire: wire.unwrap_or(Wire::OpenaiChat),
        api_name: text("api_name", findings),
        base_url: fields.get("base_url").and_then(|node| base_url(node, findings)),
        key_env: fields.get("key_env").and_then(|node| key_env(node, findings)),
        context_window: context_window.unwrap_or_default(),
        output_max: output_max.unwrap_or_default(),
        price: fields.get("price").and_then(|node| price(node, findings)),
        regions: fields.get("regions").and_then(|node| regions(node, findings)).unwrap_or_default(),
    };
    if card.output_max >= card.context_window && context_window.is_some() {
        let message = "`output_max` leaves no room for a question in `context_window`";
        let help = "the context window holds input and output together";
        findings.add("spec::contradiction", fields.place_of("output_max"), message, help);
    }
    Some(card)
}

fn base_url(node: &Node, findings: &mut Findings) -> Option<String> {
    let url = values::text(node, "base_url", findings)?.value;
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if host
        .is_some_and(|host| !host.is_empty() && !host.starts_with('/') && !url.contains(char::is_whitespace))
    {
        return Some(url);
    }
    let message = format!("`base_url` is an address, not {}", node.kind());
    findings.add("spec::wrong-value", node.span, message, "write it like `http://localhost:11434/v1`");
    None
}

/// The name of a variable. What is refused is not repeated: it may be the key itself.
fn key_env(node: &Node, findings: &mut Findings) -> Option<String> {
    let name = values::text(node, "key_env", findings)?.value;
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if name.bytes().all(fits) && !name.starts_with(|first: char| first.is_ascii_digit()) {
        return Some(name);
    }
    let message = "`key_env` is the name of an environment variable, never a key itself";
    findings.add(
        "spec::wrong-value",
        node.span,
        message,
        "write a name such as `ACME_API_KEY`, and set it there",
    );
    None
}

fn price(node: &Node, findings: &mut Findings) -> Option<Price> {
    let fields = Fields::of(node, &PRICE, findings)?;
    let input = fields.require("input", "input: 3.00", findings);
    let output = fields.require("output", "output: 15.00", findings);
    let input = input.and_then(|node| values::usd(node, "input", findings));
    let output = output.and_then(|node| values::usd(node, "output", findings));
    // Without prices of their own, cached tokens cost what others cost.
    let mut cached = |name| match fields.get(name) {
        Some(node) => values::usd(node, name, findings),
        None => input,
    };
    let (cache_read, cache_write) = (cached("cache_read"), cached("cache_write"));
    Some(Price { input: input?, output: output?, cache_read: cache_read?, cache_write: cache_write? })
}

fn regions(node: &Node, findings: &mut Findings) -> Option<Vec<String>> {
    let items = values::list(node, "regions", findings)?;
    Some(
        items
            .iter()
            .filter_map(|item| values::text(item, "regions", findings))
            .map(|text| text.value)
            .collect(),
    )
}

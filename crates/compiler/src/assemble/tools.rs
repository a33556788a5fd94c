//! The tools of one agent: what each entry offers, and how strict to be with it.

use serde_json::{Value, json};
use weir_spec::manifest::Tool;
use weir_spec::{Access, AgentSource, Diagnostic, Sources, Spanned, ToolEntry, ToolSource};
use weir_types::{Effect, Json, Risk};

use super::Found;
use super::naming::{Offer, settle};
use crate::builtin;
use crate::servers::Offered;

/// Finds the tools of one agent.
pub(super) struct ToolsOf<'a> {
    pub(super) source: &'a AgentSource,
    pub(super) found: &'a Found,
    pub(super) sources: &'a Sources,
    pub(super) problems: &'a mut Vec<Diagnostic>,
}

impl ToolsOf<'_> {
    /// Its tools, in the order of its spec.
    pub(super) fn resolve(mut self) -> Vec<Tool> {
        let source = self.source;
        let mut offers = Vec::new();
        for entry in &source.spec.tools {
            match &entry.source {
                ToolSource::Builtin(name) => offers.extend(self.builtin(entry, name)),
                ToolSource::Script(stem) => offers.extend(self.script(entry, stem)),
                ToolSource::Agent(name) => offers.extend(self.agent(entry, name)),
                ToolSource::Mcp(_) => {
                    if let Some((_, offered)) = self.found.servers.get(&entry.name.value) {
                        offers.extend(self.server(entry, offered));
                    }
                }
            }
        }
        settle(&source.spec.file, offers, self.problems)
    }

    /// `access` is the highest level that an entry offers: what writes is left out of one that reads.
    fn builtin(&mut self, entry: &ToolEntry, name: &str) -> Vec<Offer> {
        let mut offers = Vec::new();
        let (mut all, mut left_out) = (0, 0);
        for builtin in builtin::ALL.iter().filter(|builtin| builtin.entry == name) {
            all += 1;
            // A request may read as well as write; each call says which.
            let (effect, risk) = match (builtin.name, entry.access) {
                ("http", Access::Read) => (Effect::Read, Risk::Low),
                _ => (entry.effect.unwrap_or(builtin.effect), builtin.risk),
            };
            if effect != Effect::Read && entry.access == Access::Read {
                left_out += 1;
                continue;
            }
            let parameters = Json::of(&json!({"type": "object"}));
            offers.push(Offer::own(
                entry,
                tool(entry, builtin.name, (String::new(), parameters), effect, risk),
            ));
        }
        if all > 0 && left_out == all {
            self.refuse(
                &entry.name,
                format!("`{name}` writes, but its entry offers `access: read`"),
                "write `access: write`",
            );
        }
        offers
    }

    fn script(&mut self, entry: &ToolEntry, stem: &str) -> Option<Offer> {
        let script = self.found.scripts.tools.get(stem)?;
        let (effect, risk) = by_author(entry);
        let says = (script.description.clone(), script.parameters.clone());
        Some(Offer::own(entry, tool(entry, &script.name, says, effect, risk)))
    }

    fn agent(&mut self, entry: &ToolEntry, name: &str) -> Option<Offer> {
        self.sources.agents.get(name)?;
        let (effect, risk) = by_author(entry);
        let description = format!("Asks the agent `{name}` and returns its answer.");
        let parameters = Json::of(&json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What to ask, with all it needs to know"}},
            "required": ["message"],
            "additionalProperties": false,
        }));
        Some(Offer::own(entry, tool(entry, name, (description, parameters), effect, risk)))
    }

    fn server(&mut self, entry: &ToolEntry, Offered { pins, names }: &Offered) -> Vec<Offer> {
        for name in entry.only.iter().flatten().filter(|name| !pins.contains_key(&name.value)) {
            let similar = names.iter().max_by(|a, b| similarity(a, name).total_cmp(&similarity(b, name)));
            let help = match similar.filter(|similar| similarity(similar, name) > 0.7) {
                Some(similar) => format!("did you mean `{similar}`?"),
                None => format!("it has: {}", names.join(", ")),
            };
            let message = format!("`{}` has no tool `{}`", entry.name.value, name.value);
            self.problem("build::unknown-tool", name, message, help);
        }
        let mut offers = Vec::new();
        for (name, pin) in pins {
            let named = entry.only.iter().flatten().find(|only| only.value == *name);
            if entry.only.is_some() && named.is_none() {
                continue;
            }
            let definition = pin.definition.to_value();
            let (effect, risk) = strictness(entry, &definition);
            if effect != Effect::Read && entry.access == Access::Read {
                if let Some(named) = named {
                    let message =
                        format!("`{name}` writes, as its server says, but its entry offers `access: read`");
                    self.refuse(
                        named,
                        message,
                        "write `access: write`, or `effect: read` if you know better",
                    );
                }
                continue;
            }
            let description =
                definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
            let parameters = definition.get("inputSchema").map_or_else(Json::empty_object, Json::of);
            let tool = tool(entry, name, (description, parameters), effect, risk);
            offers.push(Offer::of_server(entry, tool));
        }
        offers
    }

    fn refuse(&mut self, at: &Spanned<String>, message: String, help: &str) {
        self.problem("build::access", at, message, help.to_owned());
    }

    fn problem(&mut self, code: &'static str, at: &Spanned<String>, message: String, help: String) {
        self.problems.push(Diagnostic::error(code, &self.source.spec.file, at.span, message, help));
    }
}

fn tool(entry: &ToolEntry, name: &str, says: (String, Json), effect: Effect, risk: Risk) -> Tool {
    let (description, parameters) = says;
    Tool {
        name: name.to_owned(),
        source: entry.name.value.clone(),
        remote_name: None,
        description,
        parameters,
        access: entry.access,
        effect,
        risk,
        on_interrupt: entry.on_interrupt,
        approval: entry.approval,
        hosts: entry.hosts.clone(),
        env: entry.env.clone(),
    }
}

/// How strict to be with a tool of which only its author speaks.
fn by_author(entry: &ToolEntry) -> (Effect, Risk) {
    let effect = entry.effect.unwrap_or(match entry.access {
        Access::Read => Effect::Read,
        Access::Write => Effect::Write,
    });
    (effect, if effect == Effect::Read { Risk::Low } else { Risk::High })
}

/// How strict to be with a tool of a server. Its annotations can make it stricter; only the author, with `access` or `effect`,
/// can make it less so. So no annotation lowers a risk: a tool that writes and calls itself harmless is as risky as one of
/// which nothing is known.
fn strictness(entry: &ToolEntry, definition: &Value) -> (Effect, Risk) {
    let hint =
        |name: &str| definition.get("annotations").and_then(|hints| hints.get(name)).and_then(Value::as_bool);
    let (author, _) = by_author(entry);
    // What destroys writes, whether or not its server says so in as many words.
    let reads = hint("readOnlyHint").or(hint("destructiveHint").filter(|destroys| *destroys).map(|_| false));
    let server = match (reads, hint("idempotentHint")) {
        (Some(false), Some(true)) => Effect::Idempotent,
        (Some(false), _) => Effect::Write,
        _ => Effect::Read,
    };
    let effect = entry.effect.unwrap_or_else(|| author.max(server));
    (effect, if effect == Effect::Read { Risk::Low } else { Risk::High })
}

fn similarity(known: &str, name: &Spanned<String>) -> f64 {
    strsim::jaro_winkler(known, &name.value)
}

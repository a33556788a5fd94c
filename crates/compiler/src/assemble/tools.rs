//! The tools of one agent: what each entry offers, and how strict to be with it.

use std::time::Duration;

use serde_json::{Value, json};
use weir_spec::manifest::Tool;
use weir_spec::{Access, AgentSource, Diagnostic, Sources, Spanned, ToolEntry, ToolSource};
use weir_types::{Effect, Json, Risk};

use super::Found;
use super::class::{self, Annotations, Class, Offered as Classified};
use super::naming::{Offer, settle};
use crate::builtin;
use crate::servers::Offered;

/// Most tools that one warning names.
const NAMED_MAX: usize = 10;

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
            let class = match (builtin.name, entry.ceiling()) {
                ("http", Access::Read) => Class { effect: Effect::Read, risk: Risk::Low },
                _ => Class { effect: entry.effect.unwrap_or(builtin.effect), risk: builtin.risk },
            };
            if class.effect != Effect::Read && entry.ceiling() == Access::Read {
                left_out += 1;
                continue;
            }
            let parameters = Json::of(&json!({"type": "object"}));
            offers.push(Offer::own(entry, tool(entry, builtin.name, (String::new(), parameters), class)));
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
        let says = (script.description.clone(), script.parameters.clone());
        let offer = Offer::own(entry, tool(entry, &script.name, says, class::by_author(entry)));
        if entry.access.is_none() && entry.effect.is_none() {
            let message = format!(
                "nothing says whether `{}` only reads: it counts as a write of high risk, and calls of it are stubbed",
                entry.name.value
            );
            let help = "add `access: read` to its entry if it only reads, else `access: write`";
            self.warn(entry, message, help);
        }
        Some(offer)
    }

    fn agent(&mut self, entry: &ToolEntry, name: &str) -> Option<Offer> {
        self.sources.agents.get(name)?;
        let description = format!("Asks the agent `{name}` and returns its answer.");
        let parameters = Json::of(&json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What to ask, with all it needs to know"}},
            "required": ["message"],
            "additionalProperties": false,
        }));
        Some(Offer::own(entry, tool(entry, name, (description, parameters), class::by_author(entry))))
    }

    fn server(&mut self, entry: &ToolEntry, offered: &Offered) -> Vec<Offer> {
        self.unknown_names(entry, offered);
        let mut offers = Vec::new();
        let (mut unknown, mut left_out) = (Vec::new(), 0);
        for (name, pin) in &offered.pins {
            let named = entry.only.iter().flatten().find(|only| only.value == *name);
            if entry.only.is_some() && named.is_none() {
                continue;
            }
            let definition = pin.definition.to_value();
            match (class::of_server(entry.access, entry.effect, Annotations::of(&definition)), named) {
                (Classified::As(class), _) => offers.push(of_server(entry, name, &definition, class)),
                (Classified::Writes, Some(named)) => {
                    let message =
                        format!("`{name}` writes, as its server says, but its entry offers `access: read`");
                    let help = "write `access: write`, or `effect: read` if you know better";
                    self.refuse(named, message, help);
                }
                (Classified::Unknown, Some(named)) => {
                    let message = format!(
                        "`{name}` may write: its server does not say that it only reads, and its entry has no `access`"
                    );
                    let help = "write `access: read` if it only reads, else `access: write`";
                    self.refuse(named, message, help);
                }
                (Classified::Writes, None) => left_out += 1,
                (Classified::Unknown, None) => unknown.push(name.as_str()),
            }
        }
        if entry.access.is_none() && (!unknown.is_empty() || (offers.is_empty() && left_out > 0)) {
            self.tell_unknown(entry, &unknown, left_out);
        }
        offers
    }

    /// Names in `only` that the server lacks, or of which nothing is known as nobody asked it.
    fn unknown_names(&mut self, entry: &ToolEntry, Offered { pins, names, was_asked }: &Offered) {
        let server = &entry.name.value;
        for name in entry.only.iter().flatten().filter(|name| !pins.contains_key(&name.value)) {
            if !was_asked {
                let message = format!("`{}` of `{server}` is not pinned in weir.lock", name.value);
                let help = "run `weir build`: it asks the server whether it has that tool, and pins it";
                self.problem("build::not-pinned", name, message, help.to_owned());
                continue;
            }
            let similar = names.iter().max_by(|a, b| similarity(a, name).total_cmp(&similarity(b, name)));
            let help = match similar.filter(|similar| similarity(similar, name) > 0.7) {
                Some(similar) => format!("did you mean `{similar}`?"),
                None => format!("it has: {}", names.join(", ")),
            };
            let message = format!("`{server}` has no tool `{}`", name.value);
            self.problem("build::unknown-tool", name, message, help);
        }
    }

    /// An entry without `access` that some tools are left out for.
    fn tell_unknown(&mut self, entry: &ToolEntry, unknown: &[&str], left_out: usize) {
        let named: Vec<String> = unknown.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect();
        let more = unknown.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let message = match unknown.len() {
            0 => format!(
                "none of the {left_out} tools of this server is offered: they write, and the entry has no `access`"
            ),
            _ => format!(
                "tools of this server are left out, as it does not call them read-only and the entry has no `access`: {}{more}",
                named.join(", ")
            ),
        };
        let help = "add `access: read` if they only read, else `access: write` (calls are then stubbed without `--live-writes`); \
                    tools that differ go into two entries with `only`";
        self.warn(entry, message, help);
    }

    fn warn(&mut self, entry: &ToolEntry, message: String, help: &str) {
        let (file, span) = (&self.source.spec.file, entry.name.span);
        self.problems.push(Diagnostic::error("build::unknown-access", file, span, message, help).warning());
    }

    fn refuse(&mut self, at: &Spanned<String>, message: String, help: &str) {
        self.problem("build::access", at, message, help.to_owned());
    }

    fn problem(&mut self, code: &'static str, at: &Spanned<String>, message: String, help: String) {
        self.problems.push(Diagnostic::error(code, &self.source.spec.file, at.span, message, help));
    }
}

/// A tool of a server, as its definition says.
fn of_server(entry: &ToolEntry, name: &str, definition: &Value, class: Class) -> Offer {
    let description = definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let parameters = definition.get("inputSchema").map_or_else(Json::empty_object, Json::of);
    Offer::of_server(entry, tool(entry, name, (description, parameters), class))
}

fn tool(entry: &ToolEntry, name: &str, says: (String, Json), class: Class) -> Tool {
    let (description, parameters) = says;
    let Class { effect, risk } = class;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Tool {
        name: name.to_owned(),
        source: entry.name.value.clone(),
        remote_name: None,
        description,
        parameters,
        access: entry.ceiling(),
        effect,
        risk,
        on_interrupt: entry.on_interrupt,
        approval: entry.approval,
        approval_terms: entry.approval_terms.clone(),
        hosts: entry.hosts.clone(),
        env: entry.env.clone(),
        sandbox: entry.sandbox,
        timeout_ms: entry.timeout.map(millis),
        cpu_ms: entry.cpu.map(millis),
    }
}

fn similarity(known: &str, name: &Spanned<String>) -> f64 {
    strsim::jaro_winkler(known, &name.value)
}

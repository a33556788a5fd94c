//! From a manifest to the tools of an agent: what each entry offers, and who may use it.

use std::sync::Arc;
use std::time::Duration;

use weir_events::Allowance;
use weir_spec::manifest::{self, Manifest, Source};
use weir_spec::{Access, SCRIPT_CPU, Scope};
use weir_tools::{Builtin, Bundle, Gate, Kind, Level, Module, Offer};
use weir_types::{Effect, OnInterrupt, Risk, ToolDefinition};

use crate::budgets::Budgets;
use crate::gate::PolicyGate;

/// What an agent of a manifest may call. Whoever has tools that can answer at length has one to read on, too.
pub fn offers(manifest: &Manifest, agent: &manifest::Agent) -> Vec<Offer> {
    let mut offers: Vec<Offer> = agent.tools.iter().filter_map(|tool| offer(manifest, tool)).collect();
    let is_brief = |offer: &Offer| matches!(offer.kind, Kind::Builtin(Builtin::GetTime));
    if offers.iter().any(|offer| !is_brief(offer)) {
        offers.push(reading_on());
    }
    offers
}

/// The same, as the kernel wants it.
pub fn tools(agent: &manifest::Agent, offers: &[Offer]) -> Vec<weir_kernel::Tool> {
    let listed = |name: &str| agent.tools.iter().find(|tool| tool.name == name);
    let tool = |offer: &Offer| {
        let listed = listed(&offer.definition.name);
        weir_kernel::Tool {
            definition: offer.definition.clone(),
            source: offer.source.clone(),
            effect: offer.effect,
            risk: offer.risk,
            on_interrupt: listed.map_or(OnInterrupt::Report, |tool| tool.on_interrupt),
            agent: offer.callee().map(str::to_owned),
            approval: listed.map(|tool| tool.approval_terms.clone()).unwrap_or_default(),
        }
    };
    offers.iter().map(tool).collect()
}

/// What decides, as a manifest's policy says; these hold every role and grant besides. The one place where a gate is made.
pub fn gate(manifest: &Manifest, admins: impl IntoIterator<Item = String>) -> Arc<dyn Gate> {
    let admins: Vec<String> = admins.into_iter().collect();
    Arc::new(PolicyGate::new(manifest, &admins))
}

/// What decides where there is no build: the rules that always hold.
pub fn bare_gate(admins: impl IntoIterator<Item = String>) -> Arc<dyn Gate> {
    let policy = weir_policy::compile(&weir_policy::Source::default());
    let manifest =
        Manifest { policy: policy.map(|compiled| compiled.text).unwrap_or_default(), ..Manifest::default() };
    gate(&manifest, admins)
}

/// Why nothing would be allowed by a manifest's policy, and what to do about it: it cannot be read.
pub fn policy_problem(manifest: &Manifest) -> Option<[String; 2]> {
    PolicyGate::new(manifest, &[]).problem().cloned()
}

/// What a project allows in all, as a manifest says; these may put more in.
pub fn budgets(manifest: &Manifest, admins: impl IntoIterator<Item = String>) -> Budgets {
    let of = |scope| {
        let budget = manifest.budgets.get(&scope).copied().unwrap_or_default();
        Allowance {
            model_calls: budget.model_calls,
            tokens: budget.tokens,
            nano: budget.usd,
            wall_clock_ms: budget.wall_clock_ms,
        }
    };
    Budgets {
        run: of(Scope::PerRun),
        session: of(Scope::PerSession),
        agent: of(Scope::PerAgent),
        principal: of(Scope::PerPrincipal),
        day: of(Scope::PerDay),
        raised_by: admins.into_iter().collect(),
    }
}

fn offer(manifest: &Manifest, tool: &manifest::Tool) -> Option<Offer> {
    let kind = kind(manifest, tool)?;
    let definition = match &kind {
        // What the program's own tools do is said by the program.
        Kind::Builtin(builtin) => builtin.definition(),
        Kind::Script(_) | Kind::Server { .. } | Kind::Agent(_) => ToolDefinition {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.parameters.clone(),
        },
    };
    Some(Offer {
        definition,
        source: tool.source.clone(),
        kind,
        access: level(tool.access),
        effect: tool.effect,
        risk: tool.risk,
        hosts: tool.hosts.clone(),
        timeout: tool.timeout_ms.map(Duration::from_millis),
        cpu: Some(tool.cpu_ms.map_or(SCRIPT_CPU, Duration::from_millis)),
    })
}

/// INVARIANT: a manifest has the source of every tool that its agents list; what lacks it is not offered.
fn kind(manifest: &Manifest, tool: &manifest::Tool) -> Option<Kind> {
    if let Some(agent) = tool.source.strip_prefix("weir://") {
        return Some(Kind::Agent(agent.to_owned()));
    }
    match manifest.sources.get(&tool.source) {
        Some(Source::Script(script)) => Some(Kind::Script(Arc::new(bundle(script)))),
        Some(Source::Mcp(_)) => {
            let remote_name = tool.remote_name.clone().unwrap_or_else(|| tool.name.clone());
            Some(Kind::Server { remote_name })
        }
        None => Builtin::named(&tool.name).map(Kind::Builtin),
    }
}

/// A script with all that it imports.
pub(crate) fn bundle(script: &manifest::ScriptTool) -> Bundle {
    let module = |module: &manifest::Module| Module { code: module.code.clone(), map: module.map.clone() };
    let modules = script.modules.iter().map(|(path, found)| (path.clone(), module(found)));
    Bundle { entry: script.entry.clone(), modules: modules.collect() }
}

fn reading_on() -> Offer {
    Offer {
        definition: Builtin::ResultRead.definition(),
        source: Builtin::ResultRead.name().to_owned(),
        kind: Kind::Builtin(Builtin::ResultRead),
        access: Level::Read,
        effect: Effect::Read,
        risk: Risk::Low,
        hosts: Vec::new(),
        timeout: None,
        cpu: None,
    }
}

fn level(access: Access) -> Level {
    match access {
        Access::Read => Level::Read,
        Access::Write => Level::Write,
    }
}

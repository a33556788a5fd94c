//! The model of every agent: known, priced where dollars are limited, and running where it has to.

use std::collections::BTreeMap;

use weir_types::{Catalog, CatalogError, Explain, ModelCard, Wire};

use super::PROJECT_FILE;
use crate::diagnostic::{Diagnostic, Spanned};
use crate::project::Project;
use crate::rules::Budget;
use crate::sources::{AgentSource, Model, Sources};

/// What runs on this machine runs in every region.
const LOCAL: &str = "local";

/// Finds the model of every agent.
pub(super) fn find(sources: &mut Sources) -> Vec<Diagnostic> {
    let Sources { agents, project, catalog, .. } = sources;
    let mut problems = Vec::new();
    // Most agents share a few models, and looking one up by a bare name walks the catalog.
    let mut known: BTreeMap<String, Result<Model, CatalogError>> = BTreeMap::new();
    for agent in agents.values_mut().filter(|agent| !agent.spec.model.value.is_empty()) {
        let name = &agent.spec.model.value;
        if !known.contains_key(name) {
            let found = catalog.find(name).map(|(name, card)| Model { name, card });
            known.insert(name.clone(), found);
        }
        match &known[name] {
            Ok(model) => agent.model = Some(model.clone()),
            Err(error) => {
                let (code, help) = (error.code(), error.help());
                let at = agent.spec.model.span;
                problems.push(Diagnostic::error(code, &agent.spec.file, at, error.to_string(), help));
            }
        }
        check_price(agent, project, &mut problems);
        check_region(agent, project, catalog, &mut problems);
    }
    problems
}

fn check_price(agent: &AgentSource, project: &Project, problems: &mut Vec<Diagnostic>) {
    let AgentSource { spec, model: Some(model), .. } = agent else { return };
    if model.card.price.is_some() {
        return;
    }
    let help = "give the model a price under `models:` in weir.yaml";
    if let Some(limit) = &spec.limits.usd {
        let message = format!("a limit in dollars needs a price, and `{}` has none", model.name);
        let help = format!("remove `usd`, or {help}");
        problems.push(Diagnostic::error("spec::no-price", &spec.file, limit.span, message, help));
    }
    let in_dollars = |budget: &&Spanned<Budget>| budget.value.usd.is_some();
    if let Some(budget) = project.budgets.values().find(in_dollars).filter(|_| !is_free(&model.card)) {
        let message = format!("a budget in dollars needs a price, and `{}` has none", model.name);
        let problem = Diagnostic::error("spec::no-price", &spec.file, spec.model.span, message, help);
        problems.push(problem.related(PROJECT_FILE, budget.span, "the budget is here"));
    }
}

/// Whether nobody is paid for it.
fn is_free(card: &ModelCard) -> bool {
    matches!(card.wire, Wire::Scripted | Wire::Echo | Wire::Replay)
}

fn check_region(agent: &AgentSource, project: &Project, catalog: &Catalog, problems: &mut Vec<Diagnostic>) {
    let AgentSource { spec, model: Some(model), .. } = agent else { return };
    let (file, region) = match (&spec.region, &project.region) {
        (Some(region), _) => (spec.file.as_str(), region),
        (None, Some(region)) => (PROJECT_FILE, region),
        (None, None) => return,
    };
    let runs_in =
        |card: &ModelCard| card.regions.iter().any(|known| *known == region.value || known == LOCAL);
    if runs_in(&model.card) {
        return;
    }
    let message = match model.card.regions.as_slice() {
        [] => format!("`{}` has to run in `{}`, and nobody knows where it runs", model.name, region.value),
        known => {
            format!("`{}` has to run in `{}`, and runs in {}", model.name, region.value, known.join(", "))
        }
    };
    let there = catalog.iter().filter(|(_, card)| card.regions.contains(&region.value));
    let there: Vec<&str> = there.map(|(name, _)| name).take(3).collect();
    let help = match there.as_slice() {
        [] => format!("if it does, say so under `models:` in weir.yaml: `regions: [{}]`", region.value),
        names => format!("use one that does, like {}", names.join(", ")),
    };
    let problem = Diagnostic::error("spec::region", &spec.file, spec.model.span, message, help);
    problems.push(problem.related(file, region.span, "the region is required here"));
}

//! From places in policies to lines of files.

use weir_policy::{Kind, Place, Problem};
use weir_spec::{AclEntry, Diagnostic, Sources, Span};

use crate::place;

/// The file that a project's own settings are in.
const PROJECT_FILE: &str = "weir.yaml";

/// Where everything is written.
pub(super) struct Places<'s> {
    pub(super) sources: &'s Sources,
}

impl Places<'_> {
    /// A problem, for people. What was told when its file was read is not told again.
    pub(super) fn tell(&self, problem: &Problem) -> Option<Diagnostic> {
        if let (Kind::Duplicate, Place::Rule(_)) = (problem.kind, &problem.place) {
            return None;
        }
        let (file, span) = self.find(&problem.place);
        let told = Diagnostic::error(code(problem.kind), &file, span, &problem.message, &problem.help);
        Some(if problem.is_error() { told } else { told.warning() })
    }

    fn find(&self, at: &Place) -> (String, Span) {
        match at {
            Place::Agent { agent, principal } => self.agent(agent, |spec| entry(&spec.acl, principal)),
            Place::Always { agent, tool } => self.agent(agent, |spec| {
                let entries = spec.tools.iter();
                let mut asking = entries.filter(|entry| entry.approval.is_some());
                let found = asking.clone().find(|entry| entry.name.value.ends_with(tool.as_str()));
                found.or_else(|| asking.next()).map(|entry| entry.name.span)
            }),
            Place::Loop { name, principal } => match self.sources.loops.get(name) {
                Some(spec) => (spec.file.clone(), entry(&spec.acl, principal).unwrap_or(Span::START)),
                None => whole(PROJECT_FILE),
            },
            Place::Grant { tool, principal } => {
                let grants = self.sources.project.tool_grants.iter();
                let span = grants
                    .filter(|grant| grant.tool.value == *tool)
                    .find_map(|grant| entry(&grant.grants, principal));
                (PROJECT_FILE.to_owned(), span.unwrap_or(Span::START))
            }
            Place::Rule(index) => self.rule(*index),
            Place::Example { rule, matches, index } => {
                let places = self.sources.project.rule_places.get(*rule);
                let examples = places.map(|places| if *matches { &places.matches } else { &places.not });
                match examples.and_then(|examples| examples.get(*index)) {
                    Some(span) => (PROJECT_FILE.to_owned(), *span),
                    None => self.rule(*rule),
                }
            }
            Place::Written { path, start, end } => {
                let text = self.sources.policies.get(path).map(String::as_str).unwrap_or_default();
                (path.clone(), place::span(text, *start, *end))
            }
        }
    }

    fn agent(&self, name: &str, find: impl Fn(&weir_spec::AgentSpec) -> Option<Span>) -> (String, Span) {
        match self.sources.agents.get(name) {
            Some(agent) => (agent.spec.file.clone(), find(&agent.spec).unwrap_or(Span::START)),
            None => whole(PROJECT_FILE),
        }
    }

    fn rule(&self, index: usize) -> (String, Span) {
        let span = self.sources.project.rules.get(index).map_or(Span::START, |rule| rule.span);
        (PROJECT_FILE.to_owned(), span)
    }
}

fn whole(file: &str) -> (String, Span) {
    (file.to_owned(), Span::START)
}

fn entry<R>(entries: &[AclEntry<R>], principal: &str) -> Option<Span> {
    let named = |entry: &&AclEntry<R>| entry.principal.value.to_string() == principal;
    entries.iter().find(named).map(|entry| entry.principal.span)
}

fn code(kind: Kind) -> &'static str {
    match kind {
        Kind::Syntax => "build::policy-syntax",
        Kind::Type => "build::policy-type",
        Kind::Never => "build::policy-never",
        Kind::Annotation => "build::policy-annotation",
        Kind::Duplicate => "build::policy-duplicate",
        Kind::Example => "build::rule-example",
        Kind::Value => "build::rule-value",
    }
}

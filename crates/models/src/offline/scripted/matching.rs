//! What a request is about, and whether a rule answers it.

use weir_types::{Block, Json, Message, Purpose, Request, View, text_of};

use super::super::latest_user_text;
use super::{Rule, When};

/// Characters of a message that are quoted when no rule answers it.
const QUOTE_CHARS_MAX: usize = 60;

/// The part of a request that rules look at.
pub(super) struct Newest<'a> {
    purpose: Purpose,
    /// What the user wrote last.
    user: String,
    /// The results in the last message, unless the user wrote after them.
    results: Vec<ToolResult<'a>>,
}

#[derive(Clone, Copy)]
struct ToolResult<'a> {
    name: &'a str,
    content: &'a [Block],
    failed: bool,
}

/// What a matching rule can quote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) user: String,
    pub(super) attempt: u32,
    /// The groups of the expression: number and name, and what they matched.
    pub(super) groups: Vec<(String, String)>,
    /// The text of the tool's result.
    pub(super) result: Option<String>,
    /// The first part of it that is JSON: others may have been added, such as what an approver changed.
    pub(super) data: Option<Json>,
}

impl Match {
    fn quote(&mut self, result: ToolResult<'_>) {
        // Its parts are told apart, as a provider does: one may be a remark of the runtime.
        let texts: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
        self.result = Some(texts.join("\n"));
        self.data = result.content.iter().find_map(|block| Json::parse(block.as_text()?).ok());
    }
}

impl<'a> Newest<'a> {
    pub(super) fn of(request: &'a Request) -> Self {
        let latest = latest_user_text(&request.messages);
        let last = request.messages.len().saturating_sub(1);
        // Results come first in a message: words beside them are newer.
        let results = match (&latest, request.messages.last()) {
            (Some((at, _)), _) if *at == last => vec![],
            (_, Some(message)) => results_of(message),
            (_, None) => vec![],
        };
        Self { purpose: request.purpose, user: latest.map(|(_, text)| text).unwrap_or_default(), results }
    }

    pub(super) fn matches(&self, rule: &Rule, attempt: u32) -> Option<Match> {
        if rule.reply.error.is_some() && rule.reply.times.is_some_and(|times| attempt > times) {
            return None;
        }
        let mut found = Match { user: self.user.clone(), attempt, ..Match::default() };
        let Some(when) = &rule.reply.when else {
            if let Some(result) = self.results.first() {
                found.quote(*result);
            }
            return Some(found);
        };
        if when.summarize != (self.purpose == Purpose::Summary) {
            return None;
        }
        let result = self.result(when);
        if when.tool.is_some() || when.failed.is_some() {
            found.quote(result?);
        }
        if let Some(pattern) = &rule.user {
            let superseded = found.result.is_none() && !self.results.is_empty();
            if superseded || self.user.is_empty() {
                return None;
            }
            let captures = pattern.captures(&self.user)?;
            let names = pattern.capture_names().enumerate();
            found.groups = (names.zip(captures.iter()))
                .flat_map(|((at, name), group)| {
                    let text = group.map_or("", |group| group.as_str()).to_owned();
                    let named = name.map(|name| (name.to_owned(), text.clone()));
                    [Some((at.to_string(), text)), named].into_iter().flatten()
                })
                .collect();
        }
        Some(found)
    }

    fn result(&self, when: &When) -> Option<ToolResult<'a>> {
        let fits = |result: &ToolResult<'_>| {
            when.tool.as_ref().is_none_or(|tool| tool == result.name)
                && when.failed.is_none_or(|failed| failed == result.failed)
        };
        self.results.iter().copied().find(fits)
    }

    /// What no rule answered, shortened.
    pub(super) fn quote(&self) -> String {
        match (self.purpose, self.results.first()) {
            (Purpose::Summary, _) => "a summary".to_owned(),
            (Purpose::Turn, Some(result)) => {
                let how = if result.failed { "failed result" } else { "result" };
                format!("the {how} of `{}`: `{}`", result.name, shortened(&text_of(result.content)))
            }
            (Purpose::Turn, None) => format!("`{}`", shortened(&self.user)),
        }
    }
}

fn results_of(message: &Message) -> Vec<ToolResult<'_>> {
    let results = message.content.iter().filter_map(|block| match &block.view {
        View::ToolResult { name, content, failed, .. } => Some(ToolResult { name, content, failed: *failed }),
        _ => None,
    });
    results.collect()
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTE_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

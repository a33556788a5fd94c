//! What the kernel needs to know about an agent: its words, its tools, its limits, its model.

#[cfg(test)]
mod tests;

use weir_events::Allowance;
use weir_types::{ApprovalTerms, Effect, ModelCard, NanoUsd, OnInterrupt, Risk, ToolDefinition};

use crate::tokens;

/// An agent, ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Its model, by its full name.
    pub model: String,
    /// What is known about that.
    pub card: ModelCard,
    /// The system prompt.
    pub system: String,
    /// The tools on offer.
    pub tools: Vec<Tool>,
    /// What a run may use.
    pub limits: Limits,
}

/// A tool as an agent has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// What the model sees.
    pub definition: ToolDefinition,
    /// Where it comes from: `builtin`, `weir://researcher` and the like.
    pub source: String,
    /// What repeating a call does.
    pub effect: Effect,
    /// How bad a wrong call can be.
    pub risk: Risk,
    /// What a crash in the middle of a call means.
    pub on_interrupt: OnInterrupt,
    /// The agent behind it, if there is one.
    pub agent: Option<String>,
    /// How long an approval of its calls is waited for, where no rule says so.
    pub approval: ApprovalTerms,
}

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Iterations.
    pub iterations: u64,
    /// Model calls, attempts and summaries included.
    pub model_calls: Option<u64>,
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// Money.
    pub usd: Option<NanoUsd>,
    /// Milliseconds of work.
    pub wall_clock_ms: Option<u64>,
    /// Tokens of one answer.
    pub output_tokens: Option<u64>,
    /// Tokens of one request, if fewer than the model takes.
    pub context_tokens: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            iterations: 10,
            model_calls: None,
            tokens: None,
            usd: None,
            wall_clock_ms: None,
            output_tokens: None,
            context_tokens: None,
        }
    }
}

impl Limits {
    /// What of these limits counts for a run and everything it starts, wherever that runs. Iterations and time are a
    /// run's own: it waits for what it has started.
    pub fn of_the_tree(&self) -> Allowance {
        Allowance { model_calls: self.model_calls, tokens: self.tokens, nano: self.usd, wall_clock_ms: None }
    }

    /// The rest of them.
    #[must_use]
    pub fn without_the_tree(&self) -> Self {
        Self { model_calls: None, tokens: None, usd: None, ..*self }
    }

    /// These limits, and no more than this.
    #[must_use]
    pub fn within(&self, most: &Allowance) -> Self {
        let least = |own: Option<u64>, other: Option<u64>| own.into_iter().chain(other).min();
        Self {
            model_calls: least(self.model_calls, most.model_calls),
            tokens: least(self.tokens, most.tokens),
            usd: least(self.usd.map(|usd| usd.0), most.nano.map(|nano| nano.0)).map(NanoUsd),
            wall_clock_ms: least(self.wall_clock_ms, most.wall_clock_ms),
            ..*self
        }
    }
}

impl Agent {
    /// What the model sees of the tools.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition.clone()).collect()
    }

    /// Whether it can have other agents work for it.
    pub fn calls_agents(&self) -> bool {
        self.tools.iter().any(|tool| tool.agent.is_some())
    }

    /// What every request takes before the conversation begins, as estimated: system prompt and tools.
    pub fn fixed_tokens(&self) -> u64 {
        let tools: u64 = self.tools.iter().map(|tool| tokens::of_tool(&tool.definition)).sum();
        tokens::of_text(&self.system) + tools
    }

    /// Most tokens of one answer. A model whose card promises nothing gets a modest share of its window.
    pub fn output_tokens_max(&self) -> u64 {
        let card = if self.card.output_max == 0 { self.context_tokens() / 4 } else { self.card.output_max };
        // The catalog's limit of a large model is most of a window; few answers need it, and every token of it is
        // taken from the conversation.
        let usual = card.min(self.context_tokens() / 4).min(16_384);
        self.limits.output_tokens.map_or(usual, |limit| limit.min(card)).max(1)
    }

    /// Tokens of input and output together.
    pub fn context_tokens(&self) -> u64 {
        self.limits
            .context_tokens
            .map_or(self.card.context_window, |limit| limit.min(self.card.context_window))
    }
}

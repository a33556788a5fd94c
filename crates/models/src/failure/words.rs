//! From a status and a provider's words to a class.

use weir_types::FailureClass;

use super::Said;

pub(super) fn class(status: Option<u16>, said: &Said) -> FailureClass {
    let message = said.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    // The order matters: the same status, and sometimes the same type, stands for several of these.
    if status == Some(402) || said.has(QUOTA_NAMES) || says(QUOTA_WORDS) || is_daily(said) {
        return FailureClass::Quota;
    }
    if status != Some(429) && (status == Some(413) || said.has(CONTEXT_NAMES) || says(CONTEXT_WORDS)) {
        return FailureClass::ContextOverflow;
    }
    if said.has(REFUSED_NAMES) {
        return FailureClass::Refused;
    }
    if matches!(status, Some(401 | 403)) || said.has(AUTH_NAMES) {
        return FailureClass::Auth;
    }
    if matches!(status, Some(503 | 529)) || said.has(OVERLOADED_NAMES) || says(OVERLOADED_WORDS) {
        return FailureClass::Overloaded;
    }
    if status == Some(429) || said.has(RATE_NAMES) {
        return FailureClass::RateLimited;
    }
    match status {
        Some(408 | 500..) => FailureClass::Transport,
        None if said.has(SERVER_NAMES) => FailureClass::Transport,
        _ => FailureClass::Invalid,
    }
}

/// Google counts per day as well as per minute; the delay it names is for minutes.
fn is_daily(said: &Said) -> bool {
    said.limits.iter().any(|limit| limit.contains("PerDay"))
}

const QUOTA_NAMES: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "exceeded_current_quota_error",
    "insufficient_balance",
];

const QUOTA_WORDS: &[&str] = &["credit balance is too low", "insufficient balance", "insufficient credits"];

const CONTEXT_NAMES: &[&str] =
    &["context_length_exceeded", "request_too_large", "exceed_context_size_error", "string_above_max_length"];

/// Anthropic, OpenAI, Google, vLLM, llama.cpp, Ollama, Mistral, TGI and Bedrock, in this order.
const CONTEXT_WORDS: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the context window",
    "reduce the length of the messages",
    "input token count",
    "longer than the maximum model length",
    "exceeds the available context size",
    "context size has been exceeded",
    "exceeds the context length",
    "exceeded max context length",
    "exceeds max context length",
    "too large for model",
    "`inputs` tokens + `max_new_tokens`",
    "input is too long for requested model",
];

const REFUSED_NAMES: &[&str] =
    &["content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt"];

const AUTH_NAMES: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "unauthenticated",
    "permission_denied",
    "api_key_invalid",
];

const OVERLOADED_NAMES: &[&str] = &[
    "overloaded_error",
    "overloaded",
    "server_is_overloaded",
    "engine_overloaded_error",
    "engine_overloaded",
    "unavailable",
    "slow_down",
];

const OVERLOADED_WORDS: &[&str] = &["overloaded", "at capacity"];

const RATE_NAMES: &[&str] =
    &["rate_limit_error", "rate_limit_exceeded", "rate_limited", "resource_exhausted", "too_many_requests"];

const SERVER_NAMES: &[&str] = &[
    "api_error",
    "server_error",
    "internal",
    "internal_error",
    "internal_server_error",
    "timeout_error",
    "deadline_exceeded",
];

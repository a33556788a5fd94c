//! What is wrong with a run, in the words of vendors: the same in the middle of a stream as in place of an answer.

use axum::http::StatusCode;
use weir_types::{FailureClass, StopReason};

/// Too much to do; Anthropic's own status.
const OVERLOADED: u16 = 529;

/// What a client is told when an attempt broke off after it had heard a part of it.
const GONE: &str = "the attempt that was being streamed broke off; the run goes on: ask for its stream again, from the start";

/// What is wrong with a run, in the words of a client's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Why it stopped.
    pub(crate) stop: StopReason,
    /// How it failed, if it did.
    pub(crate) class: Option<FailureClass>,
    /// In words.
    pub(crate) message: String,
}

impl Problem {
    /// An attempt broke off in the middle of what a client was told.
    pub(crate) fn gone() -> Self {
        Self { stop: StopReason::Failed, class: None, message: GONE.to_owned() }
    }

    /// The status of an answer that says so, and a stable name: the vendors', where their clients look for one, else ours.
    pub(crate) fn status_and_code(&self) -> (StatusCode, &'static str) {
        match (self.stop, self.class) {
            (StopReason::Budget, _) | (_, Some(FailureClass::Quota)) => {
                (StatusCode::TOO_MANY_REQUESTS, "insufficient_quota")
            }
            (_, Some(FailureClass::RateLimited)) => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            (_, Some(FailureClass::Overloaded)) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            (_, Some(FailureClass::ContextOverflow)) => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
            (_, Some(FailureClass::Refused)) => (StatusCode::BAD_REQUEST, "content_policy_violation"),
            (StopReason::Cancelled, _) => (StatusCode::CONFLICT, "cancelled"),
            (StopReason::Halted, _) => (StatusCode::CONFLICT, "halted"),
            // Keys of providers are the operator's, and no business of whoever asks.
            _ => (StatusCode::BAD_GATEWAY, "model_failed"),
        }
    }
}

/// OpenAI's word for a kind of error.
pub(crate) fn openai_type(status: StatusCode, code: &str) -> &'static str {
    match status.as_u16() {
        _ if code == "insufficient_quota" => "insufficient_quota",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// Anthropic's word for a kind of error, and its status.
pub(crate) fn anthropic_type(status: StatusCode, code: &str) -> (StatusCode, &'static str) {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 if code == "overloaded" => {
            return (StatusCode::from_u16(OVERLOADED).unwrap_or(status), "overloaded_error");
        }
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    (status, kind)
}

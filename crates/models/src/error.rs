//! How a model call fails.

use std::borrow::Cow;
use std::time::Duration;

use weir_types::{Explain, FailureClass, Fault, Usage};

/// Longest message, in characters. A server's whole error page helps nobody.
const MESSAGE_CHARS_MAX: usize = 500;

/// A model call that did not end with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What the engine retries by.
    pub class: FailureClass,
    /// What happened: short, printable, without the key.
    pub message: String,
    /// When the provider said to come back.
    pub retry_after: Option<Duration>,
    /// What was used before it failed, as far as the provider told.
    pub usage: Option<Usage>,
}

impl ModelError {
    /// A failure. The message is made printable and short.
    pub fn new(class: FailureClass, message: impl AsRef<str>) -> Self {
        Self { class, message: printable(message.as_ref()), retry_after: None, usage: None }
    }

    /// The same, with the delay that the provider asked for.
    #[must_use]
    pub fn retry_after(self, delay: Option<Duration>) -> Self {
        Self { retry_after: delay, ..self }
    }

    /// What a server said, at its length: whoever knows the key takes it out before the message is cut.
    pub(crate) fn said(class: FailureClass, message: String) -> Self {
        Self { class, message, retry_after: None, usage: None }
    }

    pub(crate) fn invalid(message: impl AsRef<str>) -> Self {
        Self::new(FailureClass::Invalid, message)
    }
}

/// One line without control characters, cut where it gets long.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
            chars += 1;
        }
        for c in word.chars() {
            if chars >= MESSAGE_CHARS_MAX {
                line.push('…');
                return line;
            }
            line.push(c);
            chars += 1;
        }
    }
    line
}

impl Explain for ModelError {
    fn code(&self) -> &'static str {
        match self.class {
            FailureClass::RateLimited => "models::rate-limited",
            FailureClass::Overloaded => "models::overloaded",
            FailureClass::Auth => "models::auth",
            FailureClass::Quota => "models::quota",
            FailureClass::ContextOverflow => "models::context-overflow",
            FailureClass::Refused => "models::refused",
            FailureClass::Invalid => "models::invalid",
            FailureClass::Transport => "models::transport",
            FailureClass::Truncated => "models::truncated",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self.class {
            FailureClass::RateLimited => match self.retry_after {
                Some(delay) => format!("try again in {} s", delay.as_secs_f64().ceil()).into(),
                None => "try again later, or ask the provider for a higher limit".into(),
            },
            FailureClass::Overloaded => "the provider is busy; try again later or use another model".into(),
            FailureClass::Auth => "check the provider's key and what it may be used for".into(),
            FailureClass::Quota => "add credit to the provider's account; waiting does not help".into(),
            FailureClass::ContextOverflow => {
                "send less: a smaller tool result, or a model with a larger window".into()
            }
            FailureClass::Refused => "say it differently, or use another model".into(),
            FailureClass::Invalid => {
                "check the model's name and `base_url`, and what the message says".into()
            }
            FailureClass::Transport => "check the network and the model's `base_url`".into(),
            FailureClass::Truncated => "try again; the answer broke off".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self.class {
            FailureClass::RateLimited
            | FailureClass::Overloaded
            | FailureClass::Transport
            | FailureClass::Truncated => Fault::Unreachable,
            FailureClass::Auth
            | FailureClass::Quota
            | FailureClass::ContextOverflow
            | FailureClass::Refused
            | FailureClass::Invalid => Fault::Input,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_short_printable_line() {
        let message = |text: &str| ModelError::invalid(text).message;
        assert_eq!(message(" a\r\n\tb\u{1b}[31mc\0 "), "a b [31mc");
        assert_eq!(message(&"é".repeat(500)), "é".repeat(500));
        assert_eq!(message(&"é".repeat(501)), "é".repeat(500) + "…");
    }
}

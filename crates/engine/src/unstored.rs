//! What is known of a session whose newest events cannot be stored: which of its calls ran, and what happens to them later.

use std::borrow::Cow;
use std::fmt;

use weir_types::{CallId, Effect, Explain, Fault, Json, OnInterrupt};

use crate::address::Address;
use crate::error::EngineError;

/// Most characters of a call's arguments in a message.
const INPUT_CHARS_MAX: usize = 200;

/// The error code of [`Unstored`] once the session has begun.
pub const NOT_STORED: &str = "engine::not-stored";

/// A session stopped because its newest events could not be stored.
#[derive(Debug, thiserror::Error)]
pub struct Unstored {
    pub(crate) address: Address,
    /// Whether the journal has any event of the session.
    pub(crate) has_begun: bool,
    /// How many messages and other inputs are not stored.
    pub(crate) inputs: usize,
    /// Whether an answer of the model is not stored.
    pub(crate) has_answer: bool,
    /// Calls that ran, or were running, and whose results are not stored.
    pub(crate) calls: Vec<UnstoredCall>,
    #[source]
    pub(crate) source: EngineError,
}

/// A call that ran, or was running, and whose result is not stored.
#[derive(Debug)]
pub(crate) struct UnstoredCall {
    pub(crate) id: CallId,
    pub(crate) tool: String,
    pub(crate) input: Json,
    /// Whether it came to its end.
    pub(crate) ended: bool,
    pub(crate) later: Later,
}

/// What a resumed session does about a call whose result is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    /// It reports its outcome as unknown.
    Unknown,
    /// It asks a person whether to run it again.
    Asked,
    /// It runs it again, which is safe or what its author asked for.
    Repeated,
    /// It goes on with the session behind the call.
    Continued,
}

impl Later {
    pub(crate) fn of(call: &weir_kernel::Call) -> Self {
        match (call.child, call.effect, call.on_interrupt) {
            (Some(_), _, _) => Self::Continued,
            (None, Effect::Read | Effect::Idempotent, _) | (None, Effect::Write, OnInterrupt::Retry) => {
                Self::Repeated
            }
            (None, Effect::Write, OnInterrupt::Ask) => Self::Asked,
            (None, Effect::Write, OnInterrupt::Report) => Self::Unknown,
        }
    }

    fn words(self, tool: &str) -> String {
        match self {
            Self::Unknown => {
                format!("it reports the outcome of `{tool}` as unknown and does not run it again")
            }
            Self::Asked => format!("it asks whether to run `{tool}` again"),
            Self::Repeated => format!("it runs `{tool}` again, which its definition allows"),
            Self::Continued => format!("it goes on with the session behind `{tool}`"),
        }
    }
}

impl Unstored {
    /// The session.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Why its newest events cannot be stored.
    pub fn cause(&self) -> &EngineError {
        &self.source
    }
}

impl fmt::Display for Unstored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, has_begun, inputs, has_answer, calls, .. } = self;
        if !has_begun {
            return write!(f, "session {address} was not begun, because nothing can be stored");
        }
        write!(f, "session {address} stopped, because what happened cannot be stored")?;
        if *inputs > 0 {
            f.write_str("; the newest message is not stored")?;
        }
        if *has_answer {
            f.write_str("; the newest answer of the model is not stored")?;
        }
        for call in calls {
            let UnstoredCall { id, tool, input, ended, .. } = call;
            let did = if *ended { "ran" } else { "was running" };
            write!(
                f,
                "; `{tool}` {did} with {}, and its result is not stored (call {id})",
                short(input.as_str())
            )?;
        }
        Ok(())
    }
}

fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(INPUT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl Explain for Unstored {
    fn code(&self) -> &'static str {
        if self.has_begun { NOT_STORED } else { self.source.code() }
    }

    fn help(&self) -> Cow<'static, str> {
        let Self { address, has_begun, inputs, calls, source, .. } = self;
        if !has_begun {
            let help = source.help();
            return format!("{help}; no call was made, so it is safe to say the same again").into();
        }
        let mut help = format!("make room on the disk, then go on with `weir session resume {address}`");
        let mut told: Vec<String> = Vec::new();
        for call in calls {
            let words = call.later.words(&call.tool);
            if !told.contains(&words) {
                told.push(words);
            }
        }
        if !told.is_empty() {
            help.push_str(": ");
            help.push_str(&told.join(", "));
        }
        if *inputs > 0 {
            help.push_str("; then say the newest message again in that session");
        }
        help.push_str("; a new session would do everything a second time");
        help.into()
    }

    fn fault(&self) -> Fault {
        Fault::Storage
    }
}

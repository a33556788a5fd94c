//! The formats a run is streamed in, both ways: emit, and parse what others have recorded.

pub(crate) mod anthropic;
mod join;
#[cfg(test)]
mod law;
mod native;
pub(crate) mod openai;
mod parse;
mod problem;
mod vercel;
mod view;

use std::fmt;
use std::str::FromStr;

use weir_journal::lines::Positions;
use weir_types::RunId;

use crate::stream::{Chunk, Item};

pub(crate) use self::anthropic::Anthropic;
pub(crate) use self::join::Joiner;
pub(crate) use self::native::Native;
pub(crate) use self::openai::OpenAi;
pub use self::parse::{FRAME_BYTES_MAX, Heard, LeftOut, ParseError, Parser, Recorded, joined};
pub(crate) use self::problem::{Problem, anthropic_type, openai_type};
pub(crate) use self::vercel::Vercel;
pub(crate) use self::view::{Part, Viewer};

/// Makes frames of items. A state machine: the same items always give the same frames.
pub(crate) trait Encoder: Send {
    /// What an item becomes. A piece that becomes several frames ends with the one that has its text; a reset becomes one at
    /// most.
    fn encode(&mut self, item: &Item, out: &mut Vec<Chunk>);

    /// Headers that go with the format.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether a stream in this format can be asked for again, from after a frame.
    fn is_resumable(&self) -> bool {
        true
    }

    /// Whether it has said its last word, whatever else happens.
    fn is_over(&self) -> bool {
        false
    }
}

/// What frames name besides what happens.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// The agent, where vendors have a model.
    pub(crate) agent: String,
    /// The run, where they have a message.
    pub(crate) run: RunId,
}

/// What some are told and others are not, where the format has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// Where events are in the whole journal.
    pub(crate) positions: Positions,
    /// What was used, in a chunk of its own.
    pub(crate) usage: bool,
}

/// A format of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Every event, typed; also called `lago`.
    Native,
    /// Chunks of chat completions.
    OpenAi,
    /// Events of messages and content blocks.
    Anthropic,
    /// The UI message stream of the AI SDK.
    Vercel,
}

/// A word that is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format (native, openai, anthropic or vercel)")]
pub struct FormatError(String);

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Native, Self::OpenAi, Self::Anthropic, Self::Vercel];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Vercel => "vercel",
        }
    }

    /// Makes frames of this format, for someone who may be told certain things, or wants to be.
    pub(crate) fn encoder(self, named: Named, told: Extras) -> Box<dyn Encoder> {
        match self {
            Self::Native => Box::new(Native::new(told.positions)),
            Self::OpenAi => Box::new(OpenAi::new(named).with_usage(told.usage)),
            Self::Anthropic => Box::new(Anthropic::new(named)),
            Self::Vercel => Box::new(Vercel::new(named)),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(word: &str) -> Result<Self, FormatError> {
        let named = Self::ALL.into_iter().find(|format| format.as_str() == word);
        let alias = (word == "lago").then_some(Self::Native);
        named.or(alias).ok_or_else(|| FormatError(word.chars().take(40).collect()))
    }
}

/// One line of JSON.
fn json(value: &impl serde::Serialize) -> String {
    // INVARIANT: what is written here has no map whose keys are not text.
    serde_json::to_string(value).unwrap_or_default()
}

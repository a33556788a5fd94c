//! The formats a run is streamed in, both ways: emit, and parse what others have recorded.

use std::fmt;
use std::str::FromStr;

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

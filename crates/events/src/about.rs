//! What surrounds an event of a session: who, in which run, because of what, how long it took.

use serde::{Deserialize, Serialize};
use weir_types::{EventId, Meta, MetaError, RunId};

/// The meta of an event, where it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The principal behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The iteration of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The event that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation: Option<EventId>,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// How long the effect behind it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How long the process that wrote it had run the session by then, by a clock that only goes forward; microseconds since its
    /// `session.resumed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_us: Option<u64>,
}

impl About {
    /// As it is stored.
    ///
    /// # Errors
    /// When it is too long, which only an absurd actor or trace can make it.
    pub fn encode(&self) -> Result<Meta, MetaError> {
        let json = serde_json::to_string(self).map_err(MetaError::NotAnObject)?;
        if json.len() > Meta::BYTES_MAX {
            return Err(MetaError::TooLong(json.len()));
        }
        // What serde has just written is one JSON object on one line; reading it again would only take time.
        Ok(Meta::restore(&json))
    }

    /// What stored meta says about [`About::held_us`] alone: it is asked of every event.
    pub fn held_us_of(meta: &Meta) -> Option<u64> {
        // In a text the quotes would have a backslash before them.
        let (_, rest) = meta.as_str().split_once(r#""held_us":"#)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    }

    /// What stored meta says. Meta is a label: what cannot be read is as good as absent.
    pub fn decode(meta: &Meta) -> Self {
        serde_json::from_str(meta.as_str()).unwrap_or_default()
    }
}

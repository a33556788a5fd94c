//! What surrounds an event: actor, run, iteration, causation, trace. Stored as received; read through a view.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::EventId;

/// A JSON object, kept as the text it arrived as.
#[derive(Clone, PartialEq, Eq)]
pub struct Meta(Arc<str>);

/// Text that cannot be an event's meta.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// Not a JSON object.
    #[error("meta is not a JSON object")]
    NotAnObject(#[source] serde_json::Error),
    /// More than [`Meta::BYTES_MAX`].
    #[error("meta has {0} bytes; at most {max} are kept", max = Meta::BYTES_MAX)]
    TooLong(usize),
}

#[derive(Deserialize)]
struct CausationView {
    causation: Option<EventId>,
}

impl Meta {
    /// Meta is a label, not a place for content.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Keeps `json` as it is. Only the space around it is dropped, and an object that is spread over several lines
    /// is put on one: meta must survive a trip through a line of JSON unchanged.
    ///
    /// # Errors
    /// When it is not an object, or too long.
    pub fn new(json: &str) -> Result<Self, MetaError> {
        let json = json.trim_matches([' ', '\t', '\n', '\r']);
        if json.len() > Self::BYTES_MAX {
            return Err(MetaError::TooLong(json.len()));
        }
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(json).map_err(MetaError::NotAnObject)?;
        if json.contains(['\n', '\r']) {
            return Ok(Self(serde_json::Value::Object(object).to_string().into()));
        }
        Ok(Self(json.into()))
    }

    /// Meta as it was stored, without checking it again: the event's chain proves that it is the same text.
    pub fn restore(json: &str) -> Self {
        Self(json.into())
    }

    /// The text, a JSON object.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The event that led to this one, if meta names one.
    pub fn causation(&self) -> Option<EventId> {
        if !self.0.contains("\"causation\"") {
            return None;
        }
        serde_json::from_str::<CausationView>(&self.0).ok()?.causation
    }
}

impl Default for Meta {
    fn default() -> Self {
        Self("{}".into())
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

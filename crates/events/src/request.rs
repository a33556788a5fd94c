//! Requests with an `Idempotency-Key`, in the stream `engine:requests`.

use serde::{Deserialize, Serialize};
use weir_types::{Hash, Json, OwnerId};

/// A request with a key arrived. The process that handles it is `owner` in the event's meta.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReceived {
    /// Its route; the hash of a long one.
    pub route: String,
    /// The SHA-256 of its body.
    pub body: Hash,
    /// The hash of the session that a header names. Absent without such a header, and in old events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Hash>,
}

/// It was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestAnswered {
    /// The HTTP status.
    pub status: u16,
    /// The headers that are part of the answer.
    pub headers: Vec<(String, String)>,
    /// A body that is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json>,
    /// Any other body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// Another process takes it over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTaken {
    /// The process.
    #[serde(default)]
    pub owner: Option<OwnerId>,
}

/// The process that handled it has let go of it. It has no answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReleased {}

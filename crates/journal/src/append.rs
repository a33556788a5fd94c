//! What is appended, and what comes back.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use weir_types::{
    BranchId, EventId, Hash, Hasher, Kind, Meta, OwnerId, PAYLOAD_INLINE_MAX, Position, Seq, Timestamp,
};

use crate::listing::Attrs;
use crate::mint::mint;

/// Most events in one append.
pub const EVENTS_MAX: usize = 10_000;

/// Largest payload of one event; bigger content belongs into the blob store, named in `refs`.
pub const PAYLOAD_MAX: usize = 16 * 1024 * 1024;

/// Most blobs one event can name.
pub const REFS_MAX: usize = 1_024;

/// Events for one branch, appended together with the other parts of the same call or not at all.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where to append. `main` of a new stream is created; other branches come from a fork.
    pub branch: BranchId,
    /// What must be true of the branch's head.
    pub expected: Expected,
    /// Makes the append repeatable: a second one with the same key returns the first one's result.
    pub key: Option<Key>,
    /// What must be, or becomes, true of the stream's owner.
    pub owner: Ownership,
    /// The events, in order; at least one.
    pub events: Vec<NewEvent>,
    /// Replaces the branch's attributes.
    pub attrs: Option<Attrs>,
}

impl Part {
    /// Events for a branch, with no conditions.
    pub fn new(branch: BranchId, events: Vec<NewEvent>) -> Self {
        let (expected, owner) = (Expected::Any, Ownership::Unchecked);
        Self { branch, expected, key: None, owner, events, attrs: None }
    }

    /// What a repeated key must repeat: kinds, payloads and refs. Ids, times and meta (which carries the trace of one
    /// attempt) differ between attempts.
    pub fn content(&self) -> Hash {
        content(self.events.iter().map(|event| (&event.kind, event.payload_hash, event.refs.as_slice())))
    }
}

/// The content hash of a keyed part, from its events' kinds, payload hashes and refs.
pub fn content<'a>(events: impl Iterator<Item = (&'a Kind, Hash, &'a [Hash])>) -> Hash {
    let mut hasher = Hasher::default();
    for (kind, payload_hash, refs) in events {
        hasher.update(&(kind.as_str().len() as u32).to_be_bytes());
        hasher.update(kind.as_str().as_bytes());
        hasher.update(payload_hash.as_bytes());
        hasher.update(&(refs.len() as u32).to_be_bytes());
        refs.iter().for_each(|hash| hasher.update(hash.as_bytes()));
    }
    hasher.finish()
}

/// A condition on the head of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// None.
    Any,
    /// The stream does not exist.
    NoStream,
    /// The newest event on the branch is this one.
    Exactly(Seq),
}

/// A condition on, or a change of, the owner of a stream. One owner holds all branches of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// Inputs come from anyone.
    #[default]
    Unchecked,
    /// The owner is still this one; otherwise the append is fenced.
    Held(OwnerId),
    /// Becomes the owner, if there is none or it is `replacing` (whose death the caller has established).
    Claim {
        /// The new owner.
        by: OwnerId,
        /// The dead one, if there is one.
        replacing: Option<OwnerId>,
    },
    /// Stops being the owner.
    Release(OwnerId),
}

/// An idempotency key: 1 to 255 bytes of text, unique per branch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// Text that cannot be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key has 1 to {max} bytes and no control characters; this one has {bytes} bytes", max = Key::BYTES_MAX)]
pub struct KeyError {
    bytes: usize,
}

impl Key {
    /// The longest key.
    pub const BYTES_MAX: usize = 255;

    /// The key as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() || text.len() > Self::BYTES_MAX || text.chars().any(char::is_control) {
            return Err(KeyError { bytes: text.len() });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// An event that has no place yet. Its payload is hashed when it is made, outside any lock.
#[derive(Clone, Debug)]
pub struct NewEvent {
    id: EventId,
    at: Option<Timestamp>,
    kind: Kind,
    payload: Bytes,
    payload_hash: Hash,
    meta: Meta,
    refs: Vec<Hash>,
}

impl NewEvent {
    /// An event with a fresh id, stamped with the time of its append.
    pub fn new(kind: Kind, payload: impl Into<Bytes>) -> Self {
        let payload = payload.into();
        let payload_hash = Hash::of(&payload);
        let refs = if is_large(&payload) { vec![payload_hash] } else { Vec::new() };
        Self { id: mint(), at: None, kind, payload, payload_hash, meta: Meta::default(), refs }
    }

    /// Sets what surrounds the event.
    #[must_use]
    pub fn with_meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Names the blobs it needs. A large payload's own blob is always among them.
    #[must_use]
    pub fn with_refs(mut self, mut refs: Vec<Hash>) -> Self {
        if is_large(&self.payload) && !refs.contains(&self.payload_hash) {
            refs.push(self.payload_hash);
        }
        self.refs = refs;
        self
    }

    /// Gives it the identity and time it had elsewhere, for import.
    #[must_use]
    pub fn with_identity(mut self, id: EventId, at: Timestamp) -> Self {
        (self.id, self.at) = (id, Some(at));
        self
    }

    /// Identity.
    pub fn id(&self) -> EventId {
        self.id
    }

    /// A time it must not be stamped before; none means now.
    pub fn at(&self) -> Option<Timestamp> {
        self.at
    }

    /// What happened.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The content.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// SHA-256 of the content.
    pub fn payload_hash(&self) -> Hash {
        self.payload_hash
    }

    /// What surrounds it.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The blobs it needs.
    pub fn refs(&self) -> &[Hash] {
        &self.refs
    }

    /// Whether the payload lives in the blob store.
    pub fn is_large(&self) -> bool {
        is_large(&self.payload)
    }
}

fn is_large(payload: &[u8]) -> bool {
    payload.len() > PAYLOAD_INLINE_MAX
}

/// Where a part's events ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Place of the first event.
    pub first: Seq,
    /// Place of the last event.
    pub last: Seq,
    /// Position of the last event.
    pub position: Position,
    /// The key was known: this is the first append's result, and nothing was appended now.
    pub replayed: bool,
}

/// A keyed part as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedPart {
    /// The key.
    pub key: Key,
    /// Place of its first event.
    pub first: Seq,
    /// Place of its last event.
    pub last: Seq,
}

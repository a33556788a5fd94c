//! The decisions every engine takes in the same way: pure functions over what the engine has looked up.
//!
//! An append is decided in this order: [`check_limits`] over all parts, before anything is stored or looked up;
//! [`replay`] over all keys; then, part by part, [`next_owner`], [`check_expected`] and [`link`] for each event, so
//! that a later part sees what an earlier one did. Any error leaves the journal as it was.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use weir_types::{
    BranchId, BranchName, ChainInput, Event, Hash, OwnerId, Position, Seq, StreamName, Timestamp,
};

use crate::append::{Appended, EVENTS_MAX, Expected, Key, NewEvent, Ownership, PAYLOAD_MAX, Part, REFS_MAX};
use crate::error::{AppendError, ForkError};
use crate::listing::{Attrs, Fork, Head};

/// Whether the request can be an append at all, whatever the journal holds.
///
/// # Errors
/// [`AppendError::Invalid`] for what is empty or too large, [`AppendError::KeyReused`] for a key on two of the parts,
/// [`AppendError::DuplicateId`] for an id on two of the events.
pub fn check_limits(parts: &[Part]) -> Result<(), AppendError> {
    let events: usize = parts.iter().map(|part| part.events.len()).sum();
    require(!parts.is_empty(), || "an append needs at least one part".to_owned())?;
    require(events <= EVENTS_MAX, || {
        format!("an append has at most {EVENTS_MAX} events, this one {events}")
    })?;
    let (mut keys, mut ids) = (HashSet::new(), HashSet::new());
    for part in parts {
        require(!part.events.is_empty(), || format!("the part for {} has no events", part.branch))?;
        if let Some(key) = &part.key
            && !keys.insert((&part.branch, key))
        {
            return Err(AppendError::KeyReused { branch: part.branch.clone(), key: key.clone() });
        }
        for event in &part.events {
            check_event(event)?;
            if !ids.insert(event.id()) {
                return Err(AppendError::DuplicateId { id: event.id() });
            }
        }
        part.attrs.as_ref().map_or(Ok(()), check_attrs)?;
    }
    Ok(())
}

fn check_event(event: &NewEvent) -> Result<(), AppendError> {
    let (bytes, refs) = (event.payload().len(), event.refs().len());
    require(bytes <= PAYLOAD_MAX, || format!("a payload has at most {PAYLOAD_MAX} bytes, this one {bytes}"))?;
    require(refs <= REFS_MAX, || format!("an event names at most {REFS_MAX} blobs, this one {refs}"))
}

fn check_attrs(attrs: &Attrs) -> Result<(), AppendError> {
    let texts = [("principal", &attrs.principal), ("agent", &attrs.agent), ("title", &attrs.title)];
    for (name, text) in texts {
        let bytes = text.as_ref().map_or(0, String::len);
        require(bytes <= Attrs::TEXT_MAX, || {
            format!("the {name} has at most {} bytes, this one {bytes}", Attrs::TEXT_MAX)
        })?;
    }
    Ok(())
}

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), AppendError> {
    if holds { Ok(()) } else { Err(AppendError::Invalid { what: what() }) }
}

/// What is remembered of a keyed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPart {
    /// [`Part::content`] of what was appended.
    pub content: Hash,
    /// Place of its first event.
    pub first: Seq,
    /// Place of its last event.
    pub last: Seq,
    /// Position of its first event.
    pub position: Position,
}

/// Whether this append has been done before, and if so its result then.
///
/// `known` has an entry per part: what is remembered of its key, if it has one and that is known. Events of one append
/// have contiguous positions in the order of the parts, so one known key tells where the siblings without a key must
/// be; `place` says which event is at a position.
///
/// # Errors
/// [`AppendError::KeyReused`] if a key is known for other content, or for an append of another shape. Errors of `place`
/// are passed on.
pub fn replay<E: From<AppendError>>(
    parts: &[Part],
    known: &[Option<KnownPart>],
    mut place: impl FnMut(Position) -> Result<Option<(BranchId, Seq)>, E>,
) -> Result<Option<Vec<Appended>>, E> {
    let Some((repeated, start)) = find_start(parts, known) else { return Ok(None) };
    let mut appended = Vec::with_capacity(parts.len());
    let mut next = start;
    for (part, known) in parts.iter().zip(known) {
        let count = part.events.len() as u64;
        let last_position = Position(next.saturating_add(count - 1));
        let (first, last) = match (&part.key, known) {
            (Some(key), Some(known)) if known.content != part.content() => {
                return Err(AppendError::KeyReused { branch: part.branch.clone(), key: key.clone() }.into());
            }
            (Some(_), Some(known)) if known.position.0 == next => (known.first, known.last),
            (Some(_), _) => return Err(repeated.reused().into()),
            (None, _) => {
                let first = on_branch(place(Position(next))?, &part.branch);
                let last = on_branch(place(last_position)?, &part.branch);
                match first.zip(last) {
                    Some((first, last)) if last.0.checked_sub(first.0) == Some(count - 1) => (first, last),
                    _ => return Err(repeated.reused().into()),
                }
            }
        };
        appended.push(Appended { first, last, position: last_position, replayed: true });
        next = next.saturating_add(count);
    }
    Ok(Some(appended))
}

fn on_branch(found: Option<(BranchId, Seq)>, branch: &BranchId) -> Option<Seq> {
    found.and_then(|(at, seq)| (at == *branch).then_some(seq))
}

/// The key that shows an append to be a repetition.
struct Repeated<'a> {
    branch: &'a BranchId,
    key: &'a Key,
}

impl Repeated<'_> {
    fn reused(&self) -> AppendError {
        AppendError::KeyReused { branch: self.branch.clone(), key: self.key.clone() }
    }
}

/// The first key that is known, and the position at which the first append must have started.
fn find_start<'a>(parts: &'a [Part], known: &[Option<KnownPart>]) -> Option<(Repeated<'a>, u64)> {
    let mut before = 0;
    for (part, known) in parts.iter().zip(known) {
        if let Some((key, known)) = part.key.as_ref().zip(known.as_ref()) {
            // A start before the first position finds no siblings, which is the right answer.
            let start = known.position.0.saturating_sub(before);
            return Some((Repeated { branch: &part.branch, key }, start));
        }
        before += part.events.len() as u64;
    }
    None
}

/// The stream's owner after an append, given the one before.
///
/// # Errors
/// [`AppendError::Fenced`] if the append relies on another owner than there is.
pub fn next_owner(
    current: Option<OwnerId>,
    ownership: Ownership,
    stream: &StreamName,
) -> Result<Option<OwnerId>, AppendError> {
    let fenced = || AppendError::Fenced { stream: stream.clone(), owner: current };
    match ownership {
        Ownership::Unchecked => Ok(current),
        Ownership::Held(owner) if current == Some(owner) => Ok(current),
        // Claiming what one owns already changes nothing.
        Ownership::Claim { by, replacing }
            if current.is_none() || current == replacing || current == Some(by) =>
        {
            Ok(Some(by))
        }
        Ownership::Release(owner) if current == Some(owner) => Ok(None),
        Ownership::Held(_) | Ownership::Claim { .. } | Ownership::Release(_) => Err(fenced()),
    }
}

/// Whether a part may be appended to a branch with this head; `None` if the branch does not exist.
///
/// # Errors
/// [`AppendError::NoBranch`] for a branch other than `main` that does not exist, else [`AppendError::Conflict`].
pub fn check_expected(expected: Expected, head: Option<Seq>, branch: &BranchId) -> Result<(), AppendError> {
    if head.is_none() && branch.branch != BranchName::main() {
        return Err(AppendError::NoBranch(branch.clone()));
    }
    // `main` exists as soon as its stream does, so a missing head is a missing stream.
    let actual = head.unwrap_or_default();
    let (holds, expected) = match expected {
        Expected::Any => (true, actual),
        Expected::NoStream => (head.is_none(), Seq(0)),
        Expected::Exactly(seq) => (seq == actual, seq),
    };
    if holds { Ok(()) } else { Err(AppendError::Conflict { branch: branch.clone(), expected, actual }) }
}

/// The head after `event` is appended behind `previous`.
pub fn link(
    branch: &BranchId,
    previous: Option<&Head>,
    event: &NewEvent,
    now: Timestamp,
    position: Position,
) -> Head {
    let seq = previous.map_or(Seq(0), |head| head.seq).next();
    let ts = stamp(event.at(), now, previous.map(|head| head.ts));
    let input = ChainInput {
        stream: &branch.stream,
        branch: &branch.branch,
        seq,
        id: event.id(),
        ts,
        kind: event.kind(),
        meta: event.meta(),
        refs: event.refs(),
        payload_hash: event.payload_hash(),
    };
    Head { seq, chain: input.after(previous.map_or(Hash::ZERO, |head| head.chain)), ts, position }
}

/// The event's time: as given, or now, but never before its predecessor's.
pub fn stamp(at: Option<Timestamp>, now: Timestamp, previous: Option<Timestamp>) -> Timestamp {
    let at = at.unwrap_or(now);
    previous.map_or(at, |previous| at.max(previous))
}

/// The event as it is read once it is the newest of its branch.
pub fn placed(branch: &BranchId, event: &NewEvent, head: &Head) -> Event {
    Event {
        position: head.position,
        stream: branch.stream.clone(),
        branch: branch.branch.clone(),
        seq: head.seq,
        id: event.id(),
        ts: head.ts,
        kind: event.kind().clone(),
        payload: event.payload().clone(),
        meta: event.meta().clone(),
        refs: event.refs().to_vec(),
        payload_hash: event.payload_hash(),
        chain: head.chain,
    }
}

/// What is there when a branch is to be made.
#[derive(Clone, Copy, Debug)]
pub struct ForkGround {
    /// The stream exists.
    pub stream_exists: bool,
    /// The parent's head, if the parent exists.
    pub parent_head: Option<Seq>,
    /// The stream has a branch of the new name; `main` always does.
    pub name_taken: bool,
}

/// Whether a branch may be made, given what is there.
///
/// # Errors
/// The first of: no stream, no parent, the name is taken, no such event.
pub fn check_fork(fork: &Fork, ground: ForkGround) -> Result<(), ForkError> {
    if !ground.stream_exists {
        return Err(ForkError::NoStream(fork.from.stream.clone()));
    }
    let Some(head) = ground.parent_head else { return Err(ForkError::NoBranch(fork.from.clone())) };
    if ground.name_taken {
        let (stream, name) = (fork.from.stream.clone(), fork.name.clone());
        return Err(ForkError::Exists { stream, name });
    }
    if fork.at == Seq(0) || fork.at > head {
        return Err(ForkError::NoEvent { from: fork.from.clone(), at: fork.at, head });
    }
    Ok(())
}

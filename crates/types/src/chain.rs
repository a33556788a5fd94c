//! The hash chain: each event commits to everything before it on its branch.

use crate::{BranchName, EventId, Hash, Hasher, Kind, Meta, Seq, StreamName, Timestamp};

/// Payloads above this many bytes live in the blob store; the event keeps the hash and names it in `refs`.
pub const PAYLOAD_INLINE_MAX: usize = 64 * 1024;

/// What an event's chain covers, apart from its predecessor. `position` is not in it: it belongs to one journal
/// file, while chains survive export and import.
#[derive(Clone, Copy, Debug)]
pub struct ChainInput<'a> {
    /// The stream.
    pub stream: &'a StreamName,
    /// The branch appended to.
    pub branch: &'a BranchName,
    /// Place on the branch.
    pub seq: Seq,
    /// Identity.
    pub id: EventId,
    /// Time.
    pub ts: Timestamp,
    /// Kind.
    pub kind: &'a Kind,
    /// Meta, as stored.
    pub meta: &'a Meta,
    /// Blobs, in order.
    pub refs: &'a [Hash],
    /// Hash of the payload.
    pub payload_hash: Hash,
}

impl ChainInput<'_> {
    /// `SHA-256(prev ‖ fields)`; every field is preceded by its length as a big-endian `u32`, integers are
    /// big-endian 64-bit, refs are their hashes one after another.
    pub fn after(&self, prev: Hash) -> Hash {
        let mut hasher = Hasher::default();
        hasher.update(prev.as_bytes());
        let mut field = |parts: &[&[u8]]| {
            let length: usize = parts.iter().map(|part| part.len()).sum();
            // INVARIANT: names, meta and refs are all bounded far below 4 GiB when they are made.
            hasher.update(&(length as u32).to_be_bytes());
            for part in parts {
                hasher.update(part);
            }
        };
        field(&[self.stream.as_str().as_bytes()]);
        field(&[self.branch.as_str().as_bytes()]);
        field(&[&self.seq.0.to_be_bytes()]);
        field(&[&self.id.to_bytes()]);
        field(&[&self.ts.as_micros().to_be_bytes()]);
        field(&[self.kind.as_str().as_bytes()]);
        field(&[self.meta.as_str().as_bytes()]);
        let refs: Vec<&[u8]> = self.refs.iter().map(|hash| hash.as_bytes().as_slice()).collect();
        field(&refs);
        field(&[self.payload_hash.as_bytes()]);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out by hand from the contract, so that a change of the layout cannot go unnoticed.
    #[test]
    fn the_layout_is_the_contract() {
        let (stream, branch, kind) = ("s".parse().unwrap(), BranchName::main(), "a.b".parse().unwrap());
        let (ref_one, payload_hash) = (Hash::of(b"blob"), Hash::of(b"payload"));
        let chain = ChainInput {
            stream: &stream,
            branch: &branch,
            seq: Seq(7),
            id: EventId::from_u128(9),
            ts: Timestamp::from_micros(11).unwrap(),
            kind: &kind,
            meta: &Meta::new(r#"{"x":1}"#).unwrap(),
            refs: &[ref_one],
            payload_hash,
        }
        .after(Hash::ZERO);
        let mut bytes = vec![0; 32];
        bytes.extend(b"\0\0\0\x01s\0\0\0\x04main\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x10");
        bytes.extend(9_u128.to_be_bytes());
        bytes.extend(b"\0\0\0\x08\0\0\0\0\0\0\0\x0b\0\0\0\x03a.b\0\0\0\x07{\"x\":1}\0\0\0\x20");
        bytes.extend(ref_one.as_bytes());
        bytes.extend(b"\0\0\0\x20");
        bytes.extend(payload_hash.as_bytes());
        assert_eq!(chain, Hash::of(&bytes));
    }
}

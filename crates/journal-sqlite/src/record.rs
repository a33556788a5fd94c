//! An event's meta, refs and payload as one stored record, compressed with a trained dictionary.
//!
//! ```text
//! key ‖ varint(meta length × 2 + large?) ‖ meta ‖ varint(refs) ‖ 32 bytes each ‖ payload, or 32 bytes naming its blob
//! key: varint(1), or varint(2) ‖ varint(key length) ‖ key ‖ varint(events of the part) at the first event of a keyed part
//! ```
//!
//! Records written before keys were kept in them begin with the meta length. No meta is shorter than `{}`, so that is at
//! least 4. The key is not in the event's chain: chains survive export and import, and those of older events have none.
//!
//! Encoding happens in the caller's task, before the commit queue; decoding on a reader's thread. Nothing here proves
//! that a record is the right one: the event's chain does.

use std::cell::RefCell;

use bytes::Bytes;
use weir_journal::{Key, NewEvent, Part, REFS_MAX};
use weir_types::{Hash, Meta, PAYLOAD_INLINE_MAX};

use crate::block::{read_varint, write_varint};
use crate::dictionary::{self, Dictionaries};

/// No record is longer than this when decoded.
const RECORD_MAX: usize = PAYLOAD_INLINE_MAX + Meta::BYTES_MAX + REFS_MAX * 32 + Key::BYTES_MAX + 64;

/// No key begins here.
const UNKEYED: u64 = 1;

/// A key follows.
const KEYED: u64 = 2;

/// The number of the form in which records are written today: compressed with dictionary 1.
const FORM: i64 = dictionary::CURRENT;

/// Not compressed: smaller that way, or not compressible at all.
const PLAIN: i64 = 0;

/// A record as stored.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) form: i64,
    pub(crate) bytes: Vec<u8>,
}

/// A record as read.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) key: KeyNote,
    pub(crate) meta: Meta,
    pub(crate) refs: Vec<Hash>,
    pub(crate) payload: Payload,
}

/// What a record says of the idempotency key of its append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyNote {
    /// Nothing: it was written before records said so.
    Unknown,
    /// The event is not the first one of a keyed part.
    None,
    /// The event is the first one of a part with this key and so many events.
    First { key: Key, events: u64 },
}

/// The payload, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    Inline(Bytes),
    Blob(Hash),
}

thread_local! {
    static ENCODER: RefCell<(Option<zstd::bulk::Compressor<'static>>, Vec<u8>)> = const { RefCell::new((None, Vec::new())) };
}

/// Encodes the events of a part.
pub(crate) fn encode_part(part: &Part) -> impl Iterator<Item = Record> {
    let first = part.key.clone().map(|key| KeyNote::First { key, events: part.events.len() as u64 });
    let notes = std::iter::once(first.unwrap_or(KeyNote::None)).chain(std::iter::repeat(KeyNote::None));
    part.events.iter().zip(notes).map(|(event, key)| encode(event, &key))
}

/// Encodes what an event's row does not hold in columns.
fn encode(event: &NewEvent, key: &KeyNote) -> Record {
    ENCODER.with_borrow_mut(|(compressor, plain)| {
        plain.clear();
        write_plain(event, key, plain);
        if compressor.is_none() {
            *compressor = dictionary::compressor().ok();
        }
        let compressed = compressor.as_mut().and_then(|compressor| compressor.compress(plain).ok());
        match compressed {
            Some(bytes) if bytes.len() < plain.len() => Record { form: FORM, bytes },
            _ => Record { form: PLAIN, bytes: plain.clone() },
        }
    })
}

fn write_plain(event: &NewEvent, key: &KeyNote, plain: &mut Vec<u8>) {
    match key {
        KeyNote::Unknown => {}
        KeyNote::None => write_varint(plain, UNKEYED),
        KeyNote::First { key, events } => {
            write_varint(plain, KEYED);
            write_varint(plain, key.as_str().len() as u64);
            plain.extend_from_slice(key.as_str().as_bytes());
            write_varint(plain, *events);
        }
    }
    let meta = event.meta().as_str().as_bytes();
    write_varint(plain, (meta.len() as u64) << 1 | u64::from(event.is_large()));
    plain.extend_from_slice(meta);
    write_varint(plain, event.refs().len() as u64);
    event.refs().iter().for_each(|hash| plain.extend_from_slice(hash.as_bytes()));
    if event.is_large() {
        plain.extend_from_slice(event.payload_hash().as_bytes());
    } else {
        plain.extend_from_slice(event.payload());
    }
}

/// Decodes records; keeps its buffers between calls.
pub(crate) struct Decoder {
    dictionaries: Dictionaries,
    buffer: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new(dictionaries: Dictionaries) -> Self {
        Self { dictionaries, buffer: Vec::with_capacity(RECORD_MAX) }
    }

    /// The content of a record; `Err` says what is wrong with it.
    pub(crate) fn decode(&mut self, form: i64, bytes: &[u8]) -> Result<Content, String> {
        if form == PLAIN {
            return read_plain(bytes).ok_or_else(|| "its record is malformed".to_owned());
        }
        let decompressor = self.dictionaries.decompressor(form)?;
        self.buffer.clear();
        decompressor
            .decompress_to_buffer(bytes, &mut self.buffer)
            .map_err(|error| format!("its record does not decompress ({error})"))?;
        read_plain(&self.buffer).ok_or_else(|| "its record is malformed".to_owned())
    }
}

fn read_plain(mut bytes: &[u8]) -> Option<Content> {
    let (key, head) = match read_varint(&mut bytes)? {
        UNKEYED => (KeyNote::None, read_varint(&mut bytes)?),
        KEYED => (read_key(&mut bytes)?, read_varint(&mut bytes)?),
        head => (KeyNote::Unknown, head),
    };
    let meta = take(&mut bytes, usize::try_from(head >> 1).ok()?)?;
    let meta = Meta::restore(std::str::from_utf8(meta).ok()?);
    let count = usize::try_from(read_varint(&mut bytes)?).ok().filter(|count| *count <= REFS_MAX)?;
    let refs = (0..count).map(|_| Hash::from_slice(take(&mut bytes, 32)?)).collect::<Option<Vec<_>>>()?;
    let payload = match head & 1 {
        0 => Payload::Inline(Bytes::copy_from_slice(bytes)),
        _ => Payload::Blob(Hash::from_slice(bytes)?),
    };
    Some(Content { key, meta, refs, payload })
}

fn read_key(bytes: &mut &[u8]) -> Option<KeyNote> {
    let length = usize::try_from(read_varint(bytes)?).ok()?;
    let key = std::str::from_utf8(take(bytes, length)?).ok()?.parse().ok()?;
    Some(KeyNote::First { key, events: read_varint(bytes)? })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(front)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoder() -> Decoder {
        Decoder::new(Dictionaries::embedded().unwrap())
    }

    fn check(event: &NewEvent) {
        let first = KeyNote::First { key: "the key".parse().unwrap(), events: 300 };
        [KeyNote::Unknown, KeyNote::None, first].iter().for_each(|key| check_with(event, key));
    }

    fn check_with(event: &NewEvent, key: &KeyNote) {
        let record = encode(event, key);
        let content = decoder().decode(record.form, &record.bytes).unwrap();
        let payload = match event.is_large() {
            true => Payload::Blob(event.payload_hash()),
            false => Payload::Inline(event.payload().clone()),
        };
        assert_eq!(
            (&content.key, content.meta, content.refs, content.payload),
            (key, event.meta().clone(), event.refs().to_vec(), payload)
        );
    }

    #[test]
    fn large_payloads_leave_their_name() {
        let event = NewEvent::new("k".parse().unwrap(), vec![7; PAYLOAD_INLINE_MAX + 1]);
        assert_eq!(event.refs(), [event.payload_hash()]);
        check(&event);
    }

    #[test]
    fn incompressible_payloads_are_kept_plain() {
        let noise: Vec<u8> =
            (0..500_u32).flat_map(|n| Hash::of(&n.to_le_bytes()).as_bytes()[..4].to_vec()).collect();
        let event = NewEvent::new("k".parse().unwrap(), noise);
        assert_eq!(encode(&event, &KeyNote::None).form, PLAIN);
        check(&event);
    }

    proptest! {
        #[test]
        fn records_decode_to_what_was_encoded(
            payload in proptest::collection::vec(any::<u8>(), 0..2_000),
            text in "\\PC{0,200}",
            refs in proptest::collection::vec(any::<[u8; 32]>().prop_map(Hash::from_bytes), 0..5),
        ) {
            let meta = Meta::new(&serde_json::json!({ "note": text }).to_string()).unwrap();
            check(&NewEvent::new("k".parse().unwrap(), payload).with_meta(meta).with_refs(refs));
        }

        #[test]
        fn damaged_records_are_errors_or_other_content_but_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            form in 0..3_i64,
        ) {
            let _ = decoder().decode(form, &bytes);
        }
    }
}

//! Reading a line back. Unknown fields are ignored; a field that is missing or wrong is named.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use weir_types::{BranchId, Event, Explain, Fault, Hash, Meta, Position, Seq};

use super::{BlobLine, EXPORT_VERSION, ForkLine, KeyLine, LINE_BYTES_MAX, Line};

/// Why a line is not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Longer than any line that is written.
    #[error("the line has more than {max} bytes", max = LINE_BYTES_MAX)]
    TooLong,
    /// Not text.
    #[error("the line is not UTF-8")]
    NotText(#[source] std::str::Utf8Error),
    /// Not a JSON object, or one with a field twice.
    #[error("the line is not a JSON object with unique fields")]
    NotAnObject(#[source] serde_json::Error),
    /// A field that must be there is not.
    #[error("the {what} has no field `{field}`")]
    Missing {
        /// What kind of line it is.
        what: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field has a value it cannot have.
    #[error("field `{field}` of the {what} is wrong: {why}")]
    Wrong {
        /// What kind of line it is.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The file was written by a newer Weir.
    #[error("the export has format {found}; this version reads formats up to {EXPORT_VERSION}")]
    Newer {
        /// The format it names.
        found: u64,
    },
}

impl Explain for LineError {
    fn code(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "journal::newer-export",
            _ => "journal::bad-line",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Newer { .. } => "import it with the version of weir that wrote it, or a newer one".into(),
            _ => "make the file again with `weir export`; it holds one JSON object a line".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Every field any line has, each still as its text, so that an error can name the field.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    weir_export: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    fork: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    key: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    blob: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    position: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    stream: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    branch: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    seq: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    id: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    ts: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    kind: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    payload: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    payload_base64: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    meta: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    refs: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    payload_hash: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    chain: Raw<'a>,
}

/// The fields of the object inside a fork, key or blob line.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Inner<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    stream: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    branch: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    parent: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    at: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    chain: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    key: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    first: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    last: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    hash: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    data: Raw<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    more: Raw<'a>,
}

type Raw<'a> = Option<&'a RawValue>;

/// A field that is there is `Some`, even when it is `null`: that is a payload like any other.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Raw<'a>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one line of an export, or one event as [`super::to_line`] writes it. A line feed at its end is ignored.
///
/// # Errors
/// When it is none, with what is wrong.
pub fn parse(line: &[u8]) -> Result<Line, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    let text = std::str::from_utf8(line).map_err(LineError::NotText)?;
    let fields: Fields<'_> = object(text).map_err(LineError::NotAnObject)?;
    if let Some(version) = fields.weir_export {
        return header(version);
    }
    match (fields.fork, fields.key, fields.blob) {
        (Some(inner), _, _) => fork(inner).map(Line::Fork),
        (_, Some(inner), _) => key(inner).map(Line::Key),
        (_, _, Some(inner)) => blob(inner).map(Line::Blob),
        (None, None, None) => event(&fields).map(Line::Event),
    }
}

/// An object by field names. Serde alone would take an array of the fields in order as well.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    if text.trim_ascii_start().starts_with('[') {
        return Err(serde::de::Error::custom("invalid type: sequence, expected an object"));
    }
    serde_json::from_str(text)
}

fn header(version: &RawValue) -> Result<Line, LineError> {
    let version: u64 = Fielder("header").value("weir_export", Some(version))?;
    match version {
        1..=EXPORT_VERSION => Ok(Line::Header { version }),
        0 => Err(Fielder("header").wrong("weir_export", "there is no format 0")),
        found => Err(LineError::Newer { found }),
    }
}

fn fork(inner: &RawValue) -> Result<ForkLine, LineError> {
    let (f, inner) = (Fielder("fork"), Fielder("fork").inner("fork", inner)?);
    Ok(ForkLine {
        branch: f.branch(inner.stream, inner.branch)?,
        parent: f.text("parent", inner.parent)?,
        at: f.value("at", inner.at)?,
        chain: f.text("chain", inner.chain)?,
    })
}

fn key(inner: &RawValue) -> Result<KeyLine, LineError> {
    let (f, inner) = (Fielder("key"), Fielder("key").inner("key", inner)?);
    let line = KeyLine {
        branch: f.branch(inner.stream, inner.branch)?,
        key: f.text("key", inner.key)?,
        first: f.value("first", inner.first)?,
        last: f.value("last", inner.last)?,
    };
    if line.first.0 == 0 || line.first > line.last {
        return Err(f.wrong("last", format_args!("{} to {} is no range of events", line.first, line.last)));
    }
    Ok(line)
}

fn blob(inner: &RawValue) -> Result<BlobLine, LineError> {
    let (f, inner) = (Fielder("blob"), Fielder("blob").inner("blob", inner)?);
    Ok(BlobLine {
        hash: f.text("hash", inner.hash)?,
        data: f.base64("data", inner.data)?,
        more: f.value("more", inner.more)?,
    })
}

fn event(fields: &Fields<'_>) -> Result<Event, LineError> {
    let f = Fielder("event");
    let BranchId { stream, branch } = f.branch(fields.stream, fields.branch)?;
    let payload = match (fields.payload, fields.payload_base64) {
        (Some(_), Some(_)) => return Err(f.wrong("payload_base64", "there is a `payload` too")),
        (Some(json), None) => Bytes::copy_from_slice(json.get().as_bytes()),
        (None, Some(_)) => f.base64("payload_base64", fields.payload_base64)?,
        (None, None) => return Err(f.missing("payload")),
    };
    let meta = fields.meta.ok_or(f.missing("meta"))?;
    let seq = f.value("seq", fields.seq)?;
    if seq == Seq(0) {
        return Err(f.wrong("seq", "events are counted from 1"));
    }
    Ok(Event {
        position: match fields.position {
            Some(_) => f.value("position", fields.position)?,
            None => Position(0),
        },
        stream,
        branch,
        seq,
        id: f.text("id", fields.id)?,
        ts: f.text("ts", fields.ts)?,
        kind: f.text("kind", fields.kind)?,
        payload,
        meta: Meta::new(meta.get()).map_err(|why| f.wrong("meta", why))?,
        refs: f.value::<Vec<Hash>>("refs", fields.refs)?,
        payload_hash: f.text("payload_hash", fields.payload_hash)?,
        chain: f.text("chain", fields.chain)?,
    })
}

/// Reads fields of one kind of line, whose name its errors carry.
#[derive(Clone, Copy)]
struct Fielder(&'static str);

impl Fielder {
    fn missing(self, field: &'static str) -> LineError {
        LineError::Missing { what: self.0, field }
    }

    fn wrong(self, field: &'static str, why: impl Display) -> LineError {
        LineError::Wrong { what: self.0, field, why: why.to_string() }
    }

    fn inner<'a>(self, field: &'static str, raw: &'a RawValue) -> Result<Inner<'a>, LineError> {
        object(raw.get()).map_err(|why| self.wrong(field, why))
    }

    fn value<T: DeserializeOwned>(self, field: &'static str, raw: Raw<'_>) -> Result<T, LineError> {
        let raw = raw.ok_or(self.missing(field))?;
        serde_json::from_str(raw.get()).map_err(|why| self.wrong(field, why))
    }

    fn text<T: FromStr<Err: Display>>(self, field: &'static str, raw: Raw<'_>) -> Result<T, LineError> {
        let text: String = self.value(field, raw)?;
        text.parse().map_err(|why| self.wrong(field, why))
    }

    fn branch(self, stream: Raw<'_>, branch: Raw<'_>) -> Result<BranchId, LineError> {
        Ok(BranchId { stream: self.text("stream", stream)?, branch: self.text("branch", branch)? })
    }

    fn base64(self, field: &'static str, raw: Raw<'_>) -> Result<Bytes, LineError> {
        let text: String = self.value(field, raw)?;
        STANDARD.decode(text).map(Bytes::from).map_err(|why| self.wrong(field, why))
    }
}

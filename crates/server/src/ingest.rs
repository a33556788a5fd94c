//! Recorded streams as events of the journal.
//!
//! What a vendor's stream says becomes events of these kinds, in order:
//!
//! | kind | payload |
//! | --- | --- |
//! | `ingested.begun` | `format id? model?` |
//! | `ingested.step` | – |
//! | `ingested.text` | `channel(text, reasoning, refusal) text`, adjacent pieces joined |
//! | `ingested.part` | `part data[]`: what has no kind of its own (images, sources, signatures, data of an application), as it stands there |
//! | `ingested.called` | `id tool input` |
//! | `ingested.answered` · `ingested.failed` | `id output` · `id message? denied` |
//! | `ingested.asked` | `id call why?` |
//! | `ingested.reset` | –: what was said in this step, or of this answer, was taken back |
//! | `ingested.finished` · `ingested.broken` | `reason? usage?` · `message` |
//! | `ingested.event` | an event of a native stream whose kind only the runtime writes, as it stands there |
//!
//! Events of a native stream of any other kind keep their kind and their payload, byte for byte. All of it is appended at once or not at
//! all; with a key, once. What is not taken is counted, with the frame where it was first.

use std::borrow::Cow;

use bytes::Bytes;
use weir_events::{
    About, IngestedAnswered, IngestedAsked, IngestedBegun, IngestedBroken, IngestedCalled, IngestedEvent,
    IngestedFailed, IngestedFinished, IngestedPart, IngestedReset, IngestedStep, IngestedText, IngestedUsage,
    Payload, is_reserved_kind,
};
use weir_journal::{AppendError, Appended, EVENTS_MAX, Journal, Key, NewEvent, Part};
use weir_types::{BranchId, Explain, Fault, Json, Kind, Meta, is_reserved_stream};

use crate::formats::{Format, Heard, LeftOut, ParseError, Parser, Recorded, joined};

/// The longest text of one event.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// A recorded stream, read.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What it becomes.
    pub events: Vec<NewEvent>,
    /// Whether it ends in the middle.
    pub is_cut: bool,
    /// What was not taken.
    pub left_out: Vec<LeftOut>,
}

/// Why a recorded stream is not taken.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// It cannot be read.
    #[error("{0}")]
    Parse(#[from] ParseError),
    /// There is nothing in it.
    #[error("there is no complete frame in it")]
    Empty,
    /// There is too much in it.
    #[error("it has {0} events; at most {EVENTS_MAX} are taken at once")]
    TooMany(usize),
    /// An event names a kind that is none.
    #[error("an event in it has no usable kind: {0}")]
    Kind(String),
    /// What it says cannot be written down.
    #[error("an event in it cannot be written down: {0}")]
    Encode(serde_json::Error),
    /// Who asks has a name that cannot be written down.
    #[error("the actor cannot be written down")]
    Actor,
    /// Only the runtime writes there.
    #[error("stream `{0}` is reserved: only the runtime writes it")]
    Reserved(BranchId),
    /// The journal refuses.
    #[error("{0}")]
    Append(#[from] AppendError),
}

impl Explain for IngestError {
    fn code(&self) -> &'static str {
        match self {
            Self::Parse(_) => "ingest::unreadable",
            Self::Empty => "ingest::empty",
            Self::TooMany(_) => "ingest::too-many",
            Self::Kind(_) | Self::Encode(_) => "ingest::kind",
            Self::Actor => "ingest::actor",
            Self::Reserved(_) => "ingest::reserved-stream",
            Self::Append(error) => error.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Parse(_) => {
                "record the stream as it was sent, and name its format: native, openai, anthropic or vercel"
                    .into()
            }
            Self::Empty => "send a recorded stream of server-sent events; nothing was appended".into(),
            Self::TooMany(_) => "cut it at a blank line and send the parts one after the other".into(),
            Self::Kind(_) | Self::Encode(_) => {
                "events of a native stream have kinds like `note.added`; nothing was appended".into()
            }
            Self::Actor => "use a shorter name".into(),
            Self::Reserved(_) => "choose a name without that prefix, like `recordings`".into(),
            Self::Append(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Reserved(_) => Fault::Denied,
            Self::Append(error) => error.fault(),
            _ => Fault::Input,
        }
    }
}

impl Recording {
    /// Reads a recorded stream. What is complete in one that was cut is taken.
    ///
    /// # Errors
    /// When it is no stream of that format.
    pub fn read(format: Format, bytes: &[u8], actor: &str) -> Result<Self, IngestError> {
        let mut parser = Parser::new(format);
        let mut heard = parser.push(bytes)?;
        heard.extend(parser.finish()?);
        let is_over = |heard: &Heard| matches!(heard, Heard::Done | Heard::Broken(_));
        let is_cut = !heard.iter().any(is_over);
        let about = About { actor: Some(actor.to_owned()), ..About::default() };
        let meta = about.encode().map_err(|_| IngestError::Actor)?;
        let events = events(format, joined(heard, TEXT_BYTES_MAX), &meta)?;
        match events.len() {
            0 => Err(IngestError::Empty),
            count if count > EVENTS_MAX => Err(IngestError::TooMany(count)),
            _ => Ok(Self { events, is_cut, left_out: parser.left_out() }),
        }
    }

    /// Appends it, all at once.
    ///
    /// # Errors
    /// When only the runtime writes there, or the journal refuses.
    pub async fn append(
        self,
        journal: &dyn Journal,
        branch: BranchId,
        key: Option<Key>,
    ) -> Result<Option<Appended>, IngestError> {
        if is_reserved_stream(&branch.stream) {
            return Err(IngestError::Reserved(branch));
        }
        let part = Part { key, ..Part::new(branch, self.events) };
        Ok(journal.append(vec![part]).await?.into_iter().next())
    }
}

fn events(format: Format, heard: Vec<Heard>, meta: &Meta) -> Result<Vec<NewEvent>, IngestError> {
    let mut events = Vec::new();
    let mut heard = heard.into_iter().peekable();
    while let Some(next) = heard.next() {
        let (kind, payload) = match next {
            Heard::Finished { reason } => {
                let usage = heard.next_if(|next| matches!(next, Heard::Used { .. }));
                let usage = match usage {
                    Some(Heard::Used { input_tokens, output_tokens }) => {
                        Some(IngestedUsage { input_tokens, output_tokens })
                    }
                    _ => None,
                };
                encoded(&IngestedFinished { reason, usage })?
            }
            Heard::Event(recorded) => event(*recorded)?,
            other => match payload(format, other)? {
                Some(encoded) => encoded,
                None => continue,
            },
        };
        events.push(NewEvent::new(kind, payload).with_meta(meta.clone()));
    }
    Ok(events)
}

/// An event of a native stream: as it was, unless it would mean something here.
fn event(recorded: Recorded) -> Result<(Kind, Bytes), IngestError> {
    let kind = Kind::parse_ingested(&recorded.kind)?;
    if is_reserved_kind(&kind) {
        return encoded(&IngestedEvent(recorded.line));
    }
    Ok((kind, recorded.payload.into()))
}

fn payload(format: Format, heard: Heard) -> Result<Option<(Kind, Bytes)>, IngestError> {
    let text = |channel: &str, text| encoded(&IngestedText { channel: channel.to_owned(), text });
    let encoded = match heard {
        Heard::Begun { id, model } => {
            encoded(&IngestedBegun { format: format.as_str().to_owned(), id, model })
        }
        Heard::Step => encoded(&IngestedStep {}),
        Heard::Text(said) => text("text", said),
        Heard::Reasoning(said) => text("reasoning", said),
        Heard::Refusal(said) => text("refusal", said),
        Heard::Part { part, data } => {
            encoded(&IngestedPart { part, data: data.iter().map(Json::to_value).collect() })
        }
        Heard::Called { id, tool, input } => encoded(&IngestedCalled { id, tool, input: input.to_value() }),
        Heard::Answered { id, output } => encoded(&IngestedAnswered { id, output: output.to_value() }),
        Heard::Failed { id, message, denied } => encoded(&IngestedFailed { id, message, denied }),
        Heard::Asked { id, call, why } => encoded(&IngestedAsked { id, call, why }),
        Heard::Reset => encoded(&IngestedReset {}),
        Heard::Used { input_tokens, output_tokens } => {
            let usage = Some(IngestedUsage { input_tokens, output_tokens });
            encoded(&IngestedFinished { reason: None, usage })
        }
        Heard::Broken(message) => encoded(&IngestedBroken { message }),
        Heard::Finished { .. } | Heard::Event(_) | Heard::Done => return Ok(None),
    };
    encoded.map(Some)
}

fn encoded<P: Payload>(payload: &P) -> Result<(Kind, Bytes), IngestError> {
    Ok((P::kind(), payload.encode().map_err(IngestError::Encode)?.into()))
}

/// A name from outside.
trait Ingested: Sized {
    fn parse_ingested(name: &str) -> Result<Self, IngestError>;
}

impl Ingested for Kind {
    fn parse_ingested(name: &str) -> Result<Self, IngestError> {
        name.parse().map_err(|error: weir_types::NameError| IngestError::Kind(error.to_string()))
    }
}

#[cfg(test)]
mod tests;

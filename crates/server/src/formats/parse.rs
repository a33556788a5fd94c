//! Reading recorded streams: what a format says, as neutral parts. Incremental, bounded, and never wrong about what is complete.
//!
//! Nothing is lost without a word: what has no neutral part is a [`Heard::Part`] as it stands there, and what is left out all the same is
//! counted ([`Parser::left_out`]). Only what says nothing (empty values, pings, where blocks begin and end) is passed over.

mod anthropic;
#[cfg(test)]
mod confused;
mod left_out;
mod native;
mod openai;
#[cfg(test)]
mod tests;
mod vercel;

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use weir_support::sse;
use weir_types::Json;

use super::Format;

pub use self::left_out::LeftOut;
use self::left_out::{Counts, Out};

/// The longest frame that is read: the largest payload, as base64 and with what is around it.
pub const FRAME_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most calls whose arguments are still to come at once.
const OPEN_MAX: usize = 1_024;

/// One thing that a recorded stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A message begins.
    Begun {
        /// What it calls itself.
        id: Option<String>,
        /// Who speaks.
        model: Option<String>,
    },
    /// A further step of it.
    Step,
    /// Words.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// Words by which an answer is refused, where a format tells them apart.
    Refusal(String),
    /// Something that has no place among these, as it stands there: an image, a source, a signature, data of an application.
    Part {
        /// The format's own name for it.
        part: String,
        /// What it says; several that came while something else was said are together.
        data: Vec<Json>,
    },
    /// A tool is called.
    Called {
        /// The call.
        id: String,
        /// The tool.
        tool: String,
        /// The arguments; text that is no JSON stands there as text.
        input: Json,
    },
    /// It answered.
    Answered {
        /// The call.
        id: String,
        /// The answer.
        output: Json,
    },
    /// It did not.
    Failed {
        /// The call.
        id: String,
        /// Why.
        message: Option<String>,
        /// Whether somebody said no.
        denied: bool,
    },
    /// Someone has to decide.
    Asked {
        /// What a decision names.
        id: String,
        /// The call.
        call: String,
        /// Why.
        why: Option<String>,
    },
    /// What was said in this step, or of this answer, is taken back.
    Reset,
    /// The message ends.
    Finished {
        /// Why, in the format's own word.
        reason: Option<String>,
    },
    /// What it used.
    Used {
        /// Tokens sent, cached ones included.
        input_tokens: u64,
        /// Tokens received.
        output_tokens: u64,
    },
    /// It ends with an error.
    Broken(String),
    /// An event of a native stream, as it stands there.
    Event(Box<Recorded>),
    /// The stream is complete.
    Done,
}

/// An event of a native stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What happened.
    pub kind: String,
    /// The content, byte for byte.
    pub payload: Vec<u8>,
    /// All of it, as it stands in the stream.
    pub line: Json,
}

/// A stream that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is no stream of events.
    #[error("frame {frame}: {why}")]
    Sse {
        /// Which, from 1.
        frame: usize,
        /// Why.
        why: sse::Error,
    },
    /// A frame makes no sense.
    #[error("frame {frame} is not {format}: {why}")]
    Frame {
        /// Which, from 1.
        frame: usize,
        /// What it was read as.
        format: Format,
        /// Why.
        why: String,
    },
}

/// Reads a stream of one format.
#[derive(Debug)]
pub struct Parser {
    format: Format,
    events: sse::Reader,
    reader: Reader,
    count: usize,
    left_out: Counts,
}

#[derive(Debug)]
enum Reader {
    Native,
    OpenAi(openai::Reader),
    Anthropic(anthropic::Reader),
    Vercel(vercel::Reader),
}

impl Parser {
    /// Reads a stream of that format.
    pub fn new(format: Format) -> Self {
        let reader = match format {
            Format::Native => Reader::Native,
            Format::OpenAi => Reader::OpenAi(openai::Reader::default()),
            Format::Anthropic => Reader::Anthropic(anthropic::Reader::default()),
            Format::Vercel => Reader::Vercel(vercel::Reader::default()),
        };
        let events = sse::Reader::new(FRAME_BYTES_MAX);
        Self { format, events, reader, count: 0, left_out: Counts::default() }
    }

    /// Takes more bytes; what they complete.
    ///
    /// # Errors
    /// When they are no stream of this format.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Heard>, ParseError> {
        let mut events = VecDeque::new();
        let pushed = self.events.push(bytes, &mut events);
        let mut heard = Vec::new();
        for event in events {
            self.event(event, &mut heard)?;
        }
        pushed.map_err(|why| ParseError::Sse { frame: self.count + 1, why })?;
        Ok(heard)
    }

    /// What was not taken so far: how often, and where first. Complete once the bytes have ended.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.listed()
    }

    /// The bytes have ended: a last frame may lack its blank line.
    ///
    /// # Errors
    /// As for [`Parser::push`].
    pub fn finish(&mut self) -> Result<Vec<Heard>, ParseError> {
        let mut heard = Vec::new();
        let last = self.events.finish().map_err(|why| ParseError::Sse { frame: self.count + 1, why })?;
        if let Some(event) = last {
            self.event(event, &mut heard)?;
        }
        match &self.reader {
            Reader::Native => {}
            Reader::OpenAi(reader) => reader.finish(&mut self.left_out),
            Reader::Anthropic(reader) => reader.finish(&mut self.left_out),
            Reader::Vercel(reader) => reader.finish(&mut self.left_out),
        }
        Ok(heard)
    }

    fn event(&mut self, event: sse::Event, heard: &mut Vec<Heard>) -> Result<(), ParseError> {
        let Some(data) = event.data else { return Ok(()) };
        self.count += 1;
        let mut out = Out { heard, left_out: &mut self.left_out, frame: self.count };
        let read = match &mut self.reader {
            Reader::Native => native::read(&data, &mut out),
            Reader::OpenAi(reader) => reader.read(&data, &mut out),
            Reader::Anthropic(reader) => reader.read(&data, &mut out),
            Reader::Vercel(reader) => reader.read(&data, &mut out),
        };
        read.map_err(|why| ParseError::Frame { frame: self.count, format: self.format, why })
    }
}

/// Adjacent words joined, up to a length, so that it does not matter in which pieces they came; and parts of one name that came while
/// something was said.
pub fn joined(heard: impl IntoIterator<Item = Heard>, bytes_max: usize) -> Vec<Heard> {
    let mut joined = Joined { heard: Vec::new(), said: None, parts: BTreeMap::new(), bytes_max };
    for next in heard {
        joined.take(next);
    }
    joined.heard
}

struct Joined {
    heard: Vec<Heard>,
    /// Where the words are that may go on.
    said: Option<usize>,
    /// Where the parts are that may have more, and how long they are.
    parts: BTreeMap<String, (usize, usize)>,
    bytes_max: usize,
}

impl Joined {
    fn take(&mut self, next: Heard) {
        match next {
            Heard::Part { part, data } => self.part(part, data),
            Heard::Text(_) | Heard::Reasoning(_) | Heard::Refusal(_) => self.words(next),
            next => {
                self.said = None;
                self.parts.clear();
                self.heard.push(next);
            }
        }
    }

    fn words(&mut self, next: Heard) {
        let last = self.said.and_then(|at| self.heard.get_mut(at));
        if let (Some(Heard::Text(text)), Heard::Text(more))
        | (Some(Heard::Reasoning(text)), Heard::Reasoning(more))
        | (Some(Heard::Refusal(text)), Heard::Refusal(more)) = (last, &next)
            && text.len() + more.len() <= self.bytes_max
        {
            return text.push_str(more);
        }
        self.said = Some(self.heard.len());
        self.heard.push(next);
    }

    fn part(&mut self, part: String, data: Vec<Json>) {
        let bytes: usize = data.iter().map(|json| json.as_str().len()).sum();
        if let Some((at, so_far)) = self.parts.get_mut(&part)
            && *so_far + bytes <= self.bytes_max
            && let Some(Heard::Part { data: there, .. }) = self.heard.get_mut(*at)
        {
            *so_far += bytes;
            return there.extend(data);
        }
        self.parts.insert(part.clone(), (self.heard.len(), bytes));
        self.heard.push(Heard::Part { part, data });
    }
}

fn object(data: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
    if value.is_object() { Ok(value) } else { Err("it is not a JSON object".to_owned()) }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn words(value: &Value) -> Option<String> {
    text(value).filter(|text| !text.is_empty())
}

/// Arguments that came as text: JSON, nothing, or text after all.
fn arguments(written: &str) -> Json {
    if written.trim().is_empty() {
        return Json::empty_object();
    }
    Json::parse(written).unwrap_or_else(|_| Json::of(&Value::from(written)))
}

fn too_many() -> String {
    format!("more than {OPEN_MAX} calls are open at once")
}

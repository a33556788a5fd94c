//! A frame on the wire, and the id by which a client says how far it has got.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use weir_types::Seq;

/// What an encoder makes of an item: a frame without its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The name of the SSE event, where the format has names.
    pub(crate) event: Option<Cow<'static, str>>,
    /// The data. Line breaks in it are those of the frame: a lone carriage return is read back as a line feed.
    pub(crate) data: String,
    /// Whether it is sent. One that is not has its place all the same, so that those after it are called the same for everybody.
    pub(crate) is_sent: bool,
}

impl Chunk {
    /// Data alone.
    pub(crate) fn data(data: impl Into<String>) -> Self {
        Self { event: None, data: data.into(), is_sent: true }
    }

    /// The same, for those who want it.
    pub(crate) fn if_wanted(self, is_wanted: bool) -> Self {
        Self { is_sent: is_wanted, ..self }
    }

    /// Data with a name.
    pub(crate) fn named(event: impl Into<Cow<'static, str>>, data: impl Into<String>) -> Self {
        Self { event: Some(event.into()), data: data.into(), is_sent: true }
    }
}

/// A frame as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Nothing where no stream could be taken up by it.
    pub(crate) id: Option<FrameId>,
    pub(crate) chunk: Chunk,
}

impl Frame {
    /// The bytes of it.
    pub(crate) fn to_text(&self) -> String {
        let Chunk { event, data, .. } = &self.chunk;
        let mut text = String::with_capacity(data.len() + 64);
        if let Some(id) = self.id {
            text.push_str(&format!("id: {id}\n"));
        }
        if let Some(event) = event {
            text.push_str(&format!("event: {event}\n"));
        }
        for line in data.split("\r\n").flat_map(|lines| lines.split(['\n', '\r'])) {
            text.extend(["data: ", line, "\n"]);
        }
        text.push('\n');
        text
    }
}

/// Where a frame is in its stream. Ids are ordered as frames are: whoever has seen one has seen all before it.
///
/// Opaque to clients. `<seq>.<n>` is the n-th frame of a durable event, from 1; `<seq>.0` says, before the event that ended it, that
/// an attempt is gone. `<request>.<attempt>.<end>` is a piece of an answer, up to that byte of what is shown of it; and
/// `<request>.<attempt>.<start>.<n>` the n-th frame that comes before the piece that starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrameId {
    /// The event, or the request that is being answered.
    pub(crate) seq: Seq,
    pub(crate) place: Place,
}

/// Where a frame is around an event. What an event says comes before what is said in answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The n-th frame of the event itself.
    Event(u32),
    /// In the answer to it.
    Answer {
        /// Bytes before it.
        offset: u64,
        /// Frames that were sent there without taking it any further.
        n: u32,
        /// Which attempt it is.
        attempt: u32,
    },
}

impl FrameId {
    pub(crate) const fn event(seq: Seq, n: u32) -> Self {
        Self { seq, place: Place::Event(n) }
    }

    pub(crate) const fn answer(request: Seq, attempt: u32, offset: u64, n: u32) -> Self {
        Self { seq: request, place: Place::Answer { offset, n, attempt } }
    }
}

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seq = self.seq;
        match self.place {
            Place::Event(n) => write!(f, "{seq}.{n}"),
            Place::Answer { offset, n: 0, attempt } => write!(f, "{seq}.{attempt}.{offset}"),
            Place::Answer { offset, n, attempt } => write!(f, "{seq}.{attempt}.{offset}.{n}"),
        }
    }
}

/// Text that is no frame id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoFrameId;

impl FromStr for FrameId {
    type Err = NoFrameId;

    fn from_str(text: &str) -> Result<Self, NoFrameId> {
        let mut numbers = text.split('.').map(number);
        let mut next = || numbers.next().transpose();
        let small = |number: u64| u32::try_from(number).map_err(|_| NoFrameId);
        let seq = Seq(next()?.ok_or(NoFrameId)?);
        let second = small(next()?.ok_or(NoFrameId)?)?;
        let id = match (next()?, next()?, next()?) {
            (None, None, None) => Self::event(seq, second),
            (Some(offset), n, None) => Self::answer(seq, second, offset, small(n.unwrap_or_default())?),
            _ => return Err(NoFrameId),
        };
        // Every id has one spelling.
        if id.to_string() == text { Ok(id) } else { Err(NoFrameId) }
    }
}

fn number(digits: &str) -> Result<u64, NoFrameId> {
    digits.parse().map_err(|_| NoFrameId)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_id() -> impl Strategy<Value = FrameId> {
        let event = (any::<u64>(), any::<u32>()).prop_map(|(seq, n)| FrameId::event(Seq(seq), n));
        let answer = (any::<u64>(), any::<u32>(), any::<u64>(), 0..3_u32)
            .prop_map(|(seq, attempt, offset, n)| FrameId::answer(Seq(seq), attempt, offset, n));
        prop_oneof![event, answer]
    }

    proptest! {
        #[test]
        fn an_id_is_read_back(id in any_id()) {
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn whatever_is_read_is_an_id(text in "[0-9.+ -]{0,12}|.{0,20}") {
            if let Ok(id) = text.parse::<FrameId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn ids_are_ordered_as_frames_are() {
        let ids = [
            "3.1", "4.0", "4.1", "4.2", "4.1.0.1", "4.1.0.2", "4.1.5", "4.1.5.1", "4.1.12", "5.0", "5.1",
            "10.1",
        ];
        let parsed: Vec<FrameId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        assert!(parsed.is_sorted(), "{parsed:?}");
    }
}

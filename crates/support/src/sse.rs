//! Reads server-sent events from bytes.
//!
//! - A line ends with LF, CR or CRLF. The bytes may be cut anywhere: within a character, or between CR and LF.
//! - The memory that a [`Reader`] holds for one event is bounded.
//! - Text is never decoded lossily: an event that is not UTF-8 is an error.
//! - As the standard says, a repeated `event:`, `id:` or `retry:` replaces the earlier one, and unknown fields, an `id:`
//!   with NUL and a `retry:` that is not a number are ignored.
//!
//! Unlike the standard, an event without `data:` is given out, too: MCP servers send an `id:` or a `retry:` alone.
//!
//! **Invariant:** the events, and the error, do not depend on where the bytes were cut.

use std::collections::VecDeque;
use std::time::Duration;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event:` field.
    pub name: Option<String>,
    /// The `data:` lines, joined with line feeds. `None` when the event has no such line.
    pub data: Option<String>,
    /// The `id:` field.
    pub id: Option<String>,
    /// The `retry:` field.
    pub retry: Option<Duration>,
}

/// Bytes that cannot be read as events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An event is too long.
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
    /// An event is not UTF-8.
    #[error("an event is not UTF-8")]
    NotText,
}

/// Turns bytes into events. After an error it must not be used any more.
#[derive(Debug)]
pub struct Reader {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The fields of the event that has not ended yet.
    fields: Fields,
    /// The last byte was a CR. An LF after it belongs to the same line ending.
    is_after_cr: bool,
    is_first_line: bool,
    event_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Fields {
    name: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
    id: Option<String>,
    retry: Option<Duration>,
}

impl Reader {
    /// Reads events of at most this many bytes.
    pub fn new(event_bytes_max: usize) -> Self {
        let fields = Fields::default();
        Self { line: vec![], fields, is_after_cr: false, is_first_line: true, event_bytes_max }
    }

    /// Takes the next bytes, and appends the events that end in them.
    ///
    /// # Errors
    /// When an event is too long or not UTF-8. The events before it have been appended.
    pub fn push(&mut self, bytes: &[u8], events: &mut VecDeque<Event>) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.is_after_cr)
                && let Some(after) = rest.strip_prefix(b"\n")
            {
                rest = after;
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.append(rest);
            };
            self.append(&rest[..end])?;
            self.is_after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line()?);
        }
        Ok(())
    }

    /// Returns the event that lacks only the empty line after it, when the bytes have ended properly. A line that has
    /// not ended was cut, and so was its event.
    ///
    /// # Errors
    /// When the event is not UTF-8.
    pub fn finish(&mut self) -> Result<Option<Event>, Error> {
        if self.line.is_empty() { self.fields.take() } else { Ok(None) }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.line.len() + self.fields.len() + bytes.len() > self.event_bytes_max {
            return Err(Error::TooLong(self.event_bytes_max));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, Error> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.fields.take();
        }
        self.fields.set(line);
        Ok(None)
    }
}

impl Fields {
    fn set(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || std::str::from_utf8(value).ok();
        match &line[..colon] {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.name = Some(value.to_vec()),
            b"id" => {
                let id = text().filter(|id| !id.contains('\0'));
                self.id = id.map(str::to_owned).or(self.id.take());
            }
            b"retry" => {
                let millis = text().and_then(|time| time.trim_ascii().parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            // A comment has no name. Other fields mean nothing.
            _ => {}
        }
    }

    fn len(&self) -> usize {
        let bytes = [&self.name, &self.data].map(|field| field.as_ref().map_or(0, Vec::len));
        bytes.iter().sum::<usize>() + self.id.as_ref().map_or(0, String::len)
    }

    fn take(&mut self) -> Result<Option<Event>, Error> {
        let Self { name, data, id, retry } = std::mem::take(self);
        let text = |bytes| String::from_utf8(bytes).map_err(|_| Error::NotText);
        let event = Event { name: name.map(text).transpose()?, data: data.map(text).transpose()?, id, retry };
        Ok(Some(event).filter(|event| *event != Event::default()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;

    const BYTES_MAX: usize = 40;

    /// The events before the first error, and how the stream ended.
    fn read(pieces: &[&[u8]], event_bytes_max: usize) -> (Vec<Event>, Result<(), Error>) {
        let (mut events, mut reader) = (VecDeque::new(), Reader::new(event_bytes_max));
        let pushed = pieces.iter().try_for_each(|piece| reader.push(piece, &mut events));
        let ended = pushed.and_then(|()| reader.finish()).map(|last| events.extend(last));
        (events.into(), ended)
    }

    fn events(text: &[u8]) -> Vec<Event> {
        let (events, ended) = read(&[text], BYTES_MAX);
        assert_eq!(ended, Ok(()));
        events
    }

    fn data(text: &str) -> Event {
        Event { data: Some(text.to_owned()), ..Event::default() }
    }

    fn pieces<'b>(bytes: &'b [u8], cuts: &[Index]) -> Vec<&'b [u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect()
    }

    #[test]
    fn every_line_ending_comment_and_field_is_understood() {
        let text = "\u{feff}: hi\r\nevent: a\r\ndata: é1\r\ndata:2\r\rid: 7\ndata\n\nevent: b\n\n\n\r\ndata:  🙂\r\n";
        let expected = [
            Event { name: Some("a".to_owned()), ..data("é1\n2") },
            Event { id: Some("7".to_owned()), ..data("") },
            Event { name: Some("b".to_owned()), ..Event::default() },
            data(" 🙂"),
        ];
        assert_eq!(events(text.as_bytes()), expected);
    }

    #[test]
    fn a_repeated_field_replaces_and_an_invalid_one_is_ignored() {
        let retry = |millis| Event { retry: Some(Duration::from_millis(millis)), ..Event::default() };
        assert_eq!(events(b"retry: 5\nretry: 3000 \nretry: x\nretry\n\n"), [retry(3_000)]);
        let id = Event { id: Some("b".to_owned()), ..Event::default() };
        assert_eq!(events(b"id: a\nid: b\nid: \0\nid: \xff\nother: 1\n\xff: 2\n\n"), [id]);
        let name = Event { name: Some("b".to_owned()), ..Event::default() };
        assert_eq!(events(b"event: a\nevent: b\n\n"), [name]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_beginning_alone() {
        assert_eq!(events("\u{feff}data: 1\n\n\u{feff}data: 2\n\n".as_bytes()), [data("1")]);
    }

    #[test]
    fn a_cut_event_is_no_event() {
        assert_eq!(events(b"data: 1\n\ndata: 2"), [data("1")]);
        assert_eq!(events(b"data: 1\n\ndata: \xf0\x9f"), [data("1")]);
        assert_eq!(events(b"data: 1\n\ndata: 2\nda"), [data("1")]);
        assert_eq!(events(b"data: 1\n\ndata: 2\n"), [data("1"), data("2")]);
    }

    #[test]
    fn an_event_is_bounded_in_each_of_its_fields_and_text() {
        let refused = |text: &[u8]| read(&[text], BYTES_MAX).1.unwrap_err();
        assert_eq!(refused(b"data: \xf0\x9f\n\n"), Error::NotText);
        assert_eq!(refused(b"event: \xf0\x9f\n\n"), Error::NotText);
        let too_long = Error::TooLong(BYTES_MAX);
        assert_eq!(refused(&[b'x'; BYTES_MAX + 1]), too_long);
        for first in ["data", "event", "id"] {
            assert_eq!(
                refused(format!("{first}: {}\ndata: 0123456789\n", "x".repeat(30)).as_bytes()),
                too_long
            );
        }
        assert_eq!(refused("data: 0123456789\n".repeat(5).as_bytes()), too_long);
        // Comments are not kept, so that any number of them may come before the end of an event.
        assert_eq!(events(": 0123456789\n".repeat(5).as_bytes()), []);
    }

    fn written(event: &Event, end: &str) -> String {
        let mut lines: Vec<String> = Vec::new();
        lines.extend(event.name.iter().map(|name| format!("event: {name}")));
        lines.extend(event.data.iter().flat_map(|data| data.split('\n')).map(|line| format!("data: {line}")));
        lines.extend(event.id.iter().map(|id| format!("id: {id}")));
        lines.extend(event.retry.iter().map(|retry| format!("retry: {}", retry.as_millis())));
        lines.into_iter().chain([String::new()]).map(|line| line + end).collect()
    }

    prop_compose! {
        fn any_event()(
            name in proptest::option::of("[^\r\n]{0,8}"),
            data in "([^\r]|\n){0,16}",
            id in proptest::option::of("[^\r\n\0]{0,8}"),
            retry in proptest::option::of(any::<u32>()),
        ) -> Event {
            let retry = retry.map(|millis| Duration::from_millis(millis.into()));
            Event { name, data: Some(data), id, retry }
        }
    }

    /// What matters to a reader, in any order, and bytes that are not UTF-8.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let parts: Vec<&[u8]> = vec![
            b"data: a",
            b"data",
            b":",
            b" ",
            b"event: b",
            b"id: 7",
            b"retry: 5",
            b"\r",
            b"\n",
            b"\r\n",
            b"\n\n",
            "\u{feff}".as_bytes(),
            "é🙂".as_bytes(),
            b"\xff",
            b"\0",
            b"0123456789012345",
        ];
        vec(select(parts), 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn written_events_are_read_however_the_bytes_are_cut(
            expected in vec(any_event(), 0..5),
            end in select(vec!["\n", "\r", "\r\n"]),
            begin in select(vec!["", "\u{feff}", ": comment\n"]),
            cuts in vec(any::<Index>(), 0..20),
        ) {
            let text: String = expected.iter().map(|event| written(event, end)).collect();
            let text = format!("{begin}{text}");
            prop_assert_eq!(read(&pieces(text.as_bytes(), &cuts), 1_000), (expected, Ok(())));
        }

        #[test]
        fn cuts_change_neither_events_nor_errors(bytes in any_bytes(), cuts in vec(any::<Index>(), 0..20)) {
            prop_assert_eq!(read(&pieces(&bytes, &cuts), BYTES_MAX), read(&[&bytes], BYTES_MAX));
        }
    }
}

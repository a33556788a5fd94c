//! Server-sent events, as they come: in pieces of any size, with any line ending.
//!
//! Text is decoded frame by frame and never lossily: what is not UTF-8 is an error, and what was cut is not text yet.

use std::collections::VecDeque;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The `event:` field. Some servers leave it out; the JSON inside says it again.
    pub event: Option<String>,
    /// The `data:` lines, joined.
    pub data: String,
}

/// Bytes that are no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// Longer than it may be.
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
    /// Not UTF-8.
    #[error("an event is not UTF-8")]
    NotText,
}

/// Takes bytes, gives frames.
#[derive(Debug)]
pub struct Frames {
    /// The line that is not finished yet.
    line: Vec<u8>,
    event: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_return: bool,
    first_line: bool,
    bytes_max: usize,
}

impl Frames {
    /// Reads frames of at most so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { line: vec![], event: None, data: None, after_return: false, first_line: true, bytes_max }
    }

    /// Takes the next bytes and appends the frames they finish to `frames`.
    ///
    /// # Errors
    /// When they are no events.
    pub fn push(&mut self, bytes: &[u8], frames: &mut VecDeque<Frame>) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.after_return && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        if !bytes.is_empty() {
            self.after_return = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.append(&rest[..end])?;
            let returned = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if returned && rest.first() == Some(&b'\n') {
                rest = &rest[1..];
            } else {
                self.after_return = returned && rest.is_empty();
            }
            frames.extend(self.end_line()?);
        }
        self.append(rest)
    }

    /// The body has ended properly: an event whose last line is whole counts, even without the blank line after it.
    ///
    /// # Errors
    /// When that is no event.
    pub fn finish(&mut self) -> Result<Option<Frame>, SseError> {
        if self.line.is_empty() { self.dispatch() } else { Ok(None) }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + bytes.len() > self.bytes_max {
            return Err(SseError::TooLong(self.bytes_max));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Frame>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.event = Some(value.to_vec()),
            // Comments (no name), `id`, `retry` and whatever comes later mean nothing to a single answer.
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Result<Option<Frame>, SseError> {
        let event = self.event.take();
        let Some(data) = self.data.take() else { return Ok(None) };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| SseError::NotText);
        Ok(Some(Frame { event: event.map(text).transpose()?, data: text(data)? }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<Frame>, SseError> {
        let mut frames = VecDeque::new();
        let mut parser = Frames::new(40);
        for piece in pieces {
            parser.push(piece, &mut frames)?;
        }
        frames.extend(parser.finish()?);
        Ok(frames.into())
    }

    fn frame(event: Option<&str>, data: &str) -> Frame {
        Frame { event: event.map(str::to_owned), data: data.to_owned() }
    }

    const ODD: &str =
        "\u{feff}: hi\r\nevent: a\r\ndata: é1\r\ndata:2\r\rid: 7\ndata\n\nevent: lost\n\n\n\r\ndata:  🙂\r\n";

    fn odd() -> Vec<Frame> {
        vec![frame(Some("a"), "é1\n2"), frame(None, ""), frame(None, " 🙂")]
    }

    #[test]
    fn every_line_ending_comment_and_field_is_understood() {
        assert_eq!(read(&[ODD.as_bytes()]), Ok(odd()));
    }

    #[test]
    fn a_cut_event_is_no_event() {
        assert_eq!(read(&[b"data: 1\n\ndata: 2"]), Ok(vec![frame(None, "1")]));
        assert_eq!(read(&[b"data: 1\n\ndata: \xf0\x9f"]), Ok(vec![frame(None, "1")]));
        assert_eq!(read(&[b"data: 1\n\ndata: 2\nda"]), Ok(vec![frame(None, "1")]));
        assert_eq!(read(&[b"data: 1\n\ndata: 2\n"]), Ok(vec![frame(None, "1"), frame(None, "2")]));
    }

    #[test]
    fn what_is_not_text_or_too_long_is_refused() {
        assert_eq!(read(&[b"data: \xf0\x9f\n\n"]), Err(SseError::NotText));
        assert_eq!(read(&[b"data: ", &[b'x'; 40]]), Err(SseError::TooLong(40)));
        let lines = "data: 0123456789\n".repeat(5);
        assert_eq!(read(&[lines.as_bytes()]), Err(SseError::TooLong(40)));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(mut cuts in proptest::collection::vec(0..ODD.len(), 0..8)) {
            cuts.extend([0, ODD.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &ODD.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), Ok(odd()));
        }
    }
}

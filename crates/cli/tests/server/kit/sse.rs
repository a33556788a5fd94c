//! Frames of server-sent events, one by one.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;

use super::DEADLINE;

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    /// The lines of its data, joined.
    pub(crate) data: String,
}

impl Frame {
    /// Its data as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// What a stream answers, frame by frame.
pub(crate) struct Frames {
    pub(crate) status: reqwest::StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    /// Comments so far: keep-alives.
    pub(crate) comments: usize,
    /// Whether it ended because the connection broke.
    pub(crate) broken: bool,
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    rest: Vec<u8>,
    ready: VecDeque<Frame>,
}

impl Frames {
    /// The frames of an answer, whatever its status.
    pub(crate) fn of(response: reqwest::Response) -> Self {
        Self {
            status: response.status(),
            headers: response.headers().clone(),
            comments: 0,
            broken: false,
            bytes: response.bytes_stream().boxed(),
            rest: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The next frame; nothing when the stream has ended, or has broken off.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        self.next_within(DEADLINE).await
    }

    /// The same, for those who wait longer than others.
    pub(crate) async fn next_within(&mut self, patience: Duration) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if !tokio::time::timeout(patience, self.more()).await.expect("a frame in time") {
                return None;
            }
        }
    }

    /// The next frame, for those who have a deadline of their own.
    pub(super) async fn coming(&mut self) -> Option<Frame> {
        while self.ready.is_empty() {
            if !self.more().await {
                return None;
            }
        }
        self.ready.pop_front()
    }

    /// Waits until something has happened, and passes over all that is there; false when the stream has ended. Pieces of an answer are no
    /// events. Also for those with a deadline.
    pub(super) async fn news(&mut self) -> bool {
        while let Some(frame) = self.coming().await {
            if frame.event.as_deref() != Some("text.delta") {
                self.ready.clear();
                return true;
            }
        }
        false
    }

    /// Takes what comes next; false when nothing does.
    async fn more(&mut self) -> bool {
        match self.bytes.next().await {
            Some(Ok(bytes)) => {
                self.take(&bytes);
                true
            }
            Some(Err(_)) => {
                self.broken = true;
                false
            }
            None => false,
        }
    }

    /// All further frames.
    pub(crate) async fn all(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let text: Vec<u8> = self.rest.drain(..end + 2).collect();
            let text = String::from_utf8(text).unwrap();
            assert!(!text.contains('\r'), "lines end with a line feed alone: {text:?}");
            self.frame(&text);
        }
    }

    fn frame(&mut self, text: &str) {
        let mut frame = Frame::default();
        let mut data: Vec<&str> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => self.comments += 1,
                "id" => frame.id = Some(value.to_owned()),
                "event" => frame.event = Some(value.to_owned()),
                "data" => data.push(value),
                "retry" => {}
                other => panic!("`{other}` is no field of a frame: {text:?}"),
            }
        }
        frame.data = data.join("\n");
        if frame != Frame::default() {
            self.ready.push_back(frame);
        }
    }
}

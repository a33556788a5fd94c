//! What a command says, of any length: its beginning and its end.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of the beginning of a stream is kept, and how much of its end. Errors tend to be at one of the two.
const HEAD_BYTES: usize = 256 * 1024;
const TAIL_BYTES: usize = 256 * 1024;

/// One piece of a stream.
const CHUNK_BYTES: usize = 64 * 1024;

/// The beginning and the end of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Captured {
    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.left_out + (self.head.len() + self.tail.len()) as u64
    }

    /// How many bytes of the middle were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The text, saying what was left out.
    pub fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[&self.head, front, back].concat()).into_owned();
        }
        format!(
            "{}\n[{} bytes left out]\n{}",
            String::from_utf8_lossy(&self.head),
            self.left_out,
            String::from_utf8_lossy(&[front, back].concat())
        )
    }

    /// Reads a stream to its end, or until there were more than `bytes_max`.
    ///
    /// A stream that fails has ended: the other side is gone.
    pub(super) async fn read(&mut self, mut stream: impl AsyncRead + Unpin, bytes_max: u64) -> Ending {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return Ending::End,
                Ok(count) => self.add(&chunk[..count]),
            }
            if self.total() > bytes_max {
                return Ending::TooMuch;
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.left_out += surplus as u64;
    }
}

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    End,
    TooMuch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_beginning_and_the_end_are_kept() {
        let mut captured = Captured::default();
        let text: Vec<u8> =
            (0..HEAD_BYTES + TAIL_BYTES).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        assert_eq!(captured.read(&text[..], u64::MAX).await, Ending::End);
        assert_eq!((captured.text().as_bytes(), captured.left_out()), (&text[..], 0));
        assert_eq!(captured.read(&b"0123456789"[..], u64::MAX).await, Ending::End);
        assert_eq!((captured.left_out(), captured.total()), (10, text.len() as u64 + 10));
        let shown = captured.text();
        assert!(shown.starts_with("abcdef") && shown.ends_with("0123456789"));
        assert!(shown.contains("\n[10 bytes left out]\n"));
    }

    #[tokio::test]
    async fn too_much_is_noticed() {
        let mut captured = Captured::default();
        assert_eq!(captured.read(tokio::io::repeat(b'y'), 1_000_000).await, Ending::TooMuch);
        assert!(captured.total() > 1_000_000 && captured.text().len() < 600_000);
    }
}

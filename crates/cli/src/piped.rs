//! Standard input beside a message: `git diff | weir chat reviewer -m 'Review this'`.
//!
//! A pipe that was inherited from a parent may stay open for ever and never say anything, and nothing tells it from one
//! whose writer is slow. So the first byte is waited for with a limit; who says nothing until then is not listened to, and
//! the caller tells that. What has begun is read to its end, or not used at all: half of a text is worse than none.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use weir_types::{Explain, Fault};

use crate::input::{Input, InputError};
use crate::report::Outcome;

/// What came from standard input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piped {
    /// It is at its end.
    Nothing,
    /// It is open, and nothing came.
    Silent,
    /// All of it.
    Content(Vec<u8>),
}

/// How long and how much is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// For the first byte.
    first: Duration,
    /// For each piece after it.
    next: Duration,
    bytes_max: usize,
}

impl Default for Waits {
    fn default() -> Self {
        Self { first: Duration::from_secs(3), next: Duration::from_secs(60), bytes_max: 1024 * 1024 }
    }
}

/// It began and did not end.
#[derive(Debug, thiserror::Error)]
#[error("standard input has not ended, and nothing came from it for {} s", .0.as_secs())]
struct Stalled(Duration);

impl Explain for Stalled {
    fn code(&self) -> &'static str {
        "cli::stdin-stalled"
    }

    fn help(&self) -> Cow<'static, str> {
        "nothing was said to the agent; pipe in something that ends, or leave it out with `--no-stdin`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Reads all there is.
pub(crate) async fn read(mut reader: impl AsyncRead + Unpin, waits: &Waits) -> Outcome<Piped> {
    let mut content = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let wait = if content.is_empty() { waits.first } else { waits.next };
        let length = match tokio::time::timeout(wait, reader.read(&mut piece)).await {
            Ok(Ok(0)) if content.is_empty() => return Ok(Piped::Nothing),
            Ok(Ok(0)) => return Ok(Piped::Content(content)),
            Ok(Ok(length)) => length,
            Ok(Err(source)) if source.kind() == io::ErrorKind::Interrupted => continue,
            Ok(Err(source)) => return Err(InputError::Unreadable { input: Input::Stdin, source }.into()),
            Err(_) if content.is_empty() => return Ok(Piped::Silent),
            Err(_) => return Err(Stalled(waits.next).into()),
        };
        content.extend_from_slice(&piece[..length]);
        if content.len() > waits.bytes_max {
            return Err(InputError::TooLong { input: Input::Stdin, bytes_max: waits.bytes_max as u64 }.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const WAITS: Waits =
        Waits { first: Duration::from_millis(20), next: Duration::from_millis(20), bytes_max: 8 };

    /// What comes of a pipe that gets these bytes, and is closed or stays open.
    async fn check(bytes: &[u8], is_closed: bool) -> Result<Piped, String> {
        let (mut writer, reader) = tokio::io::duplex(1024);
        writer.write_all(bytes).await.unwrap();
        let open = (!is_closed).then_some(writer);
        let read = read(reader, &WAITS).await.map_err(|failure| failure.words().0);
        drop(open);
        read
    }

    #[tokio::test]
    async fn a_pipe_that_is_never_closed_holds_nobody_up() {
        assert_eq!(check(b"", true).await, Ok(Piped::Nothing));
        assert_eq!(check(b"", false).await, Ok(Piped::Silent));
        assert_eq!(check(b"a diff", true).await, Ok(Piped::Content(b"a diff".to_vec())));
        let stalled = check(b"half", false).await.unwrap_err();
        assert!(stalled.contains("has not ended"), "{stalled}");
        let long = check(b"too long!", true).await.unwrap_err();
        assert!(long.contains("more than 8 bytes"), "{long}");
    }
}

//! Bodies of answers, read no further than allowed, packed or not.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use reqwest::header::CONTENT_ENCODING;

use super::error::{Trouble, shortened};

/// How much is unpacked at a time. A thousandfold at most, so that no other task waits long.
const STEP_BYTES: usize = 4 * 1024;

/// Reads the whole body. A packed one counts as long as what comes out of it.
pub(super) async fn read(
    mut response: reqwest::Response,
    host: &str,
    bytes_max: usize,
) -> Result<Bytes, Trouble> {
    let too_long = || Trouble::ResponseSize { host: host.to_owned(), max: bytes_max };
    if response.content_length().is_some_and(|length| length > bytes_max as u64) {
        return Err(too_long());
    }
    let mut unpacking = Unpacking::new(&response, host, bytes_max)?;
    let mut is_empty = true;
    while let Some(chunk) = response.chunk().await.map_err(|error| super::broken(host, error))? {
        is_empty &= chunk.is_empty();
        for part in chunk.chunks(STEP_BYTES) {
            unpacking.write(part).map_err(|error| unpacked_badly(&error, host, bytes_max))?;
            tokio::task::consume_budget().await;
        }
    }
    // An answer to `HEAD` says how it would be packed, and has nothing to unpack.
    if is_empty {
        return Ok(Bytes::new());
    }
    unpacking.finish().map_err(|error| unpacked_badly(&error, host, bytes_max))
}

fn unpacked_badly(error: &io::Error, host: &str, bytes_max: usize) -> Trouble {
    match error.kind() {
        io::ErrorKind::FileTooLarge => Trouble::ResponseSize { host: host.to_owned(), max: bytes_max },
        _ => Trouble::Packed { host: host.to_owned(), why: shortened(&error.to_string()) },
    }
}

enum Unpacking {
    Plain(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
    Deflate(Box<ZlibDecoder<Bounded>>),
}

impl Unpacking {
    fn new(response: &reqwest::Response, host: &str, bytes_max: usize) -> Result<Self, Trouble> {
        let out = Bounded { bytes: Vec::new(), max: bytes_max };
        let packed =
            response.headers().get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
        Ok(match packed.as_deref() {
            None | Some(b"identity" | b"") => Self::Plain(out),
            Some(b"gzip" | b"x-gzip") => Self::Gzip(Box::new(MultiGzDecoder::new(out))),
            Some(b"deflate") => Self::Deflate(Box::new(ZlibDecoder::new(out))),
            Some(other) => {
                let why = format!("`{}` was not asked for", shortened(&String::from_utf8_lossy(other)));
                return Err(Trouble::Packed { host: host.to_owned(), why });
            }
        })
    }

    fn write(&mut self, part: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(part),
            Self::Gzip(decoder) => decoder.write_all(part),
            Self::Deflate(decoder) => decoder.write_all(part),
        }
    }

    fn finish(self) -> io::Result<Bytes> {
        let out = match self {
            Self::Plain(out) => out,
            Self::Gzip(decoder) => decoder.finish()?,
            Self::Deflate(decoder) => decoder.finish()?,
        };
        Ok(out.bytes.into())
    }
}

/// Memory with an end.
struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

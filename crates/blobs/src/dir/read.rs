//! Content on its way out: checked before the first byte is handed on, and again, chunk by chunk, if it is read twice.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use weir_types::{Hash, Hasher};
use zstd::stream::read::Decoder;

use super::format::{self, Trailer, WINDOW_LOG_MAX};
use super::stream::Stream;
use crate::{CHUNK_BYTES, GetError, Reader, Stored};

/// Content up to this length is decoded once, into memory; longer content twice, the first time only to check it.
const IN_MEMORY_MAX: u64 = 1024 * 1024;

/// Opens and checks a blob.
pub(super) fn open(hash: Hash, path: PathBuf) -> Result<Reader, GetError> {
    let blob = Blob::open(hash, path)?;
    if blob.trailer.bytes <= IN_MEMORY_MAX {
        let mut content = Vec::with_capacity(blob.trailer.bytes as usize);
        blob.decode()?.drain(|chunk| content.extend_from_slice(chunk))?;
        return Ok(Box::new(io::Cursor::new(content)));
    }
    // The same open file both times: whatever happens to the name in between, this is the file that was checked.
    let blob = blob.decode()?.drain(|_| {})?;
    Ok(Box::new(Stream::new(blob.decode()?)))
}

/// The sizes of a blob.
pub(super) fn stat(hash: Hash, path: PathBuf) -> Result<Stored, GetError> {
    let blob = Blob::open(hash, path)?;
    Ok(Stored { hash, bytes: blob.trailer.bytes, stored_bytes: blob.frame_bytes + Trailer::BYTES as u64 })
}

/// An open blob whose trailer is right.
pub(super) struct Blob {
    name: Name,
    file: File,
    frame_bytes: u64,
    trailer: Trailer,
    marks: Marks,
}

/// The hash of the content up to the end of each chunk but the last, shortened: eight bytes for each 256 KiB. The
/// first pass leaves them, the second compares, so that a file which is changed between the two passes ends in an
/// error before a changed byte is handed out.
enum Marks {
    Leave(Vec<[u8; 8]>),
    Compare(std::vec::IntoIter<[u8; 8]>),
}

/// What errors say about a blob.
struct Name {
    hash: Hash,
    path: PathBuf,
}

impl Name {
    fn damaged(&self, what: impl Into<String>) -> GetError {
        GetError::Mismatch { hash: self.hash, what: what.into() }
    }

    fn storage(&self, source: io::Error) -> GetError {
        GetError::Storage { hash: self.hash, path: self.path.clone(), source }
    }

    /// The decoder passes on what the system said about the file; all else it says is about the bytes in it.
    fn decoding(&self, error: io::Error) -> GetError {
        match error.kind() {
            _ if error.raw_os_error().is_some() => self.storage(error),
            ErrorKind::UnexpectedEof => self.damaged("it ends too early"),
            _ => self.damaged(error.to_string()),
        }
    }
}

impl Blob {
    fn open(hash: Hash, path: PathBuf) -> Result<Self, GetError> {
        let name = Name { hash, path };
        let file = match File::open(&name.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(GetError::Missing(hash)),
            Err(error) => return Err(name.storage(error)),
        };
        let metadata = file.metadata().map_err(|error| name.storage(error))?;
        if !metadata.is_file() {
            return Err(name.damaged("it is not a file"));
        }
        let Some(frame_bytes) = metadata.len().checked_sub(Trailer::BYTES as u64) else {
            return Err(name.damaged(format!("{} bytes are too few", metadata.len())));
        };
        let mut trailer = [0; Trailer::BYTES];
        file.read_exact_at(&mut trailer, frame_bytes).map_err(|error| name.decoding(error))?;
        match Trailer::decode(hash, &trailer) {
            Some(trailer) => Ok(Self { name, file, frame_bytes, trailer, marks: Marks::Leave(Vec::new()) }),
            None => Err(name.damaged("its trailer is not the one that was written")),
        }
    }

    fn decode(mut self) -> Result<Box<Decode>, GetError> {
        self.file.rewind().map_err(|error| self.name.storage(error))?;
        let Self { name, file, frame_bytes, trailer, marks } = self;
        let frame = Frame { file, left: frame_bytes, digest: Hasher::default() };
        let decoder = new_decoder(frame).map_err(|error| name.storage(error))?;
        let (left, content) = (trailer.bytes, Hasher::default());
        Ok(Box::new(Decode { name, frame_bytes, trailer, marks, decoder, left, content }))
    }
}

fn new_decoder(frame: Frame) -> io::Result<Decoder<'static, BufReader<Frame>>> {
    let mut decoder = Decoder::new(frame)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// A pass over the content of a blob.
pub(super) struct Decode {
    name: Name,
    frame_bytes: u64,
    trailer: Trailer,
    marks: Marks,
    decoder: Decoder<'static, BufReader<Frame>>,
    left: u64,
    content: Hasher,
}

/// How a step of a pass ended.
pub(super) enum Step {
    More(Box<Decode>),
    /// All is decoded, and all of it is right.
    End(Blob),
}

impl Decode {
    /// Decodes the whole content.
    fn drain(mut self: Box<Self>, mut sink: impl FnMut(&[u8])) -> Result<Blob, GetError> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        loop {
            let step = self.step(&mut chunk)?;
            sink(&chunk);
            match step {
                Step::More(rest) => self = rest,
                Step::End(blob) => return Ok(blob),
            }
        }
    }

    /// Decodes the next chunk. With the last one comes the verdict, so that wrong content is never seen to its end.
    pub(super) fn step(mut self: Box<Self>, chunk: &mut Vec<u8>) -> Result<Step, GetError> {
        let length = self.left.min(CHUNK_BYTES as u64) as usize;
        chunk.clear();
        chunk.resize(length, 0);
        self.decoder.read_exact(chunk).map_err(|error| self.name.decoding(error))?;
        self.content.update(chunk);
        self.left -= length as u64;
        if self.left == 0 {
            return self.finish().map(Step::End);
        }
        self.mark()?;
        Ok(Step::More(self))
    }

    fn mark(&mut self) -> Result<(), GetError> {
        let mark = format::start(self.content.clone().finish());
        let unchanged = match &mut self.marks {
            Marks::Leave(marks) => {
                marks.push(mark);
                true
            }
            Marks::Compare(marks) => marks.next() == Some(mark),
        };
        if unchanged { Ok(()) } else { Err(self.name.damaged("it was changed while it was read")) }
    }

    fn finish(mut self: Box<Self>) -> Result<Blob, GetError> {
        // This also reads the file to its end, so that the digest covers all of it.
        let beyond = self.decoder.read(&mut [0]).map_err(|error| self.name.decoding(error))?;
        if beyond > 0 {
            return Err(self.name.damaged(format!("it has more than {} bytes", self.trailer.bytes)));
        }
        let actual = self.content.finish();
        if actual != self.name.hash {
            return Err(self.name.damaged(format!("its hash is {actual}")));
        }
        let Frame { file, digest, .. } = self.decoder.finish().into_inner();
        if Trailer::new(self.trailer.bytes, digest) != self.trailer {
            return Err(self.name.damaged("its compressed form was changed"));
        }
        let marks = match self.marks {
            Marks::Leave(marks) => Marks::Compare(marks.into_iter()),
            compared @ Marks::Compare(_) => compared,
        };
        Ok(Blob { name: self.name, file, frame_bytes: self.frame_bytes, trailer: self.trailer, marks })
    }
}

/// The compressed bytes, digested on their way out of the file.
struct Frame {
    file: File,
    left: u64,
    digest: Hasher,
}

impl Read for Frame {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.left.min(into.len() as u64) as usize;
        let read = self.file.read(&mut into[..length])?;
        self.digest.update(&into[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}

//! A look at a directory: which files there are, which of them are what is known already, and what cannot be
//! taken.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use weir_types::{Hash, Hasher};

use crate::disk::{self, Directory, Kind};
use crate::{ChangesError, Entry, Files, Path, PathError};

/// Says which files and directories are not looked at: `true` for a directory leaves out all that is in it.
pub type Ignore = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// How a directory is looked at.
#[derive(Clone)]
pub struct Scan {
    /// How much of it is taken.
    pub limits: Limits,
    /// What is left out. Hidden files are files like others.
    pub ignore: Ignore,
}

/// How much is taken from a directory. More is an error, not a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most files, directories and other entries, without those that are ignored.
    pub entries: usize,
    /// Longest file.
    pub file_bytes: u64,
    /// All files together.
    pub bytes: u64,
}

/// What is in a directory and cannot be in a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is, relative to the directory, as far as it can be shown.
    pub path: String,
    /// Why it was left out.
    pub reason: Reason,
}

/// Why something was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A symbolic link. It is not followed: what it leads to may be outside, and is not the agent's to read.
    Link,
    /// A pipe, a socket or a device.
    Special,
    /// Its path cannot be one of a workspace. Of a directory, nothing was taken.
    Path(PathError),
}

/// `path (why)`, for people and models.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match &self.reason {
            Reason::Link => "a symbolic link",
            Reason::Special => "a pipe, a socket or a device",
            Reason::Path(error) => return write!(f, "{} ({error})", self.path),
        };
        write!(f, "{} ({why})", self.path)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 100_000, file_bytes: 256 * 1024 * 1024, bytes: 2 * 1024 * 1024 * 1024 }
    }
}

impl Default for Scan {
    fn default() -> Self {
        Self { limits: Limits::default(), ignore: Arc::new(|_| false) }
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What a look at a directory found, sorted by path within each directory.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) files: Vec<Seen>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A file that is there.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) path: Path,
    /// What it is, if its content is the one that is known; its mode may be another.
    pub(crate) known: Option<Entry>,
}

impl Survey {
    pub(crate) fn take(root: &Directory, base: &Files, scan: &Scan) -> Result<Self, ChangesError> {
        let mut walk = Walk { scan, entries: 0, bytes: 0, files: Vec::new(), skipped: Vec::new() };
        walk.enter(root, "")?;
        let Walk { files, skipped, .. } = walk;
        let files = files.into_iter().map(|path| {
            let known = base.get(path.as_str()).map(|entry| known(root, &path, *entry));
            Ok(Seen { known: known.transpose()?.flatten(), path })
        });
        Ok(Self { files: files.collect::<Result<_, _>>()?, skipped })
    }
}

/// The limits are checked against all of the directory before a byte of it is read.
struct Walk<'a> {
    scan: &'a Scan,
    entries: usize,
    bytes: u64,
    files: Vec<Path>,
    skipped: Vec<Skipped>,
}

impl Walk<'_> {
    /// As deep as a path can be, no deeper.
    fn enter(&mut self, directory: &Directory, at: &str) -> Result<(), ChangesError> {
        let mut found = Vec::new();
        let names = directory.names().map_err(|error| ChangesError::read(at, error))?;
        for name in names {
            let name = name.map_err(|error| ChangesError::read(at, error))?;
            let path = path_of(at, &name);
            if path == Err(PathError::Reserved) {
                return Err(ChangesError::Unfinished);
            }
            if path.as_ref().is_ok_and(|path| (self.scan.ignore)(path)) {
                continue;
            }
            self.entries += 1;
            if self.entries > self.scan.limits.entries {
                return Err(ChangesError::TooMany { entries_max: self.scan.limits.entries });
            }
            found.push((name, path));
        }
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        for (name, path) in found {
            match path {
                Ok(path) => self.visit(directory, &name, path)?,
                Err(error) => self.skip(joined(at, &name.to_string_lossy()), Reason::Path(error)),
            }
        }
        Ok(())
    }

    fn visit(&mut self, directory: &Directory, name: &OsStr, path: Path) -> Result<(), ChangesError> {
        match directory.kind(name).map_err(|error| ChangesError::read(path.as_str(), error))? {
            Kind::File { size, .. } => {
                self.scan.limits.check_file(&path, size)?;
                self.bytes = self.scan.limits.check_sum(self.bytes, size)?;
                self.files.push(path);
            }
            Kind::Directory => {
                let last = path.as_str().rsplit('/').next().unwrap_or_default();
                let inner =
                    directory.directory(last).map_err(|error| ChangesError::read(path.as_str(), error))?;
                self.enter(&inner, path.as_str())?;
            }
            Kind::Link => self.skip(path.to_string(), Reason::Link),
            Kind::Special => self.skip(path.to_string(), Reason::Special),
        }
        Ok(())
    }

    fn skip(&mut self, path: String, reason: Reason) {
        self.skipped.push(Skipped { path, reason });
    }
}

impl Limits {
    pub(crate) fn check_file(&self, path: &Path, bytes: u64) -> Result<(), ChangesError> {
        if bytes > self.file_bytes {
            return Err(ChangesError::FileTooLarge { path: path.clone(), bytes_max: self.file_bytes });
        }
        Ok(())
    }

    /// The sum with `bytes` more.
    pub(crate) fn check_sum(&self, sum: u64, bytes: u64) -> Result<u64, ChangesError> {
        let sum = sum.saturating_add(bytes);
        if sum > self.bytes { Err(ChangesError::TooLarge { bytes_max: self.bytes }) } else { Ok(sum) }
    }
}

/// The path of an entry, if it can be one.
fn path_of(at: &str, name: &OsStr) -> Result<Path, PathError> {
    let Some(text) = name.to_str() else {
        return Err(PathError::Encoding { path: joined(at, &name.to_string_lossy()) });
    };
    joined(at, text).parse()
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") }
}

/// The entry of a file whose content is still that of `entry`. Times are not asked: a program can set them, and
/// coarse ones miss a change within the same tick.
fn known(root: &Directory, path: &Path, entry: Entry) -> Result<Option<Entry>, ChangesError> {
    let (file, size, mode) = root.file(path).map_err(|error| ChangesError::read(path.as_str(), error))?;
    if size != entry.size {
        return Ok(None);
    }
    let hash = hash_of(file.take(size.saturating_add(1)));
    let hash = hash.map_err(|error| ChangesError::read(path.as_str(), error))?;
    Ok((hash == entry.hash).then_some(Entry { mode, ..entry }))
}

fn hash_of(mut content: io::Take<File>) -> io::Result<Hash> {
    let mut hasher = Hasher::default();
    let mut chunk = vec![0; disk::CHUNK_BYTES.min(content.limit() as usize)];
    loop {
        match content.read(&mut chunk) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(length) => hasher.update(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

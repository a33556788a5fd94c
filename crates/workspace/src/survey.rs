//! A look at a directory: which files there are, which of them are what is known already, and what cannot be
//! taken.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use weir_types::{Hash, Hasher};

use crate::disk::{self, Directory, Kind};
use crate::leave_out::{self, Entry, LeaveOut, LeftOut, Rules, Why};
use crate::{Change, ChangesError, Files, Path, PathError};

/// How a directory is looked at.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// How much of it is taken.
    pub limits: Limits,
    /// What is left out; without it, everything is taken. Hidden files are files like others.
    pub leave_out: Option<Arc<LeaveOut>>,
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

/// What a look at a directory found, sorted by path within each directory.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) files: Vec<Seen>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) left_out: LeftOut,
    /// Files that are known and that were not looked for.
    pub(crate) left_alone: Files,
}

/// A file that is there.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) path: Path,
    /// What it is, if its content is the one that is known; its mode may be another.
    pub(crate) known: Option<crate::Entry>,
}

impl Survey {
    pub(crate) fn take(
        (root, place): (&Directory, &std::path::Path),
        base: &Files,
        scan: &Scan,
    ) -> Result<Self, ChangesError> {
        let mut walk = Walk {
            limits: scan.limits,
            rules: Rules::new(scan.leave_out.as_deref(), place)?,
            entries: 0,
            bytes: 0,
            files: Vec::new(),
            skipped: Vec::new(),
            left_out: LeftOut::new(),
        };
        walk.enter(root, "", Taking::AllButLeftOut)?;
        let Walk { files, skipped, left_out, rules, .. } = walk;
        let left_alone = left_alone(base, &rules);
        let files = files.into_iter().map(|path| {
            let known = base.get(path.as_str()).map(|entry| known(root, &path, *entry));
            Ok(Seen { known: known.transpose()?.flatten(), path })
        });
        Ok(Self { files: files.collect::<Result<_, _>>()?, skipped, left_out, left_alone })
    }
}

/// The files that nobody looks for.
fn left_alone(base: &Files, rules: &Rules<'_>) -> Files {
    let mut files = Files::new();
    for (path, entry) in base.iter().filter(|(path, _)| rules.leaves_alone(path)) {
        files.apply(&Change::Written { path: path.clone(), entry: *entry });
    }
    files
}

/// What is taken from a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    AllButLeftOut,
    /// The directory is left out: only what the caller names is taken.
    Included,
}

/// The limits are checked against all of the directory before a byte of it is read.
struct Walk<'a> {
    limits: Limits,
    rules: Rules<'a>,
    entries: usize,
    bytes: u64,
    files: Vec<Path>,
    skipped: Vec<Skipped>,
    left_out: LeftOut,
}

impl Walk<'_> {
    /// As deep as a path can be, no deeper.
    fn enter(&mut self, directory: &Directory, at: &str, taking: Taking) -> Result<(), ChangesError> {
        self.rules.enter(directory, at)?;
        let mut found = Vec::new();
        let names = directory.names().map_err(|error| ChangesError::read(at, error))?;
        for name in names {
            let name = name.map_err(|error| ChangesError::read(at, error))?;
            let path = path_of(at, &name);
            if path == Err(PathError::Reserved) {
                return Err(ChangesError::Unfinished);
            }
            let kind = directory
                .kind(&name)
                .map_err(|error| ChangesError::read(&joined(at, &name.to_string_lossy()), error))?;
            let entry = if matches!(kind, Kind::Directory) { Entry::Directory } else { Entry::Other };
            let taking = match &path {
                Ok(path) => self.judge(path, entry, taking),
                Err(_) => Some(taking),
            };
            let Some(taking) = taking else { continue };
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(ChangesError::TooMany { entries_max: self.limits.entries });
            }
            found.push((name, path, kind, taking));
        }
        found.sort_by(|(left, ..), (right, ..)| left.cmp(right));
        for (name, path, kind, taking) in found {
            match path {
                Ok(path) => self.visit(directory, path, &kind, taking)?,
                Err(error) => self.skip(joined(at, &name.to_string_lossy()), Reason::Path(error)),
            }
        }
        Ok(())
    }

    /// What is taken of an entry; nothing, if it is left out as a whole.
    fn judge(&mut self, path: &Path, entry: Entry, taking: Taking) -> Option<Taking> {
        let path = path.as_str();
        let leads_on = entry == Entry::Directory && self.rules.leads_to_included(path);
        if taking == Taking::Included {
            let taken = self.rules.is_included(path, entry);
            return if taken { Some(Taking::AllButLeftOut) } else { leads_on.then_some(Taking::Included) };
        }
        let Some(why) = self.rules.why(path, entry) else { return Some(Taking::AllButLeftOut) };
        leave_out::note(&mut self.left_out, why, path, entry);
        (leads_on && why != Why::Never).then_some(Taking::Included)
    }

    fn visit(
        &mut self,
        directory: &Directory,
        path: Path,
        kind: &Kind,
        taking: Taking,
    ) -> Result<(), ChangesError> {
        match kind {
            Kind::File { size, .. } => {
                self.limits.check_file(&path, *size)?;
                self.bytes = self.limits.check_sum(self.bytes, *size)?;
                self.files.push(path);
            }
            Kind::Directory => {
                let last = path.as_str().rsplit('/').next().unwrap_or_default();
                let inner =
                    directory.directory(last).map_err(|error| ChangesError::read(path.as_str(), error))?;
                self.enter(&inner, path.as_str(), taking)?;
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
fn known(root: &Directory, path: &Path, entry: crate::Entry) -> Result<Option<crate::Entry>, ChangesError> {
    let (file, size, mode) = root.file(path).map_err(|error| ChangesError::read(path.as_str(), error))?;
    if size != entry.size {
        return Ok(None);
    }
    let hash = hash_of(file.take(size.saturating_add(1)));
    let hash = hash.map_err(|error| ChangesError::read(path.as_str(), error))?;
    Ok((hash == entry.hash).then_some(crate::Entry { mode, ..entry }))
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

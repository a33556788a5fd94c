//! The files of a session as a fold. Pure: a path leads to the hash, the size and the mode of a content, never
//! to the content.

use std::collections::BTreeMap;
use std::ops::Bound;

use weir_types::Hash;

use crate::Path;

/// The files of a session at one event. There are no empty directories: a directory is what paths have in
/// common.
///
/// No path is ever a file and a directory at once; what [`Files::apply`] does about it keeps that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    entries: BTreeMap<Path, Entry>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The content's name in the blob store.
    pub hash: Hash,
    /// Its length in bytes.
    pub size: u64,
    /// Whether it can be run.
    pub mode: Mode,
}

/// The permissions of a file: the one distinction that matters on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Data.
    Regular,
    /// A program.
    Executable,
}

/// One step of the fold, with the fields of the events `file.written` and `file.deleted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file has this content from now on.
    Written {
        /// Where.
        path: Path,
        /// What.
        entry: Entry,
    },
    /// The file is gone.
    Deleted {
        /// Where it was.
        path: Path,
    },
}

impl Mode {
    /// The mode with these permissions: what the owner may run is a program. All other bits are ignored, so
    /// that every number an event may carry has a meaning.
    pub fn from_bits(bits: u32) -> Self {
        if bits & 0o100 == 0 { Self::Regular } else { Self::Executable }
    }

    /// The permissions an event carries and a checkout asks for.
    pub fn bits(self) -> u32 {
        match self {
            Self::Regular => 0o644,
            Self::Executable => 0o755,
        }
    }
}

impl Change {
    /// The path it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Written { path, .. } | Self::Deleted { path } => path,
        }
    }
}

impl Files {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds one change in. It cannot fail, because what is in the journal has happened: the newer of two that
    /// cannot both be there wins. Writing `a/b` ends a file `a`; writing `a` ends all files under `a/`;
    /// deleting what is not there, or is a directory, changes nothing.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Written { path, entry } => {
                for directory in path.directories() {
                    self.entries.remove(directory);
                }
                let hidden: Vec<Path> = self.under(path.as_str()).map(|(path, _)| path.clone()).collect();
                for path in &hidden {
                    self.entries.remove(path);
                }
                self.entries.insert(path.clone(), *entry);
            }
            Change::Deleted { path } => {
                self.entries.remove(path);
            }
        }
    }

    /// What is at `path`, if that is a file.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// All files, sorted by the bytes of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.entries.iter()
    }

    /// The files in the directory `directory` and those below it, sorted; all files if it is empty. A file of
    /// that name is not among them.
    pub fn under(&self, directory: &str) -> impl Iterator<Item = (&Path, &Entry)> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(&prefix), Bound::Unbounded);
        let found = self.entries.range::<str, _>(from);
        found.take_while(move |(path, _)| path.as_str().starts_with(&prefix))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The changes that turn `from` into `to`: what is gone first, then what is new or different, each sorted by
/// path. Every file that ends is named, also one whose place another takes.
pub fn diff(from: &Files, to: &Files) -> Vec<Change> {
    let gone = from.iter().filter(|(path, _)| to.get(path.as_str()).is_none());
    let gone = gone.map(|(path, _)| Change::Deleted { path: path.clone() });
    let new = to.iter().filter(|(path, entry)| from.get(path.as_str()) != Some(entry));
    let new = new.map(|(path, entry)| Change::Written { path: path.clone(), entry: *entry });
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests;

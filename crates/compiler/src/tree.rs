//! The files of a project, as they are on the disk: bounded in number and size, in an order of their own, and none from
//! outside of the project.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use weir_spec::{Diagnostic, FILE_BYTES_MAX, Span};

use crate::lock;

/// How much is read.
#[derive(Clone, Copy, Debug)]
struct Limits {
    files: usize,
    bytes: usize,
}

/// Ten times the largest project that we build in tests.
const LIMITS: Limits = Limits { files: 100_000, bytes: 128 * 1024 * 1024 };

/// Deepest directory. A link that leads in circles ends here.
const DEPTH_MAX: usize = 12;

/// Directories with files of the language; everything else in a project is left alone.
const DIRECTORIES: [&str; 8] =
    ["agents", "loops", "models", "policies", "projections", "skills", "tests", "tools"];

/// What files of the language are called at the end.
const SUFFIXES: [&str; 7] = ["yaml", "yml", "md", "ts", "js", "cedar", "lock"];

/// Recordings can be long, and only their names matter here.
const RECORDINGS: &str = "tests/recordings/";

/// The files of a project by their paths, which are relative to it and have `/` between their parts.
#[derive(Debug)]
pub(crate) struct Tree {
    limits: Limits,
    root: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    diagnostics: Vec<Diagnostic>,
}

/// No project at all.
impl Default for Tree {
    fn default() -> Self {
        let (root, files, diagnostics) = (PathBuf::new(), BTreeMap::new(), Vec::new());
        Self { limits: LIMITS, root, files, bytes: 0, diagnostics }
    }
}

impl Tree {
    /// Reads a project. What cannot be read is among the diagnostics.
    pub(crate) fn read(directory: &Path) -> Self {
        Self::read_within(LIMITS, directory)
    }

    fn read_within(limits: Limits, directory: &Path) -> Self {
        let mut tree = Self { limits, ..Self::default() };
        match directory.canonicalize() {
            Ok(root) => tree.root = root,
            Err(error) => {
                tree.unreadable(".", &error);
                return tree;
            }
        }
        for entry in tree.entries("") {
            let at_root = !entry.is_directory && !entry.path.contains('/');
            if at_root && is_language(&entry.path) {
                tree.take(&entry.path);
            } else if entry.is_directory && ["weir.yaml", lock::FILE].contains(&entry.path.as_str()) {
                tree.unreadable(&entry.path, &io::ErrorKind::IsADirectory.into());
            } else if entry.is_directory && DIRECTORIES.contains(&entry.path.as_str()) {
                tree.walk(&entry.path, 1);
            }
        }
        tree
    }

    /// The project's directory, without links in it.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The files that were read so far.
    pub(crate) fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// What is wrong with the files themselves.
    pub(crate) fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.diagnostics)
    }

    /// Everything that was read.
    pub(crate) fn into_files(self) -> BTreeMap<String, Vec<u8>> {
        self.files
    }

    /// A file that need not be one of the language, read now if it was not before. `None` when it is not there or
    /// cannot be read; the latter is among the diagnostics.
    pub(crate) fn load(&mut self, path: &str) -> Option<&[u8]> {
        if !self.files.contains_key(path) {
            let place = self.root.join(path);
            if !place.symlink_metadata().is_ok_and(|metadata| metadata.is_file() || metadata.is_symlink()) {
                return None;
            }
            self.take(path);
        }
        self.files.get(path).map(Vec::as_slice)
    }

    fn walk(&mut self, directory: &str, depth: usize) {
        if depth > DEPTH_MAX {
            let message = format!("`{directory}` is nested too deep, or a link in it leads in circles");
            let help = format!("keep directories less than {DEPTH_MAX} deep");
            self.diagnostics.push(Diagnostic::error(
                "build::too-deep",
                directory,
                Span::START,
                message,
                help,
            ));
            return;
        }
        for entry in self.entries(directory) {
            if self.files.len() >= self.limits.files {
                self.full(directory, format!("the project has more than {} files", self.limits.files));
                return;
            }
            if entry.is_directory {
                self.walk(&entry.path, depth + 1);
            } else if entry.path.starts_with(RECORDINGS) {
                self.files.insert(entry.path, Vec::new());
            } else if is_language(&entry.path) {
                self.take(&entry.path);
            }
        }
    }

    /// What is in a directory, sorted, without what is hidden. Links are what they point at, unless they leave.
    fn entries(&mut self, directory: &str) -> Vec<Entry> {
        let place = self.root.join(directory);
        let listed =
            match std::fs::read_dir(&place).and_then(|entries| entries.collect::<io::Result<Vec<_>>>()) {
                Ok(listed) => listed,
                Err(error) => {
                    self.unreadable(if directory.is_empty() { "." } else { directory }, &error);
                    return Vec::new();
                }
            };
        let mut entries = Vec::with_capacity(listed.len());
        for entry in listed {
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                let path = joined(directory, &name.to_string_lossy());
                let message = format!("`{path}` is no name in UTF-8");
                let help = "rename the file";
                self.diagnostics.push(Diagnostic::error(
                    "build::bad-path",
                    &path,
                    Span::START,
                    message,
                    help,
                ));
                continue;
            };
            if name.starts_with('.') || name == "node_modules" {
                continue;
            }
            let path = joined(directory, name);
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => entries.extend(self.linked(path)),
                Ok(kind) if kind.is_dir() || kind.is_file() => {
                    entries.push(Entry { path, is_directory: kind.is_dir() });
                }
                // A pipe or a device would never end.
                Ok(_) => {}
                Err(error) => self.unreadable(&path, &error),
            }
        }
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        entries
    }

    /// What a link in a directory stands for. One to a file that is none of the language is nobody's business.
    fn linked(&mut self, path: String) -> Option<Entry> {
        let is_directory = self.root.join(&path).is_dir();
        if is_directory || is_language(&path) { self.behind(path) } else { None }
    }

    /// What a link points at, if that is in the project.
    fn behind(&mut self, path: String) -> Option<Entry> {
        let place = match self.root.join(&path).canonicalize() {
            Ok(place) => place,
            Err(error) => {
                self.unreadable(&path, &error);
                return None;
            }
        };
        if !place.starts_with(&self.root) {
            let message = format!("`{path}` is a link that leaves the project");
            let help = "copy what it points at into the project";
            self.diagnostics.push(Diagnostic::error("build::outside", &path, Span::START, message, help));
            return None;
        }
        Some(Entry { path, is_directory: place.is_dir() })
    }

    /// Reads a file, as far as anybody wants to know: one byte more than allowed shows that it is too large.
    fn take(&mut self, path: &str) {
        let place = self.root.join(path);
        let inside = match place.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => self.behind(path.to_owned()).is_some(),
            _ => true,
        };
        if !inside {
            return;
        }
        let bytes_max = if path == lock::FILE { weir_spec::lock::BYTES_MAX } else { FILE_BYTES_MAX };
        let mut bytes = Vec::new();
        let read = File::open(&place).and_then(|file| {
            file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
            Ok(())
        });
        if let Err(error) = read {
            self.unreadable(path, &error);
            return;
        }
        if self.bytes + bytes.len() > self.limits.bytes {
            self.full(path, format!("the files of the project have more than {} bytes", self.limits.bytes));
            return;
        }
        self.bytes += bytes.len();
        self.files.insert(path.to_owned(), bytes);
    }

    /// Told once: everything after it would be the same problem.
    fn full(&mut self, path: &str, message: String) {
        const CODE: &str = "build::too-much";
        if self.diagnostics.iter().any(|known| known.code == CODE) {
            return;
        }
        let help = "is it the right directory? data belongs into `.weir` or outside of the project";
        self.diagnostics.push(Diagnostic::error(CODE, path, Span::START, message, help));
    }

    fn unreadable(&mut self, path: &str, error: &io::Error) {
        let message = format!("`{path}` cannot be read: {}", words(error));
        let help = match error.kind() {
            io::ErrorKind::NotFound => "check the name, and what a link points at",
            io::ErrorKind::PermissionDenied => "give yourself permission to read it",
            io::ErrorKind::IsADirectory => "rename it; a file of this name belongs there",
            _ => "check the disk, and try again",
        };
        self.diagnostics.push(Diagnostic::error("build::unreadable", path, Span::START, message, help));
    }
}

struct Entry {
    path: String,
    is_directory: bool,
}

fn is_language(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix))
}

fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The system's words for an error, without its number.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    letters
        .next()
        .map(|first| first.to_lowercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_read_only_so_far() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("loops")).unwrap();
        for n in 0..10 {
            std::fs::write(directory.path().join(format!("loops/{n}.yaml")), "12345").unwrap();
        }
        let told = |limits| {
            let tree = Tree::read_within(limits, directory.path());
            let told: Vec<String> =
                tree.diagnostics.iter().map(|each| format!("{} {each}", each.code)).collect();
            (tree.files.len(), told.join("\n"))
        };
        assert_eq!(told(Limits { files: 10, bytes: 50 }), (10, String::new()));
        let files = "build::too-much loops:1:1: the project has more than 4 files";
        assert_eq!(told(Limits { files: 4, bytes: 50 }), (4, files.to_owned()));
        let bytes = "build::too-much loops/4.yaml:1:1: the files of the project have more than 24 bytes";
        assert_eq!(told(Limits { files: 10, bytes: 24 }), (4, bytes.to_owned()));
    }

    #[test]
    fn a_file_is_read_so_far_that_it_shows_that_it_is_too_large() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["weir.yaml", "weir.lock"] {
            std::fs::write(directory.path().join(file), vec![b'x'; FILE_BYTES_MAX + 100]).unwrap();
        }
        let tree = Tree::read(directory.path());
        let sizes: Vec<usize> = tree.files.values().map(Vec::len).collect();
        // The lock holds the definitions of all servers, and may be larger.
        assert_eq!(sizes, [FILE_BYTES_MAX + 100, FILE_BYTES_MAX + 1]);
    }

    #[test]
    fn only_the_language_is_read_and_links_within_the_project_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        for path in
            ["agents/a", "agents/.hidden", "tools/node_modules/x", "other", "tests/recordings", "shared"]
        {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for path in [
            "weir.yaml",
            "README.txt",
            ".env",
            "agents/a/spec.yaml",
            "agents/a/logo.png",
            "agents/.hidden/spec.yaml",
            "tools/node_modules/x/index.js",
            "other/x.yaml",
            "tests/recordings/r.jsonl",
            "shared/SOUL.md",
        ] {
            std::fs::write(at(path), "x").unwrap();
        }
        std::os::unix::fs::symlink("../../shared/SOUL.md", at("agents/a/SOUL.md")).unwrap();
        std::os::unix::fs::symlink("../shared", at("agents/b")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", at("agents/a/picture.png")).unwrap();
        let tree = Tree::read(directory.path());
        assert_eq!(tree.diagnostics, []);
        let paths: Vec<&str> = tree.files.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "agents/a/SOUL.md",
                "agents/a/spec.yaml",
                "agents/b/SOUL.md",
                "tests/recordings/r.jsonl",
                "weir.yaml"
            ]
        );
        assert_eq!(tree.files["tests/recordings/r.jsonl"], b"");
    }
}

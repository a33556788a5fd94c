//! The files of a skill, wherever they came from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_types::{Hash, Hasher};

use crate::tree::words;

/// Most files of a skill.
pub(crate) const FILES_MAX: usize = 200;

/// Most bytes of all of them.
pub(crate) const BYTES_MAX: usize = 8 * 1024 * 1024;

const DEPTH_MAX: usize = 8;

/// The files of a skill, by their paths within it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Package {
    /// The files below a directory, without what is hidden. Links are refused: what a skill contains is in it.
    pub(crate) fn of_directory(directory: &Path) -> Result<Self, String> {
        let mut package = Self::default();
        package.walk(directory, "", 0)?;
        Ok(package)
    }

    fn walk(&mut self, directory: &Path, below: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("its directories are more than {DEPTH_MAX} deep"));
        }
        let fail = |error: std::io::Error| format!("`{}` cannot be read: {}", shown(below), words(&error));
        for entry in std::fs::read_dir(directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| "the name of a file is not UTF-8".to_owned())?;
            if name.starts_with('.') {
                continue;
            }
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(fail)?;
            if kind.is_dir() {
                self.walk(&entry.path(), &path, depth + 1)?;
            } else if kind.is_file() {
                let mut bytes = Vec::new();
                let room = (BYTES_MAX - self.bytes()) as u64 + 1;
                let read = File::open(entry.path()).and_then(|file| file.take(room).read_to_end(&mut bytes));
                read.map_err(|error| format!("`{path}` cannot be read: {}", words(&error)))?;
                self.add(path, bytes)?;
            } else {
                return Err(format!("`{path}` is a link or no file at all"));
            }
        }
        Ok(())
    }

    /// Adds a file, if there is room for it.
    pub(crate) fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), String> {
        self.files.insert(path, bytes);
        if self.files.len() > FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files"));
        }
        if self.bytes() > BYTES_MAX {
            return Err(format!("its files have more than {BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// How many bytes all files have.
    pub(crate) fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// What identifies the content: every path and every byte, whatever the order of the directory.
    pub(crate) fn digest(&self) -> Hash {
        let mut hasher = Hasher::default();
        for (path, bytes) in &self.files {
            for part in [path.as_bytes(), bytes] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        hasher.finish()
    }
}

/// Whether a path stays within the directory it is relative to.
pub(crate) fn is_inside(path: &str) -> bool {
    let fits = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', ':', '\0']);
    path.len() <= 255 && path.split('/').all(fits)
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_covers_names_and_content() {
        let of = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
            Package { files: files.collect() }.digest()
        };
        let one = of(&[("a", "xy"), ("b", "z")]);
        assert_eq!(one, of(&[("b", "z"), ("a", "xy")]));
        for other in
            [of(&[("a", "x"), ("b", "yz")]), of(&[("ax", "y"), ("b", "z")]), of(&[("a", "xy"), ("c", "z")])]
        {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_directory_is_read_without_links_and_hidden_files() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sub/.git")).unwrap();
        for file in ["SKILL.md", "sub/a.md", "sub/.git/config", ".DS_Store"] {
            std::fs::write(directory.path().join(file), file).unwrap();
        }
        let paths: Vec<String> = Package::of_directory(directory.path()).unwrap().files.into_keys().collect();
        assert_eq!(paths, ["SKILL.md", "sub/a.md"]);
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("sub/link")).unwrap();
        let refused = Package::of_directory(directory.path()).unwrap_err();
        assert_eq!(refused, "`sub/link` is a link or no file at all");
    }

    #[test]
    fn paths_stay_inside() {
        for good in ["SKILL.md", "a/b.md"] {
            assert!(is_inside(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", ".git/config", "a\\..\\b", "c:/x"] {
            assert!(!is_inside(bad), "{bad}");
        }
    }
}

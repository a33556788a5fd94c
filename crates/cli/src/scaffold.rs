//! Files that a command makes for a project: all of them, or none.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weir_support::new_file::{Existing, plain};
use weir_types::{Explain, Fault};

use crate::project::within;
use crate::target::{Readers, Target, TargetError};

/// Longest name of an agent, a loop or a tool.
const NAME_BYTES_MAX: usize = 64;

/// One file to make.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewFile {
    /// Its path within the project.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

impl NewFile {
    /// A file from a template, in which `{{word}}` stands for a value.
    pub(crate) fn from_template(path: impl Into<String>, template: &str, values: &[(&str, &str)]) -> Self {
        let fill =
            |text: String, (word, value): &(&str, &str)| text.replace(&format!("{{{{{word}}}}}"), value);
        Self { path: path.into(), text: values.iter().fold(template.to_owned(), fill) }
    }
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScaffoldError {
    /// Files of that name are there.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// It is a project already.
    #[error("`{}` has a project already", .0.display())]
    Project(PathBuf),
    /// It cannot be written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A directory cannot be made.
    #[error("cannot make the directory `{}`", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The name cannot be used.
    #[error("`{0}` is not a name: letters, digits, `-` and `_`, at most {NAME_BYTES_MAX}")]
    Name(String),
}

impl Explain for ScaffoldError {
    fn code(&self) -> &'static str {
        match self {
            Self::Exists(_) | Self::Project(_) => "cli::exists",
            Self::Target(error) => error.code(),
            Self::Directory { .. } => "cli::unwritable",
            Self::Name(_) => "cli::name",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Exists(_) => "choose another name, or remove it; nothing was changed".into(),
            Self::Project(_) => "add to it with `weir new agent NAME`, or choose another directory".into(),
            Self::Target(error) => error.help(),
            Self::Directory { .. } => "check the path, its permissions and free space".into(),
            Self::Name(_) => "choose one like `release-notes`".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Exists(_) | Self::Project(_) | Self::Name(_) => Fault::Input,
            Self::Target(error) => error.fault(),
            Self::Directory { .. } => Fault::Storage,
        }
    }
}

/// Checks the name of something new.
pub(crate) fn check_name(name: &str) -> Result<(), ScaffoldError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let ends = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if ends && name.len() <= NAME_BYTES_MAX && name.bytes().all(fits) {
        return Ok(());
    }
    Err(ScaffoldError::Name(name.to_owned()))
}

/// Makes the files below a directory, which is made if need be. When one of them cannot be made, those that were are
/// removed again. Blocks.
pub(crate) fn make(directory: &Path, files: &[NewFile]) -> Result<(), ScaffoldError> {
    let there =
        files.iter().map(|file| directory.join(&file.path)).find(|path| path.symlink_metadata().is_ok());
    if let Some(path) = there {
        return Err(ScaffoldError::Exists(path));
    }
    let mut made = Made::default();
    for file in files {
        let path = within(directory, &file.path);
        made.directory(path.parent().unwrap_or(directory))?;
        write(&path, file.text.as_bytes())?;
        made.paths.push(path);
    }
    made.keep();
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<(), ScaffoldError> {
    let target = Target::create(path, Existing::Keep, Readers::Usual)?;
    target.writer()?.write_all(content).map_err(|error| target.unwritable(error))?;
    Ok(target.finish()?)
}

/// What has been made so far; removed again unless it is kept.
#[derive(Default)]
struct Made {
    paths: Vec<PathBuf>,
}

impl Made {
    /// Makes a directory and those above it.
    fn directory(&mut self, path: &Path) -> Result<(), ScaffoldError> {
        let missing = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
        for directory in missing.collect::<Vec<_>>().into_iter().rev() {
            let made = std::fs::create_dir(directory);
            made.map_err(|source| ScaffoldError::Directory {
                path: directory.to_owned(),
                source: plain(source),
            })?;
            self.paths.push(directory.to_owned());
        }
        Ok(())
    }

    fn keep(mut self) {
        self.paths.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.paths.iter().rev() {
            // A directory that somebody else has used in the meantime is not empty, and stays.
            let _ = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "release-notes", "A_1", &"n".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "a b", "a/b", "..", "é", &"n".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_files_are_made_or_none() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("new/project");
        let file = |path: &str| NewFile::from_template(path, "{{a}} {{result}}", &[("a", "b")]);
        make(&directory, &[file("one"), file("deep/down/two")]).unwrap();
        assert_eq!(std::fs::read_to_string(directory.join("deep/down/two")).unwrap(), "b {{result}}");

        // Below a file nothing can be made: what was made before it is gone again.
        for path in ["one/x", "one/deep/x"] {
            let failed = make(&directory, &[file("other/three"), file(path)]);
            assert!(failed.is_err(), "{failed:?}");
        }
        assert!(!directory.join("other").exists());
        let refused = make(&directory, &[file("four"), file("deep/down/two")]);
        assert!(matches!(refused, Err(ScaffoldError::Exists(_))), "{refused:?}");
        assert!(!directory.join("four").exists());
    }
}

//! Where a file of a session is: checked once, here, and a proof of that check from then on.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use weir_types::{Explain, Fault};

/// The path of a file: relative, with `/` between its parts, none of which is empty, `.` or `..`. Two paths are
/// the same when their bytes are; they sort by them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<str>);

/// Why a text cannot be the path of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// More bytes than allowed, in all or in one part. The path itself is left out: it is too long to show.
    #[error("a path has at most {} bytes, and {} in one part", Path::BYTES_MAX, Path::PART_BYTES_MAX)]
    TooLong,
    /// More parts than allowed.
    #[error("a path has at most {} parts", Path::PARTS_MAX)]
    TooDeep,
    /// A part that is empty, `.` or `..`; an absolute path begins with an empty one, and so does an empty path.
    #[error("path `{path}` has `{part}` for a part")]
    Part {
        /// The path as given.
        path: String,
        /// The first such part.
        part: String,
    },
    /// A character that would break a line or a listing, or end the name.
    #[error("path `{}` contains the control character U+{:04X}", .path.escape_debug(), u32::from(*.bad))]
    Character {
        /// The path as given.
        path: String,
        /// The first such character.
        bad: char,
    },
    /// Bytes that are no text.
    #[error("path `{path}` is not UTF-8")]
    Encoding {
        /// The path, as far as it can be shown.
        path: String,
    },
    /// The name by which an unfinished checkout is known.
    #[error("`{}` marks an unfinished checkout and cannot be a file", Path::MARKER)]
    Reserved,
}

impl Path {
    /// The longest path allowed: a quarter of what Linux takes, so that there is room for the directory it is
    /// put into.
    pub const BYTES_MAX: usize = 1024;
    /// The longest part allowed: what common file systems take.
    pub const PART_BYTES_MAX: usize = 255;
    /// The most parts allowed. Walking a directory holds one open file for each.
    pub const PARTS_MAX: usize = 64;
    /// What is in a directory, at its top, for as long as a checkout into it is not complete.
    pub(crate) const MARKER: &str = ".weir-unfinished-checkout";

    /// The path as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its parts, from the top.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The directories it is in, from the top: `a` and `a/b` for `a/b/c`.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(end, _)| &self.0[..end])
    }

    /// The same as paths, which they are: each check that holds for a path holds for its beginning.
    pub(crate) fn parents(&self) -> impl Iterator<Item = Self> {
        self.directories().map(|directory| Self(directory.into()))
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        if path.len() > Self::BYTES_MAX || path.split('/').any(|part| part.len() > Self::PART_BYTES_MAX) {
            return Err(PathError::TooLong);
        }
        if let Some(bad) = path.chars().find(|c| c.is_control()) {
            return Err(PathError::Character { path: path.to_owned(), bad });
        }
        if let Some(part) = path.split('/').find(|part| matches!(*part, "" | "." | "..")) {
            return Err(PathError::Part { path: path.to_owned(), part: part.to_owned() });
        }
        if path.split('/').count() > Self::PARTS_MAX {
            return Err(PathError::TooDeep);
        }
        if path.split('/').next() == Some(Self::MARKER) {
            return Err(PathError::Reserved);
        }
        Ok(Self(path.into()))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// So that files are found by a text that need not be a path.
impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Explain for PathError {
    fn code(&self) -> &'static str {
        "workspace::path"
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::TooLong | Self::TooDeep => "use shorter names or fewer directories".into(),
            Self::Part { .. } => {
                "write the path from the top of the workspace, as in `src/main.rs`, without `.` or `..`"
                    .into()
            }
            Self::Character { .. } | Self::Encoding { .. } => {
                "give the file a name of printable characters in UTF-8".into()
            }
            Self::Reserved => "give the file another name".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_names() {
        let long = format!("{}/{}", "é".repeat(127), "x".repeat(255));
        let deep = ["d"; 64].join("/");
        let odd = [
            "a",
            "a b/ c",
            "...",
            ".git/config",
            "日本/語",
            "a\\b",
            "C:",
            "-rf",
            "*",
            "~",
            "$(x)",
            &long,
            &deep,
        ];
        for path in odd {
            assert_eq!(path.parse::<Path>().map(|path| path.to_string()).as_deref(), Ok(path));
        }
        assert!(format!("a/{}", Path::MARKER).parse::<Path>().is_ok());
    }

    #[test]
    fn what_leads_elsewhere_or_cannot_be_shown_is_refused() {
        let longest = ["x".repeat(204).as_str(); 5].join("/");
        assert!(longest.parse::<Path>().is_ok());
        let refused = |path: &str| path.parse::<Path>().unwrap_err();
        for (path, part) in [
            ("", ""),
            ("/", ""),
            ("/etc/passwd", ""),
            ("a//b", ""),
            ("a/", ""),
            (".", "."),
            ("a/./b", "."),
            ("..", ".."),
            ("a/../../b", ".."),
        ] {
            assert_eq!(refused(path), PathError::Part { path: path.to_owned(), part: part.to_owned() });
        }
        for (path, bad) in [("a\0b", '\0'), ("a\nb", '\n'), ("\u{1b}[2J", '\u{1b}'), ("a\u{85}", '\u{85}')] {
            assert_eq!(refused(path), PathError::Character { path: path.to_owned(), bad });
        }
        assert_eq!(refused(&"x".repeat(256)), PathError::TooLong);
        assert_eq!(refused(&format!("{longest}x")), PathError::TooLong);
        assert_eq!(refused(&["d"; 65].join("/")), PathError::TooDeep);
        assert_eq!(refused(Path::MARKER), PathError::Reserved);
        assert_eq!(refused(&format!("{}/a", Path::MARKER)), PathError::Reserved);
    }

    #[test]
    fn a_path_knows_its_directories() {
        let path: Path = "a/b/c".parse().unwrap();
        assert_eq!(path.directories().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!("a".parse::<Path>().unwrap().directories().count(), 0);
    }
}

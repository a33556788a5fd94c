//! What is left out of a directory that a person hands to an agent: version control, what usually holds secrets, and
//! what `.gitignore` and `.weirignore` name. The journal is append-only: what was taken by mistake cannot be taken back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path as Place;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::disk::Directory;
use crate::{ChangesError, Path};

/// Directories and files that are never taken, at any depth.
const NEVER: [&str; 2] = [".git", ".weir"];

/// The files that name what is left out. The later one of a directory decides.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".weirignore"];

/// The longest such file. What has more cannot be obeyed, and is an error.
const IGNORE_BYTES_MAX: u64 = 1024 * 1024;

/// How many paths of each reason are kept; the others are counted.
const FIRST_MAX: usize = 5;

/// What usually holds secrets, as patterns of a `.gitignore`; upper and lower case are the same.
pub const SECRETS: &[&str] = &[
    ".env",
    ".env.*",
    ".envrc",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "!id_*.pub",
    ".npmrc",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    ".docker/config.json",
    "credentials",
    "credentials.json",
    "credentials.yaml",
    "credentials.yml",
    "credentials.toml",
    "credentials.ini",
    "credentials.csv",
    "credentials.local",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    ".ssh/",
    ".gnupg/",
    ".aws/",
    ".azure/",
    ".kube/",
];

/// What a person wants left out of a directory, and taken although it would be left out.
#[derive(Clone, Debug)]
pub struct LeaveOut {
    exclude: Gitignore,
    include: Gitignore,
    /// The patterns of `include`, to find those that lead into a directory that is left out.
    include_paths: Vec<String>,
    secrets: Gitignore,
}

/// A pattern that is not one of a `.gitignore`.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a pattern: {reason}")]
pub struct PatternError {
    /// As given.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Why something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It usually holds secrets: see [`SECRETS`].
    Secret,
    /// The caller excluded it.
    Excluded,
    /// A `.gitignore` or a `.weirignore` names it.
    Ignored,
    /// Version control, or the data of Weir.
    Never,
}

/// What was left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// How many files and directories; what is inside of such a directory is not counted.
    pub count: usize,
    /// The first of them; a directory ends with `/`.
    pub first: Vec<String>,
}

/// Everything that was left out.
pub type LeftOut = BTreeMap<Why, Group>;

impl LeaveOut {
    /// Patterns are those of a `.gitignore`, relative to the directory.
    ///
    /// # Errors
    /// When one of them is not a pattern.
    pub fn new(exclude: &[String], include: &[String]) -> Result<Self, PatternError> {
        let secrets = SECRETS.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
        Ok(Self {
            exclude: patterns(exclude, false)?,
            include: patterns(include, false)?,
            include_paths: include.iter().map(|path| path.trim_start_matches('/').to_owned()).collect(),
            secrets: patterns(&secrets, true)?,
        })
    }
}

fn patterns(patterns: &[String], any_case: bool) -> Result<Gitignore, PatternError> {
    let mut builder = GitignoreBuilder::new("");
    let wrong = |pattern: &str, error: ignore::Error| PatternError {
        pattern: pattern.to_owned(),
        reason: error.to_string(),
    };
    builder.case_insensitive(any_case).map_err(|error| wrong("", error))?;
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(|error| wrong(pattern, error))?;
    }
    builder.build().map_err(|error| wrong(&patterns.join(" "), error))
}

/// Whether an entry of a directory is a directory itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Directory,
    Other,
}

/// The rules for one directory, as far as it was looked at.
pub(crate) struct Rules<'a> {
    leave_out: Option<&'a LeaveOut>,
    /// The ignore files of the directories above it in its repository, outermost first, with what leads from them to it.
    above: Vec<(String, Gitignore)>,
    /// Those of the directory and the ones in it.
    within: BTreeMap<String, Gitignore>,
}

impl<'a> Rules<'a> {
    /// With the ignore files of the repository that the directory is in.
    pub(crate) fn new(leave_out: Option<&'a LeaveOut>, directory: &Place) -> Result<Self, ChangesError> {
        let above = if leave_out.is_some() { above(directory)? } else { Vec::new() };
        Ok(Self { leave_out, above, within: BTreeMap::new() })
    }

    /// Reads the ignore files of a directory before its entries are judged.
    pub(crate) fn enter(&mut self, directory: &Directory, at: &str) -> Result<(), ChangesError> {
        if self.leave_out.is_none() {
            return Ok(());
        }
        let mut text = String::new();
        for name in IGNORE_FILES {
            let unreadable = |error| ChangesError::read(&joined(at, name), error);
            let Ok(path) = name.parse::<Path>() else { continue };
            match directory.file(&path) {
                Ok((file, _, _)) => text.push_str(&read(file).map_err(unreadable)?),
                Err(error) if crate::disk::is_replaced(&error) => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
        if !text.is_empty() {
            self.within.insert(at.to_owned(), lines(&text));
        }
        Ok(())
    }

    /// Why an entry is left out, if it is. Entries of a directory that is left out are not asked about.
    pub(crate) fn why(&self, path: &str, entry: Entry) -> Option<Why> {
        let leave_out = self.leave_out?;
        let name = path.rsplit('/').next().unwrap_or(path);
        if NEVER.contains(&name) {
            return Some(Why::Never);
        }
        let is_directory = entry == Entry::Directory;
        if leave_out.include.matched(path, is_directory).is_ignore() {
            return None;
        }
        if leave_out.exclude.matched(path, is_directory).is_ignore() {
            return Some(Why::Excluded);
        }
        if leave_out.secrets.matched(path, is_directory).is_ignore() {
            return Some(Why::Secret);
        }
        let included = leave_out.include.matched_path_or_any_parents(path, is_directory).is_ignore();
        (!included && self.is_ignored(path, is_directory)).then_some(Why::Ignored)
    }

    /// The ignore file that is nearest and has something to say decides, as in git.
    fn is_ignored(&self, path: &str, is_directory: bool) -> bool {
        let mut at = path;
        while !at.is_empty() {
            at = at.rsplit_once('/').map_or("", |(directory, _)| directory);
            if let Some(rules) = self.within.get(at) {
                let relative = path[at.len()..].trim_start_matches('/');
                let matched = rules.matched(relative, is_directory);
                if !matched.is_none() {
                    return matched.is_ignore();
                }
            }
        }
        let above = self.above.iter().rev().map(|(to, rules)| rules.matched(joined(to, path), is_directory));
        above.into_iter().find(|matched| !matched.is_none()).is_some_and(|matched| matched.is_ignore())
    }

    /// Whether something in a directory that is left out is to be taken.
    pub(crate) fn leads_to_included(&self, directory: &str) -> bool {
        let inside = format!("{directory}/");
        self.leave_out.is_some_and(|rules| rules.include_paths.iter().any(|path| path.starts_with(&inside)))
    }

    /// Whether an entry of a directory that is left out is taken all the same.
    pub(crate) fn is_included(&self, path: &str, entry: Entry) -> bool {
        let is_directory = entry == Entry::Directory;
        self.leave_out
            .is_some_and(|rules| rules.include.matched_path_or_any_parents(path, is_directory).is_ignore())
            && self.why(path, entry).is_none()
    }

    /// Whether a file that a session has is left alone, because nobody looks for it.
    pub(crate) fn leaves_alone(&self, path: &Path) -> bool {
        if self.leave_out.is_none() || self.is_included(path.as_str(), Entry::Other) {
            return false;
        }
        self.why(path.as_str(), Entry::Other).is_some()
            || path.parents().any(|directory| self.why(directory.as_str(), Entry::Directory).is_some())
    }
}

/// Notes that something was left out.
pub(crate) fn note(left_out: &mut LeftOut, why: Why, path: &str, entry: Entry) {
    let group = left_out.entry(why).or_default();
    group.count += 1;
    if group.first.len() < FIRST_MAX {
        let ending = if entry == Entry::Directory { "/" } else { "" };
        group.first.push(format!("{path}{ending}"));
    }
}

/// The ignore files between a directory and the root of the repository it is in.
fn above(directory: &Place) -> Result<Vec<(String, Gitignore)>, ChangesError> {
    let Ok(directory) = directory.canonicalize() else { return Ok(Vec::new()) };
    let Some(root) = directory.ancestors().find(|place| place.join(".git").exists()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for place in directory.ancestors().skip(1).take_while(|place| place.starts_with(root)) {
        let to = directory.strip_prefix(place).unwrap_or(Place::new("")).to_string_lossy().into_owned();
        let names = if place == root {
            &[".git/info/exclude", ".gitignore", ".weirignore"][..]
        } else {
            &IGNORE_FILES
        };
        found.push((to, lines(&read_all(place, names)?)));
    }
    if directory == root {
        found.push((String::new(), lines(&read_all(root, &[".git/info/exclude"])?)));
    }
    found.reverse();
    Ok(found)
}

fn read_all(place: &Place, names: &[&str]) -> Result<String, ChangesError> {
    let mut text = String::new();
    for name in names {
        let path = place.join(name);
        if !std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let content = File::open(&path).and_then(read);
        text.push_str(&content.map_err(|error| ChangesError::read(&path.to_string_lossy(), error))?);
    }
    Ok(text)
}

fn read(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(IGNORE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > IGNORE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 1 MB"));
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.push('\n');
    Ok(text)
}

/// Lines that are no patterns are passed over, as git does.
fn lines(text: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") }
}

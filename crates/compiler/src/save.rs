//! Manifests and locks on the disk: there complete, or not at all.

use std::borrow::Cow;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use weir_spec::Manifest;
use weir_spec::manifest::{BYTES_MAX, ManifestError};
use weir_support::new_file;
use weir_types::{Explain, Fault, Hash};

use crate::{Built, Compiled, lock};

/// Where manifests are, below the data directory.
const BUILDS: &str = "build";

/// Where fetched skills are kept, below the project.
pub(crate) const SKILLS: &str = ".weir/skills";

/// Where the hash of the newest manifest is.
const LATEST: &str = "latest";

/// Why a manifest could not be kept or found again.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The disk said no.
    #[error("cannot write `{}`", .path.display())]
    Unwritable {
        /// What was to be written.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The disk said no.
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// There is no such manifest.
    #[error("there is no manifest `{0}`")]
    Missing(String),
    /// Nothing was built yet.
    #[error("nothing was built yet in `{}`", .0.display())]
    Nothing(PathBuf),
    /// Several manifests begin like that.
    #[error("`{prefix}` is the beginning of {} manifests", .candidates.len())]
    Ambiguous {
        /// As given.
        prefix: String,
        /// All of them.
        candidates: Vec<Hash>,
    },
    /// Its content is not what its name says.
    #[error("the manifest `{0}` is damaged")]
    Damaged(Hash),
    /// It is none that can be read.
    #[error("the manifest `{hash}` cannot be read")]
    Manifest {
        /// Its name.
        hash: Hash,
        /// Why.
        #[source]
        source: ManifestError,
    },
}

impl Explain for SaveError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unwritable { .. } => "build::unwritable",
            Self::Unreadable { .. } => "build::unreadable",
            Self::Missing(_) => "build::no-manifest",
            Self::Nothing(_) => "build::nothing-built",
            Self::Ambiguous { .. } => "build::ambiguous",
            Self::Damaged(_) => "build::damaged",
            Self::Manifest { source, .. } => source.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unwritable { .. } => {
                "check free space and permissions there; nothing was left half-written".into()
            }
            Self::Unreadable { .. } => "check the permissions there".into(),
            Self::Missing(_) => "manifests are in `build/` of the data directory; `weir build` makes one, and `latest` is the newest".into(),
            Self::Nothing(_) => "run `weir build`".into(),
            Self::Ambiguous { candidates, .. } => {
                let shown: Vec<String> =
                    candidates.iter().take(5).map(|hash| hash.to_string()[..16].to_owned()).collect();
                format!("write more of it: {}", shown.join(", ")).into()
            }
            Self::Damaged(_) => "run `weir build` to make it again".into(),
            Self::Manifest { source, .. } => source.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unwritable { .. } | Self::Unreadable { .. } => Fault::Storage,
            Self::Missing(_) | Self::Nothing(_) => Fault::Missing,
            Self::Ambiguous { .. } => Fault::Input,
            Self::Damaged(_) => Fault::Damaged,
            Self::Manifest { source, .. } => source.fault(),
        }
    }
}

/// Which manifest is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which<'w> {
    /// The one that was built last.
    Latest,
    /// The one whose hash begins like this.
    Prefix(&'w str),
}

/// A manifest that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What identifies it.
    pub hash: Hash,
    /// It.
    pub manifest: Manifest,
}

/// Keeps what was built: skills, lock, manifest, in this order, so that a manifest that is there can be built again.
/// Writes nothing when there is no manifest. Blocks until everything is on the disk.
///
/// # Errors
/// When the disk says no. What was there before is still there.
pub fn save(directory: &Path, data_dir: &Path, compiled: &Compiled) -> Result<(), SaveError> {
    let Some(built) = &compiled.built else { return Ok(()) };
    for package in &compiled.fetched {
        let place = directory.join(SKILLS).join(package.digest().to_string());
        for (path, bytes) in &package.files {
            write_once(&place.join(path), bytes, PROJECT_MODE)?;
        }
    }
    if let Some(text) = &compiled.lock {
        write(&directory.join(lock::FILE), text.as_bytes(), PROJECT_MODE)?;
    }
    keep(data_dir, built)?;
    let latest = data_dir.join(BUILDS).join(LATEST);
    let line = format!("{}\n", built.hash);
    if std::fs::read(&latest).is_ok_and(|known| known == line.as_bytes()) {
        return Ok(());
    }
    write(&latest, line.as_bytes(), DATA_MODE)
}

/// Keeps a manifest and nothing else: it does not become the latest. Blocks until it is on the disk.
///
/// # Errors
/// When the disk says no.
pub fn keep(data_dir: &Path, built: &Built) -> Result<(), SaveError> {
    write_once(&data_dir.join(BUILDS).join(format!("{}.json", built.hash)), &built.bytes, DATA_MODE)
}

/// What was built last. Blocks.
///
/// # Errors
/// When nothing was, or the disk says no.
pub fn latest(data_dir: &Path) -> Result<Hash, SaveError> {
    let nothing = || SaveError::Nothing(data_dir.to_owned());
    let path = data_dir.join(BUILDS).join(LATEST);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| nothing()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(nothing()),
        Err(source) => Err(SaveError::Unreadable { path, source }),
    }
}

/// Finds a manifest again. Blocks.
///
/// # Errors
/// When there is none, or more than one, or what is there is not what was written.
pub fn load(data_dir: &Path, which: &Which<'_>) -> Result<Loaded, SaveError> {
    let builds = data_dir.join(BUILDS);
    let hash = match which {
        Which::Latest => latest(data_dir)?,
        Which::Prefix(prefix) => only_one(&builds, prefix)?,
    };
    let path = builds.join(format!("{hash}.json"));
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SaveError::Missing(hash.to_string()));
        }
        Err(source) => return Err(SaveError::Unreadable { path, source }),
    };
    if bytes.len() <= BYTES_MAX && Hash::of(&bytes) != hash {
        return Err(SaveError::Damaged(hash));
    }
    let manifest = Manifest::from_bytes(&bytes).map_err(|source| SaveError::Manifest { hash, source })?;
    Ok(Loaded { hash, manifest })
}

fn only_one(builds: &Path, prefix: &str) -> Result<Hash, SaveError> {
    let missing = || SaveError::Missing(prefix.chars().take(80).collect());
    let entries = match std::fs::read_dir(builds) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        Err(source) => return Err(SaveError::Unreadable { path: builds.to_owned(), source }),
    };
    let mut candidates: Vec<Hash> = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let hash = stem.filter(|stem| stem.starts_with(&prefix.to_ascii_lowercase()));
        candidates.extend(hash.and_then(|hash| hash.parse::<Hash>().ok()));
    }
    candidates.sort_unstable();
    match candidates.as_slice() {
        [] => Err(missing()),
        [one] => Ok(*one),
        _ => Err(SaveError::Ambiguous { prefix: prefix.to_owned(), candidates }),
    }
}

/// Writes a file whose name says what is in it: what is there already is not written again, unless it is damaged.
fn write_once(path: &Path, bytes: &[u8], mode: u32) -> Result<(), SaveError> {
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    write(path, bytes, mode)
}

/// As with any file that an editor would make: the umask decides who reads it.
const PROJECT_MODE: u32 = 0o666;

/// Files of the data directory are for its owner.
const DATA_MODE: u32 = 0o600;

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), SaveError> {
    let fail = |source| SaveError::Unwritable { path: path.to_owned(), source };
    let directory = path.parent().unwrap_or(Path::new("."));
    // What is not there yet is the data directory, and nobody else's business.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fail)?;
    new_file::write(path, bytes, mode).map_err(fail)
}

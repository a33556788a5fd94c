//! `.weir/credentials.local`: for the eyes of its owner, complete or not there at all, changed by one process at a time.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use weir_support::new_file;
use weir_types::{Explain, Fault};

use super::entry::{Entry, Holder, Record};

/// What it is called in a data directory, and the file whose lock is held while it is changed. The lock is another file
/// because this one is replaced.
const NAME: &str = "credentials.local";
const LOCK: &str = "credentials.lock";

/// Raised when the file changes its meaning.
const VERSION: u32 = 1;

/// The largest file: thousands of tokens.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How long another process may take to change it; it takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Where the credentials of this machine are kept. All its functions block.
#[derive(Clone, Debug)]
pub struct CredentialFile {
    path: PathBuf,
}

/// Why the file cannot be used. No error has anything of its content in it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialFileError {
    /// Others could read or change it.
    #[error("`{}` holds secrets and is open to others (mode {mode:04o})", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("`{}` belongs to another user (uid {owner})", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// A link, a directory, a device.
    #[error("`{}` is not a plain file", .path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// It is not what this program writes.
    #[error("`{}` cannot be understood: line {line}, column {column}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where, from 1; 0 if it is the file as a whole.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// A later program has written it.
    #[error("`{}` has version {found}, and this program knows {VERSION}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
    /// More than it may be.
    #[error("`{}` would have more than {FILE_BYTES_MAX} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds on to it.
    #[error("another process has been changing `{}` for {} s", .path.display(), LOCK_TIMEOUT.as_secs())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot use `{}`", .path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl CredentialFileError {
    pub(super) fn broken_off(path: &Path) -> Self {
        Self::Storage { path: path.to_owned(), source: io::Error::other("reading it broke off") }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Open { path, .. }
            | Self::Foreign { path, .. }
            | Self::NotAFile { path }
            | Self::Malformed { path, .. }
            | Self::Version { path, .. }
            | Self::TooLarge { path }
            | Self::Busy { path }
            | Self::Storage { path, .. } => path,
        }
    }
}

impl Explain for CredentialFileError {
    fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "credentials::open-to-others",
            Self::Foreign { .. } => "credentials::foreign",
            Self::NotAFile { .. } => "credentials::not-a-file",
            Self::Malformed { .. } => "credentials::malformed",
            Self::Version { .. } => "credentials::version",
            Self::TooLarge { .. } => "credentials::too-large",
            Self::Busy { .. } => "credentials::busy",
            Self::Storage { .. } => "credentials::storage",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        let path = self.path().display();
        match self {
            Self::Open { .. } => format!(
                "close it with `chmod 600 {path}`, and replace the secrets if others may have read them"
            )
            .into(),
            Self::Foreign { .. } => {
                "use a data directory of your own with `--data-dir DIR`, or let its owner run this".into()
            }
            Self::NotAFile { .. } => format!("move it away: `mv {path} {path}.old`").into(),
            Self::Malformed { .. } => {
                format!("correct that place, or begin anew: `mv {path} {path}.old`, then `weir auth add …`")
                    .into()
            }
            Self::Version { .. } => "use the version of weir that wrote it".into(),
            Self::TooLarge { .. } => "remove what is not needed with `weir auth remove`".into(),
            Self::Busy { .. } => "wait for it and repeat; `weir auth` needs a moment only".into(),
            Self::Storage { .. } => {
                "check the permissions of the data directory and the space on its disk".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Open { .. } | Self::Foreign { .. } | Self::NotAFile { .. } | Self::Version { .. } => {
                Fault::Input
            }
            Self::TooLarge { .. } => Fault::Input,
            Self::Malformed { .. } => Fault::Damaged,
            Self::Busy { .. } | Self::Storage { .. } => Fault::Storage,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Document<R> {
    version: u32,
    credentials: Vec<R>,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl CredentialFile {
    /// The file of a data directory, whether or not it is there.
    pub fn within(data_directory: &Path) -> Self {
        Self { path: data_directory.join(NAME) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is stored, by server and holder; nothing if there is no file.
    ///
    /// # Errors
    /// When it is open to others, is somebody else's, or cannot be read.
    pub fn load(&self) -> Result<Vec<Entry>, CredentialFileError> {
        // A link is not followed: it could lead to a file that someone else has prepared.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match options(flags).read(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(CredentialFileError::NotAFile { path: self.path.clone() });
            }
            Err(error) => return Err(self.storage(error)),
        };
        self.check(&file)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| self.storage(error))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(CredentialFileError::TooLarge { path: self.path.clone() });
        }
        self.read(&bytes)
    }

    /// Stores an entry; one for the same server and holder is replaced, and this says so.
    ///
    /// # Errors
    /// When the file cannot be read or written; then it is as it was.
    pub fn put(&self, entry: Entry) -> Result<bool, CredentialFileError> {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|known| (&known.server, &known.holder) != (&entry.server, &entry.holder));
            let replaced = entries.len() < before;
            entries.push(entry);
            replaced
        })
    }

    /// Removes an entry; says whether there was one.
    ///
    /// # Errors
    /// When the file cannot be read or written; then it is as it was.
    pub fn remove(&self, server: &str, holder: &Holder) -> Result<bool, CredentialFileError> {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|known| (known.server.as_str(), &known.holder) != (server, holder));
            entries.len() < before
        })
    }

    fn change(&self, how: impl FnOnce(&mut Vec<Entry>) -> bool) -> Result<bool, CredentialFileError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| self.storage(error))?;
        let _lock = self.lock(directory)?;
        let mut entries = self.load()?;
        let before = entries.clone();
        let answer = how(&mut entries);
        if entries != before {
            entries.sort_by(|a, b| (&a.server, &a.holder).cmp(&(&b.server, &b.holder)));
            self.write(directory, &entries)?;
        }
        Ok(answer)
    }

    /// Waits for its turn. The kernel lets go of the lock in any kind of death.
    fn lock(&self, directory: &Path) -> Result<File, CredentialFileError> {
        let opened =
            options(OFlags::NOFOLLOW).create(true).write(true).truncate(false).open(directory.join(LOCK));
        let file = opened.map_err(|error| self.storage(error))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_INTERVAL);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(CredentialFileError::Busy { path: self.path.clone() });
                }
                Err(error) => return Err(self.storage(error.into())),
            }
        }
    }

    /// Replaces the file by one that is complete and on the disk.
    fn write(&self, directory: &Path, entries: &[Entry]) -> Result<(), CredentialFileError> {
        let records: Vec<Record> = entries.iter().map(Record::from).collect();
        let document = Document { version: VERSION, credentials: records };
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| self.storage(error.into()))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(CredentialFileError::TooLarge { path: self.path.clone() });
        }
        // What a killed process left holds secrets.
        new_file::remove_leftovers(directory);
        new_file::write(&self.path, &bytes, 0o600).map_err(|error| self.storage(error))
    }

    /// Whether only its owner, who is us, can read and change it. Asked of the open file: a name may lead elsewhere by now.
    fn check(&self, file: &File) -> Result<(), CredentialFileError> {
        let metadata = file.metadata().map_err(|error| self.storage(error))?;
        let path = self.path.clone();
        if !metadata.is_file() {
            return Err(CredentialFileError::NotAFile { path });
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(CredentialFileError::Foreign { path, owner: metadata.uid() });
        }
        let mode = metadata.mode() & 0o7777;
        if mode & 0o077 != 0 { Err(CredentialFileError::Open { path, mode }) } else { Ok(()) }
    }

    fn read(&self, bytes: &[u8]) -> Result<Vec<Entry>, CredentialFileError> {
        // What the parser says may have a secret in it: only the place is told.
        let malformed = |error: &serde_json::Error| CredentialFileError::Malformed {
            path: self.path.clone(),
            line: error.line(),
            column: error.column(),
        };
        let Versioned { version } = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
        if version != VERSION {
            return Err(CredentialFileError::Version { path: self.path.clone(), found: version });
        }
        let document: Document<Record> = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
        let nowhere = || CredentialFileError::Malformed { path: self.path.clone(), line: 0, column: 0 };
        document.credentials.into_iter().map(|record| record.entry().ok_or_else(nowhere)).collect()
    }

    fn storage(&self, source: io::Error) -> CredentialFileError {
        CredentialFileError::Storage { path: self.path.clone(), source }
    }
}

/// Files that are made are for their owner only.
fn options(flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

//! The data directory and its files belong to one user: 0700 and 0600, however they came to be and whatever the umask is.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use rustix::process::geteuid;

/// The rights of everybody but the owner.
const OTHERS: u32 = 0o077;
/// The rights of everybody but the owner to change something.
const OTHERS_WRITE: u32 = 0o022;

/// The name that a data directory has unless the user chose another.
const USUAL_NAME: &str = ".weir";

/// What Weir keeps in a data directory. Anything else there is of the user.
const OWN_NAMES: &[&str] =
    &["anchor", "blobs", "build", "chat-history", "damage.jsonl", "key", "lock", "owners", "schema"];
const OWN_PREFIXES: &[&str] = &["journal.db", "credentials", ".weir-", ".credentials"];

/// Why a directory is not used.
#[derive(Debug)]
pub(crate) enum NotPrivate {
    /// Another user owns it.
    Owner {
        /// The user.
        owner: u32,
    },
    /// It holds other files, so its mode is not ours to change.
    Mode {
        /// Its mode.
        mode: u32,
    },
    /// It cannot be looked at or changed.
    Io(PathBuf, io::Error),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> NotPrivate {
    let path = path.to_owned();
    move |error| NotPrivate::Io(path, error)
}

/// Takes the rights of other users away from a data directory and what is in it. Returns the mode the directory
/// had, if other users could reach anything that was changed.
pub(crate) fn narrow(directory: &Path) -> Result<Option<u32>, NotPrivate> {
    let facts = std::fs::metadata(directory).map_err(failed(directory))?;
    let (owner, me) = (facts.uid(), geteuid());
    if owner != me.as_raw() && !me.is_root() {
        return Err(NotPrivate::Owner { owner });
    }
    let mode = facts.mode() & 0o777;
    if mode & OTHERS == 0 {
        // Nobody else can reach what is inside. The files that are always there are looked at nevertheless: another
        // copy of them keeps their modes.
        for name in
            ["journal.db", "journal.db-wal", "journal.db-shm", "lock", "anchor", "damage.jsonl", "key"]
        {
            narrow_one(&directory.join(name))?;
        }
        for name in ["owners", "blobs", "build"] {
            narrow_one(&directory.join(name))?;
        }
        return Ok(None);
    }
    let mut changed = false;
    let entries = std::fs::read_dir(directory).map_err(failed(directory))?;
    let names: Vec<_> = entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()
        .map_err(failed(directory))?;
    let is_ours = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        OWN_NAMES.contains(&&*name) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let is_usual = directory.file_name().is_some_and(|name| name == USUAL_NAME);
    if is_usual || names.iter().all(is_ours) {
        std::fs::set_permissions(directory, Permissions::from_mode(mode & 0o700))
            .map_err(failed(directory))?;
        changed = true;
    } else if mode & OTHERS_WRITE != 0 || !names.iter().any(|name| name == "journal.db") {
        return Err(NotPrivate::Mode { mode });
    }
    for name in names.iter().filter(|name| is_usual || is_ours(name)) {
        changed |= narrow_all(&directory.join(name))?;
    }
    Ok(changed.then_some(mode))
}

/// Narrows a file or directory and all that is in it.
fn narrow_all(path: &Path) -> Result<bool, NotPrivate> {
    let mut changed = narrow_one(path)?;
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
                continue;
            }
            Err(error) => return Err(NotPrivate::Io(path, error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed(&path))?;
            changed |= narrow_one(&entry.path())?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    Ok(changed)
}

/// Narrows a file or directory of ours. What is not there, a link or somebody else's is left alone.
fn narrow_one(path: &Path) -> Result<bool, NotPrivate> {
    let facts = match std::fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(NotPrivate::Io(path.to_owned(), error)),
    };
    let me = geteuid();
    let is_plain = facts.is_dir() || facts.is_file();
    if !is_plain || facts.mode() & OTHERS == 0 || (facts.uid() != me.as_raw() && !me.is_root()) {
        return Ok(false);
    }
    let mode = facts.mode() & 0o700;
    match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
        // Others remove temporary files at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true).map_err(failed(path)),
    }
}

/// Opens a file of the data directory for reading and writing; makes it, if need be, for its user alone.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let facts = file.metadata()?;
    let (owner, me) = (facts.uid(), geteuid());
    // The umask may have taken the owner's own rights.
    if facts.is_file() && facts.mode() & 0o777 != 0o600 && owner == me.as_raw() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    if me.is_root() {
        give_to_owner_of_directory(&file, &facts, path)?;
    }
    Ok(file)
}

/// What root makes in the directory of another user has to belong to that user, who could not use it otherwise.
fn give_to_owner_of_directory(file: &File, facts: &Metadata, path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wanted = std::fs::metadata(directory)?;
    if facts.is_file() && wanted.uid() != facts.uid() {
        let (user, group) = (Uid::from_raw(wanted.uid()), Gid::from_raw(wanted.gid()));
        rustix::fs::fchown(file, Some(user), Some(group))?;
    }
    Ok(())
}

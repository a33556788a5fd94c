//! Directories as open files: every step goes from one that is held open to one of its own entries and follows
//! no link. So a directory that is replaced by a link in the meantime leads nowhere, instead of elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, CWD, Dir, FileType, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::{Mode, Path};

/// Content moves in pieces of this size.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// A directory that is held open.
#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

/// What an entry of a directory is.
#[derive(Debug)]
pub(crate) enum Kind {
    File {
        size: u64,
        mode: Mode,
    },
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl Directory {
    /// The directory a caller names; what leads there is the caller's affair, links included.
    pub(crate) fn open(path: &std::path::Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, rustix::fs::Mode::empty())?))
    }

    /// The names of its entries, in no order.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let entries = Dir::read_from(&self.0)?.map(|entry| {
            let entry = entry?;
            Ok(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
        });
        Ok(entries.filter(|name| !name.as_ref().is_ok_and(|name| name == "." || name == "..")))
    }

    pub(crate) fn kind(&self, name: &OsStr) -> io::Result<Kind> {
        Ok(kind_of(&statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    pub(crate) fn directory(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, rustix::fs::Mode::empty())?))
    }

    /// Opens a file somewhere below for reading, and says what it is.
    pub(crate) fn file(&self, path: &Path) -> io::Result<(File, u64, Mode)> {
        self.within(path, Self::directory, |directory, name| {
            // Opening a pipe would wait for somebody to write into it.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(&directory.0, name, flags, rustix::fs::Mode::empty())?;
            match kind_of(&fstat(&file)?) {
                Kind::File { size, mode } => Ok((file.into(), size, mode)),
                // For the caller the file it looks for is not there, whatever else is.
                Kind::Directory | Kind::Link | Kind::Special => Err(Errno::NOENT.into()),
            }
        })
    }

    /// Makes a new file somewhere below, and the directories on the way to it.
    pub(crate) fn create(&self, path: &Path, mode: Mode) -> io::Result<File> {
        self.within(path, Self::directory_or_new, |directory, name| directory.create_here(name, mode))
    }

    /// Makes a new file in this very directory.
    pub(crate) fn create_here(&self, name: &str, mode: Mode) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, permissions(mode.bits()))?.into())
    }

    pub(crate) fn remove_here(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn directory_or_new(&self, name: &str) -> io::Result<Self> {
        match self.directory(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match mkdirat(&self.0, name, permissions(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => self.directory(name),
                    Err(error) => Err(error.into()),
                }
            }
            opened => opened,
        }
    }

    /// Does something with the last part of `path`, in the directory that the parts before it lead to.
    fn within<T>(
        &self,
        path: &Path,
        enter: fn(&Self, &str) -> io::Result<Self>,
        act: impl FnOnce(&Self, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        let (directories, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
        let mut inner: Option<Self> = None;
        for part in directories.split('/').filter(|part| !part.is_empty()) {
            inner = Some(enter(inner.as_ref().unwrap_or(self), part)?);
        }
        act(inner.as_ref().unwrap_or(self), name)
    }
}

/// Whether the error means that something else is where a file or directory was a moment ago.
pub(crate) fn is_replaced(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        code,
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::EXIST | Errno::NXIO)
    )
}

/// File work never runs on a thread of the async runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, io::Error> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

fn kind_of(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let runs = rustix::fs::Mode::from_raw_mode(stat.st_mode).contains(rustix::fs::Mode::XUSR);
            let mode = if runs { Mode::Executable } else { Mode::Regular };
            Kind::File { size: stat.st_size.unsigned_abs(), mode }
        }
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Special,
    }
}

/// What a new file or directory gets, less what the process's umask takes away.
fn permissions(bits: u32) -> rustix::fs::Mode {
    rustix::fs::Mode::from_bits_truncate(bits as _)
}

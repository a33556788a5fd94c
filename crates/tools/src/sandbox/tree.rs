//! Directories that a hostile program has filled, and may still be filling: measured and removed. Every step goes from a directory that is
//! held open to one of its own entries and follows no link, so nothing outside is ever touched.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

/// The deepest that is looked into. It bounds the open files of a walk; what a workspace takes over is less deep.
const DEPTH_MAX: usize = 200;

/// Times a tree is gone through again, because somebody put something into it or it was deeper than [`DEPTH_MAX`].
const PASSES_MAX: usize = 1000;

/// What is in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// On the disk.
    pub(super) bytes: u64,
    /// Files and directories.
    pub(super) entries: u64,
    /// Whether there is something below [`DEPTH_MAX`], which was not looked at.
    pub(super) too_deep: bool,
}

impl Size {
    fn exceeds(&self, most: &Self) -> bool {
        self.bytes > most.bytes || self.entries > most.entries || self.too_deep
    }
}

/// Measures a directory, until it is seen to be more than `most`. What cannot be looked at does not count: it is being removed, or
/// its owner has closed it, in which case its content was counted as it grew.
pub(super) fn measure(path: &Path, most: &Size) -> io::Result<Size> {
    let mut size = Size::default();
    add(&open(CWD, path)?, 0, &mut size, most);
    Ok(size)
}

fn add(directory: &OwnedFd, depth: usize, size: &mut Size, most: &Size) {
    let Ok(entries) = names(directory) else { return };
    for name in entries {
        if size.exceeds(most) {
            return;
        }
        let Ok(stat) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        size.entries += 1;
        size.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            if depth == DEPTH_MAX {
                size.too_deep = true;
                return;
            }
            if let Ok(inner) = open(directory, &name) {
                add(&inner, depth + 1, size, most);
            }
        }
    }
}

/// Removes all that is in a directory, however deep and whatever its modes.
pub(super) fn empty(path: &Path) -> io::Result<()> {
    let root = open(CWD, path)?;
    let mut last = Ok(());
    for pass in 0..PASSES_MAX {
        let mut clearing = Clearing { root: &root, pass, moved: 0 };
        last = clearing.clear(&root, 0);
        if last.is_ok() && clearing.moved == 0 {
            break;
        }
    }
    Ok(last?)
}

struct Clearing<'a> {
    root: &'a OwnedFd,
    pass: usize,
    /// Directories that were too deep, and are at the top now, for the next pass.
    moved: usize,
}

impl Clearing<'_> {
    fn clear(&mut self, directory: &OwnedFd, depth: usize) -> Result<(), Errno> {
        for name in names(directory)? {
            match unlinkat(directory, &name, AtFlags::empty()) {
                // Linux says ISDIR, POSIX says PERM.
                Err(Errno::ISDIR | Errno::PERM) => self.clear_directory(directory, &name, depth)?,
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn clear_directory(&mut self, parent: &OwnedFd, name: &CString, depth: usize) -> Result<(), Errno> {
        if depth == DEPTH_MAX {
            let aside = format!("weir-deep-{}-{}", self.pass, self.moved);
            // A directory can only be moved by one who may write into it.
            let _ = chmodat(parent, name, Mode::RWXU, AtFlags::empty());
            renameat(parent, name, self.root, aside)?;
            self.moved += 1;
            return Ok(());
        }
        let inner = match open(parent, name) {
            Err(Errno::ACCESS) => {
                chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
                open(parent, name)?
            }
            opened => opened?,
        };
        if self.clear(&inner, depth + 1) == Err(Errno::ACCESS) {
            rustix::fs::fchmod(&inner, Mode::RWXU)?;
            self.clear(&inner, depth + 1)?;
        }
        unlinkat(parent, name, AtFlags::REMOVEDIR)
    }
}

fn open(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// The names in a directory. One that changes meanwhile is looked at again by the next pass.
fn names(directory: &OwnedFd) -> Result<impl Iterator<Item = CString> + use<>, Errno> {
    let entries = Dir::read_from(directory)?.map_while(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_owned());
    Ok(names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const MOST: Size = Size { bytes: u64::MAX, entries: u64::MAX, too_deep: false };

    fn deep(root: &Path, levels: usize) {
        let mut at = open(CWD, root).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&at, "down", Mode::RWXU).unwrap();
            at = open(&at, "down").unwrap();
        }
        openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    }

    #[test]
    fn a_tree_is_measured_without_following_links() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("large"), vec![1; 1 << 20]).unwrap();
        fs::write(inside.path().join("small"), vec![1; 100_000]).unwrap();
        symlink(outside.path(), inside.path().join("link")).unwrap();
        fs::create_dir(inside.path().join("d")).unwrap();
        let size = measure(inside.path(), &MOST).unwrap();
        assert_eq!((size.entries, size.too_deep), (3, false));
        assert!(size.bytes >= 100_000 && size.bytes < 1 << 20, "{size:?}");
        let most = Size { entries: 1, ..MOST };
        assert_eq!(measure(inside.path(), &most).unwrap().entries, 2);
        deep(inside.path(), DEPTH_MAX + 2);
        assert!(measure(inside.path(), &MOST).unwrap().too_deep);
    }

    #[test]
    fn a_tree_of_any_depth_and_mode_is_removed_and_nothing_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("kept"), "x").unwrap();
        symlink(outside.path(), inside.path().join("link")).unwrap();
        deep(inside.path(), 5 * DEPTH_MAX);
        let closed = inside.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        empty(inside.path()).unwrap();
        assert_eq!(fs::read_dir(inside.path()).unwrap().count(), 0);
        assert!(outside.path().join("kept").exists());
    }
}

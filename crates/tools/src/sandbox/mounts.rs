//! Namespaces: a view of the disk in which all but a few directories is read-only, no network, and nothing shared with others.
//!
//! Landlock has no right for changing modes, owners, times and attributes of files, so a confined command could still do that to every file of
//! its user. In a mount namespace of its own, it cannot.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

use super::walls::{Files, Walls};

/// Where shared memory is.
const SHARED: &str = "/dev/shm";

/// Which namespaces this process has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Namespaces {
    /// All but the writable directories is read-only.
    pub(super) mounts: bool,
    pub(super) network: bool,
    pub(super) ipc: bool,
}

/// Enters every namespace that the walls want and this user may have, for this process and what it starts. Must come before the first thread: a process with several has no way into a user
/// namespace.
///
/// When it fails, it may have done a part of it: less can be written then, never more.
pub(super) fn enter(walls: &Walls) -> Namespaces {
    // Root need not become somebody else for it.
    let entered =
        unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from).or_else(|_| enter_user_namespace());
    let confined =
        |files: &Files| entered.is_ok() && all_read_only_but(&files.writable, &files.shared).is_ok();
    Namespaces {
        mounts: walls.files.as_ref().is_some_and(confined),
        network: !walls.network && unshare(CloneFlags::CLONE_NEWNET).is_ok(),
        ipc: unshare(CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS).is_ok(),
    }
}

/// Takes away what is mounted at a room's directories, so that they can be removed. Nothing may use them any more.
pub(super) fn leave(walls: &Walls) {
    for path in walls.files.iter().flat_map(|files| &files.writable) {
        // Without a namespace, nothing is mounted there.
        let _ = unmount(path, UnmountFlags::DETACH);
    }
}

/// Makes all but `writable` read-only, and `shared` what others find in `/dev/shm`. The directory that holds them is read-only too: its mode is what
/// keeps other users out.
fn all_read_only_but(writable: &[PathBuf], shared: &Path) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for path in writable {
        mount_bind_recursive(path, path)?;
    }
    // Semaphores and shared memory of programs are files there. Where there is no such directory, or the room itself is in it, they do without.
    if !shared.starts_with(SHARED) {
        let _ = mount_bind(shared, SHARED);
    }
    let given = if shared.starts_with(SHARED) { shared } else { Path::new(SHARED) };
    for mount in mounts(&std::fs::read("/proc/self/mountinfo")?) {
        if writable.iter().any(|path| mount.path.starts_with(path)) || mount.path == given {
            continue;
        }
        match mount_remount(&mount.path, MountFlags::BIND | MountFlags::RDONLY | mount.flags, c"") {
            // Below another mount, or gone: nobody gets there.
            Ok(()) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => {}
            // A broken network mount or the like, where nothing can be changed either.
            Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::STALE | rustix::io::Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A namespace in which we are who we are, and nobody else exists.
fn enter_user_namespace() -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    path: PathBuf,
    /// What it has already, and must keep: in a user namespace, nobody may take it away.
    flags: MountFlags,
}

/// Reads `/proc/self/mountinfo`: id, parent, device, root, path, options.
fn mounts(table: &[u8]) -> impl Iterator<Item = Mount> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let (path, options) = (fields.next()?, fields.next()?);
        let flags =
            options.split(|byte| *byte == b',').map(flag).fold(MountFlags::empty(), MountFlags::union);
        Some(Mount { path: OsString::from_vec(unescaped(path)).into(), flags })
    })
}

fn flag(option: &[u8]) -> MountFlags {
    match option {
        b"nosuid" => MountFlags::NOSUID,
        b"nodev" => MountFlags::NODEV,
        b"noexec" => MountFlags::NOEXEC,
        b"noatime" => MountFlags::NOATIME,
        b"nodiratime" => MountFlags::NODIRATIME,
        b"relatime" => MountFlags::RELATIME,
        b"nosymfollow" => MountFlags::NOSYMFOLLOW,
        _ => MountFlags::empty(),
    }
}

/// Spaces and the like are written as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &others[3..];
            }
            None => {
                plain.push(*first);
                rest = others;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read() {
        let table = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      23 22 0:5 / /mnt/a\\040b\\134 ro,nosuid,nodev,noexec - tmpfs tmpfs rw\nnonsense\n";
        let found: Vec<Mount> = mounts(table).collect();
        let restricted = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        assert_eq!(
            found,
            [
                Mount { path: "/".into(), flags: MountFlags::RELATIME },
                Mount { path: "/mnt/a b\\".into(), flags: restricted },
            ]
        );
    }
}

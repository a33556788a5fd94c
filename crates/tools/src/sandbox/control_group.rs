//! A control group (cgroup v2) that bounds memory, that of the kernel included, and processes. Only where this user may make one: in a unit with
//! `Delegate=`, in a desktop session, in a container with a writable hierarchy, or as root.
//!
//! It must be made before the disk becomes read-only. Everything is done through directories that were opened then.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};

use super::limits::Limits;

/// How groups are recognised: this and the id of the supervisor.
const PREFIX: &str = "weir-";

/// How many processes beyond the limit may exist, so that the supervisor sees the excess and stops the command instead of the command seeing a failed
/// `fork`.
const TASKS_BESIDE: u64 = 64;

/// How long the kernel may take to see that a group is empty.
const EMPTY_WITHIN: Duration = Duration::from_secs(2);
const EMPTY_EVERY: Duration = Duration::from_millis(1);

/// A group for one command.
pub(super) struct ControlGroup {
    parent: OwnedFd,
    name: String,
    directory: OwnedFd,
    /// Where this process was before.
    home: OwnedFd,
}

impl ControlGroup {
    /// Makes a group, if this user may.
    pub(super) fn make(limits: &Limits) -> Option<Self> {
        let own = own_directory(
            &std::fs::read_to_string("/proc/self/cgroup").ok()?,
            &std::fs::read_to_string("/proc/self/mountinfo").ok()?,
        )?;
        let name = format!("{PREFIX}{}", std::process::id());
        // Controllers can be handed on only where no process is, so a sibling is more likely than a child.
        let sibling = own.directory.parent().filter(|_| !own.is_top);
        sibling.into_iter().chain([&*own.directory]).find_map(|parent| {
            sweep(parent);
            let home = open_directory(CWD, &own.directory).ok()?;
            Self::make_in(open_directory(CWD, parent).ok()?, &name, limits, home).ok()
        })
    }

    fn make_in(parent: OwnedFd, name: &str, limits: &Limits, home: OwnedFd) -> io::Result<Self> {
        let has = |file: &str| -> io::Result<bool> {
            let listed = read(&parent, file)?;
            Ok(["memory", "pids"]
                .iter()
                .all(|wanted| listed.split_whitespace().any(|found| found == *wanted)))
        };
        if !has("cgroup.controllers")? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if !has("cgroup.subtree_control")? {
            write(&parent, "cgroup.subtree_control", "+memory +pids")?;
        }
        mkdirat(&parent, name, Mode::RWXU)?;
        let made = open_directory(&parent, name).and_then(|directory| {
            set_limits(&directory, limits)?;
            Ok(directory)
        });
        match made {
            Ok(directory) => Ok(Self { parent, name: name.to_owned(), directory, home }),
            Err(error) => {
                let _ = unlinkat(&parent, name, AtFlags::REMOVEDIR);
                Err(error)
            }
        }
    }

    /// Moves this process into the group: what it starts from now on is in it.
    pub(super) fn join(&self) -> io::Result<()> {
        write(&self.directory, "cgroup.procs", "0")
    }

    /// Moves this process out again. What it has started stays.
    pub(super) fn leave(&self) -> io::Result<()> {
        write(&self.home, "cgroup.procs", "0")
    }

    /// Whether the kernel ended the command since the group was out of memory.
    pub(super) fn was_out_of_memory(&self) -> bool {
        let events = read(&self.directory, "memory.events").unwrap_or_default();
        events.lines().any(|line| {
            line.strip_prefix("oom_kill ")
                .is_some_and(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
        })
    }

    /// Ends everything that is in it, and removes it.
    pub(super) fn remove(self) {
        let _ = write(&self.directory, "cgroup.kill", "1");
        let began = Instant::now();
        while unlinkat(&self.parent, &*self.name, AtFlags::REMOVEDIR) == Err(rustix::io::Errno::BUSY) {
            if began.elapsed() > EMPTY_WITHIN {
                // The next command sweeps it.
                return;
            }
            std::thread::sleep(EMPTY_EVERY);
        }
    }
}

fn set_limits(directory: &OwnedFd, limits: &Limits) -> io::Result<()> {
    write(directory, "memory.max", &limits.memory_bytes.to_string())?;
    write(directory, "memory.oom.group", "1")?;
    write(directory, "pids.max", &limits.tasks.saturating_add(TASKS_BESIDE).to_string())?;
    // A kernel without swap does not have it.
    let _ = write(directory, "memory.swap.max", "0");
    Ok(())
}

/// Removes groups whose supervisors are gone. The kernel does not remove one that has a process in it.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let supervisor = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if supervisor.is_some_and(|supervisor| !Path::new(&format!("/proc/{supervisor}")).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Own {
    directory: PathBuf,
    is_top: bool,
}

/// The directory of this process's own group, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_directory(groups: &str, mounts: &str) -> Option<Own> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let mounted = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, directory) = (fields.next()?, fields.next()?);
        (kind.starts_with("cgroup2 ") && root == "/").then(|| PathBuf::from(directory))
    })?;
    Some(Own { directory: mounted.join(path), is_top: path.is_empty() })
}

fn open_directory(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

fn read(directory: &OwnedFd, file: &str) -> io::Result<String> {
    let file = openat(directory, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(std::fs::File::from(file))
}

fn write(directory: &OwnedFd, file: &str, text: &str) -> io::Result<()> {
    let file = openat(directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    //! The kernel of a test machine may have no memory controller for version 2, so these are about the files only: which are read, which are written.

    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
                          31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn the_own_group_is_found() {
        let own = |groups| {
            own_directory(groups, MOUNTS).map(|own| (own.directory.display().to_string(), own.is_top))
        };
        let found = Some(("/sys/fs/cgroup/unified/a.slice/b.scope".to_owned(), false));
        assert_eq!(own("4:memory:/x\n0::/a.slice/b.scope\n"), found);
        assert_eq!(own("0::/\n"), Some(("/sys/fs/cgroup/unified/".to_owned(), true)));
        // Outside of what can be seen, and version 1 alone.
        assert_eq!(own("0::/../b.scope\n"), None);
        assert_eq!(own("4:memory:/x\n"), None);
        assert_eq!(own_directory("0::/a\n", "31 23 0:27 / /m rw - cgroup cgroup rw,memory\n"), None);
    }

    fn files(directory: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            std::fs::write(directory.join(name), content).unwrap();
        }
    }

    fn made(parent: &Path, home: &Path) -> io::Result<ControlGroup> {
        let open = |path: &Path| open_directory(CWD, path).unwrap();
        ControlGroup::make_in(open(parent), "weir-1", &Limits::default(), open(home))
    }

    #[test]
    fn without_controllers_there_is_no_group() {
        let directory = tempfile::tempdir().unwrap();
        assert!(made(directory.path(), directory.path()).is_err());
        files(directory.path(), &[("cgroup.controllers", "cpu pids"), ("cgroup.subtree_control", "")]);
        assert!(made(directory.path(), directory.path()).is_err());
        // Controllers that are there and do not come through leave no directory behind.
        files(directory.path(), &[("cgroup.controllers", "cpu memory pids")]);
        assert!(made(directory.path(), directory.path()).is_err());
        assert!(!directory.path().join("weir-1").exists());
        assert_eq!(
            std::fs::read_to_string(directory.path().join("cgroup.subtree_control")).unwrap(),
            "+memory +pids"
        );
    }

    #[test]
    fn limits_are_written_processes_move_and_the_end_is_read() {
        let (group, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let limits =
            ["memory.max", "memory.oom.group", "pids.max", "memory.swap.max", "cgroup.procs", "cgroup.kill"];
        files(group.path(), &limits.map(|name| (name, "")));
        files(home.path(), &[("cgroup.procs", "")]);
        let open = |path: &Path| open_directory(CWD, path).unwrap();
        let directory = open(group.path());
        set_limits(&directory, &Limits::default()).unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let written = limits.map(|name| read(&group.path().join(name)));
        assert_eq!(written, ["4294967296", "1", "576", "0", "", ""]);
        let parent = open(group.path().parent().unwrap());
        let made =
            ControlGroup { parent, name: "weir-of-nobody".to_owned(), directory, home: open(home.path()) };
        made.join().unwrap();
        made.leave().unwrap();
        assert_eq!([group.path(), home.path()].map(|path| read(&path.join("cgroup.procs"))), ["0", "0"]);
        assert!(!made.was_out_of_memory());
        for (events, expected) in
            [("oom 1\noom_kill 0\n", false), ("oom 1\noom_kill 3\noom_group_kill 1\n", true)]
        {
            files(group.path(), &[("memory.events", events)]);
            assert_eq!(made.was_out_of_memory(), expected);
        }
        made.remove();
        assert_eq!(read(&group.path().join("cgroup.kill")), "1");
    }

    #[test]
    fn groups_of_the_dead_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let (dead, living) = (format!("{PREFIX}{}", u32::MAX), format!("{PREFIX}{}", std::process::id()));
        for name in [&*dead, &living, "weir-x", "other"] {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        sweep(parent.path());
        let left = |name: &str| parent.path().join(name).exists();
        assert_eq!([&*dead, &living, "weir-x", "other"].map(left), [false, true, true, true]);
    }
}

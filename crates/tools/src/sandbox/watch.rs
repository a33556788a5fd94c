//! How much a command takes, as the supervisor sees it. The kernel's own limits count per process, and spare root; this counts all of a group.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::limits::Limits;
use super::plan::Stop;
use super::tree::{self, Size};

/// How often the machine's number of processes is looked at, which costs next to nothing: a fork bomb doubles within milliseconds, and once there
/// are thousands nobody gets to run who could stop it.
const MACHINE_EVERY: Duration = Duration::from_millis(10);

/// How often the processes of the group are looked at, one by one, and how often the disk.
const PROCESSES_EVERY: Duration = Duration::from_millis(50);
const DISK_EVERY: Duration = Duration::from_millis(250);

/// Looking takes no more than one part in this many of the time, however much there is to see.
const SHARE: u32 = 20;

/// A disk with less left than this is almost full, and less than a twentieth of it.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

/// Looks at a group from time to time.
pub(super) struct Watch {
    group: Pid,
    room: PathBuf,
    limits: Limits,
    machine_due: Instant,
    processes_due: Instant,
    disk_due: Instant,
    /// The machine's number of processes at first.
    machine_at_first: u64,
    /// What was left on the disk at first. One that was almost full before is not the command's doing.
    free_at_first: u64,
}

impl Watch {
    pub(super) fn new(group: Pid, room: &Path, limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            group,
            room: room.to_owned(),
            limits,
            machine_due: now + MACHINE_EVERY,
            processes_due: now + PROCESSES_EVERY,
            disk_due: now + DISK_EVERY,
            machine_at_first: tasks_of_machine(),
            free_at_first: free(room).map_or(0, |free| free.bytes),
        }
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        self.machine_due.min(self.processes_due).min(self.disk_due)
    }

    /// Looks at what is due. What cannot be watched is stopped.
    pub(super) fn look(&mut self) -> Option<Stop> {
        let now = Instant::now();
        let has_grown = tasks_of_machine() > self.machine_at_first.saturating_add(self.limits.tasks);
        self.machine_due = now + MACHINE_EVERY;
        if has_grown || now >= self.processes_due {
            let (stop, due) = timed(PROCESSES_EVERY, || self.look_at_processes());
            self.processes_due = due;
            if has_grown && stop.is_none() {
                // It is others who have grown.
                self.machine_at_first = tasks_of_machine();
            }
            if stop.is_some() {
                return stop;
            }
        }
        if now >= self.disk_due {
            let (stop, due) = timed(DISK_EVERY, || self.look_at_disk());
            self.disk_due = due;
            return stop;
        }
        None
    }

    fn look_at_processes(&self) -> Option<Stop> {
        let Ok(usage) = Usage::of(self.group) else { return Some(Stop::Blind) };
        if usage.tasks > self.limits.tasks {
            return Some(Stop::Tasks);
        }
        (usage.memory_bytes > self.limits.memory_bytes).then_some(Stop::Memory)
    }

    /// Also looks at what is left: files that were deleted and are still open take room, and no walk finds them.
    pub(super) fn look_at_disk(&self) -> Option<Stop> {
        let Limits { disk_bytes, disk_entries, .. } = self.limits;
        let most = Size { bytes: disk_bytes, entries: disk_entries, too_deep: false };
        let Ok(size) = tree::measure(&self.room, &most) else { return Some(Stop::Blind) };
        if size.bytes > most.bytes || size.entries > most.entries || size.too_deep {
            return Some(Stop::Disk);
        }
        let free = free(&self.room)?;
        let little = FREE_BYTES_MIN.min(free.total_bytes / 20);
        (free.bytes < little && free.bytes < self.free_at_first).then_some(Stop::DiskFull)
    }
}

/// Does something, and says when to do it again. What counts is what it took of the processor: on a machine that has no time, waiting for it would
/// make us wait even longer.
fn timed<T>(every: Duration, what: impl FnOnce() -> T) -> (T, Instant) {
    let before = processor_time();
    let done = what();
    let took = processor_time().saturating_sub(before);
    (done, Instant::now() + every.max(took * SHARE))
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// All processes and threads of the machine, quickly.
pub(super) fn tasks_of_machine() -> u64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load.split_ascii_whitespace().nth(3).and_then(|field| field.split('/').nth(1)?.parse().ok());
    tasks.unwrap_or(u64::MAX / 2)
}

struct Free {
    bytes: u64,
    total_bytes: u64,
}

fn free(room: &Path) -> Option<Free> {
    let found = rustix::fs::statvfs(room).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Free { bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) })
}

/// What the processes of a group take together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) tasks: u64,
    pub(super) memory_bytes: u64,
}

impl Usage {
    fn of(group: Pid) -> io::Result<Self> {
        let mut usage = Self::default();
        for process in processes()?.filter(|process| process.group == group.as_raw_nonzero().get()) {
            usage.tasks += process.tasks;
            usage.memory_bytes += process.pages * rustix::param::page_size() as u64;
        }
        Ok(usage)
    }
}

/// The group of a process, if it is one that can be joined: the first process of all has none.
pub(super) fn group_of(process: Pid) -> Option<Pid> {
    let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    Process::read(&stat).filter(|process| process.group > 0).and_then(|process| Pid::from_raw(process.group))
}

/// The children of a process, and all of its group, without itself.
pub(super) fn children_and_group_of(leader: Pid) -> Vec<Pid> {
    let leader = leader.as_raw_nonzero().get();
    let all = processes().into_iter().flatten();
    let found = all.filter(|process| process.parent == leader || process.group == leader);
    found.filter(|process| process.id != leader).filter_map(|process| Pid::from_raw(process.id)).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    group: i32,
    tasks: u64,
    pages: u64,
}

/// All there are. One that has just ended is none.
fn processes() -> io::Result<impl Iterator<Item = Process>> {
    let names = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(ids.filter_map(|id| Process::read(&std::fs::read(format!("/proc/{id}/stat")).ok()?)))
}

impl Process {
    /// Reads `/proc/PID/stat`: the id, the name in parentheses, which may itself have some, the state, the parent, the group, …
    fn read(stat: &[u8]) -> Option<Self> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let id = std::str::from_utf8(stat.split(|byte| *byte == b' ').next()?).ok()?;
        let mut fields = std::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace().skip(1);
        Some(Self {
            id: id.parse().ok()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            tasks: fields.nth(14)?.parse().ok()?,
            pages: fields.nth(3)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let line =
            b"4711 (a) b (c)) S 1 4700 4700 0 -1 4194560 10 0 0 0 1 2 0 0 20 0 7 0 999 1000000 123 1844 1 1";
        let read = Process { id: 4711, parent: 1, group: 4700, tasks: 7, pages: 123 };
        assert_eq!(Process::read(line), Some(read));
        assert_eq!(Process::read(b"4711 (x) S 1 4700"), None);
        assert_eq!(Process::read(b""), None);
    }

    #[test]
    fn a_group_is_found() {
        let usage = Usage::of(rustix::process::getpgrp()).unwrap();
        assert!(usage.tasks >= 1 && usage.memory_bytes > 100_000, "{usage:?}");
        let (me, parent) = (rustix::process::getpid(), rustix::process::getppid().unwrap());
        assert!(children_and_group_of(parent).contains(&me));
        assert!(!children_and_group_of(me).contains(&me));
        assert_eq!(group_of(me), Some(rustix::process::getpgrp()));
        assert_eq!(group_of(Pid::from_raw(i32::MAX).unwrap()), None);
    }

    #[test]
    fn too_much_on_the_disk_is_seen() {
        let room = tempfile::tempdir().unwrap();
        std::fs::write(room.path().join("file"), vec![1; 100_000]).unwrap();
        let look = |limits| Watch::new(rustix::process::getpgrp(), room.path(), limits).look_at_disk();
        assert_eq!(look(Limits::default()), None);
        assert_eq!(look(Limits { disk_bytes: 50_000, ..Limits::default() }), Some(Stop::Disk));
        assert_eq!(look(Limits { disk_entries: 0, ..Limits::default() }), Some(Stop::Disk));
        let gone = Watch::new(rustix::process::getpgrp(), Path::new("/nowhere/at/all"), Limits::default());
        assert_eq!(gone.look_at_disk(), Some(Stop::Blind));
    }
}

//! How much a command takes, as the supervisor sees it. The kernel's own limits count per process, and spare root; this counts all of a group.

use std::io::{self, Read};
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

/// How often the mappings of the group are counted, which takes a microsecond for each.
const MAPPINGS_EVERY: Duration = Duration::from_secs(1);

/// How much more than the limit for the room may be used on a file system in memory, where each deleted file that is still open takes memory.
const IN_MEMORY_FACTOR: u64 = 2;

/// What `statfs` says of a file system in memory.
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// Looking takes no more than one part in this many of the time, however much there is to see.
const SHARE: u32 = 20;

/// A machine with less available memory than this is almost out of it, and less than a twentieth of its memory.
const AVAILABLE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

/// A disk with less left than this is almost full, and less than a twentieth of it.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

/// How closely a group is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// A command, which ends soon.
    OfCommand,
    /// A server, which may be there for days, idle for most of them. What it does is its own affair as long as it keeps to its limits: a machine
    /// that is short of memory or of disk is most often not its doing.
    OfServer,
}

impl Pace {
    fn stretch(self, every: Duration) -> Duration {
        match self {
            Self::OfCommand => every,
            Self::OfServer => every * 10,
        }
    }
}

/// Looks at a group from time to time.
pub(super) struct Watch {
    group: Pid,
    /// Where it writes, if it has a place for that.
    room: Option<PathBuf>,
    pace: Pace,
    limits: Limits,
    machine_due: Instant,
    processes_due: Instant,
    disk_due: Instant,
    mappings_due: Instant,
    /// The machine's number of processes at first.
    machine_at_first: u64,
    /// What was left of the machine's memory at first. A machine that was almost out of memory before is not the command's doing.
    available_at_first: u64,
    /// What was left on the disk at first. One that was almost full before is not the command's doing.
    free_at_first: u64,
}

impl Watch {
    pub(super) fn new(group: Pid, room: Option<&Path>, limits: Limits, pace: Pace) -> Self {
        let now = Instant::now();
        Self {
            group,
            room: room.map(Path::to_owned),
            pace,
            limits,
            machine_due: now + pace.stretch(MACHINE_EVERY),
            processes_due: now + pace.stretch(PROCESSES_EVERY),
            disk_due: now + pace.stretch(DISK_EVERY),
            mappings_due: now + pace.stretch(MAPPINGS_EVERY),
            machine_at_first: tasks_of_machine(),
            available_at_first: memory_of_machine().map_or(0, |memory| memory.available_bytes),
            free_at_first: room.and_then(free).map_or(0, |free| free.bytes),
        }
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        self.machine_due.min(self.processes_due).min(self.disk_due).min(self.mappings_due)
    }

    /// Looks at what is due. What cannot be watched is stopped.
    pub(super) fn look(&mut self) -> Option<Stop> {
        let now = Instant::now();
        let has_grown = tasks_of_machine() > self.machine_at_first.saturating_add(self.limits.tasks);
        self.machine_due = now + self.pace.stretch(MACHINE_EVERY);
        if self.pace == Pace::OfCommand && self.is_memory_low() {
            return Some(Stop::MemoryLow);
        }
        if has_grown || now >= self.processes_due {
            let (stop, due) = timed(self.pace.stretch(PROCESSES_EVERY), || self.look_at_processes());
            self.processes_due = due;
            if has_grown && stop.is_none() {
                // It is others who have grown.
                self.machine_at_first = tasks_of_machine();
            }
            if stop.is_some() {
                return stop;
            }
        }
        if now >= self.mappings_due {
            let (stop, due) = timed(self.pace.stretch(MAPPINGS_EVERY), || {
                look_at_mappings(self.group, self.limits.mappings)
            });
            self.mappings_due = due;
            if stop.is_some() {
                return stop;
            }
        }
        if now >= self.disk_due {
            let (stop, due) = timed(self.pace.stretch(DISK_EVERY), || self.look_at_disk());
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
        if usage.open_files > self.limits.open_files_all {
            return Some(Stop::OpenFiles);
        }
        (usage.memory_bytes > self.limits.memory_bytes).then_some(Stop::Memory)
    }

    /// The last line before the kernel's own out-of-memory killer, for what no count sees: it ends the command while the machine still runs.
    fn is_memory_low(&self) -> bool {
        memory_of_machine().is_some_and(|memory| is_low(&memory, self.available_at_first))
    }

    /// Also looks at what is left: files that were deleted and are still open take room, and no walk finds them.
    pub(super) fn look_at_disk(&self) -> Option<Stop> {
        let Limits { disk_bytes, disk_entries, .. } = self.limits;
        let most = Size { bytes: disk_bytes, entries: disk_entries, too_deep: false };
        let room = self.room.as_deref()?;
        let Ok(size) = tree::measure(room, &most) else { return Some(Stop::Blind) };
        if size.bytes > most.bytes || size.entries > most.entries || size.too_deep {
            return Some(Stop::Disk);
        }
        let free = free(room)?;
        if free.is_in_memory && self.free_at_first.saturating_sub(free.bytes) > IN_MEMORY_FACTOR * disk_bytes
        {
            return Some(Stop::Disk);
        }
        let little = FREE_BYTES_MIN.min(free.total_bytes / 20);
        let is_low = free.bytes < little && free.bytes < self.free_at_first;
        (is_low && self.pace == Pace::OfCommand).then_some(Stop::DiskFull)
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

/// Memory of the machine, as `/proc/meminfo` tells it.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    total_bytes: u64,
    available_bytes: u64,
}

fn is_low(memory: &Memory, available_at_first: u64) -> bool {
    let little = AVAILABLE_BYTES_MIN.min(memory.total_bytes / 20);
    memory.available_bytes < little && memory.available_bytes < available_at_first
}

fn memory_of_machine() -> Option<Memory> {
    Memory::read(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

impl Memory {
    fn read(table: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Self { total_bytes: field("MemTotal")?, available_bytes: field("MemAvailable")? })
    }
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
    is_in_memory: bool,
}

fn free(room: &Path) -> Option<Free> {
    let found = rustix::fs::statvfs(room).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let kind = rustix::fs::statfs(room).ok()?.f_type;
    Some(Free {
        bytes: bytes(found.f_bavail),
        total_bytes: bytes(found.f_blocks),
        is_in_memory: i128::from(kind) == TMPFS_MAGIC,
    })
}

/// What the processes of a group take together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) tasks: u64,
    pub(super) memory_bytes: u64,
    pub(super) open_files: u64,
}

impl Usage {
    fn of(group: Pid) -> io::Result<Self> {
        let mut usage = Self::default();
        for process in processes()?.filter(|process| process.group == group.as_raw_nonzero().get()) {
            usage.tasks += process.tasks;
            usage.memory_bytes += process.pages * rustix::param::page_size() as u64;
            usage.memory_bytes += page_table_bytes(process.id);
            usage.open_files += open_files(process.id);
        }
        Ok(usage)
    }
}

/// Memory for a process's page tables. Reading untouched memory costs tables and no pages, so they count. One that has just ended has none.
fn page_table_bytes(process: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// How many open files a process has. Linux 6.2, which Landlock's oldest version here needs too, tells it as the size of the directory.
fn open_files(process: i32) -> u64 {
    std::fs::metadata(format!("/proc/{process}/fd")).map_or(0, |directory| directory.len())
}

fn look_at_mappings(group: Pid, most: u64) -> Option<Stop> {
    let Ok(processes) = processes() else { return Some(Stop::Blind) };
    let mut found = 0;
    for process in processes.filter(|process| process.group == group.as_raw_nonzero().get()) {
        found += mappings(process.id, most - found);
        if found >= most {
            return Some(Stop::Memory);
        }
    }
    None
}

/// Counts the mappings of a process, but no more than `most`. One that has just ended, or may not be looked into, has none.
fn mappings(process: i32, most: u64) -> u64 {
    let Ok(mut table) = std::fs::File::open(format!("/proc/{process}/maps")) else { return 0 };
    let (mut found, mut buffer) = (0, vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = table.read(&mut buffer) {
        found += buffer[..count].iter().filter(|byte| **byte == b'\n').count() as u64;
        if found >= most {
            return most;
        }
    }
    found
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
        assert!(usage.tasks >= 1 && usage.memory_bytes > 100_000 && usage.open_files >= 3, "{usage:?}");
        let (me, parent) = (rustix::process::getpid(), rustix::process::getppid().unwrap());
        assert!(children_and_group_of(parent).contains(&me));
        assert!(!children_and_group_of(me).contains(&me));
        assert_eq!(group_of(me), Some(rustix::process::getpgrp()));
        assert_eq!(group_of(Pid::from_raw(i32::MAX).unwrap()), None);
    }

    #[test]
    fn little_memory_is_seen() {
        let table = "MemTotal:       25165824 kB\nMemFree:  1 kB\nMemAvailable:   1048575 kB\n";
        let gib = 1 << 30;
        let memory = Memory::read(table).unwrap();
        assert_eq!(memory, Memory { total_bytes: 24 * gib, available_bytes: gib - 1024 });
        assert!(is_low(&memory, 2 * gib));
        // It was so before, or it is not so.
        assert!(!is_low(&memory, memory.available_bytes));
        assert!(!is_low(&Memory { available_bytes: gib, ..memory }, 2 * gib));
        // Small machines may use more of what they have.
        assert!(!is_low(&Memory { total_bytes: gib, available_bytes: gib / 19 }, gib));
        assert!(memory_of_machine().is_some_and(|memory| memory.available_bytes > 0));
        assert!(page_table_bytes(rustix::process::getpid().as_raw_nonzero().get()) > 0);
        assert_eq!(Memory::read(""), None);
    }

    #[test]
    fn many_mappings_are_seen() {
        let group = rustix::process::getpgrp();
        assert_eq!(look_at_mappings(group, Limits::default().mappings), None);
        assert_eq!(look_at_mappings(group, 5), Some(Stop::Memory));
        assert_eq!(mappings(rustix::process::getpid().as_raw_nonzero().get(), 3), 3);
    }

    #[test]
    fn too_much_on_the_disk_is_seen() {
        let room = tempfile::tempdir().unwrap();
        std::fs::write(room.path().join("file"), vec![1; 100_000]).unwrap();
        let look = |limits| {
            Watch::new(rustix::process::getpgrp(), Some(room.path()), limits, Pace::OfCommand).look_at_disk()
        };
        assert_eq!(look(Limits::default()), None);
        assert_eq!(look(Limits { disk_bytes: 50_000, ..Limits::default() }), Some(Stop::Disk));
        assert_eq!(look(Limits { disk_entries: 0, ..Limits::default() }), Some(Stop::Disk));
        let nowhere = Some(Path::new("/nowhere/at/all"));
        let gone = Watch::new(rustix::process::getpgrp(), nowhere, Limits::default(), Pace::OfCommand);
        assert_eq!(gone.look_at_disk(), Some(Stop::Blind));
    }
}

//! What the system says about this process, this disk and this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::Error;

/// Bytes this process has sent towards the disk.
pub fn written_bytes() -> Result<u64, Error> {
    let io = fs::read_to_string("/proc/self/io")?;
    Ok(field(&io, "write_bytes:")?.saturating_sub(field(&io, "cancelled_write_bytes:")?))
}

/// Memory of this process in bytes: now, and at most.
pub fn memory() -> Result<(u64, u64), Error> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok((field(&status, "VmRSS:")? * 1_024, field(&status, "VmHWM:")? * 1_024))
}

fn field(text: &str, name: &str) -> Result<u64, Error> {
    let line =
        text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name} in /proc"))?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Cache flushes that the disk under `path` has done, for anyone; none if the system does not count them.
pub fn flushes(path: &Path) -> Option<u64> {
    const FLUSHES: usize = 15;
    let device = fs::metadata(path).ok()?.dev();
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
    let block = format!("/sys/dev/block/{major}:{minor}");
    // A partition leaves the counting to its disk.
    let stat = fs::read_to_string(format!("{block}/../stat"))
        .or_else(|_| fs::read_to_string(format!("{block}/stat")))
        .ok()?;
    stat.split_whitespace().nth(FLUSHES)?.parse().ok()
}

/// Length and allocated bytes of all files under `directory`.
pub fn disk_usage(directory: &Path) -> Result<(u64, u64), Error> {
    let (mut length, mut allocated) = (0, 0);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let (l, a) = disk_usage(&entry.path())?;
            (length, allocated) = (length + l, allocated + a);
        } else {
            (length, allocated) = (length + metadata.len(), allocated + metadata.blocks() * 512);
        }
    }
    Ok((length, allocated))
}

/// Where the numbers come from.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub file_system: String,
    pub kernel: String,
}

impl Machine {
    pub fn of(data: &Path) -> Result<Self, Error> {
        let cpus = fs::read_to_string("/proc/cpuinfo")?;
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        Ok(Self {
            cpu: model.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_bytes: field(&fs::read_to_string("/proc/meminfo")?, "MemTotal:")? * 1_024,
            file_system: file_system(data)?,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        })
    }
}

/// The type of the file system that holds `path`.
fn file_system(path: &Path) -> Result<String, Error> {
    let path = path.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let place = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    // Of two mounts at one place the later one is seen.
    let deepest = mounts
        .lines()
        .filter_map(place)
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.len());
    Ok(deepest.ok_or("no mount holds the data directory")?.1)
}

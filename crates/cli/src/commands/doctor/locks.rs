//! Who uses a data directory: the holders of its lock, from `/proc/locks`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process that holds the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    /// What it calls itself, if we may know.
    pub(super) name: String,
}

/// The processes, other than this one, that hold a lock on `lock`.
pub(super) fn holders(lock: &Path) -> Vec<Holder> {
    let Ok(metadata) = fs::metadata(lock) else { return Vec::new() };
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut pids = pids(&table, metadata.ino());
    pids.retain(|pid| *pid != std::process::id());
    pids.into_iter().map(|pid| Holder { pid, name: name(pid) }).collect()
}

/// Lines look like `3: FLOCK  ADVISORY  READ 4711 fe:00:12345 0 EOF`; the sixth word ends with the inode.
fn pids(table: &str, inode: u64) -> Vec<u32> {
    let mut pids: Vec<u32> = Vec::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { continue };
        let same = file.rsplit(':').next().is_some_and(|number| number.parse() == Ok(inode));
        if let (true, Ok(pid)) = (same, pid.parse()) {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn name(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command
        .split(|byte| *byte == 0)
        .take(3)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    words.join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flocks_on_the_same_file_count() {
        let table = "1: FLOCK  ADVISORY  READ 12 fe:00:77 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 13 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fe:00:78 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 15 fe:00:77 0 EOF\n\
                     5: FLOCK  ADVISORY  READ 12 fe:00:77 0 EOF\n\
                     6: FLOCK  ADVISORY  READ 9 08:01:77 0 EOF\n";
        assert_eq!(pids(table, 77), [9, 12]);
    }
}

//! How much a command may take.

use serde::{Deserialize, Serialize};

/// How much a command and all that it starts may take. Beyond it, all of it is killed, or refused more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub tasks: u64,
    /// Memory of all together, as resident pages; what processes share counts for each.
    pub memory_bytes: u64,
    /// Addresses of one process. More than memory, since some runtimes reserve much and use little.
    pub address_bytes: u64,
    /// Longest file.
    pub file_bytes: u64,
    /// All files in the room.
    pub disk_bytes: u64,
    /// Most files and directories in the room.
    pub disk_entries: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Output of one stream, kept or not.
    pub output_bytes: u64,
}

const GIB: u64 = 1024 * 1024 * 1024;

impl Default for Limits {
    /// Enough for a build of a project, and little enough that a machine survives a mistake. Files and entries are what a
    /// workspace takes over.
    fn default() -> Self {
        Self {
            tasks: 512,
            memory_bytes: 4 * GIB,
            address_bytes: 16 * GIB,
            file_bytes: GIB / 4,
            disk_bytes: 2 * GIB,
            disk_entries: 100_000,
            open_files: 1024,
            output_bytes: 64 * 1024 * 1024,
        }
    }
}

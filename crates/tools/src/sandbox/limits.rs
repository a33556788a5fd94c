//! How much a command may take.

use serde::{Deserialize, Serialize};

/// How much a command and all that it starts may take. Beyond it, all of it is killed, or refused more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub tasks: u64,
    /// Memory of all together: resident pages and page tables. What processes share counts for each.
    pub memory_bytes: u64,
    /// Addresses of one process. More than memory, since some runtimes reserve much and use little.
    pub address_bytes: u64,
    /// Longest file.
    pub file_bytes: u64,
    /// All files in the room.
    pub disk_bytes: u64,
    /// Most files and directories in the room.
    pub disk_entries: u64,
    /// Mappings of all processes together. The kernel keeps some 230 bytes for each, which no other count sees.
    pub mappings: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Open files of all processes together. Each may be a socket or a pipe with a full buffer, which is kernel memory that
    /// belongs to no process: this number times 430 KiB is the most that buffers can take.
    pub open_files_all: u64,
    /// Output of one stream, kept or not.
    pub output_bytes: u64,
}

/// The most kernel memory that one Unix socket of a command holds: measured with the kernel's default buffer of 208 KiB, which a
/// command cannot change. It takes one message beyond its buffer.
const SOCKET_BYTES_MAX: u64 = 430 * 1024;

const GIB: u64 = 1024 * 1024 * 1024;

impl Limits {
    /// The most memory that a command can hold between two looks of the supervisor, where no control group counts it: counted memory,
    /// and full buffers behind every open file, those included that are on their way between processes.
    pub fn worst_case_bytes(&self) -> u64 {
        let files = self.open_files_all.saturating_add(self.open_files);
        self.memory_bytes.saturating_add(files.saturating_mul(SOCKET_BYTES_MAX))
    }
}

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
            mappings: 500_000,
            open_files: 1024,
            open_files_all: 4096,
            output_bytes: 64 * 1024 * 1024,
        }
    }
}

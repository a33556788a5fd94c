//! `damage.jsonl`: what opening found, kept until a person accepts it.
//!
//! One JSON object per line, synced, only ever appended to: a finding, or the acceptance of findings. Later writes to
//! the journal cannot hide a finding.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_types::Timestamp;

use crate::private;

/// The file's name in the data directory.
pub(crate) const FILE: &str = "damage.jsonl";

/// Findings beyond this many are not kept; the file is read at every opening.
const RECORDS_MAX: usize = 1_000;

/// No file of ours is larger than this.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DamageKind {
    /// The write-ahead log: transactions in it cannot be recovered.
    Log,
    /// The journal ends before the newest event that was acknowledged.
    TailLost,
    /// The newest acknowledged event is another one now.
    TailChanged,
    /// The file that names the newest acknowledged event cannot be read.
    Anchor,
}

impl DamageKind {
    /// The file that is damaged.
    pub fn place(self) -> &'static str {
        match self {
            Self::Log => "file `journal.db-wal`",
            Self::TailLost | Self::TailChanged => "file `journal.db`",
            Self::Anchor => "file `anchor`",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamageRecord {
    /// Its number, from 1.
    pub id: u64,
    /// When it was found.
    pub found_at: Timestamp,
    /// What is damaged.
    pub kind: DamageKind,
    /// What is wrong, for people.
    pub what: String,
    /// A copy of the damaged file as it was found, in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
    /// Who accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<DamageAccepted>,
}

impl fmt::Display for DamageRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (found {})", self.kind.place(), self.what, self.found_at)?;
        if let Some(copy) = &self.copy {
            write!(f, "; a copy as it was found: `{copy}`")?;
        }
        Ok(())
    }
}

/// That a person has seen findings and goes on with the journal as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamageAccepted {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Accepted {
        /// Every finding up to this number.
        accepted_up_to: u64,
        by: String,
        at: Timestamp,
    },
    Found(DamageRecord),
}

/// The findings of one data directory.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    records: Vec<DamageRecord>,
}

/// Where the findings of a journal are.
pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Every finding about the journal in this data directory, the oldest first.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn damage_records(directory: &Path) -> io::Result<Vec<DamageRecord>> {
    DamageLog::read(directory).map(|log| log.records)
}

/// Accepts every finding there is; returns how many were open.
///
/// # Errors
/// When the file cannot be read or written.
pub fn accept_damage(directory: &Path, by: &str) -> io::Result<usize> {
    let log = DamageLog::read(directory)?;
    let open = log.open().count();
    if let Some(last) = log.records.last().filter(|_| open > 0) {
        let line = Line::Accepted { accepted_up_to: last.id, by: by.to_owned(), at: weir_journal::now() };
        append(directory, &line)?;
    }
    Ok(open)
}

impl DamageLog {
    /// Reads the file. Lines that cannot be read are left out.
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let path = path(directory);
        let text = match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
            Ok(facts) if facts.len() > BYTES_MAX => {
                return Err(io::Error::other("it is larger than any that weir writes"));
            }
            Ok(_) => std::fs::read(&path)?,
        };
        let mut log = Self::default();
        // The last line may have been cut by a kill; it is not there then.
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in text[..complete].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(Line::Found(record)) => log.records.push(record),
                Ok(Line::Accepted { accepted_up_to, by, at }) => log.accept(accepted_up_to, &by, at),
                Err(_) => {}
            }
        }
        Ok(log)
    }

    fn accept(&mut self, up_to: u64, by: &str, at: Timestamp) {
        let open = self.records.iter_mut().filter(|record| record.id <= up_to && record.accepted.is_none());
        open.for_each(|record| record.accepted = Some(DamageAccepted { by: by.to_owned(), at }));
    }

    /// The findings that no person has accepted, by value.
    pub(crate) fn into_open(self) -> Vec<DamageRecord> {
        self.records.into_iter().filter(|record| record.accepted.is_none()).collect()
    }

    /// The findings that no person has accepted.
    pub(crate) fn open(&self) -> impl Iterator<Item = &DamageRecord> {
        self.records.iter().filter(|record| record.accepted.is_none())
    }
}

/// Keeps a finding durably, unless it is known and open. Several processes may do so at once.
pub(crate) fn record(
    directory: &Path,
    kind: DamageKind,
    what: String,
    copy: Option<String>,
) -> io::Result<DamageRecord> {
    let log = DamageLog::read(directory)?;
    if let Some(known) = log.open().find(|known| known.kind == kind && known.what == what) {
        return Ok(known.clone());
    }
    let id = log.records.last().map_or(0, |last| last.id) + 1;
    let record = DamageRecord { id, found_at: weir_journal::now(), kind, what, copy, accepted: None };
    if log.records.len() < RECORDS_MAX {
        append(directory, &Line::Found(record.clone()))?;
    }
    Ok(record)
}

fn append(directory: &Path, line: &Line) -> io::Result<()> {
    let path = path(directory);
    let is_new = !path.exists();
    let mut file = private::open_or_create(&path)?;
    let mut text = serde_json::to_string(line)?;
    // A line that a kill has cut ends here.
    let begun = std::fs::read(&path)?;
    if begun.last().is_some_and(|byte| *byte != b'\n') {
        text.insert(0, '\n');
    }
    text.push('\n');
    io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    if is_new {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

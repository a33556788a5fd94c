//! Branches and snapshots.

use rusqlite::params;
use weir_journal::rules::{self, ForkGround};
use weir_journal::{Branch, Fork, ForkError, ForkPoint, Head, SNAPSHOTS_KEPT, Snapshot};
use weir_types::{BranchId, Event, Seq};

use super::{Hot, Refusal, Writer, refused};
use crate::rows::{Error, HeadRow, clamp};

impl Writer {
    /// Makes a branch: a pointer to an event of its parent's lineage.
    pub(crate) fn fork(&mut self, fork: &Fork) -> rusqlite::Result<std::result::Result<Branch, ForkError>> {
        refused(self.try_fork(fork))
    }

    fn try_fork(&mut self, fork: &Fork) -> std::result::Result<Branch, Refusal<ForkError>> {
        let Fork { from, at, name } = fork;
        let id = BranchId { stream: from.stream.clone(), branch: name.clone() };
        let parent_head =
            if self.load(from)? { self.heads.get(from).map(|hot| Seq(hot.head.seq)) } else { None };
        let stream_exists = parent_head.is_some() || self.reader.rows.stream_no(&from.stream)?.is_some();
        let name_taken = self.find(&id)?.is_some();
        rules::check_fork(fork, ForkGround { stream_exists, parent_head, name_taken })?;
        // The heads of this batch are not in the file yet, and the event may be among the newest of any ancestor.
        self.flush().map_err(Error::from)?;
        let damaged =
            || ForkError::NoEvent { from: from.clone(), at: *at, head: parent_head.unwrap_or_default() };
        let event = self.reader.read(from, Seq(at.0 - 1), 1)?.pop().ok_or_else(damaged)?.event;
        let parent = self.heads[from].row.clone();
        let sql = "INSERT INTO branches (stream, name, parent, at, chain) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![parent.stream, name.as_str(), parent.no, clamp(at.0), event.chain.as_bytes()];
        self.execute(sql, row).map_err(Error::from)?;
        let row = self.reader.rows.branch_by_no(self.connection().last_insert_rowid())?;
        let Event { seq, chain, ts, position, .. } = event;
        let head = Head { seq, chain, ts, position };
        let hot = Hot { row, head: HeadRow::new(&head, Vec::new()), is_dirty: true, attrs: None };
        self.heads.insert(id, hot);
        Ok(Branch {
            name: name.clone(),
            parent: Some(ForkPoint { branch: from.branch.clone(), at: *at, chain }),
            head,
        })
    }

    /// Remembers a fold and forgets older ones.
    pub(crate) fn put_snapshot(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let Snapshot { branch, seq, chain, fold, state } = snapshot;
        let no = match self.find(branch) {
            Ok(Some(no)) => no,
            Ok(None) | Err(Error::Read(_)) => return Ok(()),
            Err(Error::Sqlite(error)) => return Err(error),
        };
        let key = params![no, fold.fold, fold.version];
        let sql = "INSERT OR REPLACE INTO snapshots (branch, fold, version, seq, chain, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.execute(sql, params![no, fold.fold, fold.version, clamp(seq.0), chain.as_bytes(), &**state])?;
        let sql = format!(
            "DELETE FROM snapshots WHERE branch = ?1 AND fold = ?2 AND version = ?3 AND seq NOT IN \
             (SELECT seq FROM snapshots WHERE branch = ?1 AND fold = ?2 AND version = ?3 ORDER BY seq DESC LIMIT {SNAPSHOTS_KEPT})"
        );
        self.execute(&sql, key)?;
        Ok(())
    }
}

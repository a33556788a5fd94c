//! The work that the tests interrupt: small transactions, each over several pages of two tables, with a checkpoint
//! every few of them; and the look at what is left.

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use weir_powercut::{Disk, Image};

/// Enough for the WAL to be checkpointed and started anew several times.
pub(crate) const TRANSACTIONS: i64 = 12;

/// How SQLite is set up: the path it opens, and what it is told first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) path: &'static str,
    pub(crate) journal: &'static str,
    pub(crate) synchronous: &'static str,
}

pub(crate) const WAL_FULL: Setup = Setup { path: "a.db", journal: "WAL", synchronous: "FULL" };
pub(crate) const DELETE_EXTRA: Setup = Setup { path: "a.db", journal: "DELETE", synchronous: "EXTRA" };

impl Setup {
    pub(crate) fn open(self, disk: &Disk) -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags_and_vfs(self.path, OpenFlags::default(), disk.vfs_name())?;
        // SQLite answers with the new mode first, and changes the file after that; an error on the way comes in place of
        // the end of the answer. So it has to be read to its end, which `execute_batch` and `query_row` do not do.
        let mut change = db.prepare(&format!("PRAGMA journal_mode = {}", self.journal))?;
        let mut answer = change.query([])?;
        while answer.next()?.is_some() {}
        drop(answer);
        drop(change);
        db.execute_batch(&format!(
            "PRAGMA synchronous = {}; PRAGMA wal_autocheckpoint = 12; PRAGMA cache_size = 4;
             BEGIN IMMEDIATE;
             CREATE TABLE IF NOT EXISTS item (n INTEGER PRIMARY KEY, body TEXT);
             CREATE TABLE IF NOT EXISTS total (n INTEGER);
             INSERT INTO total SELECT 0 WHERE NOT EXISTS (SELECT * FROM total);
             COMMIT",
            self.synchronous
        ))?;
        Ok(db)
    }
}

/// Adds item `n` in a transaction of its own, unless it is there.
pub(crate) fn add(db: &Connection, n: i64) -> rusqlite::Result<()> {
    let transaction = db.unchecked_transaction()?;
    let inserted = transaction.execute("INSERT OR IGNORE INTO item VALUES (?1, ?2)", (n, body(n)))?;
    transaction.execute("UPDATE total SET n = n + ?1", [n * inserted as i64])?;
    transaction.commit()
}

/// From a few bytes to a few pages.
fn body(n: i64) -> String {
    format!("item {n};").repeat((n as usize * 157) % 1200 + 1)
}

/// What a database holds after the disk was restarted: nothing yet, or the items `1..=n`.
///
/// Anything else is damage, and so is a database that takes no further item.
pub(crate) fn survivors(setup: Setup, image: &Image) -> Result<Option<i64>, String> {
    let disk = Disk::from_image(image);
    let (last, items) = look(setup, &disk).map_err(|error| error.to_string())??;
    if items.iter().map(|(n, _)| *n).ne(1..=items.len() as i64) {
        return Err(format!("items {:?}", items.iter().map(|(n, _)| n).collect::<Vec<_>>()));
    }
    if let Some((n, _)) = items.iter().find(|(n, text)| *text != body(*n)) {
        return Err(format!("wrong body of item {n}"));
    }
    let next = setup.open(&disk).and_then(|db| add(&db, items.len() as i64 + 1));
    next.map_err(|error| format!("no further item: {error}"))?;
    Ok(last)
}

type Items = Vec<(i64, String)>;

fn look(setup: Setup, disk: &Disk) -> rusqlite::Result<Result<(Option<i64>, Items), String>> {
    let db = Connection::open_with_flags_and_vfs(setup.path, OpenFlags::default(), disk.vfs_name())?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Ok(Err(verdict));
    }
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(Ok((None, Vec::new())));
    }
    let items = db
        .prepare("SELECT n, body FROM item ORDER BY n")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Items>>()?;
    let total: Option<i64> = db.query_row("SELECT n FROM total", [], |row| row.get(0)).optional()?;
    if total != Some(items.iter().map(|(n, _)| n).sum()) {
        return Ok(Err(format!("total {total:?} of {} items", items.len())));
    }
    Ok(Ok((Some(items.len() as i64), items)))
}

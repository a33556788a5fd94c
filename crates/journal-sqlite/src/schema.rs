//! The file: its marks, its tables, and the steps from each version to the next.

use rusqlite::{Connection, TransactionBehavior};

use crate::dictionary;

/// `WEIR` in the header of the file: tells our files from everybody else's.
pub(crate) const APPLICATION_ID: i32 = 0x5745_4952;

/// One entry per version: what turns a file of the version before into it. Entry 0 makes a file from nothing.
pub(crate) const STEPS: &[&str] = &[VERSION_1];

/// Layout, measured (docs/adr/0004): `events` only ever grows at its end, and what a commit touches beside it is one
/// small row per branch. Whatever else an event needs to be found by is paid for by the events that need it.
const VERSION_1: &str = "
CREATE TABLE streams (
    no      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    owner   BLOB
) STRICT;

-- A fork is a pointer: the parent, the last shared seq, and that event's chain. `main` has no parent.
CREATE TABLE branches (
    no      INTEGER PRIMARY KEY,
    stream  INTEGER NOT NULL,
    name    TEXT NOT NULL,
    parent  INTEGER,
    at      INTEGER NOT NULL,
    chain   BLOB NOT NULL,
    UNIQUE (stream, name)
) STRICT;

-- The anchor of each chain. `open` is the block being filled: where the newest (seq - at) % 64 events are.
CREATE TABLE heads (
    branch   INTEGER PRIMARY KEY,
    seq      INTEGER NOT NULL,
    chain    BLOB NOT NULL,
    ts       INTEGER NOT NULL,
    position INTEGER NOT NULL,
    open     BLOB NOT NULL
) STRICT;

CREATE TABLE kinds (
    no      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE
) STRICT;

-- `form` is the number of the dictionary the record is compressed with; 0: not compressed.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    branch   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    id       BLOB NOT NULL,
    ts       INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    chain    BLOB NOT NULL,
    form     INTEGER NOT NULL,
    record   BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_id ON events (id);

-- Positions and kinds of 64 events of one branch, written once when the block is full.
CREATE TABLE blocks (
    branch  INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (branch, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE kind_blocks (
    branch  INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (branch, kind, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    branch   INTEGER NOT NULL,
    key      TEXT NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    content  BLOB NOT NULL,
    PRIMARY KEY (branch, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_last ON keys (branch, last);

CREATE TABLE causes (
    cause    BLOB NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (cause, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE refs (
    hash     BLOB NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (hash, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE attrs (
    branch    INTEGER PRIMARY KEY,
    status    TEXT NOT NULL,
    principal TEXT,
    agent     TEXT,
    title     TEXT,
    due       INTEGER
) STRICT;
CREATE INDEX attrs_status ON attrs (status, branch);
CREATE INDEX attrs_principal ON attrs (principal, branch) WHERE principal IS NOT NULL;
CREATE INDEX attrs_agent ON attrs (agent, branch) WHERE agent IS NOT NULL;
CREATE INDEX attrs_due ON attrs (due, branch) WHERE due IS NOT NULL;

-- A cache. Emptying this table loses nothing.
CREATE TABLE snapshots (
    branch  INTEGER NOT NULL,
    fold    TEXT NOT NULL,
    version INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    chain   BLOB NOT NULL,
    state   BLOB NOT NULL,
    PRIMARY KEY (branch, fold, version, seq)
) STRICT;

CREATE TABLE dictionaries (
    no      INTEGER PRIMARY KEY,
    hash    BLOB NOT NULL,
    bytes   BLOB NOT NULL
) STRICT;
";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Nothing in it yet.
    Fresh,
    /// A journal of this schema version.
    Journal(i32),
    /// Somebody else's database.
    Foreign,
}

/// Looks at the marks of an open file.
pub(crate) fn identify(connection: &Connection) -> rusqlite::Result<Identity> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application_id, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application_id, version, tables) {
        (APPLICATION_ID, version, _) if version > 0 => Identity::Journal(version),
        (0, 0, 0) => Identity::Fresh,
        _ => Identity::Foreign,
    })
}

/// Brings a fresh or older file to the version after the last of `steps`, in one transaction.
///
/// Two processes may arrive here at once: the second finds, inside its transaction, that nothing is left to do.
pub(crate) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = match identify(&transaction)? {
        Identity::Fresh => 0,
        Identity::Journal(version) => usize::try_from(version).unwrap_or_default(),
        Identity::Foreign => return Ok(()),
    };
    for step in steps.iter().skip(from) {
        transaction.execute_batch(step)?;
    }
    if from < steps.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", steps.len() as i64)?;
        // Together with the tables, or a crash in between would leave a journal without it for ever.
        dictionary::store(&transaction)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &str = "ALTER TABLE streams ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'";

    fn version(connection: &Connection) -> Identity {
        identify(connection).unwrap()
    }

    #[test]
    fn an_older_file_keeps_its_data_and_gets_the_missing_steps() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(version(&connection), Identity::Fresh);
        migrate(&mut connection, STEPS).unwrap();
        assert_eq!(version(&connection), Identity::Journal(1));
        connection.execute("INSERT INTO streams (name) VALUES ('s')", []).unwrap();

        let steps = [STEPS, &[NEXT]].concat();
        migrate(&mut connection, &steps).unwrap();
        assert_eq!(version(&connection), Identity::Journal(2));
        let colour: String = connection
            .query_row("SELECT colour FROM streams WHERE name = 's'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(colour, "blue");

        migrate(&mut connection, &steps).unwrap();
        assert_eq!(version(&connection), Identity::Journal(2));
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, STEPS).unwrap();
        let broken = [STEPS, &[NEXT, "ALTER TABLE nowhere ADD COLUMN x"]].concat();
        migrate(&mut connection, &broken).unwrap_err();
        assert_eq!(version(&connection), Identity::Journal(1));
        migrate(&mut connection, &[STEPS, &[NEXT]].concat()).unwrap();
        assert_eq!(version(&connection), Identity::Journal(2));
    }

    #[test]
    fn a_foreign_database_is_not_touched() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        migrate(&mut connection, STEPS).unwrap();
        assert_eq!(version(&connection), Identity::Foreign);
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 1);
    }
}

//! Reading connections, each used by one blocking thread at a time.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use weir_journal::ReadError;

use crate::connection::{Location, Role};
use crate::dictionary::Dictionaries;
use crate::read::Reader;
use crate::record::Decoder;
use crate::rows::{Error, Rows};

/// Reads at the same time; the others wait. More would only compete for the same disk.
const READERS_MAX: usize = 4;

/// Opened when first needed, kept until the journal is closed.
pub(crate) struct Pool {
    location: Location,
    idle: Mutex<Vec<Reader>>,
    room: Semaphore,
    reads: Arc<AtomicU64>,
}

impl Pool {
    pub(crate) fn new(location: Location, reads: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { location, idle: Mutex::default(), room: Semaphore::new(READERS_MAX), reads })
    }

    /// Runs `read` in one transaction on a blocking thread.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, Error> + Send + 'static,
    {
        self.look(|reader| reader.transaction(read)).await
    }

    /// Runs `look` on a blocking thread; for a single statement, which is a transaction by itself.
    pub(crate) async fn look<T, F>(self: &Arc<Self>, look: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, Error> + Send + 'static,
    {
        let Ok(_room) = self.room.acquire().await else { return Err(self.location.closed().into()) };
        let pool = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut reader = pool.take()?;
            let result = look(&mut reader);
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            result
        });
        match done.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(Error::Read(error))) => Err(error),
            Ok(Err(Error::Sqlite(error))) => Err(self.location.explain(error).into()),
            Err(_) => Err(self.location.closed().into()),
        }
    }

    fn take(&self) -> Result<Reader, Error> {
        if let Some(reader) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(reader);
        }
        let connection = self.location.connect(Role::Read)?;
        reader(connection, self.reads.clone())
    }

    /// Closes every connection that is not in use, and refuses new reads.
    pub(crate) fn close(&self) {
        self.room.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A reader on a connection.
pub(crate) fn reader(connection: rusqlite::Connection, reads: Arc<AtomicU64>) -> Result<Reader, Error> {
    let fail = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let mut dictionaries = Dictionaries::embedded().map_err(fail)?;
    dictionaries.load(&connection)?;
    Ok(Reader::new(Rows::new(connection, reads), Decoder::new(dictionaries)))
}

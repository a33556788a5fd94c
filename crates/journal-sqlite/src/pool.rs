//! Reading connections, each used by one blocking thread at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle};
use weir_journal::ReadError;

use crate::connection::{Location, Role};
use crate::dictionary::Dictionaries;
use crate::read::Reader;
use crate::record::Decoder;
use crate::rows::{Error, Rows};

/// Reads at the same time; the others wait. More would only compete for the same disk.
const READERS_MAX: usize = 4;

/// Kibibytes of pages that a connection of a check keeps, as SQLite wants them: negative.
const PRIVATE_CACHE: i64 = -16_000;

/// Opened when first needed, kept until the journal is closed.
pub(crate) struct Pool {
    location: Location,
    idle: Mutex<Vec<Reader>>,
    room: Arc<Semaphore>,
    reads: Arc<AtomicU64>,
}

impl Pool {
    pub(crate) fn new(location: Location, reads: Arc<AtomicU64>) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(READERS_MAX));
        Arc::new(Self { location, idle: Mutex::default(), room, reads })
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
        // INVARIANT: whoever reads holds no room. A follower is polled only when somebody listens; one that was not, with room in
        // its hands, would keep everybody else from reading.
        let done = match Arc::clone(&self.room).try_acquire_owned() {
            Ok(room) => self.on_a_thread(room, look).await,
            Err(_) => Waiting(tokio::spawn(Arc::clone(self).in_turn(look))).await,
        };
        match done {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(self.explain(error)),
            Err(_) => Err(self.closed()),
        }
    }

    /// Reads when there is room.
    async fn in_turn<T, F>(self: Arc<Self>, look: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, Error> + Send + 'static,
    {
        let closed = || Error::Read(self.location.closed().into());
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| closed())?;
        self.on_a_thread(room, look).await.map_err(|_| closed())?
    }

    /// Reads on a blocking thread, which gives the room back.
    fn on_a_thread<T, F>(
        self: &Arc<Self>,
        room: OwnedSemaphorePermit,
        look: F,
    ) -> JoinHandle<Result<T, Error>>
    where
        T: Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, Error> + Send + 'static,
    {
        let pool = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let _room = room;
            let mut reader = pool.take()?;
            let result = look(&mut reader);
            let unchanged = pool.location.check_unchanged();
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            match unchanged {
                Ok(()) => result,
                Err(error) => Err(Error::Read(error.into())),
            }
        })
    }

    fn take(&self) -> Result<Reader, Error> {
        if let Some(reader) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(reader);
        }
        let connection = self.location.connect(Role::Read)?;
        reader(connection, self.reads.clone())
    }

    /// A connection outside of the pool, with a larger cache, for a check that reads everything.
    pub(crate) fn private_reader(&self) -> Result<Reader, Error> {
        let connection = self.location.connect(Role::Read)?;
        connection.pragma_update(None, "cache_size", PRIVATE_CACHE)?;
        reader(connection, self.reads.clone())
    }

    /// What a failed look-up means to the user.
    pub(crate) fn explain(&self, error: Error) -> ReadError {
        match error {
            Error::Read(error) => error,
            Error::Sqlite(error) => self.location.explain(error).into(),
        }
    }

    /// The journal was closed.
    pub(crate) fn closed(&self) -> ReadError {
        self.location.closed().into()
    }

    /// Closes every connection that is not in use, and refuses new reads.
    pub(crate) fn close(&self) {
        self.room.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A read that waits for its turn, for as long as somebody waits for it.
struct Waiting<T>(JoinHandle<T>);

impl<T> Future for Waiting<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A reader on a connection.
pub(crate) fn reader(connection: rusqlite::Connection, reads: Arc<AtomicU64>) -> Result<Reader, Error> {
    let fail = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let mut dictionaries = Dictionaries::embedded().map_err(fail)?;
    dictionaries.load(&connection)?;
    Ok(Reader::new(Rows::new(connection, reads), Decoder::new(dictionaries)))
}

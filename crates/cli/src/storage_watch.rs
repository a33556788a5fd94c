//! What a person sees while the engine cannot store what happened: that it waits, and for what.

use std::pin::pin;

use tokio::sync::watch;
use weir_engine::{Engine, EngineError};

use crate::exit::Exit;
use crate::output::Out;
use crate::report::{Failure, Outcome};

/// Tells when the storage keeps the engine waiting.
pub(crate) struct StorageWatch {
    trouble: watch::Receiver<Option<EngineError>>,
    is_told: bool,
}

impl StorageWatch {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self { trouble: engine.storage_trouble(), is_told: false }
    }

    /// What is known, while something cannot be stored.
    pub(crate) fn trouble(&self) -> Option<EngineError> {
        self.trouble.borrow().clone()
    }

    /// Waits until there is something new to tell.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) {
        let is_told = self.is_told;
        if self.trouble.wait_for(|trouble| trouble.is_some() != is_told).await.is_err() {
            // The engine is gone; nothing changes any more.
            std::future::pending::<()>().await;
        }
    }

    /// Tells it.
    pub(crate) fn tell(&mut self, out: &Out) {
        let trouble = self.trouble();
        self.is_told = trouble.is_some();
        match trouble {
            Some(trouble) => out.warn(format_args!(
                "{}; it is kept in memory and tried again for a minute: free some space on this disk, or press Ctrl-C to \
                 stop",
                why(&trouble)
            )),
            None => out.note(format_args!("everything is stored now; it goes on")),
        }
    }

    /// Tells what is left to tell when the work is done: it may be done in the moment in which the storage came back.
    pub(crate) fn finish(&mut self, out: &Out) {
        if self.trouble().is_some() != self.is_told {
            self.tell(out);
        }
    }

    /// Does some work of the engine's, and tells when the storage keeps it waiting. Ctrl-C ends it.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, EngineError>>,
        out: &Out,
    ) -> Outcome<T> {
        let mut work = pin!(work);
        let mut interrupted = pin!(tokio::signal::ctrl_c());
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.finish(out);
                    return Ok(done?);
                }
                () = self.changed() => self.tell(out),
                _ = &mut interrupted => return Err(self.stopped()),
            }
        }
    }

    /// How a command ends that a person stops.
    pub(crate) fn stopped(&self) -> Failure {
        self.trouble().map_or(Failure::Ended(Exit::Interrupted), Failure::from)
    }
}

/// Why something cannot be stored: the innermost cause that has words of ours.
fn why(trouble: &EngineError) -> String {
    match trouble {
        EngineError::Unstored(unstored) => {
            format!("what happened in session {} cannot be stored: {}", unstored.address(), unstored.cause())
        }
        other => other.to_string(),
    }
}

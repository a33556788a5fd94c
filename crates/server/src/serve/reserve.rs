//! Places for connections. Beside those that are served there is a reserve: when all places are taken, a connection is accepted
//! into it, and what it asks decides. `/health` and `/ready` are answered at once; everything else waits for a place.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How many connections can be in the reserve.
const RESERVE: usize = 1_024;

/// How many of them can wait there for a place; the others are for connections whose request is not known yet.
const WAITING_MAX: usize = RESERVE / 2;

/// How long a connection in the reserve may take to ask something.
const ASKING: Duration = Duration::from_secs(1);

/// How often the beginning of a request that came in pieces is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The beginnings of requests that are answered from the reserve.
const HEALTH: [&[u8]; 4] = [b"GET /health ", b"GET /ready ", b"HEAD /health ", b"HEAD /ready "];

/// A connection's place, until it is dropped.
pub(super) enum Place {
    /// Where it is served.
    Room(#[expect(dead_code, reason = "it is held, not looked at")] OwnedSemaphorePermit),
    /// Where it waits, or asks for health.
    Reserve(#[expect(dead_code, reason = "it is held, not looked at")] OwnedSemaphorePermit),
}

#[derive(Clone)]
pub(super) struct Places {
    room: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// What the beginning of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Health,
    Other,
    /// It may become either.
    Unclear,
}

impl Places {
    pub(super) fn new(connections_max: usize) -> Self {
        let of = |places: usize| Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { room: of(connections_max), reserve: of(RESERVE), waiting: of(WAITING_MAX) }
    }

    /// The next place that is free, in the reserve only if all others are taken.
    ///
    /// # Cancel safety
    /// Nothing is taken until it returns.
    pub(super) async fn next(&self) -> Place {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            return Place::Room(room);
        }
        let taken = tokio::select! {
            biased;
            room = Arc::clone(&self.room).acquire_owned() => room.map(Place::Room),
            reserve = Arc::clone(&self.reserve).acquire_owned() => reserve.map(Place::Reserve),
        };
        match taken {
            Ok(place) => place,
            // They are never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// The place for what a connection in the reserve asks: the reserve for health, a free place for anything else. Nothing, if it
    /// asks nothing, or none becomes free in time.
    pub(super) async fn for_request(
        &self,
        stream: &TcpStream,
        reserve: Place,
        arrival: Duration,
    ) -> Option<Place> {
        let asked = tokio::select! {
            biased;
            asked = asked(stream) => asked?,
            room = Arc::clone(&self.room).acquire_owned() => return room.ok().map(Place::Room),
        };
        if asked == Asks::Health {
            return Some(reserve);
        }
        let _waiting = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let room = tokio::time::timeout(arrival, Arc::clone(&self.room).acquire_owned()).await;
        room.ok()?.ok().map(Place::Room)
    }
}

/// What is asked on a connection; nothing, if that takes too long.
async fn asked(stream: &TcpStream) -> Option<Asks> {
    let until = Instant::now() + ASKING;
    let mut beginning = [0; 16];
    loop {
        let length = tokio::time::timeout_at(until, stream.peek(&mut beginning)).await.ok()?.ok()?;
        match asks(beginning.get(..length)?) {
            Asks::Unclear if length == 0 || Instant::now() > until => return None,
            Asks::Unclear => tokio::time::sleep(LOOK_EVERY).await,
            asked => return Some(asked),
        }
    }
}

fn asks(beginning: &[u8]) -> Asks {
    if HEALTH.iter().any(|health| beginning.starts_with(health)) {
        Asks::Health
    } else if HEALTH.iter().any(|health| health.starts_with(beginning)) {
        Asks::Unclear
    } else {
        Asks::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_request_says_what_it_asks() {
        for (beginning, expected) in [
            ("", Asks::Unclear),
            ("GET /he", Asks::Unclear),
            ("GET /health", Asks::Unclear),
            ("GET /health HTTP", Asks::Health),
            ("HEAD /ready HTTP", Asks::Health),
            ("GET /healthy HTT", Asks::Other),
            ("POST /health HTT", Asks::Other),
            ("PRI * HTTP/2.0", Asks::Other),
        ] {
            assert_eq!(asks(beginning.as_bytes()), expected, "{beginning}");
        }
    }
}

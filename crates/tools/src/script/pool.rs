//! Threads for scripts: a bounded number at once, and none of them can keep the others out for ever.
//!
//! A script that runs out of time is stopped wherever the interpreter looks up from its work. Should one be stuck where it
//! does not, its thread cannot be ended from outside: it is given up, and another may take its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Scripts that run at once. Most of them wait for an answer from the network; the rest share the processors.
const RUNNING_MAX: usize = 32;

/// Threads that may be given up before no more scripts are run: each of them keeps a processor busy.
const LOST_MAX: usize = 4;

/// How long after its end a script may take to notice.
const GRACE: Duration = Duration::from_secs(2);

/// Places for running scripts.
#[derive(Default)]
pub(super) struct Pool {
    places: Mutex<Places>,
    freed: Notify,
}

#[derive(Default)]
struct Places {
    next: u64,
    /// When each running script has to be done.
    ends: BTreeMap<u64, Instant>,
}

/// A place, until it is dropped.
pub(super) struct Place {
    pool: Arc<Pool>,
    id: u64,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All were taken until the time was over.
    Busy,
    /// Too many scripts are stuck.
    Lost,
}

impl Pool {
    /// Waits for a place for a script that has to be done by then.
    pub(super) async fn enter(self: &Arc<Self>, ends: Instant) -> Result<Place, Full> {
        loop {
            let freed = self.freed.notified();
            let wake = match self.try_enter(ends) {
                Ok(place) => return Ok(place),
                Err(Attempt::Lost) => return Err(Full::Lost),
                Err(Attempt::Wait(until)) => until.min(ends),
            };
            if Instant::now() >= ends {
                return Err(Full::Busy);
            }
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    fn try_enter(self: &Arc<Self>, ends: Instant) -> Result<Place, Attempt> {
        let now = Instant::now();
        let mut places = self.places();
        let given_up = |ends: &Instant| *ends + GRACE <= now;
        let lost = places.ends.values().filter(|ends| given_up(ends)).count();
        if lost >= LOST_MAX {
            return Err(Attempt::Lost);
        }
        if places.ends.len() - lost >= RUNNING_MAX {
            let first = places.ends.values().filter(|ends| !given_up(ends)).min();
            return Err(Attempt::Wait(first.map_or(now, |first| *first + GRACE)));
        }
        let id = places.next;
        places.next += 1;
        places.ends.insert(id, ends);
        Ok(Place { pool: Arc::clone(self), id })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Attempt {
    Wait(Instant),
    Lost,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pool.places().ends.remove(&self.id);
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn filled(pool: &Arc<Pool>, ends: Instant) -> Vec<Place> {
        let mut places = Vec::new();
        for _ in 0..RUNNING_MAX {
            places.push(pool.enter(ends).await.ok().unwrap());
        }
        places
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_one_waits_for_a_place_or_its_end() {
        let pool = Arc::new(Pool::default());
        let far = Instant::now() + Duration::from_secs(1000);
        let mut places = filled(&pool, far).await;
        let soon = Instant::now() + Duration::from_secs(1);
        assert_eq!(pool.enter(soon).await.err(), Some(Full::Busy));
        assert_eq!(Instant::now(), soon);
        let (waiting, ()) = tokio::join!(pool.enter(far), async { drop(places.pop()) });
        assert!(waiting.is_ok());
        assert_eq!(Instant::now(), soon, "at once, not at some later look");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stuck_keeps_nobody_out_until_it_is_too_much() {
        let pool = Arc::new(Pool::default());
        let now = Instant::now();
        let stuck = filled(&pool, now + Duration::from_secs(1)).await;
        assert_eq!(stuck.len(), RUNNING_MAX);
        // All of them are given up at once, which is too many.
        let far = now + Duration::from_secs(1000);
        assert_eq!(pool.enter(far).await.err(), Some(Full::Lost));
        assert_eq!(Instant::now(), now + Duration::from_secs(1) + GRACE);

        let pool = Arc::new(Pool::default());
        let stuck = pool.enter(Instant::now()).await.ok().unwrap();
        let mut others = filled(&Arc::new(Pool::default()), far).await;
        others.clear();
        for _ in 1..RUNNING_MAX {
            others.push(pool.enter(far).await.ok().unwrap());
        }
        let begin = Instant::now();
        others.push(pool.enter(far).await.ok().unwrap());
        assert_eq!(Instant::now(), begin + GRACE);
        drop(stuck);
    }
}

//! How much may be under way at once, of all together and of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::http::Extensions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for requests.
#[derive(Clone)]
pub(super) struct Rooms {
    all: Arc<Semaphore>,
    of_one_max: usize,
    shares: Arc<Shares>,
}

/// How many of whom are under way. Whoever has none is not in it, so that it is no larger than the room for all.
#[derive(Default)]
struct Shares(Mutex<HashMap<String, usize>>);

impl Rooms {
    /// Room for so many, half of it for each: whoever fills theirs leaves some for others.
    pub(super) fn new(requests_max: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(requests_max.min(Semaphore::MAX_PERMITS))),
            of_one_max: (requests_max / 2).max(1),
            shares: Arc::default(),
        }
    }

    /// A place, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).try_acquire_owned().ok()
    }

    /// One of the places that somebody may have, if there is one left.
    pub(super) fn share(&self, of: &str) -> Option<Share> {
        let mut shares = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = shares.get(of).copied().unwrap_or_default();
        if taken >= self.of_one_max {
            return None;
        }
        shares.insert(of.to_owned(), taken + 1);
        Some(Share { shares: Arc::clone(&self.shares), of: of.to_owned() })
    }
}

/// A place of somebody's, until this is dropped.
pub(super) struct Share {
    shares: Arc<Shares>,
    of: String,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = shares.get_mut(&self.of) {
            *taken -= 1;
            if *taken == 0 {
                shares.remove(&self.of);
            }
        }
    }
}

/// The place of a request, until the last clone of this is dropped.
#[derive(Clone)]
pub(crate) struct Room(Arc<Held>);

struct Held(
    #[expect(dead_code, reason = "it is held, not looked at")] OwnedSemaphorePermit,
    #[expect(dead_code, reason = "it is held, not looked at")] Option<Share>,
);

/// Where a request has its place. Whoever keeps a request, or parts of it, does not keep its place by that.
#[derive(Clone)]
struct Taken(Weak<Held>);

impl Room {
    pub(super) fn new(place: OwnedSemaphorePermit, share: Option<Share>) -> Self {
        Self(Arc::new(Held(place, share)))
    }

    /// Lets whoever handles a request find its place.
    pub(super) fn tell(&self, extensions: &mut Extensions) {
        extensions.insert(Taken(Arc::downgrade(&self.0)));
    }

    /// The place of a request, to be held for as long as something is done for it.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Taken>()?.0.upgrade().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_room_is_for_one_and_what_is_given_back_is_there_again() {
        let rooms = Rooms::new(5);
        let hers: Vec<_> = (0..2).map(|_| rooms.share("user:ada").unwrap()).collect();
        assert!(rooms.share("user:ada").is_none());
        assert!(rooms.share("user:bob").is_some());
        drop(hers);
        assert!(rooms.share("user:ada").is_some());
        assert!(rooms.shares.0.lock().unwrap().is_empty(), "nobody is remembered who has nothing");
        assert!(Rooms::new(1).share("user:ada").is_some());
    }

    #[test]
    fn a_place_is_held_by_who_holds_it_and_not_by_the_request() {
        let rooms = Rooms::new(1);
        let mut extensions = Extensions::new();
        let room = Room::new(rooms.place().unwrap(), None);
        room.tell(&mut extensions);
        let kept = Room::of(&extensions).unwrap();
        drop(room);
        assert!(rooms.place().is_none());
        drop(kept);
        assert!(rooms.place().is_some() && Room::of(&extensions).is_none());
    }
}

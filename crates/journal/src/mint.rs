//! Fresh ids: ULIDs, increasing within one process.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_types::{CallId, EventId, OwnerId, RunId, SessionId, Timestamp};

/// A fresh event id, greater than every one minted before it in this process.
///
/// Ids are no order of events: an id is minted before its event is queued, and of two writers the later id may be appended
/// first. The order is `seq`, or `position` over all streams.
pub fn mint() -> EventId {
    EventId::from_u128(next())
}

/// A fresh owner id.
pub fn mint_owner() -> OwnerId {
    OwnerId::from_u128(next())
}

/// A fresh session id.
pub fn mint_session() -> SessionId {
    SessionId::from_u128(next())
}

/// A fresh run id.
pub fn mint_run() -> RunId {
    RunId::from_u128(next())
}

/// A fresh call id.
pub fn mint_call() -> CallId {
    CallId::from_u128(next())
}

/// The wall clock, as events are stamped with it.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A clock outside the years that RFC 3339 can show is as good as none.
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or_default()).unwrap_or_default()
}

fn next() -> u128 {
    static LAST: Mutex<u128> = Mutex::new(0);
    let millis = (now().as_micros().max(0) / 1000) as u128;
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let fresh = if millis > *last >> 80 { millis << 80 | random() >> 48 } else { *last + 1 };
    *last = fresh;
    fresh
}

/// 128 random bits; 80 of them are used, once a millisecond at most.
fn random() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // No randomness on this machine: uniqueness then rests on the address space and the process id.
        let seed = (&raw const bytes as usize as u128) << 64 | u128::from(std::process::id());
        bytes = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes();
    }
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_across_threads_and_within_a_millisecond() {
        let mine: Vec<EventId> = (0..10_000).map(|_| mint()).collect();
        assert!(mine.is_sorted_by(|a, b| a < b));
        let theirs: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| (0..1_000).map(|_| mint()).collect())).collect();
        let mut all: Vec<EventId> =
            theirs.into_iter().flat_map(|t| -> Vec<_> { t.join().unwrap() }).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}

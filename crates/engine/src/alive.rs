//! Things that live for as long as somebody has them, found by key: whoever asks while they do gets the same one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is alive, by key.
///
/// The dead leave empty places behind. These are cleared when the table is full, before it would grow, and then there is room for as
/// many again as are alive: so there are never many more places than things that were alive at once, and clearing, shared out
/// among those who took the places, costs each of them the same however many there are.
pub(crate) struct Alive<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for Alive<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone, V: Default> Alive<K, V> {
    /// The one that somebody has, or a new one.
    pub(crate) fn of(&self, key: &K) -> Arc<V> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(key).and_then(Weak::upgrade) {
            return found;
        }
        if all.len() == all.capacity() {
            all.retain(|_, found| found.strong_count() > 0);
            let alive = all.len();
            all.reserve(alive.max(1));
        }
        let new = Arc::<V>::default();
        all.insert(key.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_one_for_as_long_as_somebody_has_it() {
        let all = Alive::<u32, Mutex<u32>>::default();
        let first = all.of(&1);
        *first.lock().unwrap() = 7;
        assert!(Arc::ptr_eq(&first, &all.of(&1)) && !Arc::ptr_eq(&first, &all.of(&2)));
        drop(first);
        assert_eq!(*all.of(&1).lock().unwrap(), 0, "a new one");
    }

    #[test]
    fn the_dead_do_not_pile_up_and_the_living_stay() {
        let all = Alive::<u32, Mutex<u32>>::default();
        let living: Vec<_> = (0..100).map(|key| all.of(&key)).collect();
        for key in 100..100_000 {
            all.of(&key);
        }
        let places = all.0.lock().unwrap().len();
        assert!(places < 10 * living.len(), "{places}");
        for (key, one) in (0..).zip(&living) {
            assert!(Arc::ptr_eq(one, &all.of(&key)), "{key}");
        }
    }
}

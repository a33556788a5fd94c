//! How many connections each address has, so that no client takes all the places there are.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of an IPv6 address that one client has to itself. A client can use every address with the same one.
const NETWORK: u128 = !0 << 64;

/// The connections of every address that has one.
#[derive(Clone)]
pub(super) struct Addresses(Arc<Inner>);

struct Inner {
    connections_max: usize,
    /// Whether an address has no limit.
    is_unlimited: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that counts for its address until this is dropped.
pub(super) struct Counted(Option<(Addresses, IpAddr)>);

impl Addresses {
    pub(super) fn new(
        connections_max: usize,
        is_unlimited: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        let is_unlimited = Box::new(is_unlimited);
        Self(Arc::new(Inner { connections_max, is_unlimited, counts: Mutex::default() }))
    }

    /// Counts a connection; returns nothing if its address has as many as it may have.
    pub(super) fn count(&self, peer: IpAddr) -> Option<Counted> {
        let peer = peer.to_canonical();
        if (self.0.is_unlimited)(peer) {
            return Some(Counted(None));
        }
        let client = client(peer);
        let mut counts = self.counts();
        let count = counts.entry(client).or_default();
        if *count >= self.0.connections_max {
            return None;
        }
        *count += 1;
        Some(Counted(Some((self.clone(), client))))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((addresses, client)) = &self.0 else { return };
        let mut counts = addresses.counts();
        if let Some(count) = counts.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(client);
            }
        }
    }
}

/// Loopback addresses and proxies have no limit: they may pass on the connections of others.
pub(super) fn is_unlimited(peer: IpAddr, proxies: &[IpAddr]) -> bool {
    peer.is_loopback() || proxies.contains(&peer)
}

/// What is counted: an IPv4 address, or the network of an IPv6 address.
fn client(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() & NETWORK).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_so_many_connections_and_another_one_its_own() {
        let addresses = Addresses::new(2, |_| false);
        let count = |peer: &str| addresses.count(ip(peer));
        let [first, second] = [count("192.0.2.1"), count("::ffff:192.0.2.1")];
        assert!(first.is_some() && second.is_some());
        assert!(count("192.0.2.1").is_none(), "it has two");
        assert!(count("192.0.2.2").is_some(), "another address");
        drop(first);
        assert!(count("192.0.2.1").is_some(), "one has ended");
        drop(second);
        assert!(addresses.counts().is_empty(), "an address without connections takes no memory");
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_count_as_one() {
        let addresses = Addresses::new(1, |_| false);
        let _first = addresses.count(ip("2001:db8:1:2::1")).unwrap();
        assert!(addresses.count(ip("2001:db8:1:2:ffff::2")).is_none());
        assert!(addresses.count(ip("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn loopback_and_proxies_pass_on_the_connections_of_others() {
        let addresses = Addresses::new(1, |peer| is_unlimited(peer, &[ip("192.0.2.7")]));
        for peer in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "192.0.2.7", "::ffff:192.0.2.7"] {
            let connections = [(); 3].map(|()| addresses.count(ip(peer)));
            assert!(connections.iter().all(Option::is_some), "{peer}");
        }
    }
}

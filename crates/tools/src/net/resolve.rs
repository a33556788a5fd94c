//! Names to addresses. The client connects to what this gives and to nothing else, so that an address cannot change
//! between being checked and being used.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{is_localhost, may_lead_to};
use super::error::{Trouble, shortened};

/// What looks names up.
pub trait Lookup: Send + Sync {
    /// All addresses of a name.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The operating system's way.
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Looks names up, and only tells of the addresses that the name may lead to.
pub(super) struct Guarded {
    pub(super) lookup: Arc<dyn Lookup>,
    /// Addresses outside of the internet that are listed themselves.
    pub(super) listed: Vec<IpAddr>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let listed = self.listed.clone();
        // What `localhost` is, is not a question: a name server that says otherwise is wrong.
        if is_localhost(&name) {
            let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return Box::pin(std::future::ready(Ok(addresses(here.to_vec()))));
        }
        let looking = self.lookup.lookup(name.clone());
        Box::pin(async move {
            let unresolved =
                |why: String| Trouble::Unresolved { host: shortened(&name), why: shortened(&why) };
            let found = looking.await.map_err(|error| unresolved(error.to_string()))?;
            let Some(first) = found.first().copied() else {
                return Err(unresolved("it has none".into()).into());
            };
            let good: Vec<IpAddr> =
                found.into_iter().filter(|address| may_lead_to(&name, *address, &listed)).collect();
            if good.is_empty() {
                return Err(Trouble::Address { host: shortened(&name), address: first }.into());
            }
            Ok(addresses(good))
        })
    }
}

fn addresses(found: Vec<IpAddr>) -> Addrs {
    // Port 0 stands for the one in the URL.
    Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)))
}

/// What the lookup had to say, out of the error that the client made of it.
pub(super) fn trouble_in(error: &(dyn Error + 'static)) -> Option<Trouble> {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<Trouble>() {
            Some(Trouble::Unresolved { host, why }) => {
                return Some(Trouble::Unresolved { host: host.clone(), why: why.clone() });
            }
            Some(Trouble::Address { host, address }) => {
                return Some(Trouble::Address { host: host.clone(), address: *address });
            }
            _ => next = error.source(),
        }
    }
    None
}

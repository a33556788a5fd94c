//! The hosts that a spec lists, and whether a URL is among them.

use std::net::IpAddr;

use url::{Host, Url};

use super::address::{Realm, is_localhost, is_private_name, realm};
use super::error::Trouble;

/// The hosts that may be reached.
pub(super) struct Allowed(Vec<Entry>);

struct Entry {
    who: Who,
    port: Option<u16>,
}

enum Who {
    /// This host.
    Host(Host),
    /// All names under this one, at any depth.
    Under(String),
}

impl Allowed {
    /// What `hosts` of a spec lists: `api.example.com`, `*.example.com`, `localhost:8080`, `10.0.0.5`, `[::1]:8080`. What is
    /// no host allows nothing.
    pub(super) fn new(hosts: &[String]) -> Self {
        Self(hosts.iter().filter_map(|text| Entry::parse(text)).collect())
    }

    /// Whether a request may go there, as its URL says. Where the host's name leads is checked when it is looked up.
    pub(super) fn check(&self, url: &Url) -> Result<(), Trouble> {
        let is_plain = match url.scheme() {
            "https" => false,
            "http" => true,
            other => return Err(Trouble::Scheme(super::error::shortened(other))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Trouble::Credentials);
        }
        let Some(host) = url.host() else { return Err(Trouble::Url("it has no host".to_owned())) };
        let host = host.to_owned();
        let fitting: Vec<&Entry> = self.0.iter().filter(|entry| entry.fits(&host, url)).collect();
        if fitting.is_empty() {
            return Err(Trouble::Host(place(url)));
        }
        if is_plain && !is_own(&host) && !fitting.iter().any(|entry| entry.port == Some(80)) {
            return Err(Trouble::Plain(place(url)));
        }
        Ok(())
    }

    /// The addresses outside of the internet that are listed for the port of a URL: a name may lead to these, too.
    pub(super) fn listed_addresses(&self, url: &Url) -> Vec<IpAddr> {
        let fitting = self.0.iter().filter(|entry| entry.fits_port(url));
        let addresses = fitting.filter_map(|entry| match &entry.who {
            Who::Host(Host::Ipv4(v4)) => Some(IpAddr::V4(*v4)),
            Who::Host(Host::Ipv6(v6)) => Some(IpAddr::V6(*v6).to_canonical()),
            Who::Host(Host::Domain(_)) | Who::Under(_) => None,
        });
        let mut addresses: Vec<IpAddr> =
            addresses.filter(|address| realm(*address) != Realm::Public).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        // The last colon of an address in brackets is inside of them.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (text, None),
        };
        let who = match host.strip_prefix("*.") {
            Some(rest) => match parsed(rest)? {
                Host::Domain(name) => Who::Under(format!(".{name}")),
                Host::Ipv4(_) | Host::Ipv6(_) => return None,
            },
            None => Who::Host(parsed(host)?),
        };
        Some(Self { who, port })
    }

    fn fits(&self, host: &Host, url: &Url) -> bool {
        let fits = match (&self.who, host) {
            (Who::Host(listed), host) => listed == host,
            (Who::Under(suffix), Host::Domain(name)) => {
                name.len() > suffix.len() && name.ends_with(suffix.as_str())
            }
            (Who::Under(_), Host::Ipv4(_) | Host::Ipv6(_)) => false,
        };
        fits && self.fits_port(url)
    }

    /// Without a port, an entry is for the usual one.
    fn fits_port(&self, url: &Url) -> bool {
        match self.port {
            Some(port) => url.port_or_known_default() == Some(port),
            None => url.port().is_none(),
        }
    }
}

/// A host as URLs have it: in small letters, in punycode, without the dot that may be at its end.
fn parsed(text: &str) -> Option<Host> {
    Host::parse(text.strip_suffix('.').unwrap_or(text)).ok()
}

/// Hosts of one's own, where nobody has certificates: plain `http` is fine there.
fn is_own(host: &Host) -> bool {
    match host {
        Host::Domain(name) => is_localhost(name) || is_private_name(name),
        Host::Ipv4(v4) => realm(IpAddr::V4(*v4)) != Realm::Public,
        Host::Ipv6(v6) => realm(IpAddr::V6(*v6)) != Realm::Public,
    }
}

/// The host of a URL, with its port if it is not the usual one: what an entry for it would say.
pub(super) fn place(url: &Url) -> String {
    let host = super::error::shortened(url.host_str().unwrap_or_default());
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// Reads a URL the way browsers do, and takes the dot from the end of its host: it is the same host.
pub(super) fn url_of(text: &str) -> Result<Url, Trouble> {
    let parsed = Url::parse(text).map_err(|error| Trouble::Url(error.to_string()))?;
    normal(parsed)
}

/// Where a redirect leads.
pub(super) fn joined(base: &Url, location: &str) -> Result<Url, Trouble> {
    let parsed = base.join(location).map_err(|error| Trouble::Url(error.to_string()))?;
    normal(parsed)
}

fn normal(mut url: Url) -> Result<Url, Trouble> {
    url.set_fragment(None);
    let undotted = url.host_str().and_then(|host| host.strip_suffix('.')).map(str::to_owned);
    if let Some(host) = undotted {
        url.set_host(Some(&host)).map_err(|error| Trouble::Url(error.to_string()))?;
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &[&str], url: &str) -> Result<(), Trouble> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        url_of(url).and_then(|url| Allowed::new(&hosts).check(&url))
    }

    #[test]
    fn listed_hosts_are_reached_however_they_are_written() {
        for (host, url) in [
            ("api.example.com", "https://api.example.com/v1?q=1#x"),
            ("API.example.com", "https://api.EXAMPLE.com"),
            ("api.example.com", "https://api.example.com./"),
            // A backslash is a slash, here as in browsers and in the client.
            ("api.example.com", "https://api.example.com\\.evil.example/"),
            ("api.example.com.", "https://api.example.com/"),
            ("api.example.com", "https://api.example.com:443/"),
            ("api.example.com:443", "https://api.example.com/"),
            ("api.example.com:8443", "https://api.example.com:8443/"),
            ("bücher.example", "https://xn--bcher-kva.example/"),
            ("xn--bcher-kva.example", "https://BÜCHER.example/"),
            ("*.example.com", "https://a.b.example.com/"),
            ("example.com:80", "http://example.com/"),
            ("localhost:8080", "http://LOCALHOST:8080/"),
            ("127.0.0.1:8080", "http://127.1:8080/"),
            ("127.0.0.1:8080", "http://0x7f000001:8080/"),
            ("[::1]:8080", "http://[0:0::1]:8080/"),
            ("10.0.0.5", "http://10.0.0.5/"),
            ("weather:8080", "http://weather:8080/"),
            ("8.8.8.8", "https://8.8.8.8/"),
        ] {
            assert_eq!(check(&[host], url).map_err(|trouble| trouble.to_string()), Ok(()), "{host} {url}");
        }
    }

    #[test]
    fn nothing_else_is_reached() {
        for (host, url) in [
            ("api.example.com", "https://api.example.com.evil.example/"),
            ("api.example.com", "https://evil.example/api.example.com"),
            ("api.example.com", "https://evil.example\\@api.example.com/"),
            ("api.example.com", "https://evil.example#@api.example.com/"),
            ("api.example.com", "https://xapi.example.com/"),
            ("api.example.com", "https://api.example.com:8443/"),
            ("api.example.com:8443", "https://api.example.com/"),
            ("api.example.com", "https://аpi.example.com/"),
            ("*.example.com", "https://example.com/"),
            ("*.example.com", "https://badexample.com/"),
            ("*.example.com", "https://.example.com/"),
            ("*.0.0.1", "http://127.0.0.1/"),
            ("localhost", "http://127.0.0.1/"),
            ("127.0.0.1", "http://localhost/"),
            ("127.0.0.1", "http://[::1]/"),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
            ("*", "https://example.com/"),
            ("", "https://example.com/"),
            ("https://example.com", "https://example.com/"),
        ] {
            assert!(matches!(check(&[host], url), Err(Trouble::Host(_) | Trouble::Url(_))), "{host} {url}");
        }
        assert!(
            matches!(check(&[], "https://example.com/"), Err(Trouble::Host(host)) if host == "example.com")
        );
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let api = &["api.example.com"];
        assert!(matches!(check(api, "http://api.example.com/"), Err(Trouble::Plain(_))));
        assert!(matches!(check(api, "https://api.example.com@evil.example/"), Err(Trouble::Credentials)));
        assert!(matches!(check(api, "https://user:pw@api.example.com/"), Err(Trouble::Credentials)));
        for url in ["file:///etc/passwd", "ftp://api.example.com/", "data:text/plain,x", "javascript:1"] {
            assert!(matches!(check(api, url), Err(Trouble::Scheme(_))), "{url}");
        }
        for url in
            ["", "api.example.com", "/path", "https://", "https://[::1", "https://a b/", "http://999.1.1.1/"]
        {
            assert!(matches!(check(api, url), Err(Trouble::Url(_))), "{url}");
        }
    }
}

//! The network, as far as tools may reach it: hosts that a spec lists, addresses that were checked, bounded bodies.
//!
//! What a tool may reach is what its entry lists under `hosts`, and nothing when it lists nothing:
//!
//! - `api.example.com` is that host at the usual port, `api.example.com:8443` at that one, `*.example.com` every name under it,
//!   at any depth, but not itself.
//! - Plain `http:` goes to hosts of one's own (`localhost`, private addresses, names such as `weather` or `db.internal` that no
//!   public name server answers for) and to hosts that are listed with port 80. All others are reached with `https:`.
//! - An address that is not the internet's (this machine, private networks, link-local, the metadata of clouds) is reached if
//!   it is listed itself, or by a name that can only mean it: `localhost`, or for private networks a private name. A public
//!   name that leads to such an address is refused, as whoever owns the name is not who owns the network.
//! - Each redirect is checked like a request of its own, and another host gets no credentials.
//!
//! The check is where names are looked up, and the client connects to nothing else: there is no second look at the name
//! that could have another answer.

mod address;
mod allow;
mod body;
mod error;
mod headers;
mod resolve;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Method, StatusCode};
use url::Url;

use self::allow::{Allowed, joined, place, url_of};
use self::resolve::{Guarded, SystemLookup, trouble_in};

pub use self::error::{NetError, Trouble};
pub use self::resolve::Lookup;

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most redirects of one request.
const REDIRECTS_MAX: usize = 5;

/// Connections per host that wait to be used again.
const IDLE_PER_HOST_MAX: usize = 4;

/// Most headers of an answer.
const ANSWER_HEADERS_MAX: usize = 128;

/// Clients for specs that list private addresses; one each, as connections must not be shared between them.
const CLIENTS_MAX: usize = 16;

/// The guarded client that `http` and scripts' `fetch` share. Cheap to clone; all clones share connections.
///
/// It takes no proxy from the environment, keeps no cookies and repeats nothing. Certificates are checked against the
/// machine's own store.
#[derive(Clone)]
pub struct Net {
    lookup: Arc<dyn Lookup>,
    /// By the private addresses that are listed; nearly always none. A connection to a private address must only be used
    /// by those who list it.
    clients: Arc<Mutex<BTreeMap<Vec<IpAddr>, Client>>>,
}

/// A request. Its headers may hold keys, so it cannot be printed.
#[derive(Clone)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// Where to.
    pub url: String,
    /// What else to say.
    pub headers: Vec<(String, String)>,
    /// What to send.
    pub body: Option<Bytes>,
}

/// An answer, whatever its status.
#[derive(Clone)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Where it came from, after all redirects.
    pub url: String,
    /// Whether there were redirects.
    pub redirected: bool,
    /// Its headers, with names in small letters.
    pub headers: Vec<(String, String)>,
    /// All of its body, unpacked.
    pub body: Bytes,
}

/// What a request may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for all of it, redirects included.
    pub deadline: Duration,
    /// The body sent.
    pub request_bytes_max: usize,
    /// The body received, unpacked.
    pub response_bytes_max: usize,
}

impl Limits {
    /// The usual sizes, and this much time.
    pub fn within(deadline: Duration) -> Self {
        Self { deadline, request_bytes_max: 1 << 20, response_bytes_max: 8 << 20 }
    }
}

/// Without what the answer says: it may be long, and it is nobody's who reads logs.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, headers, body, .. } = self;
        write!(f, "Response {{ status: {status}, {} headers, {} bytes }}", headers.len(), body.len())
    }
}

impl Response {
    /// The first header of a name, which is in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }
}

/// Whether a method only looks.
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

impl Default for Net {
    fn default() -> Self {
        Self::new(Arc::new(SystemLookup))
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Net {
    /// With another way to look names up.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, clients: Arc::default() }
    }

    /// Makes a request to one of the hosts, and follows its redirects to others of them. Any status is an answer.
    ///
    /// # Errors
    /// When it is not allowed, when there is no answer, or when the answer exceeds a limit.
    ///
    /// # Cancel safety
    /// Dropping it closes the connection; what the server does with what it has is unknown.
    pub async fn fetch(
        &self,
        request: Request,
        hosts: &[String],
        limits: &Limits,
    ) -> Result<Response, NetError> {
        let wrote = AtomicBool::new(false);
        let work = self.follow(request, hosts, limits, &wrote);
        let trouble = match tokio::time::timeout(limits.deadline, work).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(trouble)) => trouble,
            Err(_) => Trouble::Late(limits.deadline),
        };
        Err(NetError { trouble, wrote: wrote.load(Ordering::Relaxed) })
    }

    async fn follow(
        &self,
        request: Request,
        hosts: &[String],
        limits: &Limits,
        wrote: &AtomicBool,
    ) -> Result<Response, Trouble> {
        let allowed = Allowed::new(hosts);
        let mut hop = Hop::first(request, limits)?;
        for redirects in 0..=REDIRECTS_MAX {
            allowed.check(&hop.url)?;
            let client = self.client(allowed.listed_addresses(&hop.url))?;
            let response = hop.send(&client, wrote).await?;
            match hop.next(&response)? {
                Some(next) => hop = next,
                None => return answer(response, &hop, redirects > 0, limits).await,
            }
        }
        Err(Trouble::Redirects(REDIRECTS_MAX))
    }

    /// The client for those who list these addresses.
    fn client(&self, listed: Vec<IpAddr>) -> Result<Client, Trouble> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&listed) {
            return Ok(client.clone());
        }
        if clients.len() >= CLIENTS_MAX {
            clients.pop_last();
        }
        let guarded = Guarded { lookup: Arc::clone(&self.lookup), listed: listed.clone() };
        let client = build(guarded)
            .map_err(|error| Trouble::Transport { host: "the network".to_owned(), why: sources(error) })?;
        clients.insert(listed, client.clone());
        Ok(client)
    }
}

fn build(guarded: Guarded) -> reqwest::Result<Client> {
    weir_support::http::client()
        .connect_timeout(CONNECT_TIMEOUT)
        .dns_resolver(Arc::new(guarded))
        .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        .http1_max_headers(ANSWER_HEADERS_MAX)
        .build()
}

/// One request on the way to an answer.
struct Hop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl Hop {
    fn first(request: Request, limits: &Limits) -> Result<Self, Trouble> {
        let Request { method, url, headers, body } = request;
        let bytes = body.as_ref().map_or(0, Bytes::len);
        if bytes > limits.request_bytes_max {
            return Err(Trouble::RequestSize { bytes, max: limits.request_bytes_max });
        }
        let method = match method.as_str() {
            "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => {
                Method::from_bytes(method.as_bytes()).ok()
            }
            _ => None,
        };
        let unknown = || {
            let methods = "GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS";
            Trouble::Request(format!("that method cannot be used; there are {methods}, in capital letters"))
        };
        let method = method.ok_or_else(unknown)?;
        if body.is_some() && is_safe(method.as_str()) {
            return Err(Trouble::Request(format!("a {method} has no body")));
        }
        Ok(Self { method, url: url_of(&url)?, headers: headers::checked(&headers)?, body })
    }

    /// Sends it. Once a request that writes may have left, `wrote` is set; it stays unset when not even a connection came up.
    async fn send(&self, client: &Client, wrote: &AtomicBool) -> Result<reqwest::Response, Trouble> {
        let mut request = client.request(self.method.clone(), self.url.clone()).headers(self.headers.clone());
        request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        let before = wrote.load(Ordering::Relaxed);
        wrote.store(before || !is_safe(self.method.as_str()), Ordering::Relaxed);
        request.send().await.map_err(|error| {
            if error.is_connect() || error.is_builder() {
                wrote.store(before, Ordering::Relaxed);
            }
            broken(&place(&self.url), error)
        })
    }

    /// Where an answer sends us on, as `fetch` of browsers has it.
    fn next(&self, response: &reqwest::Response) -> Result<Option<Self>, Trouble> {
        let status = response.status();
        let goes_on = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(location) = response.headers().get(LOCATION).filter(|_| goes_on) else { return Ok(None) };
        let location = std::str::from_utf8(location.as_bytes())
            .map_err(|_| Trouble::Url("a redirect leads to what is not text".to_owned()))?;
        let url = joined(&self.url, location)?;
        let mut headers = self.headers.clone();
        if url.origin() != self.url.origin() {
            headers = headers::for_another_host(&headers);
        }
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::GET && self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if !becomes_get {
            return Ok(Some(Self { method: self.method.clone(), url, headers, body: self.body.clone() }));
        }
        headers::without_body(&mut headers);
        Ok(Some(Self { method: Method::GET, url, headers, body: None }))
    }
}

async fn answer(
    response: reqwest::Response,
    hop: &Hop,
    redirected: bool,
    limits: &Limits,
) -> Result<Response, Trouble> {
    let host = place(&hop.url);
    let status = response.status().as_u16();
    let headers = headers::answered(response.headers()).ok_or_else(|| Trouble::Headers(host.clone()))?;
    let body = body::read(response, &host, limits.response_bytes_max).await?;
    Ok(Response { status, url: hop.url.to_string(), redirected, headers, body })
}

/// What broke on the way.
fn broken(host: &str, error: reqwest::Error) -> Trouble {
    trouble_in(&error).unwrap_or_else(|| Trouble::Transport { host: host.to_owned(), why: sources(error) })
}

/// The error with its causes and without its URL, which may hold keys.
fn sources(error: reqwest::Error) -> String {
    error::shortened(&weir_support::causes(&error.without_url()))
}

//! Who asks: a JWT, a static token, a trusted proxy's word, or nobody in particular on loopback.
//!
//! A credential that is there must be good: what is wrong with it is never made up for by another one, nor by being local. The
//! one exception is a loopback listener without authentication: its owner's clients may send what they were made to send. Other
//! users of the machine are told apart by the kernel (module `peer`), and need a token there.

mod jwt;
mod keys;
mod peer;
pub mod tokens;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use weir_journal::Journal;
use weir_types::Hash;

pub use self::jwt::{Jwt, JwtError, SECRET_BYTES_MIN, Settings as JwtSettings};
pub use self::keys::{Keys, KeysError, Place};
pub use self::peer::tells_peer_users;
pub(crate) use self::peer::{PeerUser, PeerUsers};
use self::tokens::Tokens;
use crate::access::is_principal;
use crate::app::App;
use crate::error::Error;

/// The longest credential that is looked at.
const CREDENTIAL_BYTES_MAX: usize = 16 * 1024;

/// Most groups someone comes with.
const GROUPS_MAX: usize = 256;

/// The longest name of a group.
const GROUP_BYTES_MAX: usize = 128;

/// What proxies and those who deliver for others add to what they pass on, besides everything that begins with [`FORWARDED`].
const FORWARDING: [&str; 16] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-original-host",
    "x-envoy-external-address",
    "x-azure-clientip",
    "x-appengine-user-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-ray",
    "fastly-client-ip",
    "fly-client-ip",
];

/// What the names of most such headers begin with.
const FORWARDED: &str = "x-forwarded";

/// Those among them that some proxies say with who asks.
const WHO: [&str; 4] =
    ["x-forwarded-user", "x-forwarded-email", "x-forwarded-preferred-username", "x-forwarded-groups"];

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `user:…` or `serviceaccount:…`.
    pub principal: String,
    /// `group:…`, as their token says; the build may know of more.
    pub groups: Vec<String>,
}

/// How callers are recognised.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// Who asks on a loopback listener without authentication: the user that the server runs as. Other users of the machine need a token.
    pub local: Option<Caller>,
    /// The hash of a token that stands for the local user while this server runs, for systems that do not tell which user a connection
    /// belongs to.
    pub local_token: Option<Hash>,
    /// Who holds every role and grant: the owner of the data directory, and `group:admin`.
    pub admins: Vec<String>,
    /// Whether those whom others vouch for can be one of them by their name alone. The owner's name is one of this system,
    /// and somebody elsewhere may be called the same.
    pub owner_by_name: bool,
    /// Tokens that somebody else signs.
    pub jwt: Option<Jwt>,
    /// A proxy that says who asks.
    pub proxy: Option<Proxy>,
    /// Tokens that `weir token issue` made.
    pub tokens: Tokens,
}

/// A proxy whose word is taken.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The header that says who asks.
    pub header: HeaderName,
    /// The header that says which groups they are in, with commas between them.
    pub groups: Option<HeaderName>,
    /// Where it connects from. The header from anywhere else is refused.
    pub peers: Vec<IpAddr>,
}

/// Where a connection comes from, and where it arrived. The accept loop says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// Whose process is at the other end, where that matters.
    pub(crate) user: PeerUser,
}

/// Someone who is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// Who.
    pub(crate) caller: Caller,
    /// For how long.
    pub(crate) standing: Standing,
}

/// What somebody was let in with, as far as that can come to an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Tokens of ours, any of which may be revoked.
    tokens: Vec<Hash>,
    /// When the first of what they came with expires.
    until: Option<Instant>,
}

impl Standing {
    /// Together with something else, which may end before.
    fn and(mut self, other: Self) -> Self {
        self.tokens.extend(other.tokens);
        self.until = [self.until, other.until].into_iter().flatten().min();
        self
    }
}

/// Why nobody is let in.
#[derive(Debug)]
pub(crate) enum Unknown {
    /// There is no credential.
    Nobody,
    /// There is no good credential, and the connection does not belong to the owner of a listener without authentication.
    OtherUser,
    /// There is one, and it is not good. Why is for the log alone.
    Refused(&'static str),
    /// There are several, and they do not say the same.
    Disagree,
    /// A header that only a trusted proxy may send.
    NotAProxy,
    /// Somebody else's request, passed on to a listener on which nobody has to prove anything.
    Forwarded,
}

impl Proxy {
    /// Whether a header can say who asks: not one that anybody sends for another reason.
    pub fn may_be(header: &HeaderName) -> bool {
        let taken =
            [header::AUTHORIZATION, header::HOST, header::ORIGIN, header::COOKIE, header::CONTENT_TYPE];
        let name = header.as_str();
        !taken.contains(header) && name != "x-api-key" && (WHO.contains(&name) || !is_forwarding(name))
    }
}

impl Auth {
    /// Where nobody has to prove anything.
    pub fn local(caller: Caller, admins: Vec<String>) -> Self {
        Self { local: Some(caller), admins, ..Self::default() }
    }

    /// Takes in which tokens are made and revoked, and which keys are withdrawn. Goes on for ever.
    pub(crate) async fn follow(&self, journal: &dyn Journal) {
        let keys = async {
            match &self.jwt {
                Some(jwt) => jwt.keep_fresh().await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(self.tokens.follow(journal), keys);
    }

    /// Who sent a request. A token that was just made is good at once: whoever comes with an unknown one is looked up again.
    pub(crate) async fn caller(
        &self,
        journal: &dyn Journal,
        headers: &HeaderMap,
        path: &str,
        ends: Option<Ends>,
    ) -> Result<Admitted, Unknown> {
        let known = self.tokens.seq();
        match self.resolve(headers, path, ends).await {
            // It may have become known meanwhile, by this or by what follows the journal.
            Err(Unknown::Refused(_)) if self.tokens.catch_up(journal).await > known => {
                self.resolve(headers, path, ends).await
            }
            found => found,
        }
    }

    /// Whether a request is somebody else's, passed on to a listener on which nobody has to prove anything.
    pub(crate) fn is_forwarded(&self, headers: &HeaderMap) -> bool {
        self.local.is_some() && headers.keys().any(|name| is_forwarding(name.as_str()))
    }

    /// Comes to an end when what somebody was let in with is good no more; nothing, if that cannot be.
    pub(crate) fn ends(&self, standing: Standing) -> Option<BoxFuture<'static, ()>> {
        if standing == Standing::default() {
            return None;
        }
        let tokens = self.tokens.clone();
        let ends = async move {
            let expires = async {
                match standing.until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokens.revoked(&standing.tokens) => {}
                () = expires => {}
            }
        };
        Some(ends.boxed())
    }

    async fn resolve(
        &self,
        headers: &HeaderMap,
        path: &str,
        ends: Option<Ends>,
    ) -> Result<Admitted, Unknown> {
        if self.is_forwarded(headers) {
            return Err(Unknown::Forwarded);
        }
        let lasting = |caller| Admitted { caller, standing: Standing::default() };
        // Without a connection there is nobody at its other end: requests come by the accept loop alone, which says whose they are.
        let is_owner = ends.is_none_or(|ends| ends.user == PeerUser::Owner);
        let mut found = self.proxied(headers, ends)?.map(lasting);
        for credential in credentials(headers, path)? {
            let named = match self.of_credential(credential).await {
                Ok(named) => named,
                // A client that was made for someone else's server has to send something.
                Err(_) if self.local.is_some() && !tokens::is_token(credential) => continue,
                Err(why) => return Err(why),
            };
            found = Some(match found {
                None => named,
                Some(found) if found.caller == named.caller => {
                    Admitted { caller: found.caller, standing: found.standing.and(named.standing) }
                }
                Some(_) => return Err(Unknown::Disagree),
            });
        }
        match (found, &self.local) {
            (Some(found), _) => Ok(found),
            (None, Some(owner)) if is_owner => Ok(lasting(owner.clone())),
            (None, Some(_)) => Err(Unknown::OtherUser),
            (None, None) => Err(Unknown::Nobody),
        }
    }

    async fn of_credential(&self, credential: &str) -> Result<Admitted, Unknown> {
        if credential.is_empty() || credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(Unknown::Refused("its length"));
        }
        if let Some(owner) = &self.local
            && self.local_token == Some(Hash::of(credential.as_bytes()))
        {
            return Ok(Admitted { caller: owner.clone(), standing: Standing::default() });
        }
        if tokens::is_token(credential) {
            return self
                .tokens
                .admitted(credential)
                .ok_or(Unknown::Refused("an unknown, expired or revoked token"));
        }
        match &self.jwt {
            Some(jwt) => {
                let (caller, left) = jwt.caller(credential).await.map_err(Unknown::Refused)?;
                let caller = self.vouched_for(caller).map_err(Unknown::Refused)?;
                Ok(Admitted { caller, standing: Standing { tokens: Vec::new(), until: from_now(left) } })
            }
            None => Err(Unknown::Refused("no kind of token that is known here")),
        }
    }

    /// Whom a trusted proxy names.
    fn proxied(&self, headers: &HeaderMap, ends: Option<Ends>) -> Result<Option<Caller>, Unknown> {
        let Some(proxy) = &self.proxy else { return Ok(None) };
        let names = [Some(&proxy.header), proxy.groups.as_ref()];
        if !names.into_iter().flatten().any(|name| headers.contains_key(name)) {
            return Ok(None);
        }
        // A listener for both families shows an address of the older one inside one of the newer.
        let peer = ends.map(|ends| ends.peer.ip().to_canonical());
        if !peer.is_some_and(|peer| proxy.peers.contains(&peer)) {
            return Err(Unknown::NotAProxy);
        }
        let name = one(headers, &proxy.header)?.ok_or(Unknown::Refused("no name beside the groups"))?;
        let groups = match &proxy.groups {
            Some(header) => one(headers, header)?.unwrap_or_default(),
            None => "",
        };
        let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
        let found = caller(format!("user:{name}"), groups).and_then(|caller| self.vouched_for(caller));
        found.map(Some).map_err(Unknown::Refused)
    }

    /// Someone whom others vouch for.
    fn vouched_for(&self, caller: Caller) -> Result<Caller, &'static str> {
        match self.owner_by_name || !self.admins.contains(&caller.principal) {
            true => Ok(caller),
            false => Err("the name of the owner of the data directory"),
        }
    }
}

/// Whether a header says that a request was passed on.
fn is_forwarding(name: &str) -> bool {
    name.starts_with(FORWARDED) || FORWARDING.contains(&name)
}

/// When that will be; nothing, if it is so far away that there is no such time.
fn from_now(left: Duration) -> Option<Instant> {
    Instant::now().checked_add(left)
}

/// Someone, if that can be the name of someone, and these the names of groups.
fn caller<'a>(principal: String, groups: impl Iterator<Item = &'a str>) -> Result<Caller, &'static str> {
    if !is_principal(&principal) {
        return Err("a name that nobody can have");
    }
    let mut named = Vec::new();
    for group in groups {
        let name = group.strip_prefix("group:").unwrap_or(group);
        let is_odd = name.is_empty() || name.len() > GROUP_BYTES_MAX || name.contains(char::is_control);
        if is_odd || named.len() == GROUPS_MAX {
            return Err("groups that cannot be");
        }
        named.push(format!("group:{name}"));
    }
    named.sort_unstable();
    named.dedup();
    Ok(Caller { principal, groups: named })
}

/// The only value of a header.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Unknown> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Unknown::Disagree);
    }
    value.map(|value| value.to_str().map_err(|_| Unknown::Refused("its characters"))).transpose()
}

/// Everything in a request that is meant to prove something.
fn credentials<'a>(headers: &'a HeaderMap, path: &str) -> Result<Vec<&'a str>, Unknown> {
    let mut found = Vec::new();
    if let Some(authorization) = one(headers, &header::AUTHORIZATION)? {
        let (scheme, token) = authorization.split_once(' ').unwrap_or((authorization, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Unknown::Refused("its scheme"));
        }
        found.push(token.trim());
    }
    // What clients of one vendor send instead.
    if path.starts_with("/v1/") {
        found.extend(one(headers, &HeaderName::from_static("x-api-key"))?.map(str::trim));
    }
    Ok(found)
}

impl Unknown {
    fn error(&self) -> Error {
        let unauthorized = |message: &str, help: &'static str| {
            Error::new(StatusCode::UNAUTHORIZED, "server::unauthorized", message, help)
        };
        match self {
            Self::Nobody => unauthorized(
                "who asks is not known",
                "send a token with `Authorization: Bearer TOKEN`; `weir token issue` makes one",
            ),
            Self::OtherUser => unauthorized(
                "this connection does not belong to the user that the server runs as",
                "send a token with `Authorization: Bearer TOKEN` (`api_key=` of an SDK); the server's user makes one with \
                 `weir token issue --principal user:NAME`",
            ),
            Self::Refused(_) => unauthorized(
                "the credential is not accepted",
                "it may be unknown, revoked, expired, or meant for somebody else: get a new one",
            ),
            Self::Disagree => {
                Error::bad("the request has several credentials that do not say the same", "send one of them")
            }
            Self::NotAProxy => Error::new(
                StatusCode::FORBIDDEN,
                "server::not-a-proxy",
                "only a trusted proxy may say who asks",
                "leave that header out, or trust this address with `--trust-proxy-from`",
            ),
            Self::Forwarded => Error::new(
                StatusCode::FORBIDDEN,
                "server::forwarded",
                "this listener lets everybody in, and so takes no request that was passed on by a proxy",
                "turn authentication on, as `weir serve --help` says",
            ),
        }
    }

    /// What is answered; why goes to the log.
    pub(crate) fn into_error(self) -> Error {
        if let Self::Refused(why) = self {
            tracing::debug!(why, "a credential was refused");
        }
        self.error()
    }
}

/// What a client is told about how to prove who it is, with every 401.
pub(crate) fn challenge(has_credential: bool) -> HeaderValue {
    HeaderValue::from_static(match has_credential {
        true => r#"Bearer realm="weir", error="invalid_token""#,
        false => r#"Bearer realm="weir""#,
    })
}

impl IntoResponse for Unknown {
    fn into_response(self) -> Response {
        let has_credential = matches!(self, Self::Refused(_));
        let mut response = self.into_error().into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge(has_credential));
        }
        response
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Error> {
        // The guard has put it there; what comes here without it is nobody.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Unknown::Nobody.error())
    }
}

#[cfg(test)]
mod tests;

//! Whom a request is meant for, and whose page sent it. A name that leads here is not enough: a page of somebody else can have
//! its own name lead here, and would then speak with the voice of whoever looks at it.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::auth::Ends;
use crate::error::Error;

/// How long a browser may remember what it was allowed, in seconds.
const REMEMBER: HeaderValue = HeaderValue::from_static("600");

/// The methods there are.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");

/// What pages of other origins may read, besides what they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-weir-session, x-weir-run, x-request-id, mcp-session-id, retry-after, www-authenticate, x-vercel-ai-ui-message-stream",
);

/// Whom a request is meant for, if that is us.
///
/// # Errors
/// 400 for a request that does not say so, or says several things; 421 for one that is meant for somebody else.
pub(super) fn host(request: &Request, allowed: &[String], ends: Option<Ends>) -> Result<Authority, Error> {
    let bad = |what: &str| Error::bad(what.to_owned(), "send one `Host` header with the name of this server");
    let mut named = request.headers().get_all(header::HOST).iter();
    let header = match (named.next(), named.next()) {
        (Some(_), Some(_)) => return Err(bad("the request has several hosts")),
        (Some(value), None) => {
            let text = value.to_str().map_err(|_| bad("the host cannot be read"))?;
            Some(text.parse::<Authority>().map_err(|_| bad("the host cannot be read"))?)
        }
        (None, _) => None,
    };
    // A request may also name it in its first line; HTTP/2 always does.
    let host = match (header, request.uri().authority().cloned()) {
        (Some(header), Some(uri)) if header != uri => return Err(bad("the request has several hosts")),
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(bad("the request has no host")),
    };
    if host.as_str().contains('@') {
        return Err(bad("the host cannot be read"));
    }
    if is_ours(&host, ends) || allowed.iter().any(|allowed| is_named(&host, allowed)) {
        return Ok(host);
    }
    Err(Error::new(
        StatusCode::MISDIRECTED_REQUEST,
        "server::foreign-host",
        "this server is not called like that",
        "use its own address, or allow the name with `--allow-host`",
    ))
}

/// Names of this machine, and the address that the connection came to. Nobody else can have their names lead to those.
fn is_ours(host: &Authority, ends: Option<Ends>) -> bool {
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let address = name.parse::<IpAddr>().map(|address| address.to_canonical());
    let local = ends.map(|ends| ends.local);
    let is_local = match address {
        Ok(address) => {
            address.is_loopback() || local.is_some_and(|local| local.ip().to_canonical() == address)
        }
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    is_local && local.is_none_or(|local| host.port_u16().unwrap_or(80) == local.port())
}

/// With a port, only that; without one, any.
fn is_named(host: &Authority, allowed: &str) -> bool {
    let Ok(allowed) = allowed.parse::<Authority>() else { return false };
    let same_port = allowed.port().is_none() || allowed.port_u16() == host.port_u16();
    same_port && allowed.host().eq_ignore_ascii_case(host.host())
}

/// Whether a text can be the name of a host, with a port or without.
pub fn is_host(text: &str) -> bool {
    let host = text.parse::<Authority>().ok().filter(|_| !text.contains(['/', '@', '*']));
    host.is_some_and(|host| {
        let has_port = host.as_str().len() > host.host().len();
        !host.host().is_empty() && (!has_port || host.port_u16().is_some())
    })
}

/// Whether a text can be an origin: a scheme and a host.
pub fn is_origin(text: &str) -> bool {
    let host = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    host.is_some_and(|host| is_host(host.trim_end_matches('/')))
}

/// An origin whose pages may ask: our own, or one that was allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin(HeaderValue);

impl Origin {
    /// Whose page sent a request; nobody's, if it does not say.
    ///
    /// # Errors
    /// 403 for pages of others.
    pub(super) fn of(
        headers: &HeaderMap,
        host: &Authority,
        allowed: &[String],
    ) -> Result<Option<Self>, Error> {
        let mut named = headers.get_all(header::ORIGIN).iter();
        let origin = match (named.next(), named.next()) {
            (None, _) => return Ok(None),
            (Some(origin), None) => origin,
            (Some(_), Some(_)) => return Err(foreign()),
        };
        let text = origin.to_str().map_err(|_| foreign())?;
        let own = ["http://", "https://"].iter().filter_map(|scheme| text.strip_prefix(scheme));
        let is_own = own.into_iter().any(|authority| authority.eq_ignore_ascii_case(host.as_str()));
        if !is_own && !allowed.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(text))
        {
            return Err(foreign());
        }
        Ok(Some(Self(origin.clone())))
    }

    /// The answer to a browser that asks whether a page may ask.
    pub(super) fn preflight(&self, headers: &HeaderMap) -> Option<Response> {
        headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        // Whoever may ask may say whatever our routes understand.
        if let Some(names) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBER);
        Some(response)
    }

    /// Lets the page read an answer.
    pub(super) fn share(self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.0);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}

fn foreign() -> Error {
    Error::new(
        StatusCode::FORBIDDEN,
        "server::foreign-origin",
        "pages of this origin may not ask",
        "allow the origin with `--allow-origin`",
    )
}

//! Why a request did not get an answer. No message has more of a URL than its host: queries hold keys.

use std::borrow::Cow;
use std::time::Duration;

use weir_types::{Explain, Fault};

/// A request that failed, and whether it may have changed something.
#[derive(Debug, thiserror::Error)]
#[error("{trouble}")]
pub struct NetError {
    /// Why.
    pub trouble: Trouble,
    /// Whether a request that writes had left, or may have: what it did is then unknown.
    pub wrote: bool,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// That is no URL.
    #[error("that is no URL to reach: {0}")]
    Url(String),
    /// Something else than the web.
    #[error("`{0}:` is not reached from here, only `https:`")]
    Scheme(String),
    /// A user or a password in the URL.
    #[error("the URL has a user or a password in it, before its host")]
    Credentials,
    /// A host that is not listed.
    #[error("the host `{0}` is not listed")]
    Host(String),
    /// Unencrypted, to somebody else.
    #[error("`{0}` is reached with `https:`, not with plain `http:`")]
    Plain(String),
    /// A name that leads to an address that is not the internet's.
    #[error("the name `{host}` leads to `{address}`, which is not on the internet")]
    Address {
        /// The name.
        host: String,
        /// The first of its addresses.
        address: std::net::IpAddr,
    },
    /// A name without an address.
    #[error("no address is found for `{host}`: {why}")]
    Unresolved {
        /// The name.
        host: String,
        /// Why.
        why: String,
    },
    /// Something about the request that cannot be sent.
    #[error("{0}")]
    Request(String),
    /// More than may be sent.
    #[error("the body has {bytes} bytes, and {max} can be sent")]
    RequestSize {
        /// How many there are.
        bytes: usize,
        /// How many may be.
        max: usize,
    },
    /// Redirected too often.
    #[error("redirected more than {0} times")]
    Redirects(usize),
    /// The way there is broken.
    #[error("`{host}` cannot be reached: {why}")]
    Transport {
        /// The host.
        host: String,
        /// What broke.
        why: String,
    },
    /// An answer with too many headers.
    #[error("the answer of `{0}` has too many or too long headers")]
    Headers(String),
    /// An answer that is too long.
    #[error("the answer of `{host}` has more than {max} bytes")]
    ResponseSize {
        /// The host.
        host: String,
        /// How many it may have.
        max: usize,
    },
    /// An answer that is packed in a way that is not understood, or wrongly.
    #[error("the answer of `{host}` cannot be unpacked: {why}")]
    Packed {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// Nothing within the time there was.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Late(Duration),
}

impl NetError {
    /// What a model, or a person who reads its transcript, is told: what happened and what would change it.
    pub fn told(&self) -> String {
        format!("{}; {}", self.trouble, self.help())
    }
}

impl Explain for NetError {
    fn code(&self) -> &'static str {
        match self.trouble {
            Trouble::Url(_) => "net::url",
            Trouble::Scheme(_) => "net::scheme",
            Trouble::Credentials => "net::credentials",
            Trouble::Host(_) => "net::host",
            Trouble::Plain(_) => "net::plain",
            Trouble::Address { .. } => "net::address",
            Trouble::Unresolved { .. } => "net::unresolved",
            Trouble::Request(_) => "net::request",
            Trouble::RequestSize { .. } => "net::request-size",
            Trouble::Redirects(_) => "net::redirects",
            Trouble::Transport { .. } => "net::transport",
            Trouble::Headers(_) => "net::headers",
            Trouble::ResponseSize { .. } => "net::response-size",
            Trouble::Packed { .. } => "net::packed",
            Trouble::Late(_) => "net::late",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match &self.trouble {
            Trouble::Url(_) => "write it like `https://api.example.com/path`".into(),
            Trouble::Scheme(_) => "use an `https:` URL".into(),
            Trouble::Credentials => "put credentials into an `Authorization` header".into(),
            Trouble::Host(host) => {
                format!("`hosts: [\"{host}\"]` in the tool's entry in the agent's spec would allow it").into()
            }
            Trouble::Plain(host) => format!(
                "use `https:`; `hosts: [\"{}:80\"]` in the agent's spec would allow it unencrypted",
                host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host)
            )
            .into(),
            Trouble::Address { address, .. } => format!(
                "if it is meant, list the address itself, with its port, as in `hosts: [\"{address}:8080\"]`"
            )
            .into(),
            Trouble::Unresolved { .. } => "check the host's name".into(),
            Trouble::Request(_) => "correct the request".into(),
            Trouble::RequestSize { .. } => "send less, or in parts".into(),
            Trouble::Redirects(_) => "ask for the address where it ends".into(),
            Trouble::Transport { .. } | Trouble::Late(_) => "try again later".into(),
            Trouble::Headers(_) | Trouble::Packed { .. } => "the server would have to be mended".into(),
            Trouble::ResponseSize { .. } => "ask for less, or for a part".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self.trouble {
            Trouble::Url(_)
            | Trouble::Scheme(_)
            | Trouble::Credentials
            | Trouble::Host(_)
            | Trouble::Plain(_)
            | Trouble::Address { .. }
            | Trouble::Request(_)
            | Trouble::RequestSize { .. } => Fault::Input,
            Trouble::Redirects(_)
            | Trouble::Unresolved { .. }
            | Trouble::Transport { .. }
            | Trouble::Headers(_)
            | Trouble::ResponseSize { .. }
            | Trouble::Packed { .. }
            | Trouble::Late(_) => Fault::Unreachable,
        }
    }
}

/// What comes from outside, short enough for a message and without what would garble it.
pub(super) fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 253;
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARACTERS_MAX).collect()
}

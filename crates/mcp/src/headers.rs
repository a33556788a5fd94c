//! Credentials for a server that is reached over HTTP.

use std::fmt;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Headers that belong to the protocol or to the connection; nobody else sets them.
const RESERVED: [&str; 14] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that go with every request to one server. Their values never print.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

/// Why something is no header that can be sent. The value is not shown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The name cannot be the name of a header.
    #[error("`{name}` is no name of a header")]
    Name {
        /// The name.
        name: String,
    },
    /// The header is set by the protocol.
    #[error("the header `{name}` is set by the protocol itself")]
    Reserved {
        /// The name.
        name: String,
    },
    /// The value has characters that no header can have.
    #[error("the value of the header `{name}` has characters that cannot be sent, such as a line break")]
    Value {
        /// The name.
        name: String,
    },
}

impl Headers {
    /// Takes headers as pairs of a name and a value. White space around a value, as files and variables tend to have,
    /// is not part of it.
    ///
    /// # Errors
    /// When a name or a value cannot be sent, or the header belongs to the protocol.
    pub fn new<'h>(pairs: impl IntoIterator<Item = (&'h str, &'h str)>) -> Result<Self, HeaderError> {
        let header = |(name, value): (&str, &str)| {
            let shown = || name.escape_debug().take(64).collect();
            let header =
                HeaderName::try_from(name).map_err(|_invalid| HeaderError::Name { name: shown() })?;
            if RESERVED.contains(&header.as_str()) {
                return Err(HeaderError::Reserved { name: shown() });
            }
            let mut value = HeaderValue::try_from(value.trim())
                .map_err(|_invalid| HeaderError::Value { name: shown() })?;
            value.set_sensitive(true);
            Ok((header, value))
        };
        let mut headers = pairs.into_iter().map(header).collect::<Result<Vec<_>, _>>()?;
        // The order makes no difference to a server, so it makes none to the connection's key.
        headers.sort_by(|a, b| (a.0.as_str(), a.1.as_bytes()).cmp(&(b.0.as_str(), b.1.as_bytes())));
        Ok(Self(headers))
    }

    pub(crate) fn to_map(&self) -> HeaderMap {
        self.0.iter().cloned().collect()
    }

    /// The bytes, for telling two sets of headers apart.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name.as_str(), "***"))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_never_print() {
        let headers = Headers::new([("Authorization", "Bearer planted\n"), ("x-key", "planted")]).unwrap();
        assert_eq!(format!("{headers:?}"), r#"{"authorization": "***", "x-key": "***"}"#);
        assert_eq!(headers.to_map()["authorization"], "Bearer planted");
        assert!(!format!("{:?}", headers.to_map()).contains("planted"));
        let error = Headers::new([("x-key", "planted\r\nhost: elsewhere")]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("planted"));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (name, expected) in [
            ("", HeaderError::Name { name: String::new() }),
            ("a b", HeaderError::Name { name: "a b".to_owned() }),
            ("Mcp-Session-Id", HeaderError::Reserved { name: "Mcp-Session-Id".to_owned() }),
            ("host", HeaderError::Reserved { name: "host".to_owned() }),
        ] {
            assert_eq!(Headers::new([(name, "v")]).unwrap_err(), expected);
        }
    }

    #[test]
    fn the_order_makes_no_difference() {
        assert_eq!(Headers::new([("a", "1"), ("b", "2")]), Headers::new([("b", "2"), ("A", "1")]));
        assert_ne!(Headers::new([("a", "1")]), Headers::new([("a", "2")]));
    }
}

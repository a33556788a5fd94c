//! Which server is meant, and as whom.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::headers::Headers;
use crate::server::Server;

/// A server, and everything that makes one connection to it different from another.
///
/// Two targets that differ in anything, a credential above all, never share a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The server.
    pub server: Server,
    /// Whose connection it is: a name for the credential, not the credential.
    pub identity: String,
    /// Where a command is started, and what a program of the project is relative to.
    pub directory: PathBuf,
    /// All variables that a command sees.
    pub environment: BTreeMap<String, String>,
    /// What a server behind HTTP is sent with every request.
    pub headers: Headers,
    /// What starts a command, in front of its own words: for example a supervisor that ends it when we die. Empty when
    /// nothing does.
    pub launcher: Vec<String>,
}

/// What tells one connection from another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(Vec<Vec<u8>>);

impl Target {
    pub(crate) fn key(&self) -> Key {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut group = |words: Vec<&[u8]>| {
            // How many there are keeps one group from running into the next.
            parts.push(words.len().to_le_bytes().to_vec());
            parts.extend(words.into_iter().map(<[u8]>::to_vec));
        };
        match &self.server {
            Server::Stdio { argv } => {
                group(vec![b"stdio", self.directory.as_os_str().as_encoded_bytes()]);
                group(argv.iter().map(String::as_bytes).collect());
                group(self.launcher.iter().map(String::as_bytes).collect());
                let pairs =
                    self.environment.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
                group(pairs.collect());
            }
            Server::Http { url } => {
                group(vec![b"http", url.as_bytes()]);
                group(self.headers.bytes().collect());
            }
        }
        group(vec![self.identity.as_bytes()]);
        Key(parts)
    }
}

/// Names of variables and headers, never their values.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("server", &self.server)
            .field("identity", &self.identity)
            .field("directory", &self.directory)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("headers", &self.headers)
            .field("launcher", &self.launcher)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio() -> Target {
        Target {
            server: Server::Stdio { argv: vec!["./server".to_owned()] },
            identity: "user:ada".to_owned(),
            directory: "/project".into(),
            environment: BTreeMap::from([("TOKEN".to_owned(), "planted".to_owned())]),
            headers: Headers::new([("authorization", "Bearer planted")]).unwrap(),
            launcher: vec![],
        }
    }

    #[test]
    fn no_credential_prints() {
        let shown = format!("{:?}", stdio());
        assert!(!shown.contains("planted"), "{shown}");
        assert!(shown.contains("TOKEN") && shown.contains("authorization"), "{shown}");
    }

    #[test]
    fn whatever_differs_makes_another_connection() {
        let http = Target { server: Server::Http { url: "https://example.com".to_owned() }, ..stdio() };
        let others = [
            stdio(),
            Target { identity: "user:bob".to_owned(), ..stdio() },
            Target { directory: "/other".into(), ..stdio() },
            Target { environment: BTreeMap::from([("TOKEN".to_owned(), "2".to_owned())]), ..stdio() },
            Target { launcher: vec!["./server".to_owned()], ..stdio() },
            Target {
                server: Server::Stdio { argv: vec!["./server".to_owned(), "./server".to_owned()] },
                ..stdio()
            },
            http.clone(),
            Target { headers: Headers::new([("authorization", "Bearer 2")]).unwrap(), ..http },
        ];
        for (n, one) in others.iter().enumerate() {
            for (m, other) in others.iter().enumerate() {
                assert_eq!(one.key() == other.key(), n == m, "{one:?} {other:?}");
            }
        }
    }
}

//! Addresses of MCP servers: `mcp://npx/PKG?arg=…`, `mcp://uvx/PKG`, `mcp://./program?arg=…`, `mcp://host/path`.

use std::fmt::Write as _;

/// What an `mcp://` address stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpServer {
    /// A program that is started here: `npx -y PKG ARG…`, `uvx PKG ARG…`, or one of the project.
    Command {
        /// What finds it.
        launcher: Launcher,
        /// The package, or the path of the program within the project.
        target: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A service that is spoken to over streamable HTTP.
    Remote {
        /// `https://…`, or `http://…` on this machine.
        url: String,
    },
}

/// What finds the program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `npx -y`.
    Npx,
    /// `uvx`.
    Uvx,
    /// The project itself.
    Project,
}

/// Why an address stands for no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Another scheme, or none.
    #[error("the address of a server begins with `mcp://` or `weir://`")]
    Scheme,
    /// Nothing after the scheme, or nothing to start.
    #[error("the address names no {0}")]
    Nothing(&'static str),
    /// A program outside of the project.
    #[error("a program of the project cannot be outside of it")]
    Outside,
    /// What a program does not take.
    #[error("a program takes `arg`, not `{0}`")]
    Parameter(String),
    /// An escape that is none.
    #[error("`%` is followed by two hex digits that stand for text")]
    Escape,
    /// A name and a password.
    #[error("an address holds no password")]
    Password,
    /// White space, control characters, a fragment.
    #[error("the address cannot hold `{0}`")]
    Character(char),
    /// Something that is no host and port.
    #[error("`{0}` is no host")]
    Host(String),
}

impl ServerError {
    /// What to write instead.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Scheme | Self::Nothing(_) | Self::Host(_) => {
                "write `mcp://npx/PACKAGE`, `mcp://uvx/PACKAGE`, `mcp://./PROGRAM`, `mcp://HOST/PATH` or `weir://AGENT`"
            }
            Self::Outside => "name a file of the project, like `mcp://./servers/files.sh`",
            Self::Parameter(_) => "write arguments like `?arg=--verbose&arg=./docs`",
            Self::Escape => "write `%25` for a `%`",
            Self::Password => "remove it; secrets are given under `mcp_credentials` in weir.yaml",
            Self::Character(_) => "write `%20` for a space and `%23` for a `#`",
        }
    }
}

impl McpServer {
    /// Reads an address.
    ///
    /// # Errors
    /// When it stands for no server.
    pub fn parse(address: &str) -> Result<Self, ServerError> {
        let rest = address.strip_prefix("mcp://").ok_or(ServerError::Scheme)?;
        if let Some(odd) =
            rest.chars().find(|c| c.is_whitespace() || c.is_control() || matches!(c, '#' | '\\'))
        {
            return Err(ServerError::Character(odd));
        }
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        if let Some(package) = place.strip_prefix("npx/") {
            return command(Launcher::Npx, package, query);
        }
        if let Some(package) = place.strip_prefix("uvx/") {
            return command(Launcher::Uvx, package, query);
        }
        match place {
            "" => Err(ServerError::Nothing("host")),
            "npx" | "uvx" => Err(ServerError::Nothing("package")),
            path if path.starts_with("./") => program(&path[2..], query),
            path if path.starts_with("../") || path.starts_with('/') => Err(ServerError::Outside),
            _ => remote(place, query),
        }
    }

    /// The program and its arguments as they are started; absent for a service.
    pub fn argv(&self) -> Option<Vec<String>> {
        let Self::Command { launcher, target, args } = self else { return None };
        let head: &[&str] = match launcher {
            Launcher::Npx => &["npx", "-y", target],
            Launcher::Uvx => &["uvx", target],
            Launcher::Project => &[target],
        };
        Some(head.iter().map(|part| (*part).to_owned()).chain(args.iter().cloned()).collect())
    }
}

fn command(launcher: Launcher, package: &str, query: Option<&str>) -> Result<McpServer, ServerError> {
    let target = decode(package, false)?;
    // What begins with a dash would be an option of the launcher.
    if target.is_empty() || target.starts_with('-') {
        return Err(ServerError::Nothing("package"));
    }
    Ok(McpServer::Command { launcher, target, args: arguments(query)? })
}

fn program(path: &str, query: Option<&str>) -> Result<McpServer, ServerError> {
    let target = decode(path, false)?;
    if target.is_empty() {
        return Err(ServerError::Nothing("program"));
    }
    if target.split('/').any(|part| part == ".." || part == "." || part.is_empty()) {
        return Err(ServerError::Outside);
    }
    Ok(McpServer::Command { launcher: Launcher::Project, target, args: arguments(query)? })
}

fn arguments(query: Option<&str>) -> Result<Vec<String>, ServerError> {
    let mut args = Vec::new();
    for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("arg", value)) => args.push(decode(value, true)?),
            other => {
                let name = other.map_or(part, |(name, _)| name);
                return Err(ServerError::Parameter(crate::node::excerpt(name)));
            }
        }
    }
    Ok(args)
}

fn remote(place: &str, query: Option<&str>) -> Result<McpServer, ServerError> {
    let (authority, path) = place.split_once('/').map_or((place, ""), |(host, path)| (host, path));
    if authority.contains('@') {
        return Err(ServerError::Password);
    }
    let host = host_of(authority).ok_or_else(|| ServerError::Host(crate::node::excerpt(authority)))?;
    let scheme = if is_loopback(host) { "http" } else { "https" };
    let mut url = format!("{scheme}://{authority}/{path}");
    if let Some(query) = query {
        let _ = write!(url, "?{query}");
    }
    Ok(McpServer::Remote { url })
}

/// The host of `host`, `host:port` or `[::1]:port`.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, rest.strip_prefix(':').or(rest.is_empty().then_some("0")))
        }
        None => {
            let (host, port) =
                authority.split_once(':').map_or((authority, "0"), |(host, port)| (host, port));
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
            if host.is_empty() || !host.chars().all(fits) || host.starts_with(['.', '-']) {
                return None;
            }
            (host, Some(port))
        }
    };
    port?.parse::<u16>().ok().map(|_| host)
}

/// Whether a host is this machine.
pub fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Undoes percent escapes; in a query, `+` stands for itself, as people expect of arguments.
fn decode(text: &str, empty_is_fine: bool) -> Result<String, ServerError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit =
            || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or(ServerError::Escape);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    let decoded = String::from_utf8(bytes).map_err(|_| ServerError::Escape)?;
    match decoded.chars().find(|c| *c == '\0' || (!empty_is_fine && c.is_control())) {
        Some(odd) => Err(ServerError::Character(odd)),
        None => Ok(decoded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read() {
        let argv = |address: &str| {
            McpServer::parse(address).map(|server| server.argv().unwrap_or_default().join(" "))
        };
        let check =
            |address: &str, expected: &str| assert_eq!(argv(address).as_deref(), Ok(expected), "{address}");
        check(
            "mcp://npx/@scope/server-files@1.2?arg=./docs&arg=a%20b",
            "npx -y @scope/server-files@1.2 ./docs a b",
        );
        check("mcp://uvx/mcp-server-time", "uvx mcp-server-time");
        check("mcp://./servers/files.sh?arg=-v+x", "servers/files.sh -v+x");
        let url = |address: &str| match McpServer::parse(address) {
            Ok(McpServer::Remote { url }) => url,
            other => format!("{other:?}"),
        };
        assert_eq!(url("mcp://integrations.example.com/slack"), "https://integrations.example.com/slack");
        assert_eq!(url("mcp://localhost:3000/mcp?x=1"), "http://localhost:3000/mcp?x=1");
        assert_eq!(url("mcp://[::1]:80/mcp"), "http://[::1]:80/mcp");
        assert_eq!(url("mcp://127.0.0.1/mcp"), "http://127.0.0.1/mcp");
        assert_eq!(url("mcp://example.com"), "https://example.com/");
    }

    #[test]
    fn addresses_that_stand_for_nothing() {
        let check = |address: &str, expected: ServerError| {
            assert_eq!(McpServer::parse(address), Err(expected), "{address}");
        };
        check("https://example.com", ServerError::Scheme);
        check("mcp://", ServerError::Nothing("host"));
        check("mcp://npx/", ServerError::Nothing("package"));
        check("mcp://npx/--call", ServerError::Nothing("package"));
        check("mcp://npx/%2dc", ServerError::Nothing("package"));
        check("mcp://npx", ServerError::Nothing("package"));
        check("mcp://./", ServerError::Nothing("program"));
        check("mcp://../x", ServerError::Outside);
        check("mcp://./a/../../x", ServerError::Outside);
        check("mcp://./a/%2e%2e/x", ServerError::Outside);
        check("mcp:///usr/bin/x", ServerError::Outside);
        check("mcp://npx/x?args=1", ServerError::Parameter("args".to_owned()));
        check("mcp://npx/x?arg=%zz", ServerError::Escape);
        check("mcp://npx/x?arg=%ff", ServerError::Escape);
        check("mcp://u:p@host/x", ServerError::Password);
        check("mcp://a b/x", ServerError::Character(' '));
        check("mcp://host/x#y", ServerError::Character('#'));
        check("mcp://ho$t/x", ServerError::Host("ho$t".to_owned()));
        check("mcp://host:99999/x", ServerError::Host("host:99999".to_owned()));
    }
}

//! How a server is reached. What `mcp://…` means is for the spec to say; here it is a command or a URL.

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// A program that is started and spoken to over its standard streams.
    Stdio {
        /// The program and its arguments. A program that begins with `./` is relative to [`Options::directory`], any
        /// other one is looked for on the `PATH`.
        ///
        /// [`Options::directory`]: crate::Options::directory
        argv: Vec<String>,
    },
    /// Streamable HTTP.
    Http {
        /// `https://…`, or `http://…` on this machine.
        url: String,
    },
}

/// Whether a URL may be spoken to: nothing travels in the clear except on this machine.
pub(crate) fn is_private(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || (url.scheme() == "http" && here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        for url in
            ["https://example.com/mcp", "http://localhost:80/", "http://127.0.0.1/", "http://[::1]:9/mcp"]
        {
            assert!(is_private(url), "{url}");
        }
        for url in [
            "http://example.com/",
            "http://localhost.example.com/",
            "ftp://localhost/",
            "http://10.0.0.1/",
            "?",
        ] {
            assert!(!is_private(url), "{url}");
        }
    }
}

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

impl Server {
    /// The name of the program, or the host of the URL. Arguments, paths and queries can hold secrets and are
    /// left out.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Stdio { argv } => {
                let program = argv.first().map_or("", String::as_str);
                program.rsplit('/').next().unwrap_or_default().to_owned()
            }
            Self::Http { url } => {
                let url = reqwest::Url::parse(url).ok();
                url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default().to_owned()
            }
        }
    }
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
    fn a_server_is_shown_without_what_may_be_secret() {
        let argv = ["./tools/notes", "--token", "hunter2"].map(str::to_owned).to_vec();
        assert_eq!(Server::Stdio { argv }.shown(), "notes");
        let url = "https://me:hunter2@example.com/hunter2?key=hunter2".to_owned();
        assert_eq!(Server::Http { url }.shown(), "example.com");
    }

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

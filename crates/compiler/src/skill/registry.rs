//! Where skills are fetched from: a directory, or a web server that lists the files of each skill.
//!
//! Both have the same layout: `<base>/<namespace>/<name>/<version>/`, with `SKILL.md` in it. Over HTTP an `index.json`
//! beside it, `{"files": ["SKILL.md", …]}`, says what else there is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt;
use serde::Deserialize;
use weir_spec::is_loopback;

use super::package::{BYTES_MAX, FILES_MAX, Package, is_inside};

/// The largest list of files.
const INDEX_BYTES_MAX: usize = 64 * 1024;

/// Where skills come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registry {
    Directory(PathBuf),
    Web(String),
}

/// Why there is no skill.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("there is no `{path}` in the registry")]
    Missing { path: String },
    #[error("the registry cannot be used: {why}")]
    Unreachable { why: String },
    #[error("what the registry has is no skill: {why}")]
    Refused { why: String },
}

impl Registry {
    /// The registry that a name stands for: what the project says, or the host of that name.
    pub(crate) fn of(name: &str, place: Option<&str>, project: &Path) -> Result<Self, RegistryError> {
        let place = place.map_or_else(|| format!("https://{name}"), str::to_owned);
        if !place.contains("://") {
            return Ok(Self::Directory(project.join(place)));
        }
        let refuse = |why: &str| Err(RegistryError::Unreachable { why: why.to_owned() });
        let Ok(url) = reqwest::Url::parse(&place) else { return refuse("its address is no URL") };
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(host) => {}
            "http" => return refuse("http is for this machine alone; use https"),
            _ => return refuse("it is neither a directory nor http(s)"),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("its address carries a name or a password");
        }
        Ok(Self::Web(place.trim_end_matches('/').to_owned()))
    }

    /// Whether a skill is had without the network.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// A skill. `path` is `namespace/name/version`.
    pub(crate) async fn fetch(&self, path: &str, timeout: Duration) -> Result<Package, RegistryError> {
        if !is_inside(path) {
            return Err(RegistryError::Missing { path: path.to_owned() });
        }
        match self {
            Self::Directory(base) => {
                let (directory, path) = (base.join(path), path.to_owned());
                let reading = tokio::task::spawn_blocking(move || {
                    if !directory.is_dir() {
                        return Err(RegistryError::Missing { path });
                    }
                    Package::of_directory(&directory).map_err(|why| RegistryError::Refused { why })
                });
                let broken = |_| RegistryError::Unreachable { why: "reading it broke off".to_owned() };
                reading.await.map_err(broken)?
            }
            Self::Web(base) => {
                let place = format!("{base}/{path}");
                let fetching = download(&place, path);
                let late = || RegistryError::Unreachable {
                    why: format!("it did not answer within {} s", timeout.as_secs()),
                };
                tokio::time::timeout(timeout, fetching).await.unwrap_or_else(|_| Err(late()))
            }
        }
    }
}

#[derive(Deserialize)]
struct Index {
    files: Vec<String>,
}

async fn download(base: &str, path: &str) -> Result<Package, RegistryError> {
    let refuse = |why: String| RegistryError::Refused { why };
    let client = weir_support::http::client()
        .build()
        .map_err(|error| RegistryError::Unreachable { why: error.to_string() })?;
    let index = get(&client, &format!("{base}/index.json"), INDEX_BYTES_MAX, path).await?;
    let index: Index =
        serde_json::from_slice(&index).map_err(|_| refuse("its `index.json` lists no `files`".to_owned()))?;
    if index.files.len() > FILES_MAX {
        return Err(refuse(format!("it has more than {FILES_MAX} files")));
    }
    let mut package = Package::default();
    for file in index.files {
        if !is_inside(&file) {
            return Err(refuse(format!("`{}` is no path within a skill", file.escape_debug())));
        }
        let room = BYTES_MAX - package.bytes();
        let bytes = get(&client, &format!("{base}/{file}"), room, path).await?;
        package.add(file, bytes).map_err(refuse)?;
    }
    Ok(package)
}

async fn get(
    client: &reqwest::Client,
    url: &str,
    bytes_max: usize,
    path: &str,
) -> Result<Vec<u8>, RegistryError> {
    let unreachable = |error: reqwest::Error| RegistryError::Unreachable {
        why: weir_support::innermost(&error.without_url()),
    };
    let response = client.get(url).send().await.map_err(unreachable)?;
    match response.status() {
        status if status.is_success() => {}
        reqwest::StatusCode::NOT_FOUND => return Err(RegistryError::Missing { path: path.to_owned() }),
        status => {
            return Err(RegistryError::Unreachable { why: format!("it answered HTTP {}", status.as_u16()) });
        }
    }
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(unreachable)?);
        if bytes.len() > bytes_max {
            return Err(RegistryError::Refused {
                why: format!("its files have more than {BYTES_MAX} bytes"),
            });
        }
    }
    Ok(bytes)
}

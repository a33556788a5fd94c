//! From a card of the catalog to a model that answers.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use weir_types::{FailureClass, ModelCard, Secret, Wire};

use crate::http::{Endpoint, HttpClient, provider_of};
use crate::remote::{Dialect, Line, Remote};
use crate::wires::{ANTHROPIC_VERSION, Anthropic, Gemini, OpenaiChat, OpenaiResponses};
use crate::{Model, ModelError};

/// The model that `card` describes, at `endpoint`. Nothing is sent yet.
///
/// # Errors
/// When the endpoint cannot be used: its URL, its key, or a wire that needs no network.
pub fn connect(
    card: &ModelCard,
    full_name: &str,
    endpoint: Endpoint,
    client: &HttpClient,
) -> Result<Arc<dyn Model>, ModelError> {
    let provider = provider_of(full_name);
    let name = full_name.split_once('/').map_or(full_name, |(_, name)| name);
    let name = card.api_name.as_deref().unwrap_or(name);
    let base = base(&endpoint.base_url)?;
    let host = base.host_str().unwrap_or_default().to_owned();
    match card.wire {
        Wire::Anthropic => {
            let url = at(base, Some("v1"), &["messages"]);
            let mut headers = authorized("x-api-key", "", endpoint.key.as_ref())?;
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
            remote(Anthropic, url, headers, endpoint, client)
        }
        Wire::OpenaiChat => {
            let url = at(base, None, &["chat", "completions"]);
            let headers = authorized("authorization", "Bearer ", endpoint.key.as_ref())?;
            remote(OpenaiChat::new(provider, &host), url, headers, endpoint, client)
        }
        Wire::OpenaiResponses => {
            let url = at(base, None, &["responses"]);
            let headers = authorized("authorization", "Bearer ", endpoint.key.as_ref())?;
            remote(OpenaiResponses, url, headers, endpoint, client)
        }
        Wire::Gemini => {
            let mut url = at(base, Some("v1beta"), &["models", &format!("{name}:streamGenerateContent")]);
            url.set_query(Some("alt=sse"));
            let headers = authorized("x-goog-api-key", "", endpoint.key.as_ref())?;
            remote(Gemini, url, headers, endpoint, client)
        }
        Wire::Scripted | Wire::Echo | Wire::Replay => {
            Err(ModelError::invalid(format!("`{full_name}` needs no connection")))
        }
    }
}

fn remote<D: Dialect>(
    dialect: D,
    url: Url,
    headers: HeaderMap,
    endpoint: Endpoint,
    client: &HttpClient,
) -> Result<Arc<dyn Model>, ModelError> {
    let line = Line { client: client.get()?, url, headers, key: endpoint.key, limits: endpoint.limits };
    Ok(Arc::new(Remote { dialect, line }))
}

fn base(written: &str) -> Result<Url, ModelError> {
    let refuse = |why: &str| ModelError::invalid(format!("the model's `base_url` {why}"));
    let mut url = Url::parse(written.trim()).map_err(|error| refuse(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse("has to begin with `https://` or `http://`"));
    }
    // It may be shown where a key may not.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("has a user or a password in it; give the key as a key"));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// A place under `base`. `version` is added unless the base has one already.
fn at(mut base: Url, version: Option<&str>, path: &[&str]) -> Url {
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let has_version = base.path_segments().is_some_and(|mut parts| parts.any(is_version));
    if let Ok(mut segments) = base.path_segments_mut() {
        segments.pop_if_empty().extend(version.filter(|_| !has_version)).extend(path);
    }
    base
}

/// The headers of every request, with the key in the one it belongs in.
fn authorized(name: &'static str, scheme: &str, key: Option<&Secret>) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = key.filter(|key| !key.expose().is_empty()) {
        let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose()))
            .map_err(|_| ModelError::new(FailureClass::Auth, "the key has characters that no key has"))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

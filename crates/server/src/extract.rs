//! What handlers take from a request: path, query and body, checked. Whatever does not fit is told in the server's own words
//! and shape, never in plain text; unknown parameters and keys are told with those that there are.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::error::Error;
use crate::percent::decoded;

/// The longest word about what is wrong with a request.
const WHY_CHARS_MAX: usize = 300;

/// A body of JSON, in a request or in an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// The parameters of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// The parts of a path, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        parse(&whole(request.into_body(), app.settings.body_bytes_max).await?)
    }
}

/// Nothing at all is nothing; a body must still say what it is.
impl<T: DeserializeOwned> OptionalFromRequest<App> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Option<Self>, Error> {
        let says_so = is_json(request.headers());
        let is_silent = !request.headers().contains_key(header::CONTENT_TYPE);
        let bytes = whole(request.into_body(), app.settings.body_bytes_max).await?;
        match (bytes.is_empty(), says_so) {
            (true, _) if says_so || is_silent => Ok(None),
            (_, true) => parse(&bytes).map(Some),
            (_, false) => Err(not_json()),
        }
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        query(&parts.uri).map(Self)
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let axum::extract::Path(found) = found.map_err(|rejection| match rejection.status() {
            StatusCode::BAD_REQUEST => {
                Error::bad("the path cannot be read", "percent-encode names as UTF-8, as in `a%2Fb`")
            }
            _ => Error::bug(),
        })?;
        Ok(Self(found))
    }
}

/// All of a body that may have so many bytes.
///
/// # Errors
/// When it has more, or ends before its end.
pub(crate) async fn whole(body: Body, bytes_max: usize) -> Result<Bytes, Error> {
    axum::body::to_bytes(body, bytes_max).await.map_err(|error| unreadable(&error, bytes_max))
}

/// Why a body cannot be read, in words.
pub(crate) fn unreadable(error: &(dyn std::error::Error + 'static), bytes_max: usize) -> Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return too_large(bytes_max);
        }
        if error.is::<crate::guard::Late>() {
            return Error::new(
                StatusCode::REQUEST_TIMEOUT,
                "server::slow-body",
                error.to_string(),
                "send it at a steady pace, or in smaller parts",
            );
        }
        cause = error.source();
    }
    Error::bad("the body broke off before its end", "send all of it, at a steady pace")
}

/// More than may be sent.
fn too_large(bytes_max: usize) -> Error {
    Error::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "server::too-large",
        format!("the body has more than {bytes_max} bytes"),
        "send less at once, and put large content into blobs with `PUT /blobs`",
    )
}

/// What a body is said to be, in lower case and without parameters; empty if nothing is said.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether the client would rather have server-sent events than JSON: it names them, and not JSON with as much weight.
pub(crate) fn prefers_event_stream(headers: &HeaderMap) -> bool {
    let weight = |wanted: &str| {
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let named = accepted.flat_map(|value| value.split(',')).filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            parts.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
            let given = parts.find_map(|part| part.strip_prefix("q="));
            Some(given.map_or(1.0, |given| given.parse::<f32>().unwrap_or(0.0)))
        });
        named.fold(0.0, f32::max)
    };
    weight("text/event-stream") > weight("application/json")
}

/// JSON that says what it is.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let essence = content_type(headers);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn not_json() -> Error {
    Error::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "server::not-json",
        "the body is not said to be JSON",
        "send JSON with `Content-Type: application/json`",
    )
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Json<T>, Error> {
    // A list would be read as the fields of an object in their order, which nobody means.
    if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(Error::bad("the body is not a JSON object", "send one JSON object"));
    }
    serde_json::from_slice(bytes).map(Json).map_err(|error| {
        let help = match error.classify() {
            serde_json::error::Category::Data => "see `/openapi.json` for what belongs there",
            _ => "send one JSON object",
        };
        Error::bad(format!("the body cannot be used: {}", shortened(&error.to_string())), help)
    })
}

/// The parameters of a query, all of them known and each of them there once.
fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Error> {
    let help = "see `/openapi.json` for the parameters there are";
    if uri.query().is_some_and(|query| decoded(query).is_none()) {
        return Err(Error::bad("the query is not percent-encoded UTF-8", help));
    }
    let read = axum::extract::Query::<T>::try_from_uri(uri);
    read.map(|axum::extract::Query(found)| found).map_err(|rejection| {
        let text = rejection.body_text();
        let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        // It is named twice where it is not known.
        let why = why.split_once(": unknown field").map_or(why, |(name, _)| &why[name.len() + 2..]);
        Error::bad(format!("the query cannot be used: {}", shortened(why)), help)
    })
}

/// What is wrong repeats what was sent, which may be anything.
fn shortened(why: &str) -> String {
    match why.char_indices().nth(WHY_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Page {
        after: Option<String>,
        limit: Option<u16>,
    }

    fn read(query_text: &str) -> Result<Page, String> {
        let uri: Uri = format!("/x?{query_text}").parse().unwrap();
        query(&uri).map_err(|error| error.message)
    }

    #[test]
    fn queries_are_strict() {
        assert_eq!(read("after=a%2Fb+c&limit=3"), Ok(Page { after: Some("a/b c".into()), limit: Some(3) }));
        assert_eq!(read(""), Ok(Page { after: None, limit: None }));
        let told = ["lmit=3", "limit=3&limit=4", "limit=x", "limit=", "after=%ff", "after=%4", "after=%zz"]
            .map(read);
        insta::assert_snapshot!(told.map(|told| told.unwrap_err()).join("\n"), @r#"
        the query cannot be used: unknown field `lmit`, expected `after` or `limit`
        the query cannot be used: duplicate field `limit`
        the query cannot be used: limit: invalid digit found in string
        the query cannot be used: limit: cannot parse integer from empty string
        the query is not percent-encoded UTF-8
        the query is not percent-encoded UTF-8
        the query is not percent-encoded UTF-8
        "#);
    }

    #[test]
    fn bodies_are_strict() {
        let read = |text: &str| parse::<Page>(text.as_bytes()).unwrap_err().message;
        let deep = "[".repeat(200);
        let told =
            [r#"{"lmit":3}"#, r#"{"limit":3,"limit":4}"#, r#"{"limit":"3"}"#, "{", "[]", "", "{} {}", &deep]
                .map(read);
        insta::assert_snapshot!(told.join("\n"), @r#"
        the body cannot be used: unknown field `lmit`, expected `after` or `limit` at line 1 column 7
        the body cannot be used: duplicate field `limit` at line 1 column 18
        the body cannot be used: invalid type: string "3", expected u16 at line 1 column 12
        the body cannot be used: EOF while parsing an object at line 1 column 1
        the body is not a JSON object
        the body cannot be used: EOF while parsing a value at line 1 column 0
        the body cannot be used: trailing characters at line 1 column 4
        the body is not a JSON object
        "#);
    }

    #[test]
    fn only_json_is_json() {
        let check = |said: &'static str| {
            is_json(&HeaderMap::from_iter([(header::CONTENT_TYPE, said.parse().unwrap())]))
        };
        assert!(
            ["application/json", "Application/JSON; charset=utf-8", "application/cloudevents+json"]
                .map(check)
                .iter()
                .all(|is| *is)
        );
        assert!(
            !["text/plain", "text/json", "application/jsonp", "application/x-www-form-urlencoded", ""]
                .map(check)
                .iter()
                .any(|is| *is)
        );
    }
}

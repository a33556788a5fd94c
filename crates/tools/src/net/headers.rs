//! Headers: which a caller may set, which follow a redirect to another host, and how many an answer may have.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::error::{Trouble, shortened};

/// Most headers of a request, and their bytes. Servers take about as much.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Most bytes of an answer's headers; their number is bounded by the client.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Headers that belong to the connection, not to the caller: with them, one request can be made to look like two, like one
/// for another host, or like one that writes.
const RESERVED: [&str; 16] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "forwarded",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// Prefixes of the same kind.
const RESERVED_PREFIXES: [&str; 3] = ["proxy-", "sec-", "x-forwarded-"];

/// All that another host gets. Whatever else a caller sets may be a credential, whatever it is called.
const SAFE_ELSEWHERE: [&str; 6] =
    ["accept", "accept-language", "content-language", "content-type", "idempotency-key", "user-agent"];

/// Headers that a caller may set.
pub(super) fn checked(headers: &[(String, String)]) -> Result<HeaderMap, Trouble> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
        let message = format!(
            "there are {} headers with {bytes} bytes; {HEADERS_MAX} with {HEADER_BYTES_MAX} can be sent",
            headers.len()
        );
        return Err(Trouble::Request(message));
    }
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let shown = shortened(name);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Trouble::Request(format!("`{shown}` is no name of a header")))?;
        if is_reserved(name.as_str()) {
            return Err(Trouble::Request(format!(
                "the header `{name}` cannot be set: it is part of the connection"
            )));
        }
        // Its value is not shown: it may be a key.
        let value = HeaderValue::from_str(value).map_err(|_| {
            Trouble::Request(format!(
                "the header `{name}` has a line break or a character that headers cannot have"
            ))
        })?;
        map.append(name, value);
    }
    Ok(map)
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// What is left of the headers for another host.
pub(super) fn for_another_host(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.len());
    for name in SAFE_ELSEWHERE.map(HeaderName::from_static) {
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// What is left of the headers when the body is.
pub(super) fn without_body(headers: &mut HeaderMap) {
    for name in ["content-type", "content-language", "content-encoding", "content-location"] {
        headers.remove(name);
    }
}

/// An answer's headers, unless there are too many.
pub(super) fn answered(headers: &HeaderMap) -> Option<Vec<(String, String)>> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    (bytes <= ANSWER_BYTES_MAX)
        .then(|| headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_sets_what_is_not_the_connections() {
        let check = |name: &str, value: &str| checked(&[(name.to_owned(), value.to_owned())]).map(|_| ());
        for (name, value) in
            [("Accept", "text/html"), ("X-Api-Key", "k"), ("Cookie", "a=b"), ("Idempotency-Key", "1")]
        {
            assert!(check(name, value).is_ok(), "{name}");
        }
        for name in RESERVED {
            assert!(check(name, "x").is_err() && check(&name.to_uppercase(), "x").is_err(), "{name}");
        }
        for name in ["Proxy-Authorization", "Sec-Fetch-Mode", "X-Forwarded-For", "a b", "", "a\r\nHost", "ä"]
        {
            assert!(check(name, "x").is_err(), "{name}");
        }
        let refused = check("X-Key", "hush\r\nHost: evil").unwrap_err().to_string();
        assert!(!refused.contains("hush"), "{refused}");
        assert!(check("X-Long", &"x".repeat(HEADER_BYTES_MAX)).is_err());
        assert!(checked(&vec![("a".to_owned(), String::new()); HEADERS_MAX + 1]).is_err());
    }

    #[test]
    fn another_host_gets_no_credential() {
        let all = [
            ("Authorization", "x"),
            ("Cookie", "x"),
            ("X-Api-Key", "x"),
            ("Accept", "x"),
            ("Content-Type", "x"),
        ];
        let all: Vec<(String, String)> =
            all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let kept = for_another_host(&checked(&all).unwrap());
        let kept: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(kept, ["accept", "content-type"]);
    }
}

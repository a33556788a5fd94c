//! Lists in pages: how many at once, and where the next page begins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// How many are listed where nobody says how many.
pub(super) const LIMIT_DEFAULT: u32 = 50;

/// The most that are listed at once.
pub(super) const LIMIT_MAX: u32 = 500;

/// How many are listed.
pub(super) fn limit(given: Option<u32>) -> Result<usize, Error> {
    match given.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit as usize),
        _ => Err(Error::bad(
            format!("`limit` is a number from 1 to {LIMIT_MAX}"),
            "ask for the next page with `after`, which is `next` of the page before",
        )),
    }
}

/// Where the next page begins, as an opaque text.
pub(super) fn cursor(place: &impl Serialize) -> Option<String> {
    serde_json::to_vec(place).ok().map(|text| URL_SAFE_NO_PAD.encode(text))
}

/// What an opaque text said.
pub(super) fn place<T: DeserializeOwned>(cursor: &str) -> Result<T, Error> {
    let text = URL_SAFE_NO_PAD.decode(cursor).ok();
    text.and_then(|text| serde_json::from_slice(&text).ok()).ok_or_else(|| {
        Error::bad(
            "`after` is not the end of a page",
            "take `next` of the page before as it is, or leave it out",
        )
    })
}

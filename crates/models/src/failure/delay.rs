//! When a provider says to come back: in headers, in a field, or in a sentence.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;

/// Nobody waits longer than this for a model; a larger number is a slip, or an attack.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn of_headers(headers: &HeaderMap) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return bounded(millis / 1000.0);
    }
    let after = header("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return bounded(seconds);
    }
    // Between two of the server's own times, its clock need not agree with ours.
    let until = date(after)?;
    let now = header("date").and_then(date).unwrap_or_else(Timestamp::now);
    bounded(until.duration_since(now).as_secs_f64().max(0.0))
}

fn date(text: &str) -> Option<Timestamp> {
    // HTTP says `GMT` where mail says an offset; jiff reads both.
    rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()
}

/// `34.07s`, `20ms`, `1m30s`, `2h`.
pub(super) fn of_words(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().ok()?;
        let unit = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        seconds += number
            * match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = after;
    }
    (!text.is_empty()).then(|| bounded(seconds)).flatten()
}

/// OpenAI's `Please try again in 1m30s.`
pub(super) fn of_sentence(message: &str) -> Option<Duration> {
    let (_, after) = message.split_once("try again in ")?;
    let word = after.split_whitespace().next()?;
    of_words(word.trim_end_matches(|c: char| !c.is_ascii_alphabetic()))
}

fn bounded(seconds: f64) -> Option<Duration> {
    let delay = Duration::try_from_secs_f64(seconds).ok()?;
    Some(delay.min(DELAY_MAX))
}

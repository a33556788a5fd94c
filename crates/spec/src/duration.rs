//! Spans of time as people write them: `90s`, `5m`, `1h30m`.

use std::time::Duration;

/// Text that is no span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a span of time, like `90s`, `5m` or `1h30m`")]
pub struct DurationError(String);

/// Units and their milliseconds, the largest first. `ms` comes before `m` in no reading: units are whole words.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads whole numbers with units, the larger units first, each at most once.
///
/// # Errors
/// When `text` is anything else, or longer than a `u64` of milliseconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let refuse = || DurationError(crate::node::excerpt(text));
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |byte| byte.is_ascii_digit());
        let (unit, after) = split(after, |byte| byte.is_ascii_alphabetic());
        let number: u64 = number.parse().map_err(|_| refuse())?;
        let (_, millis) = units.find(|(name, _)| *name == unit).ok_or_else(refuse)?;
        total = number.checked_mul(*millis).and_then(|part| total.checked_add(part)).ok_or_else(refuse)?;
        rest = after;
    }
    if text.is_empty() { Err(refuse()) } else { Ok(Duration::from_millis(total)) }
}

fn split(text: &str, belongs: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|byte| !belongs(byte)).unwrap_or(text.len());
    // INVARIANT: everything before `end` is ASCII, so it is a boundary.
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_read() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(parse_duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        };
        check("90s", Some(90_000));
        check("5m", Some(300_000));
        check("1h30m", Some(5_400_000));
        check("50ms", Some(50));
        check("1d2h3m4s5ms", Some(93_784_005));
        check("0s", Some(0));
        for bad in [
            "",
            "5",
            "m",
            "5 m",
            "5m5m",
            "30m1h",
            "-5m",
            "1.5h",
            "5µs",
            "é",
            "99999999999999999999s",
            "18446744073709552s",
        ] {
            check(bad, None);
        }
    }
}

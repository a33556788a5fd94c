//! The log of a command that runs an engine: one line per record on standard error, for people, or for
//! programs with `--json`. A server logs unless it is told not to; the other commands log only what `LOG_LEVEL` asks for.

use std::borrow::Cow;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weir_types::{Explain, Fault};

use crate::output::Out;

/// Where the environment says how much is told.
pub(crate) const VARIABLE: &str = "LOG_LEVEL";

/// The level is none.
#[derive(Debug, thiserror::Error)]
#[error("`{VARIABLE}` is `{0}`, which is no level")]
pub(crate) struct LevelError(String);

impl Explain for LevelError {
    fn code(&self) -> &'static str {
        "cli::log-level"
    }

    fn help(&self) -> Cow<'static, str> {
        "set it to `error`, `warn`, `info`, `debug`, `trace` or `off`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// How much is told: what the environment says, or the usual.
fn level(word: Option<&str>, usual: LevelFilter) -> Result<LevelFilter, LevelError> {
    match word.map(str::trim).filter(|word| !word.is_empty()) {
        None => Ok(usual),
        Some(word) if word.bytes().all(|byte| byte.is_ascii_digit()) => Err(LevelError(word.to_owned())),
        Some(word) => word.parse().map_err(|_| LevelError(word.chars().take(40).collect())),
    }
}

/// Begins the log of a server.
///
/// # Errors
/// When the environment asks for a level that is none.
pub(crate) fn begin(out: &Out) -> Result<(), LevelError> {
    begin_at(LevelFilter::INFO, out)
}

/// Begins the log of a command that says by itself what a person has to know.
///
/// # Errors
/// When the environment asks for a level that is none.
pub(crate) fn begin_if_asked(out: &Out) -> Result<(), LevelError> {
    begin_at(LevelFilter::OFF, out)
}

fn begin_at(usual: LevelFilter, out: &Out) -> Result<(), LevelError> {
    let word = std::env::var_os(VARIABLE).map(|word| word.to_string_lossy().into_owned());
    let level = level(word.as_deref(), usual)?;
    // What others tell is of use only when something is looked for; their traces hold what is sent word for
    // word.
    let others = if level >= LevelFilter::DEBUG { LevelFilter::DEBUG } else { level.min(LevelFilter::WARN) };
    // It would tell every message word for word, which is for the journal to keep and not for a log.
    let wanted = Targets::new().with_default(others).with_target("weir", level);
    let wanted = wanted.with_target("rmcp", level.min(LevelFilter::ERROR));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(wanted);
    // A second server in one process, as in tests, tells its lines where the first does.
    let _ = if out.json {
        registry.with(lines.json().flatten_event(true).with_current_span(false)).try_init()
    } else {
        registry.with(lines.with_target(false).with_ansi(out.err.is_on())).try_init()
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_word() {
        for (word, expected) in [
            (None, LevelFilter::OFF),
            (Some(" "), LevelFilter::OFF),
            (Some("info"), LevelFilter::INFO),
            (Some("ERROR"), LevelFilter::ERROR),
            (Some("warn"), LevelFilter::WARN),
            (Some("debug "), LevelFilter::DEBUG),
            (Some("trace"), LevelFilter::TRACE),
            (Some("off"), LevelFilter::OFF),
        ] {
            assert_eq!(level(word, LevelFilter::OFF).unwrap(), expected, "{word:?}");
        }
        for word in ["loud", "3", "info,weir=debug"] {
            assert!(level(Some(word), LevelFilter::INFO).is_err(), "{word}");
        }
    }
}

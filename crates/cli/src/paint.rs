//! Colour, when there is someone to see it, and how many columns there are. Everything stays readable without colour.

use std::borrow::Cow;
use std::fmt;
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// What `--color` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Colours text, or leaves it as it is; knows how wide it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
    columns: Option<usize>,
}

/// What the surroundings say about colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// The stream is a terminal.
    pub(crate) terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub(crate) no_color: bool,
    /// `TERM` is `dumb`.
    pub(crate) dumb: bool,
    /// Columns of the terminal.
    pub(crate) columns: Option<usize>,
}

impl Surroundings {
    /// Of a stream of this process.
    pub(crate) fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let size = if stream.is_terminal() { rustix::termios::tcgetwinsize(stream).ok() } else { None };
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Self { terminal: stream.is_terminal(), no_color, dumb, columns }
    }
}

impl Paint {
    /// A terminal without colour.
    #[cfg(test)]
    pub(crate) const fn narrow(columns: usize) -> Self {
        Self { on: false, columns: Some(columns) }
    }

    #[cfg(test)]
    pub(crate) const OFF: Self = Self { on: false, columns: None };

    /// A flag beats the environment, the environment beats the terminal.
    pub(crate) fn new(when: When, surroundings: Surroundings) -> Self {
        let on = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => surroundings.terminal && !surroundings.no_color && !surroundings.dumb,
        };
        Self { on, columns: surroundings.columns }
    }

    /// Columns of the terminal, if there is one.
    pub(crate) fn columns(self) -> Option<usize> {
        self.columns
    }

    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    pub(crate) fn error<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.wrap("1;31", text)
    }

    pub(crate) fn warn<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.wrap("1;33", text)
    }

    pub(crate) fn ok<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.wrap("32", text)
    }

    pub(crate) fn hint<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.wrap("1;36", text)
    }

    pub(crate) fn bold<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.wrap("1", text)
    }

    pub(crate) fn dim<'a>(self, text: &'a str) -> Cow<'a, str> {
        self.wrap("2", text)
    }

    fn wrap<'a>(self, style: &'static str, text: &'a str) -> Cow<'a, str> {
        if self.on { Cow::Owned(format!("\x1b[{style}m{text}\x1b[0m")) } else { Cow::Borrowed(text) }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_beats_environment_beats_terminal() {
        let on = |when, terminal, no_color, dumb| {
            Paint::new(when, Surroundings { terminal, no_color, dumb, columns: None }).is_on()
        };
        assert!(on(When::Auto, true, false, false));
        assert!(!on(When::Auto, false, false, false));
        assert!(!on(When::Auto, true, true, false));
        assert!(!on(When::Auto, true, false, true));
        assert!(on(When::Always, false, true, true));
        assert!(!on(When::Never, true, false, false));
    }
}

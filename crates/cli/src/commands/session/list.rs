//! `weir session list`.

use jiff::tz::TimeZone;
use serde::Serialize;
use weir_engine::{Address, conversation};
use weir_events::{Body, Payload, SessionCreated, UserMessage};
use weir_journal::{Journal, ListFilter, Listed, Status};
use weir_types::{BranchName, Kind, Seq, SessionId, Timestamp, Usage};

use crate::commands::Context;
use crate::damaged::end_of_list;
use crate::host::Host;
use crate::identity::Sees;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, shorten};
use crate::table;
use crate::which::{Pages, visible};

/// How many sessions a person is shown.
const ROWS_DEFAULT: usize = 50;

/// How much of a title or of the first message a person is shown.
const TITLE_COLUMNS: usize = 60;
const SUBJECT_WORDS_MAX: usize = 12;

const EXAMPLES: &str = "\
Examples:
  weir session list
  weir session list --status waiting
  weir session list --agent helper --json | jq -r .id";

/// The arguments of `weir session list`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only those that are idle, running, waiting, halted or closed.
    #[arg(long)]
    status: Option<Status>,
    /// Only those of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// At most so many; 50 if left out, with `--json` all.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Times in UTC, instead of the time zone of this machine or of `TZ`. With `--json` they always are.
    #[arg(long)]
    utc: bool,
}

#[derive(Serialize)]
struct View<'a> {
    id: SessionId,
    branch: &'a BranchName,
    agent: Option<&'a str>,
    status: &'a str,
    title: Option<&'a str>,
    /// The first words of the first message.
    subject: Option<String>,
    /// The session whose call began it.
    parent: Option<String>,
    principal: Option<&'a str>,
    updated: Timestamp,
    usage: Usage,
    cost_usd: f64,
    /// What is wrong with it, if its status is `damaged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
}

/// The status of a session that cannot be read.
const DAMAGED: &str = "damaged";

/// Lists sessions, the latest first.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let sees = context.sees(&context.project).await?;
    let host = super::host_to_read(context, &context.project).await?;
    let listed = list(args, &sees, &host, &mut context.out).await;
    host.stop().await;
    listed
}

async fn list(args: &Args, sees: &Sees, host: &Host, out: &mut Out) -> Outcome {
    let filter = ListFilter { status: args.status, agent: args.agent.clone(), ..visible(sees) };
    let mut pages = Pages::new(filter);
    let mut rows: Vec<(Address, Listed)> = Vec::new();
    while let Some(page) = pages.next(&*host.journal).await? {
        rows.extend(page.into_iter().filter_map(|listed| Some((Address::of(&listed.branch)?, listed))));
    }
    rows.sort_by_key(|(_, listed)| std::cmp::Reverse(listed.head.position));
    let all = rows.len();
    rows.truncate(args.limit.unwrap_or(if out.json { usize::MAX } else { ROWS_DEFAULT }));
    let mut damaged = 0;
    if out.json {
        for (address, listed) in &rows {
            let (spent, damage) = host.engine.totals(address, listed).await?;
            damaged += usize::from(damage.is_some());
            let (usage, cost_usd) = (spent.usage, spent.cost.as_usd());
            let Beginning { subject, parent } = Beginning::read(&*host.journal, address).await;
            let parent = parent.map(|parent| parent.to_string());
            let view = View { usage, cost_usd, subject, parent, ..view(address, listed) };
            let status = if damage.is_some() { DAMAGED } else { view.status };
            out.object(&View { status, damage: damage.as_deref(), ..view })?;
        }
        return end_of_list(damaged, "session");
    }
    if rows.is_empty() {
        out.note(format_args!("there are no such sessions; begin one with `weir chat AGENT`"));
        return Ok(());
    }
    let mut shown = Vec::new();
    for (address, listed) in &rows {
        let (spent, damage) = host.engine.totals(address, listed).await?;
        if let Some(what) = &damage {
            damaged += 1;
            out.warn(format_args!("session {address} is damaged: {}", printable(what)));
        }
        // Whoever ran it is gone without a word: it waits to be resumed.
        let orphan = listed.attrs.status == Status::Running && host.engine.runner(address).await?.is_none();
        let status = match damage {
            Some(_) => DAMAGED,
            None if orphan => "interrupted",
            None => listed.attrs.status.as_str(),
        };
        let Beginning { subject, parent } = Beginning::read(&*host.journal, address).await;
        let title = listed.attrs.title.clone().or(subject).unwrap_or_default();
        shown.push(Row { address, listed, status, title, cost: spent.cost.to_string(), parent });
    }
    let zone = if args.utc { TimeZone::UTC } else { TimeZone::system() };
    let updated = if is_utc(&zone) { "UPDATED (UTC)" } else { "UPDATED" };
    let cells: Vec<[String; 6]> =
        under_parents(&shown).into_iter().map(|(row, depth)| row.cells(depth, &zone)).collect();
    table::print(["SESSION", "AGENT", "STATUS", updated, "COST", "TITLE"], &cells, out)?;
    if all > rows.len() {
        out.note(format_args!("{} more; `--limit {all}` shows them", all - rows.len()));
    }
    end_of_list(damaged, "session")
}

/// A session as people are shown it.
struct Row<'a> {
    address: &'a Address,
    listed: &'a Listed,
    status: &'static str,
    title: String,
    cost: String,
    parent: Option<Address>,
}

/// Sessions that an agent began stand under the one that they work for, if that is shown; the order is otherwise as it was.
fn under_parents<'r, 'a>(rows: &'r [Row<'a>]) -> Vec<(&'r Row<'a>, usize)> {
    let is_shown = |address: &Address| rows.iter().any(|row| row.address == address);
    let mut sorted = Vec::new();
    let mut waiting: Vec<(&Row<'_>, usize)> = Vec::new();
    let roots = rows.iter().filter(|row| !row.parent.as_ref().is_some_and(is_shown));
    for root in roots {
        waiting.push((root, 0));
        while let Some((row, depth)) = waiting.pop() {
            sorted.push((row, depth));
            let children = rows.iter().filter(|child| child.parent.as_ref() == Some(row.address));
            waiting.extend(children.rev().map(|child| (child, depth + 1)));
        }
    }
    sorted
}

impl Row<'_> {
    fn cells(&self, depth: usize, zone: &TimeZone) -> [String; 6] {
        let agent = self.listed.attrs.agent.as_deref().unwrap_or("");
        let indent = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
        [
            format!("{indent}{}", self.address),
            printable(agent).into_owned(),
            self.status.to_owned(),
            local(self.listed.head.ts, zone),
            self.cost.clone(),
            shorten(&printable(&self.title), TITLE_COLUMNS).into_owned(),
        ]
    }
}

/// To the second is enough for people.
fn local(ts: Timestamp, zone: &TimeZone) -> String {
    let Ok(moment) = jiff::Timestamp::from_microsecond(ts.as_micros()) else { return ts.to_string() };
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn is_utc(zone: &TimeZone) -> bool {
    *zone == TimeZone::UTC || matches!(zone.iana_name(), Some("UTC" | "Etc/UTC"))
}

/// How a session began.
struct Beginning {
    /// The first words of the first message.
    subject: Option<String>,
    /// The session whose call began it.
    parent: Option<Address>,
}

impl Beginning {
    /// As far as it can be read: what is damaged is told elsewhere. Any number of events may stand before the first message, such
    /// as the files that a session begins with.
    async fn read(journal: &impl Journal, address: &Address) -> Self {
        let parent = match first_of(journal, address, SessionCreated::kind()).await {
            Some(Body::SessionCreated(created)) => created.parent,
            _ => None,
        };
        let subject = match first_of(journal, address, UserMessage::kind()).await {
            Some(Body::UserMessage(said)) => {
                let text = conversation::words(&said.content);
                let words: Vec<&str> = text.split_whitespace().take(SUBJECT_WORDS_MAX).collect();
                Some(shorten(&words.join(" "), TITLE_COLUMNS).into_owned())
            }
            _ => None,
        };
        let parent = parent.map(|parent| Address { session: parent.session, branch: parent.branch });
        Self { subject, parent }
    }
}

/// The first event of a kind, if it can be read.
async fn first_of(journal: &impl Journal, address: &Address, kind: Kind) -> Option<Body> {
    let page = journal.by_kind(&address.branch_id(), &kind, Seq(0), 1).await.ok()?;
    let event = page.first()?;
    Body::decode(&event.kind, &event.payload).ok().flatten()
}

fn view<'a>(address: &'a Address, listed: &'a Listed) -> View<'a> {
    let attrs = &listed.attrs;
    View {
        id: address.session,
        branch: &address.branch,
        agent: attrs.agent.as_deref(),
        status: attrs.status.as_str(),
        title: attrs.title.as_deref(),
        subject: None,
        parent: None,
        principal: attrs.principal.as_deref(),
        updated: listed.head.ts,
        usage: Usage::default(),
        cost_usd: 0.0,
        damage: None,
    }
}

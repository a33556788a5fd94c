//! Which session is meant: `ID`, the beginning of one, `ID@branch`, or `-1` for the latest, `-2` for the one before, and so on.

use std::borrow::Cow;

use weir_engine::{Address, EngineError};
use weir_events::Body;
use weir_journal::{Journal, ListFilter, Listed, PAGE_MAX};
use weir_types::{BranchId, BranchName, Explain, Fault, Seq, SessionId, StreamName};

use crate::args;
use crate::identity::Sees;
use crate::report::Outcome;

/// Most sessions named in an error.
const CANDIDATES_MAX: usize = 5;

/// A session as it is named on the command line.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArg {
    /// The session: its id or the beginning of it, with `@BRANCH` for a branch; `-1` or `--last` is the latest, `-2` the one
    /// before.
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: String,
}

/// Why no session is meant.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhichError {
    /// There is none at all.
    #[error("there are no sessions yet")]
    None,
    /// Not as many.
    #[error("there are only {0} sessions")]
    TooFew(usize),
    /// No id begins like that.
    #[error("no session's id begins with `{0}`")]
    Unknown(String),
    /// Several ids do.
    #[error("several sessions' ids begin with `{prefix}`")]
    Ambiguous {
        /// As given.
        prefix: String,
        /// Some of them.
        candidates: Vec<String>,
    },
    /// That can be no id.
    #[error("`{0}` is not a session's id")]
    NotAnId(String),
}

impl Explain for WhichError {
    fn code(&self) -> &'static str {
        match self {
            Self::None | Self::TooFew(_) | Self::Unknown(_) => "engine::no-session",
            Self::Ambiguous { .. } => "cli::ambiguous-session",
            Self::NotAnId(_) => "cli::session",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::None => "begin one with `weir chat AGENT`".into(),
            Self::TooFew(_) | Self::Unknown(_) => "see `weir session list`".into(),
            Self::Ambiguous { candidates, .. } => {
                format!("write more of it: {}", candidates.join(", ")).into()
            }
            Self::NotAnId(_) => {
                "write an id from `weir session list`, or its beginning; `-1` is the latest session, `-2` the one before".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::None | Self::TooFew(_) | Self::Unknown(_) => Fault::Missing,
            Self::Ambiguous { .. } | Self::NotAnId(_) => Fault::Input,
        }
    }
}

impl SessionArg {
    /// The session it names.
    pub(crate) async fn find(&self, journal: &impl Journal, sees: &Sees) -> Outcome<Address> {
        find(journal, &self.session, sees).await
    }
}

/// The session that `text` names, among those that can be seen.
pub(crate) async fn find(journal: &impl Journal, text: &str, sees: &Sees) -> Outcome<Address> {
    let (id, branch) = match text.split_once('@') {
        Some((id, branch)) => (id, Some(args::parse::<BranchName>(branch)?)),
        None => (text, None),
    };
    let latest = match from_latest(id) {
        Some(back) => Some(latest(journal, back, sees).await?),
        None => None,
    };
    let address = match (latest, branch) {
        (Some(latest), None) => return Ok(latest),
        (Some(latest), Some(branch)) => Address { branch, ..latest },
        (None, branch) => {
            let session = by_prefix(journal, id, sees).await?;
            Address { session, branch: branch.unwrap_or_else(BranchName::main) }
        }
    };
    match journal.head(&address.branch_id()).await? {
        Some(_) if is_visible(journal, &address, sees).await? => Ok(address),
        _ => Err(EngineError::NoSession(address).into()),
    }
}

/// Whether a session acts on behalf of somebody whose sessions can be seen.
async fn is_visible(journal: &impl Journal, address: &Address, sees: &Sees) -> Outcome<bool> {
    let Sees::Only(principal) = sees else { return Ok(true) };
    let first = journal.read(&address.branch_id(), Seq(0), 1).await?;
    let created = first.first().map(|event| Body::decode(&event.kind, &event.payload));
    Ok(matches!(created, Some(Ok(Some(Body::SessionCreated(created)))) if created.principal == *principal))
}

/// The sessions that can be seen.
pub(crate) fn visible(sees: &Sees) -> ListFilter {
    let principal = match sees {
        Sees::Everything => None,
        Sees::Only(principal) => Some(principal.clone()),
    };
    ListFilter { principal, ..ListFilter::default() }
}

/// How many back from the latest a text means: `-1` and `--last` are the latest.
pub(crate) fn from_latest(text: &str) -> Option<usize> {
    match text {
        "--last" => Some(1),
        _ => text.strip_prefix('-')?.parse().ok().filter(|back| *back > 0),
    }
}

/// The branch of a session on which something happened last, or that of so many before it.
async fn latest(journal: &impl Journal, back: usize, sees: &Sees) -> Outcome<Address> {
    // The newest ones, the newest first; no more than are asked for.
    let mut newest: Vec<(u64, Address)> = Vec::new();
    let mut pages = Pages::new(visible(sees));
    while let Some(page) = pages.next(journal).await? {
        for listed in page {
            let position = listed.head.position.0;
            let at = newest.partition_point(|(known, _)| *known > position);
            if at < back
                && let Some(address) = Address::of(&listed.branch)
            {
                newest.insert(at, (position, address));
                newest.truncate(back);
            }
        }
    }
    match (newest.len(), newest.pop()) {
        (_, None) => Err(WhichError::None.into()),
        (found, _) if found < back => Err(WhichError::TooFew(found).into()),
        (_, Some((_, address))) => Ok(address),
    }
}

/// The branch that `--stream` and `--branch` name. The stream of a session can be written like the session: `-1`, or
/// `session:` and the beginning of an id.
pub(crate) async fn branch_of(
    journal: &impl Journal,
    stream: &str,
    branch: Option<&str>,
    sees: &Sees,
) -> Outcome<BranchId> {
    let part = stream.strip_prefix("session:").unwrap_or("");
    let is_part = !part.is_empty() && part.parse::<SessionId>().is_err();
    if from_latest(stream.split('@').next().unwrap_or(stream)).is_none() && !is_part {
        return Ok(args::branch_id(stream, branch)?);
    }
    let named = if is_part { part } else { stream };
    let mut found = find(journal, named, sees).await?.branch_id();
    if let Some(branch) = branch {
        found.branch = args::parse(branch)?;
    }
    Ok(found)
}

/// The stream that `--stream` names, which can be that of a session, too.
pub(crate) async fn stream_of(journal: &impl Journal, stream: &str) -> Outcome<StreamName> {
    Ok(branch_of(journal, stream, None, &Sees::Everything).await?.stream)
}

/// The same, if a stream is named at all.
pub(crate) async fn stream_if_named(
    journal: &impl Journal,
    stream: Option<&str>,
) -> Outcome<Option<StreamName>> {
    match stream {
        Some(stream) => stream_of(journal, stream).await.map(Some),
        None => Ok(None),
    }
}

async fn by_prefix(journal: &impl Journal, prefix: &str, sees: &Sees) -> Outcome<SessionId> {
    let prefix = prefix.to_ascii_uppercase();
    if let Ok(session) = prefix.parse() {
        return Ok(session);
    }
    let refuse = || WhichError::NotAnId(prefix.chars().take(40).collect());
    if prefix.is_empty() || prefix.len() > 26 || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(refuse().into());
    }
    let candidates = candidates(journal, &prefix, sees).await?;
    match candidates.as_slice() {
        [] => Err(WhichError::Unknown(prefix).into()),
        [only] => Ok(only.parse().map_err(|_| refuse())?),
        _ => Err(WhichError::Ambiguous { prefix, candidates }.into()),
    }
}

/// Some ids that begin like that, of sessions that can be seen.
async fn candidates(journal: &impl Journal, prefix: &str, sees: &Sees) -> Outcome<Vec<String>> {
    // No session is called by its beginning alone, so all that begin with it come after it.
    let beginning = format!("session:{prefix}");
    let (mut after, mut found): (StreamName, Vec<String>) = (args::parse(&beginning)?, Vec::new());
    loop {
        let streams = journal.streams(Some(after), CANDIDATES_MAX + 1).await?;
        for summary in &streams {
            let Some(id) = summary.stream.as_str().strip_prefix("session:") else { return Ok(found) };
            if !id.starts_with(prefix) || found.len() > CANDIDATES_MAX {
                return Ok(found);
            }
            let address = id.parse().map(|session| Address { session, branch: BranchName::main() });
            if let Ok(address) = address
                && is_visible(journal, &address, sees).await?
            {
                found.push(id.to_owned());
            }
        }
        match streams.last() {
            Some(last) if streams.len() > CANDIDATES_MAX => after = last.stream.clone(),
            _ => return Ok(found),
        }
    }
}

/// `fork-1`, or the first number that is free among a session's branches.
pub(crate) async fn free_branch(journal: &impl Journal, address: &Address) -> Outcome<BranchName> {
    let branches = journal.branches(&address.branch_id().stream).await?;
    let taken = |name: &str| branches.iter().any(|branch| branch.name.as_str() == name);
    let name = (1_u64..).map(|n| format!("fork-{n}")).find(|name| !taken(name)).unwrap_or_default();
    Ok(args::parse(&name)?)
}

/// Sessions by their attributes, page by page.
pub(crate) struct Pages {
    filter: ListFilter,
    after: Option<weir_journal::ListAfter>,
    done: bool,
}

impl Pages {
    pub(crate) fn new(filter: ListFilter) -> Self {
        Self { filter, after: None, done: false }
    }

    pub(crate) async fn next(&mut self, journal: &impl Journal) -> Outcome<Option<Vec<Listed>>> {
        if self.done {
            return Ok(None);
        }
        let page = journal.list(self.filter.clone(), self.after.take(), PAGE_MAX).await?;
        self.after = page.last().map(Listed::after);
        self.done = page.len() < PAGE_MAX;
        Ok(Some(page))
    }
}

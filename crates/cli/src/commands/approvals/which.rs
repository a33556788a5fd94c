//! Which call is meant: its id, or the beginning or the end of it. Ids that were made at about the same time begin alike; their
//! ends tell them apart.

use std::borrow::Cow;

use weir_engine::{Address, Approval};
use weir_types::{CallId, Explain, Fault};

use crate::host::Host;
use crate::identity::Sees;
use crate::report::Outcome;

/// Most calls named in an error.
const CANDIDATES_MAX: usize = 5;

/// The least of an id that is shown in a list.
const SHOWN_MIN: usize = 6;

/// The length of an id.
const ID: usize = 26;

/// Why no call is meant.
#[derive(Debug, thiserror::Error)]
pub(super) enum WhichError {
    /// There is none of that id.
    #[error("there is no call {0}")]
    Unknown(CallId),
    /// None that waits is called like that.
    #[error("no call that waits for approval has an id that begins or ends with `{0}`")]
    NotWaiting(String),
    /// Several are.
    #[error("several calls that wait for approval have ids that begin or end with `{part}`")]
    Ambiguous {
        /// As given.
        part: String,
        /// Some of them.
        candidates: Vec<String>,
    },
    /// That can be no id.
    #[error("`{0}` is not the id of a call")]
    NotAnId(String),
    /// No call waits.
    #[error("no call waits for approval")]
    NothingWaits,
    /// Several wait, and none is named.
    #[error("several calls wait for approval")]
    Several {
        /// Some of them.
        candidates: Vec<String>,
    },
}

impl Explain for WhichError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) | Self::NotWaiting(_) | Self::NothingWaits => "engine::no-approval",
            Self::Ambiguous { .. } | Self::Several { .. } => "cli::ambiguous-call",
            Self::NotAnId(_) => "cli::call",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unknown(_) | Self::NotWaiting(_) | Self::NothingWaits => {
                "see `weir approvals` for what waits".into()
            }
            Self::Several { candidates } => format!("name one of them: {}", candidates.join(", ")).into(),
            Self::Ambiguous { candidates, .. } => {
                format!("write more of it: {}", candidates.join(", ")).into()
            }
            Self::NotAnId(_) => "write an id from `weir approvals`, or its beginning or end".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Unknown(_) | Self::NotWaiting(_) | Self::NothingWaits => Fault::Missing,
            Self::Ambiguous { .. } | Self::Several { .. } | Self::NotAnId(_) => Fault::Input,
        }
    }
}

/// The call that `text` names, and the session that makes it. Nothing names the only one that waits.
pub(super) async fn find(host: &Host, text: Option<&str>) -> Outcome<(Address, CallId)> {
    let Some(text) = text else {
        let (mut waiting, mut after) = (Vec::new(), None);
        while waiting.len() < CANDIDATES_MAX {
            let page = host.engine.all_approvals(None, after, weir_journal::PAGE_MAX).await?;
            waiting.extend(page.approvals);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        return only(waiting);
    };
    if crate::which::from_latest(text).is_some() {
        let address = crate::which::find(&*host.journal, text, &Sees::Everything).await?;
        return only(host.engine.approvals(&address).await?);
    }
    let part = text.trim().to_ascii_uppercase();
    if let Ok(call) = part.parse::<CallId>() {
        let caller = host.engine.caller(call).await?;
        return Ok((caller.ok_or(WhichError::Unknown(call))?, call));
    }
    if part.is_empty() || part.len() >= ID || !part.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(WhichError::NotAnId(text.chars().take(40).collect()).into());
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = host.engine.all_approvals(None, after, weir_journal::PAGE_MAX).await?;
        found.extend(page.approvals.into_iter().filter_map(|approval| {
            let id = approval.id.to_string();
            (id.starts_with(&part) || id.ends_with(&part)).then_some((approval.address, approval.id))
        }));
        match page.next {
            Some(next) if found.len() <= CANDIDATES_MAX => after = Some(next),
            _ => break,
        }
    }
    match found.len() {
        0 => Err(WhichError::NotWaiting(part).into()),
        1 => Ok(found.remove(0)),
        _ => {
            let candidates = found.iter().take(CANDIDATES_MAX).map(|(_, call)| call.to_string()).collect();
            Err(WhichError::Ambiguous { part, candidates }.into())
        }
    }
}

/// The one that waits, if it is the only one.
fn only(mut waiting: Vec<Approval>) -> Outcome<(Address, CallId)> {
    match waiting.len() {
        0 => Err(WhichError::NothingWaits.into()),
        1 => {
            let approval = waiting.remove(0);
            Ok((approval.address, approval.id))
        }
        _ => {
            let candidates = waiting.iter().take(CANDIDATES_MAX).map(|approval| approval.id.to_string());
            Err(WhichError::Several { candidates: candidates.collect() }.into())
        }
    }
}

/// From where on ids are to be shown so that each names one of them.
pub(super) fn suffix_from(ids: &[String]) -> usize {
    let is_clear = |from: &usize| {
        let mut ends: Vec<&str> = ids.iter().filter_map(|id| id.get(*from..)).collect();
        ends.sort_unstable();
        ends.windows(2).all(|pair| pair[0] != pair[1])
    };
    (0..=ID - SHOWN_MIN).rev().find(is_clear).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_of_an_id_is_shown_as_tells_it_apart() {
        let check = |ids: &[&str], expected: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|id| format!("{id:0>26}")).collect();
            let from = suffix_from(&ids);
            assert_eq!(ids.iter().map(|id| &id[from..]).collect::<Vec<_>>(), expected);
        };
        check(&["1", "2"], &["000001", "000002"]);
        check(&["AB123456", "AC123456"], &["B123456", "C123456"]);
        check(&[], &[]);
    }
}

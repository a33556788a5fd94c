//! Whose a blob is: whoever has stored it, or has a stream that refers to it. The same content can be several people's.
//!
//! Others who refer to a content neither hide it from its owner nor make a search for it long. What was stored is found by its hash. For what a
//! stream refers to there are two ways, taken in turns, and the first that comes to its end decides: through everything that the caller has, and
//! through everything that refers to the blob. Others can lengthen the second one alone; so a search takes at most as long as a look at every
//! event of the caller's own, twice.
//!
//! Limits: whoever has less than fits into one turn learns nothing from how long it takes, as the second way is not begun then. Whoever has more
//! can tell, by microseconds for each that refers to it, that a content is there for somebody.

use std::collections::HashSet;

use weir_events::{BlobStored, Payload};
use weir_journal::{ListAfter, ListFilter, Listed, Looked, NewEvent, PAGE_MAX, Part};
use weir_tools::{Stored, StoredKind};
use weir_types::{BranchId, Hash, Level, Meta, Position, Seq, StreamName, Whose};

use super::{gate, names, owner, read_only};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;

/// How many looks along branches of the caller's are one turn; each is at most a page of events.
const LOOKS_AT_ONCE: usize = 32;

/// Whether a blob is there for whoever asks.
///
/// # Errors
/// 404 if not, in the same words for what is not there at all.
pub(crate) async fn blob(app: &App, caller: &Caller, hash: Hash) -> Result<(), Error> {
    // Whoever sees every blob sees this one, whosesoever it is.
    if may(app, caller, Level::Read, hash, Whose::Unsaid) {
        return Ok(());
    }
    // Whoever may not see what is theirs need not be searched for.
    let is_theirs = may(app, caller, Level::Read, hash, Whose::Someone(&caller.principal))
        && (has_stored(app, caller, hash).await? || refers(app, caller, hash).await?);
    if is_theirs { Ok(()) } else { Err(Error::missing("blob")) }
}

async fn has_stored(app: &App, caller: &Caller, hash: Hash) -> Result<bool, Error> {
    let key = hash.to_string().parse();
    let (Some(stream), Ok(key)) = (names::blobs_of(&caller.principal), key) else { return Ok(false) };
    Ok(app.journal.keyed(&BranchId::main(stream), &key).await?.is_some())
}

/// Whether a stream of someone's refers to a blob.
async fn refers(app: &App, caller: &Caller, hash: Hash) -> Result<bool, Error> {
    let mut own = Own::of(app, caller, hash);
    let mut all = Referring { app, caller, hash, after: Position(0), others: HashSet::new() };
    loop {
        if let Some(found) = own.turn().await? {
            return Ok(found);
        }
        if let Some(found) = all.turn().await? {
            return Ok(found);
        }
    }
}

/// A way through everything that somebody has: their streams, and then their sessions.
struct Own<'a> {
    app: &'a App,
    caller: &'a Caller,
    hash: Hash,
    /// Branches that are still to be looked at, the last one first, and how far that is done.
    branches: Vec<BranchId>,
    looked_at: Seq,
    next: Next,
}

/// Where more branches come from.
enum Next {
    Streams(StreamName),
    Sessions(Option<ListAfter>),
    Nothing,
}

impl<'a> Own<'a> {
    fn of(app: &'a App, caller: &'a Caller, hash: Hash) -> Self {
        let first = names::namespace(&caller.principal).parse();
        let next = first.map_or(Next::Sessions(None), Next::Streams);
        Self { app, caller, hash, branches: Vec::new(), looked_at: Seq(0), next }
    }

    /// Whether something refers to the blob, once that is known.
    async fn turn(&mut self) -> Result<Option<bool>, Error> {
        for _ in 0..LOOKS_AT_ONCE {
            let Some(branch) = self.branches.last() else {
                if !self.find_more().await? {
                    return Ok(Some(false));
                }
                continue;
            };
            match self.app.journal.referring_on(branch, self.hash, self.looked_at, PAGE_MAX).await? {
                Looked::Found(_) => return Ok(Some(true)),
                Looked::NotUntil(seq) => self.looked_at = seq,
                Looked::Nowhere => {
                    self.branches.pop();
                    self.looked_at = Seq(0);
                }
            }
        }
        Ok(None)
    }

    /// The next page of branches; `false` if there is none.
    async fn find_more(&mut self) -> Result<bool, Error> {
        let journal = &self.app.journal;
        match &self.next {
            Next::Streams(after) => {
                let prefix = names::namespace(&self.caller.principal);
                let page = journal.streams(Some(after.clone()), LOOKS_AT_ONCE).await?;
                let names = page.iter().map(|summary| &summary.stream);
                let own: Vec<_> = names.take_while(|name| name.as_str().starts_with(&prefix)).collect();
                for stream in &own {
                    let branches = journal.branches(stream).await?.into_iter();
                    let ids =
                        branches.map(|branch| BranchId { stream: (*stream).clone(), branch: branch.name });
                    self.branches.extend(ids);
                }
                let last = own.last().filter(|_| own.len() == LOOKS_AT_ONCE);
                self.next = last.map_or(Next::Sessions(None), |last| Next::Streams((*last).clone()));
            }
            Next::Sessions(after) => {
                let principal = Some(self.caller.principal.clone());
                let filter = ListFilter { principal, ..ListFilter::default() };
                let page = journal.list(filter, after.clone(), LOOKS_AT_ONCE).await?;
                let last = page.last().filter(|_| page.len() == LOOKS_AT_ONCE).map(Listed::after);
                self.next = last.map_or(Next::Nothing, |last| Next::Sessions(Some(last)));
                self.branches.extend(page.into_iter().map(|listed| listed.branch));
            }
            Next::Nothing => return Ok(false),
        }
        Ok(true)
    }
}

/// A way through everything that refers to a blob.
struct Referring<'a> {
    app: &'a App,
    caller: &'a Caller,
    hash: Hash,
    after: Position,
    /// Streams that are not the caller's.
    others: HashSet<StreamName>,
}

impl Referring<'_> {
    /// Whether something of the caller's is among it, once that is known.
    async fn turn(&mut self) -> Result<Option<bool>, Error> {
        let page = self.app.journal.referring(self.hash, self.after, PAGE_MAX).await?;
        let is_last = page.len() < PAGE_MAX;
        for (position, stream) in page {
            self.after = position;
            if self.others.contains(&stream) {
                continue;
            }
            if owner(self.app, &stream).await?.as_ref() == Some(&self.caller.principal) {
                return Ok(Some(true));
            }
            self.others.insert(stream);
        }
        Ok(is_last.then_some(false))
    }
}

/// Whether someone may store blobs at all.
///
/// # Errors
/// 403 if not.
pub(crate) fn may_store(app: &App, caller: &Caller) -> Result<(), Error> {
    let stores = may(app, caller, Level::Write, Hash::ZERO, Whose::Someone(&caller.principal));
    if stores { Ok(()) } else { Err(read_only("what is stored here")) }
}

/// Writes down that someone has stored a blob, which must be there already; once, however often they do.
///
/// # Errors
/// 403 if they may not store anything; when it cannot be written down.
pub(crate) async fn keep_blob(app: &App, caller: &Caller, hash: Hash, bytes: u64) -> Result<(), Error> {
    let stream = names::blobs_of(&caller.principal);
    let stream = stream.filter(|_| may(app, caller, Level::Write, hash, Whose::Someone(&caller.principal)));
    let stream = stream.ok_or_else(|| read_only("what is stored here"))?;
    let meta = Meta::new(&serde_json::json!({ "actor": caller.principal }).to_string());
    let bug = |_| Error::bad("the event cannot be written", "use a shorter name");
    let payload = BlobStored { hash, bytes }.encode().map_err(|_| bug(()))?;
    let event = NewEvent::new(BlobStored::kind(), payload)
        .with_meta(meta.map_err(|_| bug(()))?)
        .with_refs(vec![hash]);
    let key = hash.to_string().parse().map_err(|_| bug(()))?;
    app.journal
        .append(vec![Part { key: Some(key), ..Part::new(BranchId::main(stream), vec![event]) }])
        .await?;
    Ok(())
}

fn may(app: &App, caller: &Caller, level: Level, hash: Hash, owner: Whose<'_>) -> bool {
    let stored = Stored { kind: StoredKind::Blob, name: &hash.to_string(), owner };
    gate(app).may(caller.who(), level, stored)
}

#[cfg(test)]
mod tests {
    use weir_journal::{Attrs, Status};
    use weir_types::SessionId;

    use super::*;
    use crate::fixture::Data;

    fn caller(name: &str) -> Caller {
        Caller { principal: format!("user:{name}"), groups: vec![] }
    }

    /// Appends events that refer to a blob, or to nothing; to a session of somebody's, if it is said whose.
    async fn append(app: &App, stream: &str, of: Option<&str>, count: usize, hash: Option<Hash>) {
        let branch = BranchId::main(stream.parse().unwrap());
        let event =
            || NewEvent::new("note.made".parse().unwrap(), "{}").with_refs(hash.into_iter().collect());
        let principal = of.map(|name| caller(name).principal);
        let attrs = of.map(|_| Attrs { principal, ..Attrs::new(Status::Idle) });
        let events = (0..count).map(|_| event()).collect();
        app.journal.append(vec![Part { attrs, ..Part::new(branch, events) }]).await.unwrap();
    }

    async fn sees(app: &App, name: &str, hash: Hash) -> bool {
        blob(app, &caller(name), hash).await.is_ok()
    }

    #[tokio::test]
    async fn a_blob_is_found_however_many_others_refer_to_it() {
        let app = Data::default().app().await;
        let [noted, told] = ["noted", "told"].map(|text| Hash::of(text.as_bytes()));
        for text in ["noted", "told"] {
            app.blobs.put_bytes(text.into()).await.unwrap();
        }
        let session = |n: u128| format!("session:{}", SessionId::from_u128(n));
        for n in 0..12 {
            append(&app, &format!("user:bob/{n}"), None, 1_000, Some(noted)).await;
            append(&app, &session(n), Some("bob"), 1_000, Some(told)).await;
        }
        // More branches than are looked at in one turn, and more events than in one look, are before what is looked for.
        for n in 0..100 {
            append(&app, &format!("user:eve/{n:03}"), None, 1, None).await;
            append(&app, &session(1_000 + n), Some("eve"), 1, None).await;
        }
        append(&app, "user:eve/050", None, 2_500, None).await;
        assert!(!sees(&app, "eve", noted).await && !sees(&app, "eve", told).await);
        append(&app, "user:eve/050", None, 1, Some(noted)).await;
        append(&app, &session(1_050), Some("eve"), 2_500, None).await;
        append(&app, &session(1_050), Some("eve"), 1, Some(told)).await;
        for (name, expected) in [("eve", true), ("bob", true), ("carol", false), ("ev", false)] {
            assert_eq!(
                (sees(&app, name, noted).await, sees(&app, name, told).await),
                (expected, expected),
                "{name}"
            );
        }
        keep_blob(&app, &caller("carol"), told, 4).await.unwrap();
        assert_eq!((sees(&app, "carol", told).await, sees(&app, "carol", noted).await), (true, false));
    }
}

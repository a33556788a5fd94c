//! Whose a blob is: whoever has stored it, or has a stream that refers to it. The same content can be several people's.

use std::collections::HashSet;

use weir_journal::{NewEvent, PAGE_MAX, Part};
use weir_tools::{Stored, StoredKind};
use weir_types::{BranchId, Hash, Json, Level, Meta, Position, Whose};

use super::{gate, names, owner, read_only};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;

/// How many pages of events that refer to a blob are looked at. A content that more of them hold is not found through them.
const PAGES_MAX: usize = 10;

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
    if !may(app, caller, Level::Read, hash, Whose::Someone(&caller.principal)) {
        return Err(Error::missing("blob"));
    }
    let (mut after, mut others) = (Position(0), HashSet::new());
    for _ in 0..PAGES_MAX {
        let page = app.journal.referring(hash, after, PAGE_MAX).await?;
        let is_full = page.len() == PAGE_MAX;
        for (position, stream) in page {
            after = position;
            if others.contains(&stream) {
                continue;
            }
            if owner(app, &stream).await?.as_ref() == Some(&caller.principal) {
                return Ok(());
            }
            others.insert(stream);
        }
        if !is_full {
            break;
        }
    }
    Err(Error::missing("blob"))
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
    let payload = Json::of(&serde_json::json!({ "hash": hash, "bytes": bytes }));
    let meta = Meta::new(&serde_json::json!({ "actor": caller.principal }).to_string());
    let bug = |_| Error::bad("the event cannot be written", "use a shorter name");
    let event = NewEvent::new("blob.stored".parse().map_err(|_| bug(()))?, payload.as_str().to_owned())
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

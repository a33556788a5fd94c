//! A journal that has been in use for long: many sessions that rest.

use std::path::Path;
use std::sync::Arc;

use weir_bench::Error;
use weir_blobs::{Blobs, DirBlobs};
use weir_journal::{Attrs, EVENTS_MAX, Journal, NewEvent, Part, Status, mint_session};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_types::BranchId;

/// Events of one session.
const EACH: usize = 100;

/// Appends this many events, as sessions that nobody has asked anything for a while.
pub(crate) async fn fill(data_dir: &Path, events: usize) -> Result<(), Error> {
    std::fs::create_dir_all(data_dir)?;
    let blobs: Arc<dyn Blobs> = Arc::new(DirBlobs::open(data_dir.join("blobs"))?);
    let path = data_dir.join("journal.db");
    let journal = SqliteJournal::open(Options { path, blobs, vfs: None }).await?;
    let sessions_at_once = EVENTS_MAX / EACH;
    let sessions = events.div_ceil(EACH);
    for first in (0..sessions).step_by(sessions_at_once) {
        let parts = (first..sessions.min(first + sessions_at_once)).map(session).collect::<Result<_, _>>()?;
        journal.append(parts).await?;
    }
    journal.close().await;
    Ok(())
}

fn session(n: usize) -> Result<Part, Error> {
    let branch = BranchId::main(format!("session:{}", mint_session()).parse()?);
    let event = |at: usize| -> Result<NewEvent, Error> {
        let kind = if at == 0 { "session.created" } else { "user.message" };
        let text = format!(r#"{{"content":[{{"type":"text","text":"question {at} of session {n}"}}],"runtime":{{}}}}"#);
        Ok(NewEvent::new(kind.parse()?, text))
    };
    let events = (0..EACH).map(event).collect::<Result<_, _>>()?;
    let attrs = Attrs {
        principal: Some(format!("user:{}", n % 100)),
        agent: Some("bench".to_owned()),
        ..Attrs::new(Status::Idle)
    };
    Ok(Part { attrs: Some(attrs), ..Part::new(branch, events) })
}

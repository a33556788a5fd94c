//! Events as JSON: page by page, or one by one as they are appended; each as the journal has it.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_journal::PAGE_MAX;
use weir_journal::lines::{Positions, to_view};
use weir_types::{BranchId, Event, Kind, Seq};

use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::stream::{Followed, follow_events};

/// Events of the first read, before it is known how large they are.
const READ_FIRST: usize = 16;

/// A page with more payload than this ends, whatever its limit.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Only events after this one; `next` of the page before.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// The same as `after`.
    #[param(minimum = 0)]
    since: Option<u64>,
    /// At most so many; a page of large events ends earlier.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only events of this kind.
    kind: Option<String>,
    /// The branch; `main` if left out.
    pub(super) branch: Option<String>,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
#[schema(as = Events)]
pub(super) struct EventsView {
    events: Vec<EventView>,
    /// Where the next page begins; null, if nothing follows at the moment.
    #[schema(required = true)]
    next: Option<u64>,
}

/// An event. Either `payload` or `payload_base64` is there.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventView {
    /// Its place in the whole journal; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    position: Option<u64>,
    stream: String,
    branch: String,
    /// Its place on the branch.
    seq: u64,
    id: String,
    #[schema(format = DateTime)]
    ts: String,
    kind: String,
    /// What it says, if that is JSON: any value.
    #[schema(value_type = Value, required = false)]
    payload: serde_json::Value,
    /// What it says, if that is anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payload_base64: Option<String>,
    #[schema(value_type = Object)]
    meta: serde_json::Value,
    refs: Vec<String>,
    payload_hash: String,
    chain: String,
}

impl EventsQuery {
    /// A page of what is asked for, as whoever asks knows it.
    pub(super) async fn page(
        &self,
        app: &App,
        caller: &Caller,
        branch: &BranchId,
    ) -> Result<Response, Error> {
        let (after, limit, kind) = self.checked()?;
        let (mut last, mut events, mut bytes, mut step) = (Seq(after), Vec::<Event>::new(), 0, READ_FIRST);
        let mut more = true;
        while events.len() < limit && bytes < PAGE_BYTES {
            let wanted = step.min(limit - events.len());
            let read = match &kind {
                Some(kind) => app.journal.by_kind(branch, kind, last, wanted).await?,
                None => app.journal.read(branch, last, wanted).await?,
            };
            let read_bytes: usize = read.iter().map(|event| event.payload.len()).sum();
            bytes += read_bytes;
            step = if read_bytes > PAGE_BYTES / 8 { 1 } else { step * 2 }.clamp(1, PAGE_MAX);
            last = read.last().map_or(last, |event| event.seq);
            let is_end = read.len() < wanted;
            events.extend(read);
            if is_end {
                more = false;
                break;
            }
        }
        let shown = access::shown(app, caller, &branch.stream);
        Ok(json(&events, more.then_some(last), shown, access::positions(app, caller)))
    }

    /// The same events one by one, and then whatever is appended.
    pub(super) async fn follow(
        &self,
        app: &App,
        caller: &Caller,
        branch: BranchId,
        headers: &HeaderMap,
    ) -> Result<Response, Error> {
        if self.limit.is_some() {
            return Err(Error::bad(
                "`limit` is for pages",
                "leave it out: server-sent events go on until the client leaves",
            ));
        }
        let (after, kind) = (Seq(self.after()?), self.kind()?);
        let shown = access::shown(app, caller, &branch.stream).to_owned();
        let positions = access::positions(app, caller);
        let view = Box::new(move |event: &Event| line(event, &shown, positions));
        follow_events(app, Followed { branch, after, kind, view }, headers).await
    }

    fn checked(&self) -> Result<(u64, usize, Option<Kind>), Error> {
        let limit = match self.limit.unwrap_or(100) {
            limit @ 1..=1_000 => limit as usize,
            _ => {
                return Err(Error::bad(
                    "`limit` is a number from 1 to 1000",
                    "ask page by page, with `after`",
                ));
            }
        };
        Ok((self.after()?, limit, self.kind()?))
    }

    fn after(&self) -> Result<u64, Error> {
        match (self.after, self.since) {
            (Some(_), Some(_)) => Err(Error::bad("`since` is the same as `after`", "leave one of them out")),
            (after, since) => Ok(after.or(since).unwrap_or(0)),
        }
    }

    fn kind(&self) -> Result<Option<Kind>, Error> {
        let kind = self.kind.as_deref().map(str::parse).transpose();
        kind.map_err(|error: weir_types::NameError| {
            Error::bad(error.to_string(), "a kind is a word like `note.added`")
        })
    }
}

/// The page as text: payloads and meta stand in it as they were written.
fn json(events: &[Event], next: Option<Seq>, shown: &str, positions: Positions) -> Response {
    let mut text = String::from("{\"events\":[");
    for (n, event) in events.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&line(event, shown, positions));
    }
    let next = next.map_or_else(|| "null".to_owned(), |seq| seq.to_string());
    text.push_str(&format!("],\"next\":{next}}}"));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn line(event: &Event, shown: &str, positions: Positions) -> String {
    if event.stream.as_str() == shown {
        return to_view(event, positions);
    }
    let stream = shown.parse().unwrap_or_else(|_| event.stream.clone());
    to_view(&Event { stream, ..event.clone() }, positions)
}

//! `/streams`: the journal as a service, for events that are none of the runtime's own.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_engine::EngineError;
use weir_events::is_reserved_kind;
use weir_journal::lines::Positions;
use weir_journal::{Expected, Key, NewEvent, PAYLOAD_MAX, Part};
use weir_types::{BranchId, BranchName, Hash, Kind, Level, Meta, Seq};

use super::BranchQuery;
use super::events::{EventsQuery, EventsView};
use super::page::limit;
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::branches::{self, branch_name};
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path, Query, prefers_event_stream};
use crate::idempotency::Claimed;

/// The most events in one append over HTTP.
const EVENTS_MAX: usize = 1_000;

/// The most blobs that one append names: whose each of them is has to be looked up.
const REFS_MAX: usize = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StreamsQuery {
    /// The last name of the page before; its `next`.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Streams by name.
#[derive(Serialize, ToSchema)]
struct Streams {
    streams: Vec<StreamRow>,
    /// Where the next page begins; null on the last one.
    #[schema(required = true)]
    next: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct StreamRow {
    stream: String,
    branches: u64,
    /// How many events, over all branches, each counted once.
    events: u64,
    #[schema(format = DateTime)]
    updated: String,
}

/// A stream.
#[derive(Serialize, ToSchema)]
struct StreamView {
    stream: String,
    /// Parents before their forks.
    branches: Vec<BranchView>,
}

#[derive(Serialize, ToSchema)]
struct BranchView {
    name: String,
    /// Where it comes from; null for `main`.
    #[schema(required = true)]
    parent: Option<ParentView>,
    /// Its newest event.
    seq: u64,
    /// Events of its own.
    events: u64,
    #[schema(format = DateTime)]
    updated: String,
    /// What commits to everything up to there.
    chain: String,
}

#[derive(Serialize, ToSchema)]
struct ParentView {
    branch: String,
    /// The last shared event.
    at: u64,
}

/// Events to append: all of them or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Append {
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<New>,
    /// Append only if the newest event is this one; 0: only if there is no such stream.
    expected: Option<u64>,
    /// Makes it safe to repeat: a second append with a key only returns the result of the first.
    #[schema(min_length = 1, max_length = 255)]
    key: Option<String>,
}

/// An event to append. Without a payload it says `{}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
struct New {
    /// What happened, as `area.verb`.
    #[schema(min_length = 1, max_length = 255)]
    kind: String,
    /// Any JSON; kept as it is written.
    #[schema(value_type = Value, required = false)]
    #[serde(default, deserialize_with = "present")]
    payload: Option<weir_types::Json>,
    /// Any bytes instead.
    payload_base64: Option<String>,
    /// More to keep beside the event. `actor` is set by the server; `run`, `iteration`, `causation`, `duration_ms` and `owner` are for
    /// the runtime to say.
    #[schema(value_type = Object, required = false)]
    meta: Option<weir_types::Json>,
    /// The blobs it needs; they must be yours.
    #[serde(default)]
    #[schema(required = false)]
    refs: Vec<String>,
}

/// `null` is a payload, too.
pub(super) fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<weir_types::Json>, D::Error> {
    weir_types::Json::deserialize(deserializer).map(Some)
}

/// Where events were appended.
#[derive(Serialize, ToSchema)]
#[schema(as = Appended)]
struct AppendedView {
    stream: String,
    branch: String,
    /// The first of them.
    first: u64,
    /// The last of them.
    seq: u64,
    /// The last one's place in the whole journal; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    position: Option<u64>,
    /// The last one's id.
    id: String,
    /// The key was known: this is what the first append came to.
    replayed: bool,
}

/// Where a new branch begins.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StreamFork)]
struct Fork {
    /// The last event that both share; the newest, if left out.
    #[schema(minimum = 1)]
    at: Option<u64>,
    /// The name of the new branch; a free one, if left out.
    #[schema(min_length = 1, max_length = 255)]
    name: Option<String>,
}

/// A branch that was made.
#[derive(Serialize, ToSchema)]
struct Forked {
    stream: String,
    branch: String,
    /// The last shared event.
    at: u64,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_streams))
        .routes(routes!(stream))
        .routes(routes!(stream_events, append_events))
        .routes(routes!(fork_stream))
}

/// Your streams; for administrators, all.
#[utoipa::path(
    get, path = "/streams", tag = "streams", params(StreamsQuery), responses((status = 200, body = Streams))
)]
async fn list_streams(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<StreamsQuery>,
) -> Result<Json<Streams>, Error> {
    let limit = limit(query.limit)?;
    let found = access::streams(&app, &caller, query.after.as_deref(), limit).await?;
    let streams: Vec<StreamRow> = found
        .iter()
        .map(|summary| StreamRow {
            stream: access::shown(&app, &caller, &summary.stream).to_owned(),
            branches: summary.branches,
            events: summary.events,
            updated: summary.updated.to_string(),
        })
        .collect();
    let next = streams.last().filter(|_| streams.len() == limit).map(|row| row.stream.clone());
    Ok(Json(Streams { streams, next }))
}

/// One of them: its branches, and how far they are.
#[utoipa::path(
    get, path = "/streams/{stream}", tag = "streams", params(("stream" = String, Path)),
    responses((status = 200, body = StreamView), (status = 404, body = ErrorBody))
)]
async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<StreamView>, Error> {
    let id = access::existing_stream(&app, &caller, &name, None, Level::Read).await?;
    let branches = app.journal.branches(&id.stream).await?;
    let branches = branches.into_iter().map(|branch| BranchView {
        events: branch.own_events(),
        name: branch.name.to_string(),
        parent: branch.parent.map(|parent| ParentView { branch: parent.branch.to_string(), at: parent.at.0 }),
        seq: branch.head.seq.0,
        updated: branch.head.ts.to_string(),
        chain: branch.head.chain.to_string(),
    });
    let stream = access::shown(&app, &caller, &id.stream).to_owned();
    Ok(Json(StreamView { stream, branches: branches.collect() }))
}

/// Its events, as a page of JSON; or, with `Accept: text/event-stream`, one by one, and then whatever is appended.
///
/// A server-sent event has the event's kind as its name, the event as its data, and an id. A client that comes back with the last id it has
/// as `Last-Event-ID` gets exactly what it missed, whatever `after` says; `limit` is for pages. The stream has no end: its connection breaks off when the server stops, and a comment
/// is sent where nothing happens for a while (`--keep-alive`). Where `Accept` names `application/json` as well, with the same weight, the
/// answer is a page.
#[utoipa::path(
    get, path = "/streams/{stream}/events", tag = "streams",
    params(
        ("stream" = String, Path),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last server-sent event that came from this stream."),
        EventsQuery,
    ),
    responses(
        (status = 200, description = "A page, or server-sent events.", content((EventsView = "application/json"), (String = "text/event-stream"))),
        (status = 404, body = ErrorBody),
    )
)]
async fn stream_events(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let id = access::existing_stream(&app, &caller, &name, query.branch.as_deref(), Level::Read).await?;
    let mut response = match prefers_event_stream(&headers) {
        true => query.follow(&app, &caller, id, &headers).await?,
        false => query.page(&app, &caller, &id).await?,
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Append events. The stream is made if it is not there.
#[utoipa::path(
    post, path = "/streams/{stream}/events", tag = "streams", params(("stream" = String, Path), BranchQuery), request_body = Append,
    responses((status = 200, body = AppendedView), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn append_events(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    Json(append): Json<Append>,
) -> Result<Json<AppendedView>, Error> {
    let stream = access::stream(&app, &caller, &name, Level::Write).await?;
    let branch = query.branch.as_deref().map_or_else(|| Ok(BranchName::main()), branch_name)?;
    let id = BranchId { stream, branch };
    let Append { events, expected, key } = append;
    if !(1..=EVENTS_MAX).contains(&events.len()) {
        return Err(Error::bad(
            format!("an append has 1 to {EVENTS_MAX} events"),
            "send more of them in further appends",
        ));
    }
    let expected = match expected {
        None => Expected::Any,
        Some(0) => Expected::NoStream,
        Some(seq) => Expected::Exactly(Seq(seq)),
    };
    let key = match key {
        Some(key) => {
            Some(key.parse::<Key>().map_err(|error| Error::bad(error.to_string(), "choose another key"))?)
        }
        None => claimed.key(),
    };
    let events = events.into_iter().map(|new| event(new, &caller)).collect::<Result<Vec<_>, _>>()?;
    check_refs(&app, &caller, &events).await?;
    for event in &events {
        let (kind, payload) = (event.kind().as_str(), event.payload());
        app.engine.ask_first(&id, kind, payload, &caller.principal).await?;
    }
    let last = events.last().map(NewEvent::id);
    let part = Part { expected, key, ..Part::new(id.clone(), events) };
    let appended = app.journal.append(vec![part]).await?;
    let Some(appended) = appended.first() else { return Err(Error::missing("stream")) };
    // What was appended before has the id of the first attempt.
    let last = match appended.replayed {
        true => {
            let before = Seq(appended.last.0.saturating_sub(1));
            app.journal.read(&id, before, 1).await?.first().map(|event| event.id)
        }
        false => last,
    };
    Ok(Json(AppendedView {
        stream: access::shown(&app, &caller, &id.stream).to_owned(),
        branch: id.branch.to_string(),
        first: appended.first.0,
        seq: appended.last.0,
        position: (access::positions(&app, &caller) == Positions::Shown).then_some(appended.position.0),
        id: last.map(|id| id.to_string()).unwrap_or_default(),
        replayed: appended.replayed,
    }))
}

fn event(new: New, caller: &Caller) -> Result<NewEvent, Error> {
    let New { kind, payload, payload_base64, meta, refs } = new;
    let bad = |message: String, help: &'static str| Error::bad(message, help);
    let kind: Kind = kind.parse().map_err(|error: weir_types::NameError| {
        bad(error.to_string(), "a kind is a word like `note.added`")
    })?;
    if is_reserved_kind(&kind) {
        return Err(Error::new(
            StatusCode::FORBIDDEN,
            "server::reserved-kind",
            format!("kind `{kind}` is reserved: only the runtime writes it, because it acts on what it says"),
            "choose a kind of your own, like `note.added`",
        ));
    }
    let payload: Bytes = match (payload, payload_base64) {
        (Some(_), Some(_)) => {
            return Err(bad(
                "an event has `payload` or `payload_base64`".to_owned(),
                "leave one of them out",
            ));
        }
        (Some(json), None) => json.as_str().to_owned().into(),
        (None, Some(text)) => {
            let decoded = STANDARD.decode(text);
            decoded
                .map_err(|error| {
                    bad(format!("`payload_base64` is not base64: {error}"), "encode it with padding")
                })?
                .into()
        }
        (None, None) => Bytes::from_static(b"{}"),
    };
    if payload.len() > PAYLOAD_MAX {
        return Err(bad(
            format!("a payload has at most {PAYLOAD_MAX} bytes"),
            "put it into a blob, and name that in `refs`",
        ));
    }
    let refs = refs.iter().map(|hash| hash.parse::<Hash>()).collect::<Result<Vec<_>, _>>();
    let refs = refs.map_err(|error| bad(error.to_string(), "`refs` are hashes of blobs"))?;
    Ok(NewEvent::new(kind, payload).with_meta(with_actor(meta.as_ref(), caller)?).with_refs(refs))
}

/// What is for the runtime to say about an event: it finds again what it has done by what these say.
const META_OF_THE_RUNTIME: [&str; 6] = ["actor", "run", "iteration", "causation", "duration_ms", "owner"];

/// The caller's object with the actor put in front; the rest stays as it was written.
fn with_actor(given: Option<&weir_types::Json>, caller: &Caller) -> Result<Meta, Error> {
    let bad = |message: String| {
        Error::bad(
            message,
            "`meta` is a small JSON object with names of your own, and `trace` if there is one",
        )
    };
    let given =
        Meta::new(given.map_or("{}", weir_types::Json::as_str)).map_err(|error| bad(error.to_string()))?;
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(given.as_str()).map_err(|error| bad(error.to_string()))?;
    if let Some(name) = META_OF_THE_RUNTIME.iter().find(|name| fields.contains_key(**name)) {
        return Err(bad(format!("`meta` cannot set `{name}`: only the runtime says that")));
    }
    let actor = serde_json::Value::from(caller.principal.as_str());
    let rest = given.as_str().trim_start_matches('{');
    let comma = if fields.is_empty() { "" } else { "," };
    Meta::new(&format!("{{\"actor\":{actor}{comma}{rest}")).map_err(|error| bad(error.to_string()))
}

/// Whoever may read a stream may read the blobs it refers to: so nobody refers to what is not theirs.
async fn check_refs(app: &App, caller: &Caller, events: &[NewEvent]) -> Result<(), Error> {
    let named = |event: &NewEvent| {
        let own = event.is_large().then(|| event.payload_hash());
        event.refs().iter().copied().filter(move |hash| Some(*hash) != own).collect::<Vec<_>>()
    };
    let refs: std::collections::BTreeSet<Hash> = events.iter().flat_map(named).collect();
    if refs.len() > REFS_MAX {
        return Err(Error::bad(
            format!("an append names at most {REFS_MAX} blobs"),
            "spread them over several appends",
        ));
    }
    for hash in refs {
        access::blob(app, caller, hash).await?;
        app.blobs.stat(hash).await?.ok_or_else(|| Error::missing("blob"))?;
    }
    Ok(())
}

/// Go another way from an event on.
#[utoipa::path(
    post, path = "/streams/{stream}/fork", tag = "streams", params(("stream" = String, Path), BranchQuery),
    request_body(content = Option<Fork>),
    responses((status = 200, body = Forked), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
async fn fork_stream(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<BranchQuery>,
    claimed: Claimed,
    fork: Option<Json<Fork>>,
) -> Result<Json<Forked>, Error> {
    let fork = fork.map(|Json(fork)| fork).unwrap_or_default();
    let from = access::existing_stream(&app, &caller, &name, query.branch.as_deref(), Level::Write).await?;
    let head = app.journal.head(&from).await?.map_or(Seq(0), |head| head.seq);
    let at = fork.at.map_or(head, Seq);
    let make = |name| async {
        app.journal.fork(weir_journal::Fork { from: from.clone(), at, name }).await.map_err(EngineError::from)
    };
    let branch = branches::fork(&app, &claimed, &from, at, fork.name.as_deref(), make).await?;
    let stream = access::shown(&app, &caller, &from.stream).to_owned();
    Ok(Json(Forked { stream, branch: branch.to_string(), at: at.0 }))
}

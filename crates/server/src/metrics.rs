//! `/metrics`: what the server counts, for Prometheus. Labels are the server's own words (patterns of routes, methods it knows,
//! statuses, reasons), never a caller's: their number is bounded.

mod follow;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_types::{NanoUsd, Usage};

pub(crate) use self::follow::follow;
use crate::app::App;
use crate::error::{Error, ErrorBody};

/// The upper ends of the buckets that answers are counted in, by the time until they begin.
const BUCKETS: [Duration; 12] = [
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
];

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    routes: Mutex<BTreeMap<(String, &'static str), Route>>,
    /// Requests that are being answered.
    open_requests: AtomicU64,
    /// Streams that are being read.
    open_streams: AtomicU64,
    runs: Mutex<BTreeMap<&'static str, u64>>,
    tokens: Mutex<Usage>,
    nano_usd: AtomicU64,
    /// Handlers that panicked.
    panics: AtomicU64,
    /// Connections that were closed at once, because their address had too many.
    refused_connections: AtomicU64,
}

/// One pattern with one method.
#[derive(Debug, Default)]
struct Route {
    statuses: BTreeMap<u16, u64>,
    /// How many took at most as long as each bucket says, and not as long as the one before.
    buckets: [u64; BUCKETS.len()],
    count: u64,
    took: Duration,
}

/// Something under way; counted until it is dropped.
struct Open {
    app: App,
    of: fn(&Metrics) -> &AtomicU64,
}

impl Open {
    fn new(app: &App, of: fn(&Metrics) -> &AtomicU64) -> Self {
        of(&app.metrics).fetch_add(1, Ordering::Relaxed);
        Self { app: app.clone(), of }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        (self.of)(&self.app.metrics).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A handler has panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was closed at once.
    pub(crate) fn refused_connection(&self) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_connections(&self) -> u64 {
        self.refused_connections.load(Ordering::Relaxed)
    }

    fn answered(&self, route: Option<&str>, method: &Method, status: StatusCode, took: Duration) {
        let route = route.unwrap_or("none").to_owned();
        let mut routes = self.routes();
        let counted = routes.entry((route, word(method))).or_default();
        *counted.statuses.entry(status.as_u16()).or_default() += 1;
        counted.count += 1;
        counted.took += took;
        if let Some(bucket) = BUCKETS.iter().position(|end| took <= *end) {
            counted.buckets[bucket] += 1;
        }
    }

    fn ended(&self, reason: &'static str) {
        *self.runs().entry(reason).or_default() += 1;
    }

    fn spent(&self, usage: Usage, cost: NanoUsd) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        *tokens += usage;
        self.nano_usd.fetch_add(cost.0, Ordering::Relaxed);
    }

    fn routes(&self) -> MutexGuard<'_, BTreeMap<(String, &'static str), Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A method as a label: anybody can make up others.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Counts a request, and how long it took until the answer began. A stream is open until its reader has all of it, or leaves.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let open = Open::new(&app, |metrics| &metrics.open_requests);
    let response = next.run(request).await;
    drop(open);
    let route = route.as_ref().map(MatchedPath::as_str);
    app.metrics.answered(route, &method, response.status(), began.elapsed());
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        return response;
    }
    let open = Open::new(&app, |metrics| &metrics.open_streams);
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _counted = &open;
        }))
    })
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// What the server counts, as Prometheus reads it. `weir_info{version,manifest}`; `weir_http_requests_total{route,method,status}`,
/// `weir_http_request_duration_seconds{route,method}` (until the answer began) and `weir_http_requests_open`; `weir_streams_open`;
/// `weir_sessions_active` (in memory); `weir_runs_total{stop}`, `weir_tokens_total{kind}` and `weir_cost_usd_total` since it started, of all
/// processes; `weir_connections_refused_total`; `weir_panics_total`; `weir_journal_position`;
/// `process_resident_memory_bytes`. No label is a caller's word.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, description = "The text format of Prometheus.", body = String, content_type = "text/plain"),
        (status = 503, description = "The journal does not answer.", body = ErrorBody),
    )
)]
async fn metrics(State(app): State<App>) -> Result<Response, Error> {
    let position = app.journal.end().await?;
    let text = text::written(&app, position);
    let kind = (CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
    Ok(([kind], text).into_response())
}

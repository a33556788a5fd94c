//! Accepting connections, and letting them go.

mod addresses;
mod reserve;
mod traffic;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use self::addresses::{Addresses, is_unlimited};
use self::reserve::{Place, Places};
use self::traffic::{Traffic, Wire};
use crate::app::App;
use crate::auth::{Ends, PeerUser, PeerUsers};
use crate::metrics;
use crate::router::router;

/// Most headers of a request.
const HEADERS_MAX: usize = 100;

/// What the first line and the headers of a request may have together.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Most requests at once over one connection.
const STREAMS_MAX: u32 = 256;

/// How often the other end of a quiet HTTP/2 connection has to show that it is there.
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long a client that was told to leave has for it, while nothing of it is under way.
const PARTING: Duration = Duration::from_secs(1);

/// How long nothing is accepted when the system has no room for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// Serves until told to stop, and then until what is under way has reached a safe point or the time is up.
///
/// # Errors
/// When the journal cannot be read.
pub async fn serve(listener: TcpListener, app: App, stop: CancellationToken) -> io::Result<()> {
    let proxies = app.auth.proxy.as_ref().map(|proxy| proxy.peers.clone()).unwrap_or_default();
    let addresses =
        Addresses::new(app.settings.address_connections_max, move |peer| is_unlimited(peer, &proxies));
    serve_among(listener, app, stop, addresses).await
}

async fn serve_among(
    listener: TcpListener,
    app: App,
    stop: CancellationToken,
    addresses: Addresses,
) -> io::Result<()> {
    app.auth.tokens.load(&*app.journal).await.map_err(io::Error::other)?;
    // All of them end with this set, which ends with this function.
    let mut tasks = JoinSet::new();
    tasks.spawn(metrics::follow(app.clone()));
    let following = app.clone();
    tasks.spawn(async move { following.auth.follow(&*following.journal).await });

    let doors = Doors::new(&app);
    let mut connections = JoinSet::new();
    let places = Places::new(app.settings.connections_max);
    // Asked only where it decides who somebody is.
    let users = app.auth.local.is_some().then(PeerUsers::new);
    loop {
        let next = accept(&listener, &places, users.as_ref());
        let (stream, ends, place) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = next => accepted,
        };
        let Some(counted) = addresses.count(ends.peer.ip()) else {
            app.metrics.refused_connection();
            tracing::debug!(peer = %ends.peer, "a connection of an address that has too many");
            continue;
        };
        let attended = doors.clone().attend(stream, ends, place, places.clone());
        connections.spawn(async move {
            attended.await;
            drop(counted);
        });
    }
    drop(listener);
    app.stopping.cancel();
    app.tasks.close();
    let ended = async {
        while connections.join_next().await.is_some() {}
        app.tasks.wait().await;
    };
    if tokio::time::timeout(app.settings.farewell, ended).await.is_err() {
        tracing::warn!("some requests did not come to their end in time");
    }
    Ok(())
}

/// The next connection, once there is room for it.
///
/// # Cancel safety
/// Nothing that was accepted is lost: the place is taken before.
async fn accept(
    listener: &TcpListener,
    places: &Places,
    users: Option<&PeerUsers>,
) -> (TcpStream, Ends, Place) {
    loop {
        let place = places.next().await;
        match listener.accept().await.and_then(|(stream, peer)| Ok((stream.local_addr()?, stream, peer))) {
            Ok((local, stream, peer)) => {
                let user = users.map_or(PeerUser::Unknown, |users| users.of(peer, local));
                return (stream, Ends { peer, local, user }, place);
            }
            Err(error) if is_of_the_other_end(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

/// Someone came, and was gone again.
fn is_of_the_other_end(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected)
}

/// What every connection is served with.
#[derive(Clone)]
struct Doors {
    service: Router,
    builder: Arc<auto::Builder<TokioExecutor>>,
    /// For one request and no more.
    once: Arc<auto::Builder<TokioExecutor>>,
    arrival: Duration,
    stall: Duration,
    stopping: CancellationToken,
}

impl Doors {
    fn new(app: &App) -> Self {
        let arrival = app.settings.arrival;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(arrival)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(arrival)
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32);
        let mut once = builder.clone();
        once.http1().keep_alive(false);
        let (stall, stopping) = (app.settings.stall, app.stopping.clone());
        let (builder, once) = (Arc::new(builder), Arc::new(once));
        Self { service: router(app), builder, once, arrival, stall, stopping }
    }

    /// Serves one connection to its end: the client's, ours, or that of our patience.
    async fn attend(self, stream: TcpStream, ends: Ends, place: Place, places: Places) {
        // What is written is small and wanted at once.
        let _ = stream.set_nodelay(true);
        let place = match place {
            Place::Reserve(_) => tokio::select! {
                place = places.for_request(&stream, place, self.arrival) => place,
                () = self.stopping.cancelled() => return,
            },
            place => Some(place),
        };
        let Some(place) = place else {
            tracing::debug!(peer = %ends.peer, "a connection for which there is no place");
            return;
        };
        let builder = if matches!(place, Place::Reserve(_)) { &self.once } else { &self.builder };
        let traffic = Traffic::new(self.stall);
        let (service, requests) = (self.service, traffic.clone());
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            let under_way = requests.begin();
            request.extensions_mut().insert(ends);
            let service = service.clone();
            async move {
                let response = answered(service, request.map(Body::new)).await;
                Ok::<Response, Infallible>(under_way.answered(response))
            }
        });
        let wire = TokioIo::new(Wire { stream, traffic: traffic.clone() });
        let connection = builder.serve_connection(wire, service).into_owned();
        tokio::pin!(connection);
        let mut is_leaving = false;
        loop {
            let patience = if is_leaving { PARTING } else { self.arrival };
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %ends.peer, %error, "a connection broke off");
                    }
                    return;
                }
                () = traffic.stalled() => {
                    tracing::debug!(peer = %ends.peer, "a connection takes nothing of what is sent");
                    return;
                }
                // Which version is spoken shows in the first bytes, for which nobody else waits in vain.
                () = traffic.quiet(patience) => {
                    if is_leaving {
                        tracing::debug!(peer = %ends.peer, "a connection on which nothing is asked");
                        return;
                    }
                }
                () = self.stopping.cancelled(), if !is_leaving => {}
            }
            is_leaving = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

async fn answered(service: Router, request: Request) -> Response {
    match service.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::fixture::Data;

    /// Asks for health on a connection of its own, which stays open; nothing, if the connection is closed instead.
    async fn ask(listener: std::net::SocketAddr) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(listener).await.unwrap();
        let request = format!("GET /health HTTP/1.1\r\nhost: {listener}\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let mut beginning = [0; 12];
        stream.read_exact(&mut beginning).await.ok()?;
        assert_eq!(&beginning, b"HTTP/1.1 200");
        Some(stream)
    }

    #[tokio::test]
    async fn connections_of_an_address_beyond_its_limit_are_closed_and_counted() {
        let data = Data::default();
        let app = data.app().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        // All connections of a test come from loopback.
        let addresses = Addresses::new(2, |_| false);
        let served = tokio::spawn(serve_among(listener, app.clone(), stop.clone(), addresses));

        let [first, second] = [ask(at).await.unwrap(), ask(at).await.unwrap()];
        assert!(ask(at).await.is_none(), "it has two");
        assert_eq!(app.metrics.refused_connections(), 1);
        drop(first);
        // The server sees the end of the first a little later than we do.
        let mut third = None;
        for _ in 0..1_000 {
            third = ask(at).await;
            if third.is_some() {
                break;
            }
        }
        assert!(third.is_some(), "one has ended");
        drop((second, third));
        stop.cancel();
        served.await.unwrap().unwrap();
    }
}

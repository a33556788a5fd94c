//! Accepting connections, and letting them go.

use std::io;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::metrics;
use crate::router::router;

/// Serves until told to stop, and then until what is under way has reached a safe point or the time is up.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, app: App, stop: CancellationToken) -> io::Result<()> {
    let service = router(&app);
    let counting = tokio::spawn(metrics::follow(app.clone()));
    let farewell = async move {
        stop.cancelled().await;
        app.stopping.cancel();
    };
    let served = axum::serve(listener, service).with_graceful_shutdown(farewell).await;
    counting.abort();
    served
}

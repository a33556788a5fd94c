//! A project, the server that serves it, and a client. Nothing here sleeps to be on time: what is awaited is awaited, under a
//! deadline. Only what nobody tells of is asked for again and again, by [`asked_again`].
//!
//! ```ignore
//! let server = Project::new().serve().start().await;
//! let told = server.post("/agents/helper/chat", &json!({"message": "weather in Lisbon"})).await.ok();
//! let mut frames = server.stream("/agents/helper/chat/stream", &json!({"message": "slow"})).await;
//! while let Some(frame) = frames.next().await { … }
//! let ended = server.event(&session, &["run.finished", "run.cancelled"]).await;
//! let found = server.until(&session, "idle").await;
//! let server = server.kill().start_again().await; // the same data, the same port
//! ```

#![allow(dead_code, unused_imports, reason = "a kit has more in it than one day's tests need")]

// Named, because another binary has this file by its path, and then looks beside it.
#[path = "kit/awaiting.rs"]
mod awaiting;
#[path = "kit/people.rs"]
mod people;
#[path = "kit/project.rs"]
mod project;
#[path = "kit/server.rs"]
mod server;
#[path = "kit/sse.rs"]
mod sse;

use std::future::Future;
use std::time::Duration;

pub(crate) use self::people::{Person, token};
pub(crate) use self::project::{Project, Ran, Serving};
pub(crate) use self::server::{Answer, Down, Server, Told, client};
pub(crate) use self::sse::{Frame, Frames};

/// Longer than any healthy machine needs; only a hang is cut off.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Awaits something that must come in time.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("not in time: {what}"),
    }
}

/// Asks until there is an answer. For what no event, no line of a log and no end of a process tells of; say at the call why that is so.
pub(crate) async fn asked_again<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, asked).await
}

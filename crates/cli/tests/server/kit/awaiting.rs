//! Waiting for what becomes of a session: told by its own events, never by looking again and again.

use reqwest::RequestBuilder;
use serde_json::Value;

use super::DEADLINE;
use super::server::Answer;
use super::sse::{Frame, Frames};

/// Waits until a session has this status, and returns it as it is then. `get` makes requests of whoever asks.
pub(super) async fn until(get: impl Fn(&str) -> RequestBuilder, session: &str, status: &str) -> Value {
    let mut seen = Value::Null;
    let looked = async {
        let mut frames: Option<Frames> = None;
        loop {
            seen = Answer::to(get(&format!("/sessions/{session}"))).await.ok();
            if seen["status"] == status {
                return true;
            }
            // Whatever comes after what was just seen is told: nothing falls between the two.
            let frames = match &mut frames {
                Some(frames) => frames,
                None => frames.insert(follow(&get, session, seen["seq"].as_u64().unwrap()).await),
            };
            if !frames.news().await {
                return false;
            }
        }
    };
    let why = match tokio::time::timeout(DEADLINE, looked).await {
        Ok(true) => return seen,
        Ok(false) => "its stream has ended",
        Err(_) => "not in time",
    };
    panic!("{why}: session {session} was to become `{status}`, and was last seen as {seen}");
}

/// Waits for the first event of one of these kinds, among those after this one.
pub(super) async fn event(
    get: impl Fn(&str) -> RequestBuilder,
    session: &str,
    after: u64,
    kinds: &[&str],
) -> Frame {
    let mut seen: Vec<String> = Vec::new();
    let looked = async {
        let mut frames = follow(&get, session, after).await;
        while let Some(frame) = frames.coming().await {
            let kind = frame.event.clone().unwrap_or_default();
            if kinds.contains(&kind.as_str()) {
                return Some(frame);
            }
            // An answer comes in many pieces.
            if seen.last() != Some(&kind) {
                seen.push(kind);
            }
        }
        None
    };
    let why = match tokio::time::timeout(DEADLINE, looked).await {
        Ok(Some(frame)) => return frame,
        Ok(None) => "its stream has ended",
        Err(_) => "not in time",
    };
    panic!("{why}: session {session} was to have one of {kinds:?} after event {after}, and has had {seen:?}");
}

async fn follow(get: impl Fn(&str) -> RequestBuilder, session: &str, after: u64) -> Frames {
    let response = get(&format!("/sessions/{session}/events/stream?after={after}")).send().await.unwrap();
    assert_eq!(response.status(), 200, "the events of session {session}");
    Frames::of(response)
}

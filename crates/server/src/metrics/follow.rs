//! What runs come to, counted as the journal says it: whoever runs them, nothing is counted twice and nothing is missed.

use std::time::Duration;

use futures_util::StreamExt;
use serde::Deserialize;
use weir_engine::stop_of;
use weir_events::{
    AssistantMessage, Body, ContextCompacted, ModelFailed, Payload, RunCancelled, RunErrored, RunFinished,
    RunParked,
};
use weir_journal::ReadError;
use weir_types::{Kind, NanoUsd, Position, Usage};

use super::Metrics;
use crate::app::App;

/// How long to wait before the journal is followed again after it could not be.
const AGAIN: Duration = Duration::from_secs(1);

/// Counts what happens from now on, until the server stops.
pub(crate) async fn follow(app: App) {
    let stopping = app.stopping.clone();
    let counting = async {
        let mut counted = None;
        loop {
            if let Err(error) = go_on(&app, &mut counted).await {
                tracing::warn!(%error, "runs are not counted for a moment");
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        () = counting => {}
        () = stopping.cancelled() => {}
    }
}

/// Counts what comes after what was counted; what comes from now on, if nothing was.
async fn go_on(app: &App, counted: &mut Option<Position>) -> Result<(), ReadError> {
    let after = match *counted {
        Some(counted) => counted,
        None => *counted.insert(app.journal.end().await?),
    };
    let mut tail = app.journal.tail_all(after);
    while let Some(event) = tail.next().await {
        let event = event?;
        *counted = Some(event.position);
        if event.stream.as_str().starts_with("session:") {
            count(&app.metrics, &event.kind, &event.payload);
        }
    }
    Ok(())
}

fn count(metrics: &Metrics, kind: &Kind, payload: &[u8]) {
    match kind.as_str() {
        // What was said is not read for what it cost. What brought no answer was paid for as well.
        AssistantMessage::KIND | ModelFailed::KIND | ContextCompacted::KIND => {
            if let Ok(Spent { usage, cost }) = serde_json::from_slice(payload) {
                metrics.spent(usage, cost);
            }
        }
        RunFinished::KIND | RunErrored::KIND | RunCancelled::KIND | RunParked::KIND => {
            if let Ok(Some(body)) = Body::decode(kind, payload)
                && let Some(reason) = stop_of(&body)
            {
                metrics.ended(reason.as_str());
            }
        }
        _ => {}
    }
}

#[derive(Deserialize)]
struct Spent {
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    cost: NanoUsd,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use serde_json::{Value, json};

    use super::*;

    fn told(metrics: &Metrics, kind: &str, payload: &Value) {
        count(metrics, &kind.parse().unwrap(), payload.to_string().as_bytes());
    }

    #[test]
    fn what_brought_no_answer_is_counted_too() {
        let metrics = Metrics::default();
        let spent = |input: u64, nano: u64| json!({"usage": {"input_tokens": input, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0}, "cost": nano});
        told(&metrics, "assistant.message", &spent(100, 5));
        told(&metrics, "model.failed", &spent(20, 7));
        told(&metrics, "context.compacted", &spent(3, 11));
        // One that failed before anything was used.
        told(&metrics, "model.failed", &json!({"class": "transport"}));
        let tokens = *metrics.tokens.lock().unwrap();
        assert_eq!((tokens.input_tokens, tokens.output_tokens), (123, 3));
        assert_eq!(metrics.nano_usd.load(Ordering::Relaxed), 23);
    }

    #[test]
    fn runs_are_counted_by_why_they_stop() {
        let metrics = Metrics::default();
        let why = json!({"why": {"reason": "limit", "limit": "iterations", "max": 3}});
        let finished = json!({"stop": "max_tokens", "usage": Usage::default(), "cost": 0});
        told(&metrics, "run.finished", &finished);
        told(&metrics, "run.errored", &json!({"class": "auth", "message": "no"}));
        told(&metrics, "run.cancelled", &json!({}));
        told(&metrics, "run.parked", &why);
        told(&metrics, "run.started", &json!({}));
        let counted: Vec<_> = metrics.runs().iter().map(|(why, count)| (*why, *count)).collect();
        assert_eq!(counted, [("cancelled", 1), ("failed", 1), ("iterations", 1), ("max_tokens", 1)]);
    }
}

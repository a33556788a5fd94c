//! What runs come to, counted as the journal says it: whoever runs them, nothing is counted twice and nothing is missed.

use std::time::Duration;

use futures_util::StreamExt;
use serde::Deserialize;
use weir_journal::ReadError;
use weir_kernel::{Body, Limit, Parked};
use weir_types::{Event, NanoUsd, Stop, StopReason, Usage};

use super::Metrics;
use crate::app::App;

/// How long to wait before the journal is followed again after it could not be.
const AGAIN: Duration = Duration::from_secs(1);

/// Counts what happens from now on, until the server stops.
pub(crate) async fn follow(app: App) {
    let stopping = app.stopping.clone();
    let counting = async {
        loop {
            if let Err(error) = from_now_on(&app).await {
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

async fn from_now_on(app: &App) -> Result<(), ReadError> {
    let mut tail = app.journal.tail_all(app.journal.end().await?);
    while let Some(event) = tail.next().await {
        count(&app.metrics, &*event?);
    }
    Ok(())
}

fn count(metrics: &Metrics, event: &Event) {
    if !event.stream.as_str().starts_with("session:") {
        return;
    }
    match event.kind.as_str() {
        // The answer itself is not read for what it cost.
        "assistant.message" => {
            if let Ok(Spent { usage, cost }) = serde_json::from_slice(&event.payload) {
                metrics.spent(usage, cost);
            }
        }
        "run.finished" | "run.errored" | "run.cancelled" | "run.parked" => {
            if let Ok(Some(body)) = Body::decode(&event.kind, &event.payload)
                && let Some(reason) = reason(&body)
            {
                metrics.ended(reason.as_str());
            }
        }
        _ => {}
    }
}

#[derive(Deserialize)]
struct Spent {
    usage: Usage,
    cost: NanoUsd,
}

/// Why a run ended, in the words that every answer has for it.
fn reason(body: &Body) -> Option<StopReason> {
    Some(match body {
        Body::RunFinished(body) => match body.stop {
            Stop::End | Stop::ToolUse | Stop::Paused => StopReason::End,
            Stop::MaxTokens => StopReason::MaxTokens,
            Stop::Refused => StopReason::Refused,
        },
        Body::RunErrored(_) => StopReason::Failed,
        Body::RunCancelled(_) => StopReason::Cancelled,
        Body::RunParked(body) => match body.why {
            Parked::Limit { limit: Limit::Iterations, .. } => StopReason::Iterations,
            Parked::Limit { .. } | Parked::Budget { .. } => StopReason::Budget,
            Parked::Loop { .. } | Parked::Halted | Parked::Crashes { .. } | Parked::Storage { .. } => {
                StopReason::Halted
            }
        },
        _ => return None,
    })
}

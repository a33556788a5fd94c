//! `native`: every event as it is in the journal, pieces of answers as they are said, and in the end why it ends.

use serde::Serialize;
use weir_events::{Body, Payload, TextDelta};
use weir_journal::lines::{Positions, to_view};
use weir_types::{Seq, StopReason};

use super::Encoder;
use crate::stream::{Chunk, End, Item};

/// Makes native frames.
///
/// The name of an SSE event is the kind of the event; its data is the event as `/sessions/{id}/events` shows it. A piece of an answer is
/// `text.delta`, without a place in the journal. `reset` takes back the pieces of an attempt that is gone. `end` is last and tells why.
#[derive(Debug)]
pub(crate) struct Native {
    positions: Positions,
    stop: Option<StopReason>,
}

impl Native {
    pub(crate) fn new(positions: Positions) -> Self {
        Self { positions, stop: None }
    }
}

#[derive(Serialize)]
struct Delta<'a> {
    kind: &'static str,
    request: Seq,
    attempt: u32,
    offset: u64,
    block: u32,
    channel: &'static str,
    delta: &'a str,
}

#[derive(Serialize)]
struct Reset {
    kind: &'static str,
    request: Seq,
    attempt: u32,
}

#[derive(Serialize)]
struct Ended {
    kind: &'static str,
    stop: StopReason,
}

impl Encoder for Native {
    fn encode(&mut self, item: &Item, out: &mut Vec<Chunk>) {
        out.push(match item {
            Item::Event(told) => {
                self.stop = told.body.as_deref().and_then(over).or(self.stop);
                Chunk::named(told.event.kind.to_string(), to_view(&told.event, self.positions))
            }
            Item::Piece(piece) => {
                let delta = Delta {
                    kind: TextDelta::KIND,
                    request: piece.request,
                    attempt: piece.attempt,
                    offset: piece.offset,
                    block: piece.block,
                    channel: piece.channel.as_str(),
                    delta: &piece.text,
                };
                Chunk::named(delta.kind, super::json(&delta))
            }
            Item::Reset(reset) => {
                let reset = Reset { kind: "reset", request: reset.request, attempt: reset.attempt };
                Chunk::named(reset.kind, super::json(&reset))
            }
            Item::End(end) => {
                let stop = match end {
                    End::Over => self.stop.unwrap_or(StopReason::Cancelled),
                    End::Parked(why) => weir_engine::parked_words(why).0,
                    End::Waiting(_) => StopReason::Approval,
                };
                Chunk::named("end", super::json(&Ended { kind: "end", stop }))
            }
        });
    }
}

/// Why a run is over, if it is with this.
fn over(body: &Body) -> Option<StopReason> {
    weir_engine::stop_of(body).filter(|stop| !stop.is_parked())
}

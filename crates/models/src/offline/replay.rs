//! `replay/…`: the answers of a recorded session.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use weir_types::{Answer, Hash, Request, Wire};

use super::{deltas_of, encode, ready};
use crate::{Model, ModelError, Piece};

/// One recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Of the request's body.
    pub request_hash: Hash,
    /// What the model answered.
    pub answer: Answer,
}

/// Gives each request the answer that was recorded for it, or else the next one that was not given yet.
#[derive(Debug)]
pub struct Replay(Mutex<Vec<(Recorded, Given)>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    NotYet,
    Already,
}

impl Replay {
    /// A model that answers as recorded, in order.
    pub fn new(recorded: Vec<Recorded>) -> Self {
        Self(Mutex::new(recorded.into_iter().map(|recorded| (recorded, Given::NotYet)).collect()))
    }

    fn next(&self, request_hash: Hash) -> Result<Answer, ModelError> {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The same request may have been made twice, with different answers: those come in order as well. Once all
        // of them were given, the same request still has the answer it had last.
        let same = |(call, _): &(Recorded, Given)| call.request_hash == request_hash;
        let unused = |(_, given): &(Recorded, Given)| *given == Given::NotYet;
        let found = (recorded.iter().position(|entry| same(entry) && unused(entry)))
            .or_else(|| recorded.iter().rposition(same))
            .or_else(|| recorded.iter().position(unused));
        let Some(found) = found else {
            let message = format!("the recording has no further answer after its {}", recorded.len());
            return Err(ModelError::invalid(message));
        };
        let (call, given) = &mut recorded[found];
        *given = Given::Already;
        Ok(call.answer.clone())
    }
}

impl Model for Replay {
    fn wire(&self) -> Wire {
        Wire::Replay
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode(request)
    }

    fn stream(&self, body: Bytes, _attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        ready(self.next(Hash::of(&body)).map(|answer| {
            let mut pieces: Vec<Piece> =
                deltas_of(&answer.content, usize::MAX).into_iter().map(Piece::Delta).collect();
            pieces.push(Piece::Done(Box::new(answer)));
            pieces
        }))
    }
}

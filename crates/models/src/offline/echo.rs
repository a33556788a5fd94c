//! `offline/echo`: repeats the user.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use weir_types::{Answer, Block, Request, Stop, Wire};

use super::{decode, deltas_of, encode, estimate, latest_user_text, ready};
use crate::{Model, ModelError, Piece};

/// Characters per delta: enough for a sentence to arrive in pieces.
const CHUNK: usize = 20;

/// Repeats what the user wrote last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Model for Echo {
    fn wire(&self) -> Wire {
        Wire::Echo
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode(request)
    }

    fn stream(&self, body: Bytes, _attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        ready(answer(&body))
    }
}

fn answer(body: &[u8]) -> Result<Vec<Piece>, ModelError> {
    let request = decode(body)?;
    let said = latest_user_text(&request.messages).map_or_else(|| "…".to_owned(), |(_, text)| text);
    let content = vec![Block::text(said)];
    let mut pieces: Vec<Piece> = deltas_of(&content, CHUNK).into_iter().map(Piece::Delta).collect();
    let usage = estimate(body, &content);
    pieces.push(Piece::Done(Box::new(Answer { content, stop: Stop::End, usage, provider_id: None })));
    Ok(pieces)
}

//! A run as a stream of frames: what is durable, in order, and in between what is being said right now.
//!
//! From the journal and the session's task come [`Item`]s (`feed`), in an order that does not depend on when one looks; an
//! [`Encoder`](crate::formats::Encoder) makes chunks of them; `frames` gives those their ids, and finds the place of a client that
//! comes back; `respond` sends them, as fast as they are read. The events of a plain stream (`events`) are sent in the same way.

mod answer;
mod begin;
mod events;
mod feed;
mod frame;
mod frames;
mod item;
mod progress;
mod respond;
mod routes;

pub(crate) use self::begin::{Begun, locate, say};
pub(crate) use self::events::{Followed, follow_events};
pub(crate) use self::feed::Feed;
pub(crate) use self::frame::Chunk;
#[cfg(test)]
pub(crate) use self::frame::{Frame, FrameId};
pub(crate) use self::item::{Asked, End, Item, Piece};
#[cfg(test)]
pub(crate) use self::item::{Reset, Told};
pub(crate) use self::respond::{Source, respond};
pub(crate) use self::routes::{refuse_last_event_id, routes};

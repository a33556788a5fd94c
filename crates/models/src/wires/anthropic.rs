//! Anthropic Messages.

mod decode;
mod encode;

use bytes::Bytes;
use weir_types::{Request, Wire};

use crate::ModelError;
use crate::remote::{Decoder, Dialect};

/// The version of the wire we speak.
pub(crate) const ANTHROPIC_VERSION: &str = "2023-06-01";

const WIRE: Wire = Wire::Anthropic;

pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode::body(request)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Messages::default())
    }
}

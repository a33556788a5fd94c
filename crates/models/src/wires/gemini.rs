//! Gemini `streamGenerateContent`.

mod decode;
mod encode;

use bytes::Bytes;
use weir_types::{Request, Wire};

use crate::ModelError;
use crate::remote::{Decoder, Dialect};

const WIRE: Wire = Wire::Gemini;

pub(crate) struct Gemini;

impl Dialect for Gemini {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode::body(request)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Chunks::default())
    }
}

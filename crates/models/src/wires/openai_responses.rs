//! OpenAI Responses. Nothing is stored there: the whole conversation goes along, and reasoning comes back encrypted.

mod decode;
mod encode;

use bytes::Bytes;
use weir_types::{Request, Wire};

use crate::ModelError;
use crate::remote::{Decoder, Dialect};

const WIRE: Wire = Wire::OpenaiResponses;

pub(crate) struct OpenaiResponses;

impl Dialect for OpenaiResponses {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode::body(request)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Response::default())
    }
}

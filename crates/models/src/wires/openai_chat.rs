//! OpenAI Chat Completions, and everything that speaks it: Mistral, Ollama, vLLM, LiteLLM and many more.
//!
//! An assistant message here is one object with a string of words and a list of calls, not a list of blocks. A block
//! as it was sent is therefore a *fragment* of that object with a single field, such as `{"content":"hi"}` or
//! `{"tool_calls":[{…}]}`; putting the fragments of a message together gives the message back.

mod decode;
mod encode;
mod fragment;

use bytes::Bytes;
use weir_types::{Request, Wire};

use crate::ModelError;
use crate::remote::{Decoder, Dialect};

const WIRE: Wire = Wire::OpenaiChat;

pub(crate) struct OpenaiChat {
    server: Server,
}

/// Where servers of this wire differ so much that one refuses what another needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// Its newer models refuse `max_tokens`.
    Openai,
    /// Refuses fields it does not know, and ids that are not its own kind.
    Mistral,
    /// Everyone else follows OpenAI as it was.
    Compatible,
}

impl OpenaiChat {
    pub(crate) fn new(provider: &str, host: &str) -> Self {
        let at = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        let server = if at("openai.com") || at("openai.azure.com") || provider == "openai" {
            Server::Openai
        } else if at("mistral.ai") || provider == "mistral" {
            Server::Mistral
        } else {
            Server::Compatible
        };
        Self { server }
    }
}

impl Dialect for OpenaiChat {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode::body(request, self.server)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Chunks::default())
    }
}

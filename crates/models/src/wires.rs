//! The four languages that providers speak.

mod anthropic;
mod gemini;
mod neutral;
mod openai_chat;
mod openai_responses;

pub(crate) use self::anthropic::{ANTHROPIC_VERSION, Anthropic};
pub(crate) use self::gemini::Gemini;
pub(crate) use self::openai_chat::OpenaiChat;
pub(crate) use self::openai_responses::OpenaiResponses;

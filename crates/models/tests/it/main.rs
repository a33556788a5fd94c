//! Every adapter against a server that speaks its true wire, byte by byte.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod anthropic;
mod as_written;
mod catalog;
mod every_wire;
mod fixture;
mod gemini;
mod offline;
mod openai_chat;
mod openai_responses;
mod requests;
mod stub;

//! The server as the clients that people already have see it: vendors' own SDKs, current versions, through the real binary.
//! `cargo xtask test` installs them and then starts this; no other run does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod clients;
#[path = "../server/kit.rs"]
mod kit;
mod mcp;
mod schemathesis;
mod ui;
mod vendors;

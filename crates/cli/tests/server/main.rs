//! `weir serve` as its clients meet it: the real process, over real connections.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod api_examples;
mod api_once;
mod api_sessions;
mod api_streams;
mod auth_jwt;
mod auth_tokens;
mod borders;
mod branching;
mod compat;
mod connections;
mod counting;
mod credentials;
mod damaged;
mod deciding;
mod deploying;
mod edges;
mod following;
mod hostile;
mod ingesting;
mod isolation;
mod kit;
mod load;
mod mcp;
mod readers;
mod reconnect;
mod reloading;
mod remarks;
mod said;
mod seeing;
mod serving;
mod shares;
mod stopping;
mod streaming;
mod telling;
mod ui;
mod users;
mod vendor_streams;
mod wires;

//! Tools through the public API.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod builtins;
mod caller;
mod grants;
mod http;
mod net;
mod pipeline;
mod script;
mod serve;
mod support;

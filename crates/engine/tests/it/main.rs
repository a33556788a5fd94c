//! The engine through its public API: turns, crashes, two processes, limits.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod crash;
mod kit;
mod remembering;
mod sharing;
mod stopping;
mod turns;
mod watching;

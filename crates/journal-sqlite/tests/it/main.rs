//! The SQLite engine, through its public API.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "the helpers of tests fail as tests do")]

mod child;
mod promises;
mod support;

mod conforming;
mod crash;
mod damage;
mod damaged_log;
mod forged;
mod format;
mod lone;
mod open;
mod powercut;
mod processes;
mod scale;
mod tails;
mod tamper;

//! The engine through its public API: turns, crashes, two processes, limits.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod adopting;
mod approved_as;
mod approving;
mod budgets;
mod children;
mod crash;
mod crash_asking;
mod errands;
mod expiring;
mod families;
mod files;
mod forged_snapshots;
mod hooks;
mod hostile_import;
mod kit;
mod logged;
mod redeciding;
mod remembering;
mod restarts;
mod sharing;
mod spending;
mod stopping;
mod turns;
mod watching;

//! The kernel through its public API: foreign events, random histories, and the requests they lead to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

#[path = "../../../events/tests/it/bodies.rs"]
mod bodies;
mod check;
mod foreign_events;
mod prompt;
mod purse;
mod sim;
mod snapshots;

use proptest::test_runner::{Config, TestRunner};

/// Runs a property on that many random cases, or on as many as `PROPTEST_CASES` says; many more with `WEIR_SOAK`.
fn runner(cases: u32) -> TestRunner {
    let config = Config { failure_persistence: None, ..Config::default() };
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    let cases = if soak { cases * 100 } else { cases };
    TestRunner::new(if asked { config } else { Config { cases, ..config } })
}

//! The vocabulary through its public API: the table of kinds, and the payloads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod bodies;
mod payloads;
mod stored;
mod table;

use proptest::test_runner::{Config, TestRunner};

/// Runs a property on that many random cases. `PROPTEST_CASES` sets another number; `WEIR_SOAK` multiplies it.
fn runner(cases: u32) -> TestRunner {
    let config = Config { failure_persistence: None, ..Config::default() };
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    let cases = if soak { cases * 100 } else { cases };
    TestRunner::new(if asked { config } else { Config { cases, ..config } })
}

//! The SQLite engine, through its public API.

mod support;
mod tamper;

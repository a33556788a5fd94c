//! The SQLite engine, through its public API.

mod smoke;

//! The embedded journal engine, on SQLite.

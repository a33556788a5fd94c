//! A SQLite VFS that loses power.

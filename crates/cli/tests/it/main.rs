//! `weir` as its users meet it: the real binary, its two streams and its exit code.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod append;
mod approving;
mod backup;
mod begin;
mod blob;
mod branch;
mod build;
mod chat;
mod demo;
mod disk;
mod doctor;
mod files;
mod hostile;
mod killed;
mod processes;
mod prompt;
mod reading;
mod running;
mod scenarios;
mod secrets;
mod session;
mod transfer;
mod typed;
mod usage;
mod verify;
mod weir;

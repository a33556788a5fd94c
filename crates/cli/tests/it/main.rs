//! `weir` as its users meet it: the real binary, its two streams and its exit code.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod append;
mod approving;
mod asked;
mod asked_typed;
mod auth;
mod backup;
mod begin;
mod blob;
mod branch;
mod build;
mod carried;
mod chat;
mod demo;
mod disk;
mod doctor;
mod escapes;
mod files;
mod forged;
mod forking;
mod gate;
mod hostile;
mod interrupted;
mod killed;
mod large;
mod lying;
mod misused;
mod outside;
mod pinned;
mod planted;
mod policy;
mod processes;
mod prompt;
mod reading;
mod running;
mod scenarios;
mod secrets;
mod session;
mod spent;
mod transfer;
mod typed;
mod usage;
mod verify;
mod weir;
mod whoami;

//! Whole projects, built: on real disks, with real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod broken;
mod drift;
mod manifest;
mod policy;
mod project;
mod safety;
mod same_bytes;
mod saving;
mod skills;

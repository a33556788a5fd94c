//! Directories and files through the public API.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails like the test itself")]

mod bounds;
mod hostile;
mod leaving_out;
mod meddling;
mod properties;
mod racing;
mod roundtrip;
mod support;

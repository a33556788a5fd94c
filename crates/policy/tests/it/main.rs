//! Policies through their public face.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod building;
mod deciding;
mod hostile;
mod model;
mod people;
mod properties;
mod support;

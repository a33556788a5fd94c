//! The stores through their public interface.
#![expect(clippy::expect_used, reason = "a test that cannot go on says why and fails")]

mod child;
mod collector;
mod conforming;
mod constant_memory;
mod damage;
mod dropped;
mod on_disk;
mod properties;
mod refused;

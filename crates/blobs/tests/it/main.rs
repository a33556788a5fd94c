//! The stores through their public interface.
#![expect(clippy::expect_used, reason = "a test that cannot go on says why and fails")]

mod conforming;

//! The pure half of the loop.
mod about;
mod body;
pub use about::About;
pub use body::*;

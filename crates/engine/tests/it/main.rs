//! The engine through its public API: turns, crashes, two processes, limits.

mod crash;
mod kit;
mod remembering;
mod sharing;
mod stopping;
mod turns;
mod watching;

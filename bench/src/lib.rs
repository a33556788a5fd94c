//! What the benchmarks share: what the system says, and how findings are summed up, shown and kept.

pub mod findings;
pub mod system;

/// Whatever goes wrong ends a benchmark.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

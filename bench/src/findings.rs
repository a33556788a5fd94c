//! Numbers by name, over several rounds: summed up, held against targets, shown and kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Error;
use crate::system::Machine;

/// What one round found, by name.
pub type Round = BTreeMap<&'static str, f64>;

/// Median, smallest and largest, by name.
pub struct Summary(BTreeMap<&'static str, [f64; 3]>);

/// A promise, what was found, and whether it is kept.
pub struct Target {
    text: &'static str,
    value: f64,
    is_met: bool,
}

impl Target {
    /// The value may not be larger.
    pub fn at_most(text: &'static str, value: f64, limit: f64) -> Self {
        Self { text, value, is_met: value <= limit }
    }

    /// The value may not be smaller.
    pub fn at_least(text: &'static str, value: f64, limit: f64) -> Self {
        Self { text, value, is_met: value >= limit }
    }
}

impl Summary {
    /// Of some rounds.
    pub fn of(rounds: &[Round]) -> Self {
        let mut values: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for (name, value) in rounds.iter().flatten() {
            values.entry(name).or_default().push(*value);
        }
        let spread = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            [values[values.len() / 2], values[0], values[values.len() - 1]]
        };
        Self(values.into_iter().map(|(name, values)| (name, spread(values))).collect())
    }

    /// The median of a number; none is not a number.
    pub fn median(&self, name: &str) -> f64 {
        self.0.get(name).map_or(f64::NAN, |values| values[0])
    }

    /// Prints all of it, and the targets.
    pub fn print(&self, targets: &[Target]) {
        println!("\nMedians over the rounds (smallest to largest):\n");
        for (name, [median, min, max]) in &self.0 {
            println!("{name:<44} {median:>12.3} ({min:.3}–{max:.3})");
        }
        if !targets.is_empty() {
            println!("\nTargets:\n");
        }
        for Target { text, value, is_met } in targets {
            println!("{:<8} {value:>8.3}  {text}", if *is_met { "met" } else { "MISSED" });
        }
    }
}

/// Keeps what `cargo xtask bench PART` found, with everything that is needed to judge it; `data` is where the disk is.
pub fn save(part: &str, data: &Path, rounds: &[Round], targets: &[Target]) -> Result<PathBuf, Error> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| -> Result<String, Error> {
        let output = Command::new("git").args(arguments).current_dir(bench).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let now = weir_journal::now().to_string();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let targets: Vec<Value> = targets
        .iter()
        .map(|target| json!({ "text": target.text, "value": target.value, "is_met": target.is_met }))
        .collect();
    let report = json!({
        "command": format!("cargo xtask bench {part} {}", arguments.join(" ")).trim_end(),
        "date": now,
        "commit": git(&["rev-parse", "HEAD"])?,
        "uncommitted_changes": !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
        "machine": Machine::of(data)?,
        "targets": targets,
        "measured": rounds,
    });
    let stamp: String = now.chars().take(19).filter(|c| *c != ':').collect();
    let file = bench.join("results").join(format!("{part}-{stamp}.json"));
    std::fs::write(&file, format!("{report:#}\n"))?;
    Ok(file)
}

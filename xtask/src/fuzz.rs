//! The parsers against bytes that nobody would write: libFuzzer, through `cargo fuzz`, on the targets in `fuzz/`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use crate::process::{self, Ended};
use crate::tools::FUZZ;

/// The targets, as `fuzz/Cargo.toml` names them, and where each begins.
const TARGETS: [(&str, &str); 3] = [
    ("spec", "crates/spec/tests/broken"),
    ("manifest", "fuzz/seeds/manifest"),
    ("streams", "fuzz/seeds/streams"),
];

/// Building a target with instrumentation, at most.
const BUILD_CAP: Duration = Duration::from_secs(15 * 60);

/// Runs each target for a time, from the seeds in the repository. What is found on the way stays under `target/`; an
/// input that breaks a parser is kept under `fuzz/artifacts/`.
pub(crate) fn run(root: &Path, time: Duration) -> Outcome<Ended> {
    let fuzz = FUZZ.ensure(root)?;
    for (target, seeds) in TARGETS {
        let found = process::target(root).join("fuzz-corpus").join(target);
        std::fs::create_dir_all(&found)?;
        let mut run = Command::new(&fuzz);
        // The instrumentation needs flags of the compiler that are not stable.
        run.env("RUSTC_BOOTSTRAP", "1").current_dir(root);
        // Nothing here is unsafe, so that a sanitizer would only cost time.
        run.args(["fuzz", "run", "--dev", "--sanitizer", "none", target]);
        run.arg(&found).arg(root.join(seeds)).arg("--").arg(format!("-max_total_time={}", time.as_secs()));
        run.args(["-max_len=8192", "-timeout=20", "-rss_limit_mb=2048"]);
        let ended = process::run(&mut run, BUILD_CAP + time)?;
        if ended != Ended::Well {
            return Ok(ended);
        }
    }
    Ok(Ended::Well)
}

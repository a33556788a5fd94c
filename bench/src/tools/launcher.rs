//! The released `weir`, which confines commands: a program as large as the real one, because starting it is part of the cost.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use weir_bench::Error;

/// The given one, or the one of this checkout, built now if it is not up to date.
pub(crate) fn weir(given: Option<&Path>) -> Result<PathBuf, Error> {
    let found = match given {
        Some(given) => given.to_owned(),
        None => build()?,
    };
    let absolute = found.canonicalize();
    Ok(absolute.map_err(|error| format!("there is no weir at `{}`: {error}", found.display()))?)
}

fn build() -> Result<PathBuf, Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "-p", "weir-cli", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("weir does not build; `cargo build --release -p weir-cli` says why".into());
    }
    let artifacts = String::from_utf8(output.stdout)?;
    let executable = |line: &str| {
        let artifact: Value = serde_json::from_str(line).ok()?;
        let is_weir = artifact["target"]["name"] == "weir";
        artifact["executable"].as_str().filter(|_| is_weir).map(PathBuf::from)
    };
    artifacts.lines().find_map(executable).ok_or_else(|| "cargo does not say where weir is".into())
}

//! Outside programs: found on the path, or installed once under `target/tools`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Outcome;
use crate::process::{self, Ended};

/// Long enough to compile the larger of them on a slow machine.
const INSTALL_CAP: Duration = Duration::from_secs(20 * 60);

/// A cargo subcommand that is not part of the toolchain.
pub(crate) struct Tool {
    name: &'static str,
    /// The versions that read our configuration, as a prefix.
    series: &'static str,
}

pub(crate) const NEXTEST: Tool = Tool { name: "cargo-nextest", series: "0.9." };
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", series: "0.20." };
pub(crate) const FUZZ: Tool = Tool { name: "cargo-fuzz", series: "0.13." };

impl Tool {
    /// The program, installed first if need be.
    pub(crate) fn ensure(&self, root: &Path) -> Outcome<PathBuf> {
        let tools = process::target(root).join("tools");
        let installed = tools.join("bin").join(self.name);
        for place in [PathBuf::from(self.name), installed.clone()] {
            if process::version(&place).is_some_and(|version| self.accepts(&version)) {
                return Ok(place);
            }
        }
        println!("{} {}x is not here; installing it under {}", self.name, self.series, tools.display());
        let mut install = process::cargo();
        install.args(["install", self.name, "--locked", "--debug", "--version", &self.requirement()]);
        install.arg("--root").arg(&tools).arg("--target-dir").arg(tools.join("build")).current_dir(root);
        match process::run(&mut install, INSTALL_CAP)? {
            Ended::Well => Ok(installed),
            how => Err(format!("cannot install {}: {how}", self.name).into()),
        }
    }

    fn requirement(&self) -> String {
        format!("^{}", self.series.trim_end_matches('.'))
    }

    /// Whether the first line of `--version` is of the right series.
    fn accepts(&self, line: &str) -> bool {
        let version = line.strip_prefix(self.name).map(str::trim_start);
        version.is_some_and(|version| version.starts_with(self.series))
    }
}

/// The parts of the toolchain that rustup leaves out of a minimal installation.
pub(crate) fn check_components() -> Outcome {
    for component in ["fmt", "clippy"] {
        let mut cargo = process::cargo();
        cargo.args([component, "--version"]).stdout(std::process::Stdio::null());
        if process::run(&mut cargo, Duration::from_secs(60))? != Ended::Well {
            return Err(format!(
                "`cargo {component}` is missing; install it with `rustup component add rustfmt clippy`"
            )
            .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_series_is_accepted() {
        let accepted = |line| DENY.accepts(line);
        assert!(accepted("cargo-deny 0.20.2"));
        assert!(!accepted("cargo-deny 0.19.9"));
        assert!(!accepted("cargo-deny 0.2.0"));
        assert!(!accepted("cargo-deny 0.21.0"));
        assert!(!accepted("cargo-nextest 0.20.2"));
        assert!(NEXTEST.accepts("cargo-nextest 0.9.114 (1234abcd 2026-01-01)"));
        assert_eq!(DENY.requirement(), "^0.20");
    }
}

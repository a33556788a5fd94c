//! Packages that others wrote, for tests: of npm and of Python, installed once under `target/tools`, with a Node of their own, because
//! some need a newer one than many machines have.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use crate::process::{self, Ended};

/// The runtime alone, without the script that would otherwise choose it.
const NODE: &str = "24.9.0";

/// Hundreds of small packages have to arrive.
const INSTALL_CAP: Duration = Duration::from_secs(5 * 60);

/// What one group of tests needs. All of it is pinned, because the tests know how it behaves.
pub(crate) struct Packages {
    /// The directory under `target/tools`.
    pub(crate) name: &'static str,
    /// Of npm.
    pub(crate) npm: &'static [&'static str],
    /// Of Python.
    pub(crate) wheels: &'static [&'static str],
    /// What else is fetched, by whom the directory is handed to afterwards.
    pub(crate) more: &'static [&'static str],
}

impl Packages {
    /// Installs what is missing, and then what `more` names. In the directory: `node`, `node_modules` and `python`.
    pub(crate) fn install(&self, root: &Path, more: impl FnOnce(&Path) -> Outcome) -> Outcome<PathBuf> {
        let home = std::path::absolute(process::target(root).join("tools").join(self.name))?;
        let node = format!("node-linux-{}", architecture()?);
        let npm = (self.npm.iter().map(|package| (*package).to_owned()))
            .chain([format!("{node}@{NODE}")])
            .collect::<Vec<_>>();
        let rest = self.wheels.iter().chain(self.more).map(|package| (*package).to_owned());
        let wanted = npm.iter().cloned().chain(rest).collect::<Vec<_>>().join("\n");
        let installed = home.join("installed");
        if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
            return Ok(home);
        }
        println!("installing {} under {}", wanted.replace('\n', ", "), home.display());
        if home.exists() {
            std::fs::remove_dir_all(&home)?;
        }
        std::fs::create_dir_all(&home)?;
        install_npm(&home, &npm, &node)?;
        install_wheels(&home, self.wheels)?;
        more(&home)?;
        // Last, so that an installation that broke off is made again.
        std::fs::write(&installed, wanted)?;
        Ok(home)
    }
}

fn architecture() -> Outcome<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x64"),
        "aarch64" => Ok("arm64"),
        other => Err(format!("there is no Node for {other} among the packages of npm").into()),
    }
}

fn install_npm(home: &Path, packages: &[String], node: &str) -> Outcome {
    let mut npm = Command::new("npm");
    // Nothing that comes with a package is run while it is installed.
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]);
    npm.arg(home).args(packages);
    must(&mut npm, "Node.js with `npm` is needed, and the npm registry has to be reachable")?;
    let program = home.join("node_modules").join(node).join("bin").join("node");
    Ok(std::os::unix::fs::symlink(program, home.join("node"))?)
}

fn install_wheels(home: &Path, wheels: &[&str]) -> Outcome {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(home.join("python"));
    must(&mut venv, "Python 3 with its `venv` module is needed")?;
    let mut pip = Command::new(home.join("python").join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(wheels);
    must(&mut pip, "the Python package index has to be reachable")
}

/// Runs a part of an installation; `need` is what it may lack.
pub(crate) fn must(command: &mut Command, need: &str) -> Outcome {
    match process::run(command, INSTALL_CAP)? {
        Ended::Well => Ok(()),
        how => Err(format!("`{}` {how}: {need}", process::shown(command)).into()),
    }
}

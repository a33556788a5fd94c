//! Real MCP servers for the tests, and the official conformance suite: packages of npm and one of Python, installed once
//! under `target/tools`, with a Node of their own, because the suite needs a newer one than many machines have.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::process::{self, Ended};

/// Pinned, because the tests know what these servers answer.
const PACKAGES: [&str; 3] = [
    "@modelcontextprotocol/conformance@0.1.16",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];

/// The runtime alone, without the script that would otherwise choose it.
const NODE: &str = "24.9.0";

/// The SDK of Python, and what brings `uvx`.
const WHEELS: [&str; 2] = ["mcp==2.3.0", "uv==0.13.8"];

/// What `uvx` starts in the tests. They may not download anything, so it is fetched here.
const OF_UVX: &str = "mcp-server-time@2026.10.19";

/// Hundreds of small packages have to arrive.
const INSTALL_CAP: Duration = Duration::from_secs(5 * 60);

/// The tests themselves, compiled if need be.
const TEST_CAP: Duration = Duration::from_secs(10 * 60);

/// Runs the tests that need real servers, with them.
pub(crate) fn run(root: &Path, nextest: &Path) -> Outcome<Ended> {
    let tools = install(root)?;
    // The whole workspace, as the other tests are built: one package alone would compile its dependencies anew.
    let workspace = ["--workspace", "--all-features"];
    let mut example = process::cargo();
    example.arg("build").args(workspace).args(["--example", "conformance_client"]).current_dir(root);
    match process::run(&mut example, TEST_CAP)? {
        Ended::Well => {}
        how => return Ok(how),
    }
    let client = process::target(root).join("debug").join("examples").join("conformance_client");
    let mut test = Command::new(nextest);
    test.args(["nextest", "run"]).args(workspace).args(["--test", "real_mcp"]).current_dir(root);
    test.env("WEIR_TEST_MCP_TOOLS", tools).env("WEIR_TEST_MCP_CONFORMANCE_CLIENT", client);
    process::run(&mut test, TEST_CAP)
}

/// Installs what is missing. In the directory: `node`, `node_modules`, `python` and `uv`.
fn install(root: &Path) -> Outcome<PathBuf> {
    let home = std::path::absolute(process::target(root).join("tools").join("real-mcp"))?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => return Err(format!("there is no Node for {other} among the packages of npm").into()),
    };
    let node = format!("node-linux-{architecture}");
    let packages: Vec<String> =
        PACKAGES.iter().map(|package| (*package).to_owned()).chain([format!("{node}@{NODE}")]).collect();
    let installed = home.join("installed");
    let wanted = format!("{}\n{}\n{OF_UVX}", packages.join("\n"), WHEELS.join("\n"));
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(home);
    }
    println!("installing {} under {}", wanted.replace('\n', ", "), home.display());
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    std::fs::create_dir_all(&home)?;
    let mut npm = Command::new("npm");
    // Nothing that comes with a package is run while it is installed.
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]);
    npm.arg(&home).args(&packages);
    must(&mut npm, "Node.js with `npm` is needed, and the npm registry has to be reachable")?;
    std::os::unix::fs::symlink(
        home.join("node_modules").join(&node).join("bin").join("node"),
        home.join("node"),
    )?;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(home.join("python"));
    must(&mut venv, "Python 3 with its `venv` module is needed")?;
    let mut pip = Command::new(home.join("python").join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(WHEELS);
    must(&mut pip, "the Python package index has to be reachable")?;
    let mut uvx = Command::new(home.join("python").join("bin").join("uvx"));
    uvx.args(["--quiet", OF_UVX, "--help"]).env("UV_CACHE_DIR", home.join("uv"));
    uvx.env("UV_PYTHON_DOWNLOADS", "never").stdout(Stdio::null());
    must(&mut uvx, "the Python package index has to be reachable")?;
    // Last, so that an installation that broke off is made again.
    std::fs::write(&installed, wanted)?;
    Ok(home)
}

fn must(command: &mut Command, need: &str) -> Outcome {
    match process::run(command, INSTALL_CAP)? {
        Ended::Well => Ok(()),
        how => Err(format!("`{}` {how}: {need}", process::shown(command)).into()),
    }
}

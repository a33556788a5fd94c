//! Real MCP servers for the tests, and the official conformance suite.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::packages::{self, Packages};
use crate::process::{self, Ended};

/// What `uvx` starts in the tests. They may not download anything, so it is fetched here.
const OF_UVX: &str = "mcp-server-time@2026.10.19";

/// The last of the wheels is what brings `uvx`.
const PACKAGES: Packages = Packages {
    name: "real-mcp",
    npm: &[
        "@modelcontextprotocol/conformance@0.1.16",
        "@modelcontextprotocol/server-everything@2026.8.31",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
    ],
    wheels: &["mcp==2.3.0", "uv==0.13.8"],
    more: &[OF_UVX],
};

/// The tests themselves, compiled if need be.
const TEST_CAP: Duration = Duration::from_secs(10 * 60);

/// Runs the tests that need real servers, with them.
pub(crate) fn run(root: &Path, nextest: &Path) -> Outcome<Ended> {
    let tools = PACKAGES.install(root, fetch_for_uvx)?;
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

/// Into `uv`, which the tests use as its cache.
fn fetch_for_uvx(home: &Path) -> Outcome {
    let mut uvx = Command::new(home.join("python").join("bin").join("uvx"));
    uvx.args(["--quiet", OF_UVX, "--help"]).env("UV_CACHE_DIR", home.join("uv"));
    uvx.env("UV_PYTHON_DOWNLOADS", "never").stdout(Stdio::null());
    packages::must(&mut uvx, "the Python package index has to be reachable")
}

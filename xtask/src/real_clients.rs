//! The clients people already have, for the tests of the server: vendors' own SDKs, the AI SDK, those of MCP, and schemathesis.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use crate::packages::Packages;
use crate::process::{self, Ended};

const PACKAGES: Packages = Packages {
    name: "real-clients",
    npm: &[
        "ai@7.0.170",
        "@ai-sdk/openai-compatible@3.0.90",
        "@modelcontextprotocol/inspector@2.12.0",
        "@modelcontextprotocol/conformance@0.1.16",
    ],
    wheels: &["openai==3.51.0", "anthropic==2.9.0", "mcp==2.3.0", "schemathesis==4.32.5"],
    more: &[],
};

/// The tests themselves, compiled if need be.
const TEST_CAP: Duration = Duration::from_secs(15 * 60);

/// Runs the tests that need real clients, with them. What is passed on goes to nextest.
pub(crate) fn run(root: &Path, nextest: &Path, arguments: &[String]) -> Outcome<Ended> {
    let tools = PACKAGES.install(root, |_| Ok(()))?;
    let mut test = Command::new(nextest);
    // The whole workspace, as the other tests are built: one package alone would compile its dependencies anew.
    test.args(["nextest", "run", "--workspace", "--all-features", "--test", "real_clients"]);
    test.args(arguments).current_dir(root).env("WEIR_TEST_CLIENTS", tools);
    process::run(&mut test, TEST_CAP)
}

//! MCP as its own tools and clients see it: the conformance suite, the inspector, Python's client, and ours.

use std::process::Command;

use serde_json::{Value, json};

use crate::clients::{printed, python, run, tools};
use crate::kit::{Project, Server};

/// All active scenarios for servers of the suite that is installed. One that is missing is one that did not run.
const SCENARIOS: [&str; 30] = [
    "server-initialize",
    "logging-set-level",
    "ping",
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "server-sse-multiple-streams",
    "elicitation-sep1330-enums",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "dns-rebinding-protection",
];

/// Further ones, which the suite itself does not count yet.
const PENDING: [&str; 2] = ["json-schema-2020-12", "server-sse-polling"];

fn package(name: &str, file: &str) -> Command {
    let mut command = Command::new(tools().join("node"));
    command.arg(tools().join("node_modules/@modelcontextprotocol").join(name).join(file));
    command
}

async fn server() -> Server {
    Project::new().serve().start().await
}

/// The lines of a summary, as `(scenario, passed, failed)`.
fn summary(text: &str) -> Vec<(String, u32, u32)> {
    let line = |line: &str| {
        let (name, rest) = line.trim_start_matches(['✓', '✗', ' ']).split_once(": ")?;
        let (passed, failed) = rest.split_once(", ")?;
        let number = |text: &str| text.split(' ').next()?.parse().ok();
        Some((name.to_owned(), number(passed)?, number(failed)?))
    };
    let (_, summary) = text.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("no summary: {text}"));
    summary.lines().filter(|line| !line.starts_with("Total")).filter_map(line).collect()
}

/// Whatever the suite has for servers, it is run here.
#[test]
fn no_scenario_of_the_conformance_suite_is_left_out() {
    let mut suite = package("conformance", "dist/index.js");
    let (code, stdout, stderr) = run(suite.args(["list", "--server"]).env("NO_COLOR", "1"));
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    let named = stdout.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(' ').next());
    let (mut named, mut known) = (named.collect::<Vec<_>>(), [&SCENARIOS[..], &PENDING[..]].concat());
    named.sort_unstable();
    known.sort_unstable();
    assert_eq!(named, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes() {
    let server = Project::new().serve().arg("--mcp-conformance-fixtures").start().await;
    let url = server.url("/conformance/mcp");
    let mut suite = package("conformance", "dist/index.js");
    let (code, stdout, stderr) = run(suite.args(["server", "--url", &url]).env("NO_COLOR", "1"));
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    let ran = summary(&stdout);
    let names: Vec<&str> = ran.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, SCENARIOS);
    assert!(ran.iter().all(|(_, passed, failed)| *passed > 0 && *failed == 0), "{ran:?}");
    for scenario in PENDING {
        let mut suite = package("conformance", "dist/index.js");
        let (code, stdout, stderr) = run(suite.args(["server", "--scenario", scenario, "--url", &url]));
        assert_eq!(code, Some(0), "{scenario}: {stdout}\n{stderr}");
        assert!(stdout.contains(", 0 failed") && !stdout.contains(" 0 passed"), "{stdout}");
    }
}

fn inspected(server: &Server, args: &[&str]) -> Value {
    let home = tempfile::tempdir().unwrap();
    let mut inspector = package("inspector", "clients/launcher/build/index.js");
    inspector.env("HOME", home.path());
    inspector.arg("--cli").arg(server.url("/agents/helper/mcp")).args(["--transport", "http"]).args(args);
    printed(&mut inspector)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_sees_an_agent() {
    let server = server().await;
    let listed = inspected(&server, &["--method", "tools/list"]);
    assert_eq!(listed["tools"][0]["name"], "helper", "{listed}");
    let call = ["--method", "tools/call", "--tool-name", "helper", "--tool-arg", "message=weather in Lisbon"];
    let called = inspected(&server, &call);
    assert_eq!(called["content"][0]["text"], "It is 18 degrees in Lisbon.", "{called}");
    assert_eq!(called["structuredContent"]["stop"], "end", "{called}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pythons_client_talks_to_an_agent() {
    let server = server().await;
    let seen = python("mcp_client", &json!({"base": server.base}));
    let helper = &seen["helper"];
    assert_eq!((&helper["tools"], &helper["read_only"]), (&json!(["helper"]), &json!(true)), "{seen}");
    let call = &helper["calls"][0];
    assert_eq!((&call["text"], &call["error"]), (&json!("It is 18 degrees in Lisbon."), &json!(false)));
    let progress = json!([
        [1.0, "asks scripted/helper"],
        [2.0, "calls weather"],
        [3.0, "weather has answered"],
        [4.0, "asks scripted/helper"],
    ]);
    assert_eq!(call["progress"], progress);
    assert_eq!(helper["calls"][1]["text"], "You said: hi");
    let waits = &seen["waits"]["calls"][0]["structured"];
    assert_eq!((&waits["stop"], &waits["approvals"][0]["tool"]), (&json!("approval"), &json!("refund")));
    let approved = &seen["approved"];
    assert_eq!(approved["calls"][0]["text"], "Done: refunded 5", "{approved}");
    assert!(approved["asked"][0].as_str().unwrap().contains("requires approval"), "{approved}");
    let denied = &seen["denied"]["calls"][0];
    assert!(denied["text"].as_str().unwrap().starts_with("I did not:"), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_a_tool_of_an_agent_elsewhere() {
    let server = server().await;
    let other = Project::empty();
    let uri = format!("mcp://127.0.0.1:{}/agents/helper/mcp", server.port);
    other.write("weir.yaml", "project: other\n");
    other.write("models/asks.yaml", "replies:\n  - when: { tool: helper }\n    say: \"It says: {{result}}\"\n  - when: { user: '(?s)(.*)' }\n    call: [{ tool: helper, input: { message: \"{{1}}\" } }]\n");
    let spec = format!(
        "name: asks\nmodel: scripted/asks\ndescription: You ask elsewhere.\ntools:\n  - server: {uri}\n    access: read\n"
    );
    other.write("agents/asks/spec.yaml", &spec);
    other.ok(&["build", "--yes"]);
    let told = other.json(&["chat", "asks", "--message", "weather in Lisbon"]);
    assert_eq!(told["answer"], "It says: It is 18 degrees in Lisbon.", "{told}");
}

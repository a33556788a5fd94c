//! Every example of `docs/api.md`, run as it stands there, with the real curl.

use std::process::Command;

use serde_json::{Value, json};

use crate::kit::{Project, Server};

/// Complains with a status of its own where the server does, and about nothing else on the way.
const CURL: &str = "set -e\ncurl() { command curl -sS --fail-with-body --noproxy '*' \"$@\"; }\n";

/// What curl says when it has listened for as long as it was told to.
const TIME_IS_UP: i32 = 28;

/// What the tokens of the bridge are derived from.
const SECRET: &str = "a secret of at least thirty-two characters";

#[tokio::test]
async fn every_example_works_as_it_stands() {
    let project = Project::new();
    let server = project.serve().env("WEIR_BRIDGE_SECRET", SECRET).start().await;
    let document = server.get("/openapi.json").await.ok();
    let mut ran = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let example =
                operation["x-curl"].as_str().unwrap_or_else(|| panic!("{method} {path} has no example"));
            run(&server, &format!("{method} {path}"), example).await;
            ran += 1;
        }
    }
    assert!(ran > 40, "{ran}");
}

async fn run(server: &Server, name: &str, example: &str) {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{CURL}{example}")).env("WEIR", &server.base);
    command.current_dir(server.project.path());
    for (variable, value) in needed(server, example).await {
        command.env(variable, value);
    }
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let is_fine = match output.status.code() {
        Some(0) => true,
        Some(TIME_IS_UP) => example.contains("--max-time"),
        _ => false,
    };
    assert!(is_fine, "{name}: {example}\n{text}\n{complaint}");
    assert!(!text.is_empty(), "{name} answers nothing");
}

/// What has to be there before: made anew for each example, because some of them end what they are about.
async fn needed(server: &Server, example: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if ["$SESSION", "$WRITTEN", "$HALTED", "$RUN"].iter().any(|name| example.contains(name)) {
        let turn = server.post("/agents/helper/chat", &json!({"message": "weather in Lisbon"})).await.ok();
        let session = text(&turn["session"]);
        if example.contains("$WRITTEN") {
            server.project.write("work/notes/today.md", "rain\n");
            server.project.ok(&["fs", "import", &session, "work"]);
        }
        if example.contains("$HALTED") {
            server.post(&format!("/sessions/{session}/halt"), &json!({})).await.ok();
        }
        found.push(("RUN", text(&turn["run"])));
        found.extend(["SESSION", "WRITTEN", "HALTED"].map(|name| (name, session.clone())));
    }
    if example.contains("$MCP") {
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        });
        let request = server
            .posting("/agents/helper/mcp", &hello)
            .header("accept", "application/json, text/event-stream");
        let greeted = crate::kit::Answer::to(request).await;
        found.push(("MCP", greeted.header("mcp-session-id").expect("a session of MCP").to_owned()));
    }
    if example.contains("$BRIDGE") {
        let turn = server.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
        let mut command = server.project.command();
        command.env("WEIR_BRIDGE_SECRET", SECRET).args([
            "session",
            "bridge-token",
            &text(&turn["session"]),
            "--json",
        ]);
        let printed: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        found.push(("BRIDGE", text(&printed["token"])));
    }
    if example.contains("$ASKING") {
        let turn = server.post("/agents/careful/chat", &json!({"message": "refund 7"})).await.ok();
        found.push(("ASKING", text(&turn["session"])));
        found.push(("CALL", text(&turn["approvals"][0]["id"])));
    }
    if example.contains("$STREAM") {
        let note = json!({"events": [{"kind": "note.added"}, {"kind": "note.added"}]});
        server.post("/streams/lake/events", &note).await.ok();
        found.push(("STREAM", "lake".to_owned()));
    }
    if example.contains("$HASH") {
        let request = server.request(reqwest::Method::PUT, "/blobs").body("a low dam");
        let stored =
            crate::kit::Answer::to(request.header("content-type", "application/octet-stream")).await.ok();
        found.push(("HASH", text(&stored["hash"])));
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

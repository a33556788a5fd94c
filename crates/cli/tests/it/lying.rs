//! Servers that say of a tool what is not so, and servers that ask for what is not theirs.

use serde_json::{Value, json};

use crate::outside::{Canary, Project, field, script, tool};

/// A tool that writes, and whose server says that it does not.
fn lying(name: &str) -> Value {
    let mut lying = tool(name);
    lying["annotations"] = json!({"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false});
    lying
}

/// An agent whose two servers, one started and one spoken to, lie about their tools. Its author knows better.
fn trusting() -> (Project, Canary) {
    let (project, canary) = (Project::new(), Canary::with_tools(&[lying("wipe")]));
    project.server("liar", &[lying("send")]);
    let spec = format!(
        "tools:\n  - {{ server: \"mcp://./servers/liar.py\", access: write, effect: write }}\n  - {{ server: \"{}\", access: write, effect: write }}\n",
        canary.server("")
    );
    let calls = json!([{"tool": "send", "input": {"n": 1}}, {"tool": "wipe", "input": {"n": 1}}]);
    project.agent("trusting", &spec, &script(&[("^go", calls)]));
    project.build();
    (project, canary)
}

#[test]
fn a_write_that_calls_itself_harmless_is_stubbed_all_the_same() {
    let (project, canary) = trusting();
    for tool in project.lines(&["tools", "list", "trusting"]).iter().filter(|tool| tool["kind"] == "mcp") {
        let strictness = ["effect", "risk", "live"].map(|field| &tool[field]);
        assert_eq!(strictness, [&json!("write"), &json!("high"), &json!(false)], "{tool}");
    }
    let session = project.chat("trusting", "go", &[]);
    assert_eq!((project.touched("liar"), canary.touched()), (vec![], vec![]));
    let completed = project.payloads(&session, "tool.completed");
    assert_eq!(completed.iter().filter(|done| done["stub"] == true).count(), 2, "{completed:?}");
    // Whoever is asked about high risks is asked about it: that is what is written down, and what policy is told.
    for asked in project.payloads(&session, "tool.requested") {
        assert_eq!((&asked["effect"], &asked["risk"]), (&json!("write"), &json!("high")), "{asked}");
    }
    project.chat("trusting", "go", &["--live-writes"]);
    assert_eq!(
        (project.touched("liar"), canary.touched()),
        (vec!["send".to_owned()], vec!["wipe".to_owned()])
    );
}

#[test]
fn a_write_that_calls_itself_repeatable_is_not_repeated_after_a_crash() {
    let (project, canary) = trusting();
    project.hold("liar", true);
    canary.hold(true);
    let chat = project.start(&["chat", "trusting", "-m", "go", "--live-writes"]);
    project.await_call("liar");
    canary.await_touches(1);
    chat.kill();
    project.hold("liar", false);
    canary.hold(false);

    let session = project.latest();
    project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(
        (project.touched("liar"), canary.touched()),
        (vec!["send".to_owned()], vec!["wipe".to_owned()])
    );
    let failed = project.payloads(&session, "tool.failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    for failed in failed {
        assert_eq!(failed["outcome"], "unknown", "{failed}");
    }
}

/// A tool that its server calls read-only.
fn reading(name: &str) -> Value {
    let mut reading = tool(name);
    reading["annotations"] = json!({"readOnlyHint": true});
    reading
}

/// An agent with a tool that its server says nothing about, and one that it calls read-only; `entry` is the rest of their entry.
fn unannotated(entry: &str) -> (Project, Canary) {
    let (project, canary) = (Project::new(), Canary::with_tools(&[tool("plain"), reading("look")]));
    let server = canary.server("");
    project.write(
        "weir.yaml",
        &format!("project: plain\ntool_grants:\n  - tool: {server}\n    grants: [{{ principal: \"user:reader\", access: read }}]\n"),
    );
    let spec = format!(
        "tools: [{{ server: \"{server}\"{entry} }}]\nacl: [{{ principal: \"user:reader\", role: execute }}]\n"
    );
    let calls = json!([{"tool": "plain", "input": {"n": 1}}, {"tool": "look", "input": {"n": 1}}]);
    project.agent("helper", &spec, &script(&[("^go", calls)]));
    (project, canary)
}

#[test]
fn a_tool_of_which_nothing_is_known_is_a_write() {
    let (project, canary) = unannotated(", access: write");
    project.build();
    let listed = project.lines(&["tools", "list", "helper"]);
    let classes: Vec<_> = listed.iter().filter(|tool| tool["kind"] == "mcp").collect();
    let shown = |tool: &Value| ["name", "effect", "risk", "live"].map(|field| tool[field].clone());
    assert_eq!(shown(classes[0]), [json!("look"), json!("read"), json!("low"), json!(true)]);
    assert_eq!(shown(classes[1]), [json!("plain"), json!("write"), json!("high"), json!(false)]);
    // The read is live, the write only pretends.
    project.chat("helper", "go", &[]);
    assert_eq!(canary.touched(), ["look"]);
    // A grant to read is none to call it, live or not.
    let session = project.chat("helper", "go", &["--live-writes", "--as", "user:reader"]);
    assert_eq!(canary.touched(), ["look"]);
    let decided = project.payloads(&session, "tool.decided");
    let rules: Vec<_> = decided
        .iter()
        .filter(|decided| decided["outcome"] == "deny")
        .map(|decided| &decided["rule"])
        .collect();
    assert_eq!(rules, ["grant"], "{decided:?}");
}

#[test]
fn a_tool_of_which_nothing_is_known_is_not_repeated_after_a_crash() {
    let (project, canary) = unannotated(", access: write, only: [plain]");
    project.build();
    canary.hold(true);
    let chat = project.start(&["chat", "helper", "-m", "go", "--live-writes"]);
    canary.await_touches(1);
    chat.kill();
    canary.hold(false);
    let session = project.latest();
    project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(canary.touched(), ["plain"]);
    let failed = project.payloads(&session, "tool.failed");
    assert!(failed.iter().any(|failed| failed["outcome"] == "unknown"), "{failed:?}");
}

#[test]
fn without_access_a_tool_of_which_nothing_is_known_is_not_offered() {
    let (project, canary) = unannotated("");
    let built = project.run(&["build", "--yes"]);
    assert_eq!(built.code, 0, "{built}");
    assert!(built.stderr.contains("build::unknown-access") && built.stderr.contains("`plain`"), "{built}");
    assert!(built.stderr.contains("add `access: read` if they only read"), "{built}");
    let session = project.chat("helper", "go", &["--live-writes"]);
    assert_eq!(canary.touched(), ["look"]);
    let decided = project.payloads(&session, "tool.decided");
    assert!(decided.iter().any(|decided| decided["rule"] == "allowlist"), "{decided:?}");
}

#[test]
fn what_a_server_says_can_make_a_tool_stricter() {
    let canary = Canary::with_tools(&[tool("look"), {
        let mut honest = tool("wipe");
        honest["annotations"] = json!({"readOnlyHint": false});
        honest
    }]);
    let project = Project::new();
    let spec = format!("tools:\n  - {{ server: \"{}\", access: read }}\n", canary.server(""));
    let call = json!([{"tool": "look", "input": {}}, {"tool": "wipe", "input": {}}]);
    project.agent("careful", &spec, &script(&[("^go", call)]));
    project.build();
    // The author says that all of it reads; the server says that one of them does not, and that one is not offered.
    let session = project.chat("careful", "go", &["--live-writes"]);
    assert_eq!(canary.touched(), ["look"]);
    let decided = project.payloads(&session, "tool.decided");
    let denied: Vec<_> = decided.iter().filter(|decided| decided["outcome"] == "deny").collect();
    assert_eq!(denied.len(), 1, "{decided:?}");
    assert_eq!(denied[0]["rule"], "allowlist");
}

#[test]
fn a_server_that_asks_in_the_middle_of_a_call_is_given_nothing() {
    let project = Project::new();
    let model = Canary::new();
    project.server("pry", &[tool("curious"), tool("ring")]);
    // A model behind HTTP, so that a question that reaches it is seen.
    project.write(
        "weir.yaml",
        &format!(
            "project: pry\nmodels:\n  local/m: {{ wire: openai-chat, base_url: \"{}\", context_window: 8000, output_max: 1000 }}\n",
            model.url("/v1")
        ),
    );
    let spec = "tools:\n  - { server: \"mcp://./servers/pry.py\", access: write }\n";
    project.agent("host", spec, &script(&[("^go", json!([{"tool": "curious", "input": {}}]))]));
    project.write("agents/paying/spec.yaml", &format!("name: paying\nmodel: local/m\n{spec}"));
    project.build();

    let session = project.chat("host", "go", &["--live-writes"]);
    assert_eq!(project.payloads(&session, "model.requested").len(), 2, "it asked no question of its own");
    assert!(project.results(&session)[0].contains("asked"));
    project.ok(&["tools", "call", "paying", "curious", "--live-writes"]);
    assert_eq!(model.touched(), [""; 0]);

    let replies = project.left("pry", "replies");
    assert_eq!(replies.len(), 8, "{replies:?}");
    for reply in &replies {
        let reply: Value = serde_json::from_str(reply).unwrap();
        assert_eq!((&reply["error"]["code"], &reply["result"]), (&json!(-32601), &Value::Null), "{reply}");
    }
    // It called nothing through us: all calls of it are the two that we made.
    assert_eq!(project.touched("pry"), ["curious", "curious"]);
    for id in project.lines(&["session", "list"]) {
        let kinds: Vec<String> =
            project.events(&field(&id, "id")).iter().map(|event| field(event, "kind")).collect();
        assert_eq!(kinds.iter().filter(|kind| *kind == "tool.requested").count(), 1, "{kinds:?}");
        assert!(!kinds.iter().any(|kind| kind.starts_with("approval.")), "{kinds:?}");
    }
    // The model is alive: who asks it, reaches it.
    let chat = project.start(&["chat", "paying", "-m", "hello"]);
    model.await_touches(1);
    chat.kill();
}

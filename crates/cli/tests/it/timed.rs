//! How long a call of a tool may take: by its entry, from the spec to the process that runs it.

use serde_json::json;

use crate::outside::{Canary, Project, script, tool};

const ENDLESS: &str = "import { defineTool } from 'weir';\n\
    export default defineTool({ name: 'endless', description: 'Never ends.', execute: () => { while (true) {} } });\n";

#[test]
fn a_script_that_never_ends_is_stopped_by_its_processor_time() {
    let project = Project::new();
    project.write("tools/endless.ts", ENDLESS);
    let entry = |cpu: &str| format!("tools: [{{ name: tools/endless, access: read, timeout: 1h{cpu} }}]\n");
    project.agent("slow", &entry(", cpu: 200ms"), &script(&[]));
    project.build();
    let ran = project.run(&["tools", "call", "slow", "endless", "{}"]);
    assert_ne!(ran.code, 0, "{ran}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("stopped after 0.2 s of processor time"), "{ran}");
    // What the entry says is in the build, and what it does not say is not.
    project.agent("slow", &entry(""), &script(&[]));
    let shown = project.json(&["build", "--yes"]);
    let manifest = project.weir.data().join(format!("build/{}.json", shown["manifest"].as_str().unwrap()));
    let text = std::fs::read_to_string(manifest).unwrap();
    assert!(text.contains("\"timeout_ms\":3600000") && !text.contains("cpu_ms"), "{text}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_time_of_its_entry() {
    let (project, canary) = (Project::new(), Canary::with_tools(&[tool("ring")]));
    let entry = format!("tools: [{{ server: \"{}\", access: read, timeout: 300ms }}]\n", canary.server(""));
    project.agent("waiting", &entry, &script(&[("^go", json!([{"tool": "ring", "input": {}}]))]));
    project.build();
    canary.hold(true);
    let session = project.chat("waiting", "go", &[]);
    canary.hold(false);
    assert_eq!(canary.touched(), ["ring"]);
    let failed = project.payloads(&session, "tool.failed");
    // The connection and the gate give up at the same moment; either may say so.
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("within 300 ms") || message.contains("within 0.3 s"), "{failed:?}");
}

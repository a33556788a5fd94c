//! Rules, policies and four eyes, as they are met in a chat.

use serde_json::json;

use crate::outside::{Project, script};

fn project(rules: &str) -> Project {
    let project = Project::new();
    let calls = [
        ("^time", json!([{"tool": "get_time"}])),
        ("^good", json!([{"tool": "http", "input": {"url": "http://good.example/"}}])),
        ("^evil", json!([{"tool": "http", "input": {"url": "http://evil.example/"}}])),
    ];
    let spec = "tools:\n  - { name: get_time }\n  - { name: http, access: read, hosts: [good.example] }\n";
    project.agent("helper", spec, &script(&calls));
    project.write("weir.yaml", &format!("project: p\n{rules}"));
    project
}

/// What a chat comes to: exit code, and both streams.
fn chat(project: &Project, message: &str) -> String {
    project.run(&["chat", "helper", "-m", message]).to_string()
}

#[track_caller]
fn says(shown: &str, exit: u8, part: &str) {
    assert!(shown.starts_with(&format!("exit {exit}\n")) && shown.contains(part), "{shown}");
}

#[test]
fn a_rule_denies_and_says_why() {
    let project = project(
        "rules:\n  - { id: no-clock, when: { tool: get_time }, then: deny, why: time flies }\n  \
         - { id: no-evil, when: { tool: http, input: { url: { matches: evil } } }, then: deny }\n",
    );
    says(
        &chat(&project, "time"),
        0,
        "tool 'get_time' blocked: rules: the rule `no-clock` denies it: time flies",
    );
    says(&chat(&project, "evil"), 0, "tool 'http' blocked: rules: the rule `no-evil` denies it");
    assert!(!chat(&project, "good").contains("rules:"));
}

#[test]
fn a_rule_asks_and_whoever_asked_is_not_who_answers() {
    let rule = "rules: [{ id: ask, when: { tool: get_time }, then: require_approval, why: a look first }]\n";
    let alone = project(rule);
    says(
        &chat(&alone, "time"),
        5,
        "tool 'get_time' requires approval: the rule `ask` asks for approval: a look first",
    );
    let call = |project: &Project| {
        let listed = project.run(&["approvals", "--json"]).stdout;
        let first: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        let id = first.get("id").or_else(|| first["approvals"][0].get("id")).unwrap();
        id.as_str().unwrap().to_owned()
    };
    says(&alone.run(&["approve", &call(&alone)]).to_string(), 0, "");

    let together = project(&format!("four_eyes: true\n{rule}"));
    says(&chat(&together, "time"), 5, "requires approval");
    let refused = together.run(&["approve", &call(&together)]).to_string();
    says(&refused, 3, "nobody approves what they asked for themselves");
}

#[test]
fn a_policy_by_hand_forbids_and_admins_are_no_exception() {
    let project = project("");
    project.write(
        "policies/own.cedar",
        "@why(\"not here\")\nforbid (principal, action == Action::\"call\", resource)\n\
         when { context.arguments.hasTag(\"url\") && context.arguments.getTag(\"url\") like \"*evil*\" };\n",
    );
    says(&chat(&project, "evil"), 0, "rules: the policy `policies/own.cedar:1` forbids it: not here");
    assert!(!chat(&project, "good").contains("forbids"));
    project.write(
        "policies/own.cedar",
        "forbid (principal, action == Action::\"execute\", resource == Agent::\"helper\");\n",
    );
    says(&chat(&project, "time"), 3, "`policies/own.cedar:1` forbids it");
}

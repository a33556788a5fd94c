//! Policies in a build: what is kept of them, and the line of whatever is wrong.

use std::fmt::Write as _;

use weir_compiler::Mode;
use weir_spec::Manifest;

use crate::project::Project;

const SPEC: &str = "name: helper\nmodel: offline/echo\ntools:\n  - { name: bash, access: write, approval: always }\nacl:\n  \
                    - { principal: \"group:staff\", role: execute }\n  - { principal: \"user:boss\", role: approve }\n  \
                    - { principal: \"user:boss\", role: execute }\n";

fn rules(number: usize) -> String {
    let mut text = "rules:\n".to_owned();
    for n in 1..=number {
        writeln!(text, "  - {{ id: r{n}, when: {{ tool: \"t{n}_*\", input: {{ a: {n} }} }}, then: deny }}")
            .unwrap();
    }
    text
}

#[tokio::test]
async fn a_build_keeps_what_its_files_say_about_who_may_do_what() {
    let project = Project::new(&[
        ("agents/helper/spec.yaml", SPEC),
        (
            "weir.yaml",
            "four_eyes: true\nrules: [{ id: no-shell, when: { tool: bash }, then: deny, why: no shell }]\n",
        ),
        (
            "policies/own.cedar",
            "forbid (principal, action == Action::\"call\", resource == Tool::\"http\");\n",
        ),
    ]);
    let compiled = project.build(Mode::Offline).await;
    assert_eq!(compiled.diagnostics, []);
    let built = compiled.built.unwrap();
    let again = Manifest::from_bytes(&built.bytes).unwrap();
    for part in [
        "@id(\"builtin:four-eyes\")",
        "permit (principal in Group::\"staff\", action == Action::\"execute\", resource == Agent::\"helper\");",
        "permit (principal == User::\"boss\", action == Action::\"approve\", resource == Agent::\"helper\");",
        "permit (principal == User::\"boss\", action == Action::\"execute\", resource == Agent::\"helper\");",
        "when { context.tool == \"bash\" && context.agent == Agent::\"helper\" };",
        "@id(\"no-shell\")\n@outcome(\"deny\")\n@order(\"0\")\n@why(\"no shell\")\n",
    ] {
        assert!(again.policy.contains(part), "{part}\n{}", again.policy);
    }
    assert!(again.policies["policies/own.cedar"].starts_with("forbid"));
}

#[tokio::test]
async fn one_bad_rule_in_a_thousand_is_told_with_its_line() {
    let bad = "  - id: bad\n    when: { tool: bash, input: { command: { matches: '^rm ' } } }\n    then: deny\n    \
               examples:\n      matches:\n        - { tool: bash, input: { command: rm -r x } }\n        \
               - { tool: bash, input: { command: ls } }\n";
    let project =
        Project::new(&[("agents/helper/spec.yaml", SPEC), ("weir.yaml", &format!("{}{bad}", rules(999)))]);
    let compiled = project.build(Mode::Offline).await;
    let errors: Vec<String> = compiled
        .diagnostics
        .iter()
        .filter(|problem| problem.is_error())
        .map(|problem| format!("{} {problem}", problem.code))
        .collect();
    assert_eq!(
        errors,
        ["build::rule-example weir.yaml:1007:19: the rule `bad` is not about this call of `bash`"]
    );
    assert!(compiled.built.is_none());
}

#[tokio::test]
async fn what_a_rule_names_is_no_reason_to_doubt_servers_that_were_not_asked() {
    let spec = "name: helper\nmodel: offline/echo\ntools: [{ server: \"mcp://./servers/notes.sh\" }]\n";
    let project = Project::new(&[
        ("agents/helper/spec.yaml", spec),
        ("weir.yaml", "rules: [{ id: a, when: { tool: list_notes }, then: deny }]\n"),
    ]);
    for mode in [Mode::Check, Mode::Offline] {
        let compiled = project.build(mode).await;
        let told = compiled.diagnostics.iter().any(|problem| problem.code == "build::rule-tool");
        assert!(!told, "{:#?}", compiled.diagnostics);
    }
}

//! What a server tells whoever runs it, and nobody else.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::kit::{Answer, Project};

#[tokio::test]
async fn a_build_that_is_newer_than_what_is_served_is_remarked_upon() {
    let project = Project::new();
    let server = project.serve_as(&["serve"]).start().await;
    assert!(!server.log().iter().any(|line| line["message"].as_str().unwrap().contains("newer")));
    let down = server.terminate().await;
    project.write("models/helper.yaml", "replies:\n  - say: \"something else\"\n");
    let newer = project.build();
    let server = down.start_again().await;
    let line = server.logged("there is a newer build: `weir deploy latest` serves it").await;
    assert_eq!(line["latest"], newer);
}

#[tokio::test]
async fn loops_that_nobody_runs_are_remarked_upon() {
    let project = Project::new();
    let spec = "name: morning\nschedule: \"0 7 * * *\"\ntimezone: Europe/Lisbon\nagent: helper\nrun_as: serviceaccount:bot\ninstruction: hello\n";
    project.write("loops/morning.yaml", spec);
    let accounts = "service_accounts: [{ name: bot }]\n";
    project.write("weir.yaml", &format!("{}{accounts}", include_str!("kit/project/weir.yaml")));
    let said = project.run(&["build"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let server = project.serve().start().await;
    assert_eq!(server.logged("this version does not run loops yet: they never fire").await["loops"], 1);
}

#[tokio::test]
async fn what_an_agent_lacks_is_told_in_the_log_and_not_to_those_who_talk_to_it() {
    let project = Project::new();
    let spec = "name: needy\nmodel: anthropic/claude-sonnet-4-5\ndescription: Needs a key.\n";
    project.write("agents/needy/spec.yaml", spec);
    project.build();
    let server = project.serve().start().await;
    let answer = server.post("/agents/needy/chat", &json!({ "message": "hi" })).await;
    assert_eq!(answer.error(), (503, "server::agent-unavailable".to_owned()));
    assert!(!answer.text().contains("ANTHROPIC"), "{}", answer.text());
    let line = server.logged("an agent cannot answer").await;
    assert!(line["error"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{line}");
    let asked = json!({ "model": "needy", "messages": [{ "role": "user", "content": "hi" }] });
    let answer = server.post("/v1/chat/completions", &asked).await;
    assert_eq!(answer.status, 503);
    assert!(!answer.text().contains("ANTHROPIC"), "{}", answer.text());
}

#[tokio::test]
async fn a_request_is_found_in_the_log_by_its_id() {
    let server = Project::new().serve().env("LOG_LEVEL", "debug").start().await;
    let request = server.request(reqwest::Method::GET, "/sessions/nothing?branch=hidden");
    let answer = Answer::to(request.header("x-request-id", "find-me")).await;
    assert_eq!(answer.status, 404);
    let line = server.logged("answered").await;
    assert_eq!(
        (&line["request"], &line["method"], &line["path"], &line["status"]),
        (&json!("find-me"), &json!("GET"), &json!("/sessions/nothing"), &json!(404))
    );
    assert!(!line.to_string().contains("hidden"), "what is asked may be nobody's business: {line}");
}

#[test]
fn the_data_directory_is_for_its_user_alone_whoever_makes_it() {
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let made = Project::empty();
    made.ok(&["init", "made"]);
    assert_eq!(mode(made.path().join("made/.weir")), 0o700, "init");
    assert_eq!(mode(Project::new().data()), 0o700, "build");
    let appended = Project::empty();
    appended.ok(&["append", "--stream", "lake", "--kind", "note"]);
    assert_eq!(mode(appended.data()), 0o700, "append");
}

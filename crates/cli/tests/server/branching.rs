//! Branches: their names, and who is told them.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;

use crate::kit::Project;
use crate::mcp::Mcp;

#[tokio::test]
async fn branches_that_nobody_names_have_names_of_their_own_however_many_are_made_at_once() {
    let server = Project::new().serve().start().await;
    let session = server.say("helper", "hi", None).await.session;
    server.post("/streams/lake/events", &json!({"events": [{"kind": "note"}]})).await.ok();
    for place in [format!("/sessions/{session}/fork"), "/streams/lake/fork".to_owned()] {
        let body = json!({"at": 1});
        let forks = join_all((0..6).map(|_| server.post(&place, &body))).await;
        let names: BTreeSet<String> =
            forks.iter().map(|fork| fork.ok()["branch"].as_str().unwrap().to_owned()).collect();
        let expected = (1..=6).map(|n| format!("fork-{n}")).collect();
        assert_eq!(names, expected, "{place}");
    }
}

#[tokio::test]
async fn a_turn_over_mcp_names_the_branch_that_it_was_on() {
    let server = Project::new().serve().start().await;
    let session = server.say("careful", "hi", None).await.session;
    server.post(&format!("/sessions/{session}/fork"), &json!({"name": "other"})).await.ok();
    let branch = format!("{session}@other");
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", json!({})).await;
    let reply = careful.call("careful", json!({"message": "refund 5", "session": branch})).await;
    let told = &reply.result()["structuredContent"];
    assert_eq!((&told["session"], &told["stop"]), (&json!(branch), &json!("approval")));
    assert_eq!(told["approvals"][0]["session"], json!(branch));
    assert!(reply.words().contains(&format!("session {branch}.")), "{}", reply.words());
}

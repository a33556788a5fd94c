//! What one of many may have of a server.

use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::kit::{Frames, Person, Project, token, within};
use crate::mcp::Mcp;

#[tokio::test]
async fn sessions_of_mcp_are_counted_by_whose_they_are() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let at = |agent: &str, token: &str| Mcp::new(&server, &format!("/agents/{agent}/mcp")).token(token);
    let hers = at("helper", &alices).begin("2025-11-25", json!({})).await;
    let his = at("helper", &bobs).begin("2025-11-25", json!({})).await;
    // As many as anybody may have, of all agents together.
    for n in 0..64 {
        let agent = if n % 2 == 0 { "careful" } else { "boss" };
        assert_eq!(at(agent, &alices).hello("2025-11-25", json!({})).await.status(), 200);
    }
    assert_eq!(hers.ask("tools/list", json!({})).await.status(), 404, "her oldest went for her newest");
    assert_eq!(his.ask("tools/list", json!({})).await.status(), 200);
}

//! What one of many may have of a server.

use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::kit::{Frames, Person, Project, token, within};
use crate::mcp::Mcp;

#[tokio::test]
async fn whoever_has_much_under_way_leaves_room_for_others() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").arg("--max-requests").arg("4").start().await;
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    let said = alice.post("/agents/helper/chat", &json!({"message": "hi"})).await.ok();
    let path = format!("/sessions/{}/events/stream", said["session"].as_str().unwrap());
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut frames = Frames::of(alice.request(Method::GET, &path).send().await.unwrap());
        if frames.status == 200 {
            assert!(frames.next().await.is_some());
            held.push(frames);
        }
    }
    assert_eq!(bob.get("/sessions").await.status, 200);
    assert_eq!(held.len(), 2, "half of the room");
    let refused = alice.get("/sessions").await;
    assert_eq!(refused.error(), (429, "server::too-many".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    held.pop();
    let free = async { while alice.get("/sessions").await.status != 200 {} };
    within("she has room again", free).await;
}

#[tokio::test]
async fn a_request_that_goes_on_without_its_client_keeps_its_place() {
    let project = Project::new();
    let script = format!("replies:\n  - say: \"{}\"\n    chunk: 1\n    delay: 20ms\n", "a".repeat(200));
    project.write("models/helper.yaml", &script);
    project.build();
    let server = project.serve().arg("--max-requests").arg("1").start().await;
    let body = json!({"message": "go on"}).to_string();
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let request = format!(
        "POST /agents/helper/chat HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nidempotency-key: one\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.port,
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    // Not asked of the server, where asking would take the place.
    let begun = async {
        while project.lines(&["session", "list"]).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within("it is under way", begun).await;
    drop(client);
    let free = async { while server.get("/sessions").await.status != 200 {} };
    within("there is room again", free).await;
    let listed = server.get("/sessions").await.ok();
    let events = project.events(listed["sessions"][0]["id"].as_str().unwrap());
    assert!(events.iter().any(|event| event["kind"] == "run.finished"), "not before it is done");
}

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

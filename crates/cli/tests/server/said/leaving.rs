//! Clients that leave, and want their run cancelled then.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::{drawling, said};
use crate::kit::{Answer, Project, Server, within};

/// Waits for the end of every run of a session; how they ended.
async fn ends(project: &Project, session: &str, runs: usize) -> Vec<String> {
    let ended = async {
        loop {
            let events = project.events(session);
            let kinds = events.iter().map(|event| event["kind"].as_str().unwrap());
            let ends: Vec<String> = kinds
                .filter(|kind| ["run.finished", "run.cancelled", "run.errored"].contains(kind))
                .map(str::to_owned)
                .collect();
            if ends.len() >= runs {
                return ends;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within("the ends of runs", ended).await
}

async fn connected(server: &Server) -> tokio::net::TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // So that much of a long answer is still with the server.
    socket.set_recv_buffer_size(4_096).unwrap();
    let address = format!("127.0.0.1:{}", server.port).parse().unwrap();
    socket.connect(address).await.unwrap()
}

fn post(server: &Server, path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.port,
        body.len()
    )
}

#[tokio::test]
async fn who_leaves_the_stream_of_a_run_that_is_over_cancels_no_other() {
    let project = drawling();
    // One answer that does not fit into what a connection holds, and one that takes a while.
    let script = std::fs::read_to_string(project.path().join("models/helper.yaml")).unwrap();
    let long = format!("replies:\n  - when: {{ user: '^long (.*)' }}\n    say: \"{}\"\n", "{{1}}".repeat(20));
    // So long a conversation is summarized before the second one, which stands after the summary then.
    let script = script.replace("replies:\n", &long).replace("'^slow'", "'slow$'").replace("60ms", "150ms");
    project.write("models/helper.yaml", &script);
    project.build();
    let server = project.serve().start().await;
    let message = format!("long {}", "B".repeat(100_000));
    let long = server.post("/agents/helper/chat", &json!({ "message": message })).await.ok();
    assert!(long["answer"].as_str().unwrap().len() > 1_900_000);
    let (session, run) = (long["session"].as_str().unwrap(), long["run"].as_str().unwrap());
    let mut reader = connected(&server).await;
    let path = format!("/sessions/{session}/runs/{run}/stream?format=native&cancel_on_disconnect=true");
    let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", server.port);
    reader.write_all(request.as_bytes()).await.unwrap();
    // It is on its way, and waits for its reader.
    let mut some = vec![0; 100_000];
    reader.read_exact(&mut some).await.unwrap();
    let next = server.posting("/agents/helper/chat", &json!({ "message": "slow", "session": session }));
    let next = tokio::spawn(Answer::to(next));
    let asked = async {
        let is_it = |event: &&Value| event["kind"] == "model.requested";
        while project.events(session).iter().filter(is_it).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the next run", asked).await;
    drop(reader);
    assert_eq!(next.await.unwrap().ok()["stop"], "end");
}

#[tokio::test]
async fn who_leaves_before_they_are_heard_has_their_run_cancelled_and_no_other() {
    let project = drawling();
    let server = project.serve().start().await;
    let first = server.stream("/agents/helper/chat/stream", &json!({ "message": "slow" })).await;
    let session = first.header("x-weir-session").unwrap().to_owned();
    let mut leaving = connected(&server).await;
    let body = json!({ "message": "slow down", "session": session });
    let request = post(&server, "/agents/helper/chat/stream?cancel_on_disconnect=true", &body);
    leaving.write_all(request.as_bytes()).await.unwrap();
    said(&project, &session, "slow down").await;
    drop(leaving);
    assert_eq!(ends(&project, &session, 2).await, ["run.finished", "run.cancelled"]);
    drop(first);
}

#[tokio::test]
async fn who_leaves_at_once_has_what_they_began_cancelled() {
    let project = drawling();
    let server = project.serve().start().await;
    let request =
        post(&server, "/agents/helper/chat/stream?cancel_on_disconnect=true", &json!({ "message": "slow" }));
    for n in 0..30_u64 {
        let mut leaving = connected(&server).await;
        leaving.write_all(request.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_micros(n * 250)).await;
        drop(leaving);
    }
    // Whoever comes after them finds all of what they have begun.
    server.say("helper", "hello", None).await;
    let sessions = server.get("/sessions?limit=100").await.ok();
    for session in sessions["sessions"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        let is_slow = project.events(id)[1]["payload"]["content"][0]["text"] == "slow";
        let expected = if is_slow { "run.cancelled" } else { "run.finished" };
        assert_eq!(ends(&project, id, 1).await, [expected]);
    }
}

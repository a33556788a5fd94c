//! Starting and stopping.

use crate::kit::{Project, Server};

#[tokio::test]
async fn it_serves_a_build_and_stops_when_told() {
    let project = Project::new();
    let server = project.serve().start().await;
    assert_eq!(server.get("/health").await.ok()["status"], "ok");
    assert_eq!(server.get("/ready").await.ok()["status"], "ready");
    assert_eq!(stages(&server), ["journal opened", "manifest loaded", "engine started", "listening"]);
    let down = server.terminate().await;
    assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
    // The same port again, at once.
    let server = down.start_again().await;
    assert_eq!(server.get("/ready").await.ok()["status"], "ready");
    let server = server.kill().start_again().await;
    assert_eq!(server.get("/ready").await.ok()["status"], "ready");
}

#[tokio::test]
async fn a_server_may_let_runs_go_on_for_fewer_rounds_than_their_specs_say() {
    let project = Project::new();
    let server = project.serve().arg("--max-iterations").arg("1").start().await;
    assert_eq!(server.say("helper", "weather in Oslo", None).await.stop, "iterations");
    let server = project.serve_as(&["run", "--max-iterations", "2"]).start().await;
    assert_eq!(server.say("helper", "weather in Oslo", None).await.stop, "end");
}

fn stages(server: &Server) -> Vec<String> {
    server.log().iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

//! Being told to stop, in the middle of everything.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::kit::{Frame, Frames, Project, Server, Told, within};

/// A run that is in the middle of its answer, and what was seen of it.
async fn underway(server: &Server) -> (Frames, Vec<Frame>, String, String) {
    let mut frames =
        server.stream("/agents/helper/chat/stream?format=native", &json!({ "message": "slow" })).await;
    let header = |frames: &Frames, name: &str| frames.header(name).unwrap().to_owned();
    let (session, run) = (header(&frames, "x-weir-session"), header(&frames, "x-weir-run"));
    let mut seen = Vec::new();
    while !seen.iter().any(|frame: &Frame| frame.event.as_deref() == Some("text.delta")) {
        seen.push(frames.next().await.unwrap());
    }
    (frames, seen, session, run)
}

/// The project with an answer that takes long enough to be stopped in the middle.
fn drawling() -> Project {
    let project = Project::new();
    let script = include_str!("kit/project/helper-model.yaml").replace("delay: 15ms", "delay: 60ms");
    project.write("models/helper.yaml", &script);
    project.build();
    project
}

#[tokio::test]
async fn a_run_that_is_cut_off_goes_on_when_the_server_is_there_again() {
    for signal in [Signal::TERM, Signal::INT] {
        let project = drawling();
        let server = project.serve().start().await;
        let (mut frames, mut seen, session, run) = underway(&server).await;
        server.signal(signal);
        let line = server.logged("stopping: nothing new is accepted").await;
        assert_eq!(line["signal"], if signal == Signal::TERM { "SIGTERM" } else { "SIGINT" });
        // The stream comes to its end like any answer: the connection does not break.
        while let Some(frame) = frames.next().await {
            seen.push(frame);
        }
        assert!(!frames.broken);
        assert!(seen.iter().all(|frame| frame.event.as_deref() != Some("end")), "the run has not ended");
        let down = server.ended().await;
        assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
        let said: Vec<&str> = down.ran.stderr.lines().filter(|line| line.contains("\"stopped\"")).collect();
        assert_eq!(said.len(), 1, "{}", down.ran.stderr);

        // Nobody asks for it: the server takes it up by itself.
        let server = down.start_again().await;
        let again = server.follow(&format!("/sessions/{session}/runs/{run}/stream"), None).await.all().await;
        let told = Told::of(session.clone(), &again);
        assert_eq!(told.stop, "end");
        assert!(told.answer.starts_with("This answer (attempt 2) comes in many small pieces"), "{told:?}");
        let events = project.events(&session);
        let answers = events.iter().filter(|event| event["kind"] == "assistant.message").count();
        assert_eq!(answers, 1);
    }
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let server = drawling().serve().start().await;
    // A request that does not come to its end by itself.
    let waiting = server.client.post(server.url("/agents/helper/chat"));
    let body = reqwest::Body::wrap_stream(futures_util::stream::pending::<Result<&[u8], std::io::Error>>());
    let waiting = tokio::spawn(waiting.header("content-type", "application/json").body(body).send());
    let open = async {
        while !server.get("/metrics").await.text().contains("weir_http_requests_open 2\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("the request has arrived", open).await;
    server.signal(Signal::TERM);
    server.logged("stopping: nothing new is accepted").await;
    server.signal(Signal::TERM);
    server.logged("stopping at once").await;
    let down = server.ended().await;
    assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
    assert!(waiting.await.unwrap().is_err());
}

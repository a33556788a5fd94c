//! Being told to stop, in the middle of everything.

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::{Answer, Frame, Frames, Project, Server, Told, within};

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
pub(crate) fn drawling() -> Project {
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
        // Nobody takes what was told so far for all of it: the connection breaks.
        while let Some(frame) = frames.next().await {
            seen.push(frame);
        }
        assert!(frames.broken);
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
async fn stops_in_good_order_are_no_crashes_however_many() {
    let project = drawling();
    let mut server = project.serve().start().await;
    let (frames, _, session, run) = underway(&server).await;
    drop(frames);
    for attempt in 2..=5 {
        let down = server.terminate().await;
        assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
        server = down.start_again().await;
        let mut frames = server.follow(&format!("/sessions/{session}/runs/{run}/stream"), None).await;
        let is_asked = |frame: &Frame| frame.json()["payload"]["attempt"] == attempt;
        while !frames.next().await.is_some_and(|frame| is_asked(&frame)) {}
    }
    let frames = server.follow(&format!("/sessions/{session}/runs/{run}/stream"), None).await.all().await;
    let told = Told::of(session.clone(), &frames);
    assert_eq!(told.stop, "end", "{told:?}");
    assert!(told.answer.starts_with("This answer (attempt 5)"), "{told:?}");
    let kinds = kinds(&project, &session);
    assert_eq!(kinds.iter().filter(|kind| *kind == "session.released").count(), 4, "{kinds:?}");
}

/// The project with a tool that takes this long.
pub(crate) fn dawdling(millis: u32) -> Project {
    let project = Project::new();
    let tool = include_str!("kit/project/weather.ts");
    let wait = format!("await new Promise((done) => setTimeout(done, {millis}));\n    return {{");
    project.write("tools/weather.ts", &tool.replace("return {", &wait));
    project.build();
    project
}

/// A run in the middle of a call of that tool.
pub(crate) async fn calling(server: &Server) -> (Frames, String) {
    let body = json!({ "message": "weather in Lisbon" });
    let mut frames = server.stream("/agents/helper/chat/stream?format=native", &body).await;
    let session = frames.header("x-weir-session").unwrap().to_owned();
    while frames.next().await.unwrap().event.as_deref() != Some("tool.started") {}
    (frames, session)
}

fn kinds(project: &Project, session: &str) -> Vec<String> {
    let events = project.events(session);
    events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_tool_that_works_comes_to_its_end_and_nothing_new_begins() {
    let project = dawdling(2_000);
    let server = project.serve().start().await;
    let (_frames, session) = calling(&server).await;
    let down = server.terminate().await;
    assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
    let told = kinds(&project, &session);
    assert_eq!(told[told.len() - 2..], ["tool.completed", "session.released"], "written down, and no more");
    assert!(!down.ran.stderr.contains("in time"), "{}", down.ran.stderr);

    let server = down.start_again().await;
    let told = server.say("helper", "and?", Some(&session)).await;
    assert_eq!(told.stop, "end");
    let kinds = kinds(&project, &session);
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool.started").count(), 1, "{kinds:?}");
    let events = project.events(&session);
    let answers = events.iter().filter(|event| event["kind"] == "run.finished");
    let answers: Vec<&str> = answers.map(|event| event["payload"]["answer"].as_str().unwrap()).collect();
    assert_eq!(answers[0], "It is 18 degrees in Lisbon.");
}

#[tokio::test]
async fn an_agent_that_waits_for_another_goes_on_waiting_after_a_stop() {
    let project = drawling();
    let server = project.serve().start().await;
    let body = json!({ "message": "slow" });
    let mut frames = server.stream("/agents/boss/chat/stream?format=native", &body).await;
    let session = frames.header("x-weir-session").unwrap().to_owned();
    let child = loop {
        let frame = frames.next().await.unwrap();
        if frame.event.as_deref() == Some("tool.started") {
            break frame.json()["payload"]["child"].as_str().unwrap().to_owned();
        }
    };
    server.event(&child, &["model.requested"]).await;
    let down = server.terminate().await;
    let told = kinds(&project, &session);
    assert_eq!(
        told[told.len() - 2..],
        ["tool.started", "session.released"],
        "nothing has become of the call"
    );

    // Both are taken up, and the one behind the call is the same.
    let server = down.start_again().await;
    let finished = server.event(&session, &["run.finished"]).await.json();
    let answer = finished["payload"]["answer"].as_str().unwrap();
    assert!(answer.starts_with("The helper says: This answer (attempt 2)"), "{answer}");
    assert!(!kinds(&project, &session).contains(&"tool.failed".to_owned()));
    assert_eq!(project.lines(&["session", "list"]).len(), 2);
    drop(server);
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_tools_either() {
    let server = dawdling(600_000).serve().start().await;
    let (_frames, _) = calling(&server).await;
    server.signal(Signal::INT);
    server.logged("waiting for tools to come to their end").await;
    server.signal(Signal::INT);
    server.logged("stopping at once").await;
    assert_eq!(server.ended().await.ran.code, 0);
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_told_where_it_goes_on() {
    let project = dawdling(600_000);
    let server = project.serve().start().await;
    let body = json!({ "message": "weather in Lisbon" });
    let waiting = server.posting("/agents/helper/chat", &body);
    let waiting = tokio::spawn(Answer::to(waiting));
    let (_frames, _) = calling(&server).await;
    server.signal(Signal::TERM);
    let told = waiting.await.unwrap();
    assert_eq!((told.status.as_u16(), &told.json()["status"]), (202, &json!("running")));
    let session = told.json()["session"].as_str().unwrap().to_owned();
    assert_eq!(told.header("location").unwrap(), format!("/sessions/{session}"));
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await.ran.code, 0);
    assert!(kinds(&project, &session).contains(&"run.started".to_owned()));
}

/// What a server says that waits for a body.
const GO_ON: &str = "HTTP/1.1 100 Continue\r\n\r\n";

#[tokio::test]
async fn an_answer_in_a_vendors_words_has_as_long_as_any_other() {
    let server = dawdling(1_500).serve().start().await;
    let body = json!({ "model": "helper", "messages": [{ "role": "user", "content": "weather in Lisbon" }] });
    let waiting = tokio::spawn(Answer::to(server.posting("/v1/chat/completions", &body)));
    let begun = async {
        while server.get("/sessions?status=running").await.ok()["sessions"].as_array().unwrap().is_empty() {}
    };
    within("the run has begun", begun).await;
    server.signal(Signal::TERM);
    let told = waiting.await.unwrap();
    let answer = &told.ok()["choices"][0]["message"]["content"];
    assert_eq!(answer, "Let me look.\n\nIt is 18 degrees in Lisbon.");
    assert_eq!(server.ended().await.ran.code, 0);
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let server = drawling().serve().start().await;
    // A request that does not come to its end by itself: its body is waited for, and stays away.
    let mut waiting = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = format!(
        "POST /agents/helper/chat HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n",
        server.port
    );
    waiting.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; GO_ON.len()];
    within("the body is waited for", waiting.read_exact(&mut told)).await.unwrap();
    assert_eq!(std::str::from_utf8(&told).unwrap(), GO_ON);
    server.signal(Signal::TERM);
    server.logged("stopping: nothing new is accepted").await;
    server.signal(Signal::TERM);
    server.logged("stopping at once").await;
    let down = server.ended().await;
    assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
    let mut rest = Vec::new();
    let _ = within("the end of the connection", waiting.read_to_end(&mut rest)).await;
    assert_eq!(String::from_utf8_lossy(&rest), "", "it was not answered");
}

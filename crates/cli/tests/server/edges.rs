//! What clients do rarely: another version of HTTP, words into a session that is busy, and a server without a build.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Answer, Person, Project, Server, token, within};

/// What the real curl is told over HTTP/2, and nothing else.
async fn over_http2(server: &Server, path: &str, more: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args([
        "-sS",
        "--noproxy",
        "*",
        "--http2-prior-knowledge",
        "-w",
        "\n%{http_version} %{http_code}",
    ]);
    command.args(more).arg(server.url(path));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = within("an answer to curl", output).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn http2_is_spoken_without_tls() {
    let server = Project::new().serve().start().await;
    let say = |words: &str| {
        ["--json".to_owned(), json!({"message": words}).to_string(), "-D".to_owned(), "-".to_owned()]
    };
    let chat = say("weather in Lisbon");
    let told = over_http2(&server, "/agents/helper/chat", &chat.each_ref().map(String::as_str)).await;
    assert!(told.contains("It is 18 degrees in Lisbon.") && told.ends_with("\n2 200"), "{told}");
    assert!(told.starts_with("HTTP/2 200") && told.contains("\nx-weir-run: "), "{told}");
    let slow = say("slow");
    let told = over_http2(&server, "/agents/helper/chat/stream", &slow.each_ref().map(String::as_str)).await;
    assert!(told.contains("\nevent: text.delta\n") && told.ends_with("\n2 200"), "{told}");
    let last = told.trim_end_matches("\n2 200").trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.contains("event: end\n") && last.contains(r#""stop":"end""#), "{last}");
    // The same rules hold for it.
    let foreign = over_http2(&server, "/health", &["-H", "host: evil.example"]).await;
    assert!(foreign.ends_with("\n2 421"), "{foreign}");
    let wide = format!("x: {}", "y".repeat(100_000));
    let mut command = Command::new("curl");
    command.args(["-sS", "--noproxy", "*", "--http2-prior-knowledge", "-H", &wide, &server.url("/health")]);
    assert!(!String::from_utf8(command.output().unwrap().stdout).unwrap().contains("ok"));
    assert_eq!(server.get("/health").await.status, 200);
}

fn said(project: &Project, session: &str) -> Vec<(String, String)> {
    let text = |event: &Value| event["payload"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let events = project.events(session);
    let said = events
        .iter()
        .filter(|event| ["user.message", "assistant.message"].contains(&event["kind"].as_str().unwrap()));
    said.map(|event| (event["kind"].as_str().unwrap().to_owned(), text(event))).collect()
}

#[tokio::test]
async fn what_is_said_to_a_busy_session_is_answered_in_its_turn() {
    let project = Project::new();
    let server = project.serve().start().await;
    let begun = server.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let session = begun["session"].as_str().unwrap();
    let busy = async || {
        let body = json!({"message": "slow", "session": session});
        let mut frames = server.stream("/agents/helper/chat/stream", &body).await;
        while frames.next().await.unwrap().event.as_deref() != Some("text.delta") {}
        frames
    };
    // Somebody who does not wait.
    let frames = busy().await;
    server.post(&format!("/sessions/{session}/messages"), &json!({"message": "and then?"})).await.ok();
    let rest = frames.all().await;
    let [.., over, end] = &rest[..] else { panic!("{rest:?}") };
    assert_eq!((over.event.as_deref(), end.event.as_deref()), (Some("run.finished"), Some("end")));
    let seq = over.json()["seq"].as_u64().unwrap();
    let next = server.event_after(session, seq, &["run.finished"]).await.json();
    assert_eq!(next["payload"]["answer"], "You said: and then?");
    // Somebody who does: their answer is to what they said.
    let frames = busy().await;
    let turn = server
        .post("/agents/helper/chat", &json!({"message": "still there?", "session": session}))
        .await
        .ok();
    assert_eq!(
        (turn["answer"].as_str(), turn["stop"].as_str()),
        (Some("You said: still there?"), Some("end"))
    );
    frames.all().await;
    server.until(session, "idle").await;
    let users = said(&project, session).into_iter().filter(|(kind, _)| kind == "user.message");
    let users: Vec<String> = users.map(|(_, text)| text).collect();
    assert_eq!(users, ["hello", "slow", "and then?", "slow", "still there?"]);
    let answers = said(&project, session).into_iter().filter(|(kind, _)| kind == "assistant.message");
    assert_eq!(answers.count(), 5, "each was answered, once");
}

#[tokio::test]
async fn a_budget_is_raised_by_those_who_may() {
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    project.write("weir.yaml", &format!("{text}budgets: {{ per_session: {{ model_calls: 1 }} }}\n"));
    project.build();
    let alices = token(&project, "user:alice", &[]);
    let carols = token(&project, "user:carol", &["--groups", "group:admin"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, carol) = (Person::new(&server, &alices), Person::new(&server, &carols));
    let turn = alice.post("/agents/helper/chat", &json!({"message": "weather in Lisbon"})).await.ok();
    assert_eq!(turn["stop"], "budget", "{turn}");
    let session = turn["session"].as_str().unwrap();
    let resume = format!("/sessions/{session}/resume");
    let more = json!({"budget": {"model_calls": 1}});
    assert_eq!(alice.post(&resume, &more).await.error(), (403, "engine::denied".into()));
    for nonsense in [json!({"usd": -1}), json!({"usd": 1e30}), json!({}), json!({"calls": 1})] {
        assert_eq!(carol.post(&resume, &json!({"budget": nonsense})).await.error().0, 400, "{nonsense}");
    }
    carol.post(&resume, &more).await.ok();
    assert_eq!(alice.until(session, "idle").await["stop"], "end", "the run goes on");
    let resumed = project.events(session).into_iter().rfind(|event| event["kind"] == "session.resumed");
    assert_eq!(resumed.unwrap()["meta"]["actor"], "user:carol");
}

#[tokio::test]
async fn a_yes_may_be_for_the_rest_of_the_session() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let (session, call) = (turn["session"].as_str().unwrap(), turn["approvals"][0]["id"].as_str().unwrap());
    let path = format!("/sessions/{session}/approvals/{call}");
    server.post(&path, &json!({"decision": "allow", "scope": "session"})).await.ok();
    server.until(session, "idle").await;
    let again = json!({"message": "refund 6", "session": session});
    let turn = server.post("/agents/careful/chat", &again).await.ok();
    assert_eq!((&turn["stop"], &turn["answer"]), (&json!("end"), &json!("Done: refunded 6")));
    let elsewhere = server.post("/agents/careful/chat", &json!({"message": "refund 7"})).await.ok();
    assert_eq!(elsewhere["stop"], "approval", "it is for that session alone");
    // And a yes to one call is to that one.
    let (session, call) =
        (elsewhere["session"].as_str().unwrap(), elsewhere["approvals"][0]["id"].as_str().unwrap());
    let path = format!("/sessions/{session}/approvals/{call}");
    server.post(&path, &json!({"decision": "allow", "scope": "once"})).await.ok();
    server.until(session, "idle").await;
    let again = json!({"message": "refund 8", "session": session});
    assert_eq!(server.post("/agents/careful/chat", &again).await.ok()["stop"], "approval");
}

#[tokio::test]
async fn what_a_hook_refuses_is_not_there() {
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    let kinds = "[user.message, external.signal, note.made, ingested.text]";
    let hook = format!("hooks:\n  pre_append:\n    - {{ script: hooks/check.ts, kinds: {kinds} }}\n");
    project.write("weir.yaml", &format!("{text}{hook}"));
    let script = "export default (event: any) =>\n  JSON.stringify(event.payload).includes('password') ? { refuse: 'no passwords' } : undefined;\n";
    project.write("hooks/check.ts", script);
    project.build();
    let server = project.serve().start().await;
    let turn = server.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let before = (project.events(session), project.lines(&["streams"]));
    let words = "my password";
    for (path, body) in [
        ("/agents/helper/chat".to_owned(), json!({"message": words})),
        ("/agents/helper/chat".to_owned(), json!({"message": words, "session": session})),
        ("/agents/helper/chat/stream".to_owned(), json!({"message": words, "session": session})),
        (format!("/sessions/{session}/messages"), json!({"message": words})),
        (format!("/sessions/{session}/signals"), json!({"name": "mail", "data": words})),
        (
            "/streams/notes/events".to_owned(),
            json!({"events": [{"kind": "a.b"}, {"kind": "note.made", "payload": words}]}),
        ),
    ] {
        let refused = server.post(&path, &body).await;
        assert_eq!(refused.error(), (403, "engine::refused".into()), "{path}");
        assert!(refused.text().contains("no passwords"), "{path}: {}", refused.text());
    }
    let recorded =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"my password\"}}]}\n\ndata: [DONE]\n\n";
    let ingest = server.request(Method::POST, "/ingest/tape?format=openai").body(recorded);
    let refused = Answer::to(ingest.header("content-type", "text/event-stream")).await;
    assert_eq!(refused.error(), (403, "engine::refused".into()));
    assert_eq!((project.events(session), project.lines(&["streams"])), before, "nothing of it is there");
}

#[tokio::test]
async fn without_a_build_everybody_has_what_is_theirs() {
    let project = Project::empty();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let carols = token(&project, "user:carol", &["--groups", "group:admin"]);
    let server = project.serve_as(&["serve"]).arg("--auth-tokens").start().await;
    let [alice, bob, carol] = [&alices, &bobs, &carols].map(|token| Person::new(&server, token));
    let note = json!({"events": [{"kind": "note.made", "payload": {"n": 1}}]});
    alice.post("/streams/notes/events", &note).await.ok();
    let stored = Answer::to(alice.request(Method::PUT, "/blobs").body("alice's")).await.ok();
    let blob = format!("/blobs/{}", stored["hash"].as_str().unwrap());

    assert_eq!(alice.get("/streams/notes/events").await.ok()["events"][0]["meta"]["actor"], "user:alice");
    assert_eq!(alice.get(&blob).await.text(), "alice's");
    let empty = [
        ("/agents", json!({"agents": []})),
        ("/sessions", json!({"sessions": [], "next": null})),
        ("/approvals", json!({"approvals": [], "next": null})),
        ("/streams", json!({"streams": [], "next": null})),
    ];
    for (path, expected) in &empty {
        assert_eq!(bob.get(path).await.ok(), *expected, "{path}");
    }
    for path in ["/streams/notes", "/streams/notes/events", "/streams/user:alice%2Fnotes/events", &blob] {
        assert_eq!(bob.get(path).await.error(), (404, "server::not-found".into()), "{path}");
    }
    assert_eq!(bob.get("/metrics").await.error(), (403, "server::admins-only".into()));
    // The same name is another stream.
    assert_eq!(bob.post("/streams/notes/events", &note).await.ok()["seq"], 1);
    for person in [&alice, &bob, &carol] {
        assert_eq!(person.get("/agents").await.ok(), json!({"agents": []}));
        let chat = person.post("/agents/helper/chat", &json!({"message": "hello"})).await;
        assert_eq!(chat.error(), (404, "server::not-found".into()));
        assert_eq!(person.get("/v1/models").await.ok()["data"], json!([]));
    }
    let names: Vec<Value> = carol.get("/streams").await.ok()["streams"].as_array().unwrap().clone();
    let has = |name: &str| names.iter().any(|row| row["stream"] == name);
    assert!(has("user:alice/notes") && has("user:bob/notes") && has("engine:tokens"), "{names:?}");
    assert_eq!(carol.get("/streams/user:alice%2Fnotes/events").await.status, 200);
    assert_eq!(carol.get(&blob).await.text(), "alice's");
    assert_eq!(carol.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn whoever_may_not_talk_to_an_agent_any_more_does_not_go_on_with_it() {
    let project = Project::new();
    let alices = token(&project, "user:alice", &[]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let alice = Person::new(&server, &alices);
    let turn = alice.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let session = format!("/sessions/{}", turn["session"].as_str().unwrap());
    alice.post(&format!("{session}/messages"), &json!({"message": "more"})).await.ok();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    project.write("weir.yaml", &text.replace(r#""user:alice", "#, ""));
    let build = project.build();
    project.ok(&["deploy", "latest"]);
    server.logged("deployed").await;
    assert_eq!(server.get("/ready").await.ok()["build"], build.as_str());
    for (what, body) in [
        ("messages", json!({"message": "and more"})),
        ("signals", json!({"name": "rain"})),
        ("resume", json!({})),
    ] {
        let refused = alice.post(&format!("{session}/{what}"), &body).await;
        assert_eq!(refused.error(), (403, "server::not-admitted".into()), "{what}");
    }
    // It stays theirs to look at, and to end.
    alice.get(&session).await.ok();
    alice.post(&format!("{session}/close"), &json!({})).await.ok();
}

#[tokio::test]
async fn a_budget_is_raised_by_admins_of_the_project() {
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    let text = text.replace("groups:\n", "groups:\n  admin: [\"user:dora\"]\n");
    project.write("weir.yaml", &format!("{text}budgets: {{ per_session: {{ model_calls: 1 }} }}\n"));
    project.build();
    let (alices, doras) = (token(&project, "user:alice", &[]), token(&project, "user:dora", &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, dora) = (Person::new(&server, &alices), Person::new(&server, &doras));
    let turn = alice.post("/agents/helper/chat", &json!({"message": "weather in Lisbon"})).await.ok();
    assert_eq!(turn["stop"], "budget", "{turn}");
    let resume = format!("/sessions/{}/resume", turn["session"].as_str().unwrap());
    dora.post(&resume, &json!({"budget": {"model_calls": 5}})).await.ok();
}

#[tokio::test]
async fn whoever_may_only_read_stores_nothing() {
    let project = Project::new();
    let readers = token(&project, "user:rita", &["--groups", "reader"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let content = "something that nobody may leave here";
    let put = server.request(reqwest::Method::PUT, "/blobs").bearer_auth(&readers).body(content);
    assert_eq!(Answer::to(put).await.error(), (403, "server::read-only".into()));
    let hash = weir_types::Hash::of(content.as_bytes()).to_string();
    let place = project.data().join("blobs").join(&hash[..2]).join(&hash[2..]);
    assert!(!place.exists(), "{}", place.display());
}

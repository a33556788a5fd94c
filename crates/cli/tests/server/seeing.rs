//! What people see of one another, and what they may do where they may only look.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Answer, Person, Project, token};
use crate::mcp::Mcp;

/// Lets a group look at every stream.
const AUDITORS: &str =
    "permit (principal in Group::\"auditor\", action == Action::\"read\", resource is Stream);\n";

/// Every way to say something in a session, or to do something to it: the path, a header, and the body.
fn changes(session: &str, run: &str) -> Vec<(String, &'static str, Value)> {
    let said = json!([{"role": "user", "content": "hello"}]);
    let of = |rest: &str| format!("/sessions/{session}/{rest}");
    let previous = format!("resp_{session}_{run}");
    vec![
        ("/agents/helper/chat".into(), "", json!({"message": "hello", "session": session})),
        ("/agents/helper/chat/stream".into(), "", json!({"message": "hello", "session": session})),
        ("/v1/chat/completions".into(), "x-weir-session", json!({"model": "helper", "messages": said})),
        (
            "/v1/messages".into(),
            "x-weir-session",
            json!({"model": "helper", "max_tokens": 9, "messages": said}),
        ),
        ("/v1/responses".into(), "x-weir-session", json!({"model": "helper", "input": "hello"})),
        (
            "/v1/responses".into(),
            "",
            json!({"model": "helper", "input": "hello", "previous_response_id": previous}),
        ),
        (of("messages"), "", json!({"message": "hello"})),
        (of("signals"), "", json!({"name": "ping"})),
        (of("fork"), "", json!({"at": 2})),
        (of("cancel"), "", json!({})),
        (of("halt"), "", json!({})),
        (of("resume"), "", json!({})),
        (of("close"), "", json!({})),
    ]
}

async fn make(person: &Person<'_>, session: &str, (path, header, body): (String, &str, Value)) -> Answer {
    let request = person.server.posting(&path, &body).bearer_auth(&person.token);
    let request = if header.is_empty() { request } else { request.header(header, session) };
    Answer::to(request).await
}

#[tokio::test]
async fn to_see_a_session_is_not_to_speak_in_it_or_to_stop_it() {
    let project = Project::new();
    project.write("policies/audit.cedar", AUDITORS);
    project.build();
    let alices = token(&project, "user:alice", &[]);
    let bobs = token(&project, "user:bob", &["--groups", "group:auditor"]);
    let carols = token(&project, "user:carol", &["--groups", "group:admin"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let [alice, bob, carol] = [&alices, &bobs, &carols].map(|token| Person::new(&server, token));
    let first = alice.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let (session, run) = (first["session"].as_str().unwrap(), first["run"].as_str().unwrap());
    let before = project.events(session);

    assert_eq!(bob.get(&format!("/sessions/{session}")).await.ok()["principal"], "user:alice");
    assert_eq!(bob.get(&format!("/sessions/{session}/events")).await.status, 200);
    for change in changes(session, run) {
        let place = format!("{} {}", change.0, change.1);
        let refused = make(&bob, session, change).await;
        assert_eq!(refused.status, 403, "{place}: {}", refused.text());
        assert!(refused.text().contains("may only be read"), "{place}: {}", refused.text());
    }
    let cancelling = format!("/sessions/{session}/runs/{run}/stream?cancel_on_disconnect=true");
    assert_eq!(bob.get(&cancelling).await.error(), (403, "server::read-only".into()));
    let helper = Mcp::new(&server, "/agents/helper/mcp").token(&bobs).begin("2025-11-25", json!({})).await;
    let refused = helper.call("helper", json!({"message": "hello", "session": session})).await;
    assert_eq!(refused.result()["isError"], json!(true));
    assert!(refused.words().contains("may only be read"), "{}", refused.words());
    assert_eq!(project.events(session), before, "nothing was done");

    // Whoever may do everything speaks under their own name, by every way.
    let said = |who: &str| {
        let events = project.events(session).into_iter();
        let said = events.filter(|event| event["kind"] == "user.message" && event["meta"]["actor"] == who);
        said.count()
    };
    for change in changes(session, run).into_iter().take(5) {
        let place = format!("{} {}", change.0, change.1);
        let before = said("user:carol");
        let done = make(&carol, session, change).await;
        assert!(done.status.is_success(), "{place}: {}", done.text());
        assert_eq!(said("user:carol"), before + 1, "{place}");
    }
    let helper = Mcp::new(&server, "/agents/helper/mcp").token(&carols).begin("2025-11-25", json!({})).await;
    let told = helper.call("helper", json!({"message": "hello", "session": session})).await;
    assert_eq!((told.words(), said("user:carol"), said("user:alice")), ("You said: hello", 6, 1));
}

/// A second agent that asks people, about whom nobody but admins decides.
fn with_grave(project: &Project) {
    let text = |name: &str| std::fs::read_to_string(project.path().join(name)).unwrap();
    let careful = text("agents/careful/spec.yaml");
    project.write("agents/grave/spec.yaml", &careful.replace("name: careful", "name: grave"));
    let approver = r#"  - { principal: "user:dora", role: approve }"#;
    project.write("agents/careful/spec.yaml", &format!("{}\n{approver}\n", careful.trim_end()));
    project.build();
}

#[tokio::test]
async fn whose_calls_wait_is_told_to_those_whom_it_concerns() {
    let project = Project::new();
    with_grave(&project);
    let [alices, bobs, doras] = ["user:alice", "user:bob", "user:dora"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let [alice, bob, dora] = [&alices, &bobs, &doras].map(|token| Person::new(&server, token));
    let refund = json!({"message": "refund 5"});
    let mine = bob.post("/agents/grave/chat", &refund).await.ok()["session"].as_str().unwrap().to_owned();
    let queries = ["/approvals", "/approvals?limit=1", "/approvals?agent=grave&limit=1"];
    let mut before = Vec::new();
    for query in queries {
        before.push(bob.get(query).await.ok());
    }
    let (mut hidden, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for agent in ["grave", "careful", "grave", "careful", "grave"] {
        let turn = alice.post(&format!("/agents/{agent}/chat"), &refund).await.ok();
        let all = if agent == "grave" { &mut hidden } else { &mut shown };
        all.insert(turn["session"].as_str().unwrap().to_owned());
    }
    for (query, before) in queries.iter().zip(before) {
        assert_eq!(bob.get(query).await.ok(), before, "{query}: what others wait for is nothing to Bob");
    }
    hidden.insert(mine);

    // An approver gets all of it page by page, and no page names anything else.
    for limit in 1..=3 {
        let (mut seen, mut after) = (BTreeSet::new(), String::new());
        loop {
            let page = dora.get(&format!("/approvals?limit={limit}{after}")).await.ok();
            let asked = page["approvals"].as_array().unwrap().iter();
            let sessions: Vec<_> = asked.map(|asked| asked["session"].as_str().unwrap().to_owned()).collect();
            let is_new = sessions.iter().all(|session| seen.insert(session.clone()));
            assert!(is_new && seen.is_subset(&shown), "{page}");
            let Some(next) = page["next"].as_str() else { break };
            let told = format!("{next} {}", String::from_utf8_lossy(&URL_SAFE_NO_PAD.decode(next).unwrap()));
            assert!(hidden.iter().all(|session| !told.contains(session)), "{told}");
            after = format!("&after={next}");
        }
        assert_eq!(seen, shown);
    }
}

/// What a place of a list or of an event may tell a user, without what is different each time.
fn plain(text: &str) -> String {
    let patterns = [
        (r"[0-9a-f]{64}", "<hash>"),
        (r"[0-9A-HJKMNP-TV-Z]{26}", "<ulid>"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<time>"),
        (r#""(created|created_at|duration_ms|held_us|micros|prompt|request)":"?[0-9a-z]+"?"#, "<number>"),
        (r#""(next)":"[A-Za-z0-9_-]+""#, "<next>"),
    ];
    patterns.iter().fold(text.to_owned(), |text, (pattern, with)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}

/// What Alice is told in the course of a day; Bob writes in between, or does not.
async fn day(busy: bool) -> Vec<(String, String)> {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    let between = async || {
        for n in 0..if busy { 3 } else { 0 } {
            bob.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
            let events = json!({"events": [{"kind": "note.made", "payload": n}, {"kind": "note.made"}]});
            bob.post("/streams/diary/events", &events).await.ok();
            Answer::to(bob.request(Method::PUT, "/blobs").body(format!("bytes {n}"))).await.ok();
        }
    };
    let mut told = Vec::new();
    let mut keep = |what: &str, answer: &Answer| {
        assert!(answer.status.is_success(), "{what}: {}", answer.text());
        told.push((what.to_owned(), plain(answer.text())));
    };
    let note = json!({"events": [{"kind": "note.made", "payload": {"n": 1}}]});
    keep("append", &alice.post("/streams/diary/events", &note).await);
    between().await;
    keep("append again", &alice.post("/streams/diary/events", &note).await);
    let chat = alice.post("/agents/helper/chat", &json!({"message": "hello"})).await;
    keep("chat", &chat);
    between().await;
    let streamed = alice.post("/agents/helper/chat/stream", &json!({"message": "hello"})).await;
    keep("native frames", &streamed);
    let ingest = alice.request(Method::POST, "/ingest/tape?format=native").body(streamed.body.clone());
    keep("ingest", &Answer::to(ingest.header("content-type", "text/event-stream")).await);
    alice.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let (session, run) = (chat.json()["session"].clone(), chat.json()["run"].clone());
    let (session, run) = (session.as_str().unwrap(), run.as_str().unwrap());
    let of = |rest: &str| format!("/sessions/{session}{rest}");
    let gets = [
        "/agents",
        "/ready",
        "/health",
        "/v1/models",
        "/sessions",
        "/sessions?limit=1",
        "/approvals",
        "/approvals?limit=1",
        "/streams",
        "/streams?limit=1",
        "/streams/diary",
        "/streams/diary/events",
        "/streams/tape/events",
    ];
    let gets = gets.map(str::to_owned).into_iter().chain([
        of(""),
        of("/events"),
        of("/messages"),
        of("/state"),
        of("/files"),
        of(&format!("/runs/{run}/stream")),
        format!("/streams/session:{session}/events"),
    ]);
    let gets: Vec<String> = gets.collect();
    let mut exact = Vec::new();
    for path in &gets {
        let answer = alice.get(path).await;
        keep(&path.replace(session, "<session>").replace(run, "<run>"), &answer);
        exact.push(answer.body);
    }
    between().await;
    for (path, before) in gets.iter().zip(exact) {
        assert_eq!(alice.get(path).await.body, before, "{path}, after Bob has written");
    }
    told
}

#[tokio::test]
async fn what_others_write_makes_no_difference() {
    let (quiet, busy) = tokio::join!(day(false), day(true));
    for (quiet, busy) in quiet.iter().zip(&busy) {
        assert_eq!(quiet, busy);
        assert!(!quiet.1.contains("position"), "{}: {}", quiet.0, quiet.1);
    }
    assert_eq!(quiet.len(), busy.len());
}

#[tokio::test]
async fn admins_see_where_events_are_in_the_whole_journal() {
    let project = Project::new();
    let server = project.serve().start().await;
    let note = json!({"events": [{"kind": "note.made"}]});
    let appended = server.post("/streams/diary/events", &note).await.ok();
    let events = server.get("/streams/diary/events").await.ok();
    assert!(appended["position"].as_u64() > Some(0), "{appended}");
    assert_eq!(events["events"][0]["position"], appended["position"]);
    let turn = server.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let mut frames = server.follow(&format!("/sessions/{session}/events/stream"), None).await;
    assert!(frames.next().await.unwrap().json()["position"].as_u64() > appended["position"].as_u64());
}

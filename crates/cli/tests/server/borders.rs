//! What one user can do to another through what they share: content with the same hash, the journal, keys, the counting of calls.

use reqwest::Method;
use serde_json::{Value, json};
use weir_types::Hash;

use crate::kit::{Answer, Person, Project, token};

/// Lets Alice look at whatever belongs to nobody.
const SHARED: &str =
    "permit (principal == User::\"alice\", action == Action::\"read\", resource)\nwhen { context.shared };\n";

/// Lets Rita write one stream.
const BOARD: &str = "permit (principal == User::\"rita\", action in [Action::\"read\", Action::\"write\"], resource == Stream::\"board\");\n";

async fn put(person: &Person<'_>, content: &[u8]) -> Answer {
    Answer::to(person.request(Method::PUT, "/blobs").body(content.to_vec())).await
}

fn hash(content: &[u8]) -> String {
    Hash::of(content).to_string()
}

async fn keyed(person: &Person<'_>, path: &str, key: &str, body: &Value) -> Answer {
    let request = person.server.posting(path, body).bearer_auth(&person.token);
    Answer::to(request.header("idempotency-key", key)).await
}

#[tokio::test]
async fn only_what_belongs_to_nobody_is_shared() {
    let project = Project::new();
    project.write("policies/shared.cedar", SHARED);
    project.build();
    let budgets = "budgets: { per_principal: { tokens: 500000 } }\n";
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    project.write("weir.yaml", &format!("{text}{budgets}"));
    project.build();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    project.ok(&["append", "--stream", "notes", "--kind", "note.made"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    put(&bob, b"only Bob has this").await.ok();
    keyed(&bob, "/agents/helper/chat", "k", &json!({"message": "hello"})).await.ok();
    bob.post("/streams/diary/events", &json!({"events": [{"kind": "note.made"}]})).await.ok();

    assert_eq!(alice.get("/streams/notes/events").await.status, 200, "it is nobody's");
    let blob = alice.get(&format!("/blobs/{}", hash(b"only Bob has this"))).await;
    assert_eq!(blob.error(), (404, "server::not-found".to_owned()), "{}", blob.text());
    let all = project.lines(&["streams"]);
    let own = |name: &str| ["engine:", "budget:", "session:"].iter().any(|kind| name.starts_with(kind));
    let names = all.iter().map(|row| row["stream"].as_str().unwrap()).filter(|name| own(name));
    let names: Vec<_> = names.collect();
    for kind in ["engine:tokens", "engine:requests", "engine:blobs/", "budget:", "session:"] {
        assert!(names.iter().any(|name| name.starts_with(kind)), "{kind}: {names:?}");
    }
    for name in names {
        let told = alice.get(&format!("/streams/{}/events", name.replace('/', "%2F"))).await;
        assert_eq!(told.status, 404, "{name}: {}", told.text());
    }
}

/// Refers to a blob ten thousand times.
async fn refer_often(person: &Person<'_>, hash: &str) {
    let events: Vec<_> = (0..1_000).map(|_| json!({"kind": "note.made", "refs": [hash]})).collect();
    for n in 0..10 {
        person.post(&format!("/streams/x{n}/events"), &json!({ "events": events })).await.ok();
    }
}

#[tokio::test]
async fn nobody_takes_a_blob_away_from_somebody_else() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    // What was uploaded, and what an event of one's own needs because it is long.
    let long = json!("long ".repeat(20_000)).to_string();
    for content in [&b"well known"[..], long.as_bytes()] {
        put(&bob, content).await.ok();
        refer_often(&bob, &hash(content)).await;
    }
    let uploaded = format!("/blobs/{}", hash(b"well known"));
    assert_eq!(alice.get(&uploaded).await.status, 404);
    put(&alice, b"well known").await.ok();
    assert_eq!(alice.get(&uploaded).await.body, &b"well known"[..]);
    let naming = json!({"events": [{"kind": "note.made", "refs": [hash(b"well known")]}]});
    alice.post("/streams/mine/events", &naming).await.ok();

    let needed = format!("/blobs/{}", hash(long.as_bytes()));
    assert_eq!(alice.get(&needed).await.status, 404);
    let payload: Value = serde_json::from_str(&long).unwrap();
    let event = json!({"events": [{"kind": "note.made", "payload": payload}]});
    alice.post("/streams/mine/events", &event).await.ok();
    assert_eq!(alice.get(&needed).await.body, long.as_bytes());
}

#[tokio::test]
async fn nobody_makes_somebody_elses_request_happen_twice() {
    let project = Project::new();
    let bobs = token(&project, "user:bob", &[]);
    let carols = token(&project, "user:carol", &["--groups", "group:admin"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let (bob, carol) = (Person::new(&server, &bobs), Person::new(&server, &carols));
    let turn = bob.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let session = turn["session"].as_str().unwrap();
    let said = || {
        let events = project.events(session).into_iter();
        let of_carol =
            |event: &Value| event["kind"] == "user.message" && event["meta"]["actor"] == "user:carol";
        events.filter(of_carol).collect::<Vec<_>>()
    };
    let body = json!({"message": "pay 5", "session": session});
    let say = async || {
        let told = keyed(&carol, "/agents/helper/chat/stream", "k", &body).await;
        assert_eq!(told.status, 200, "{}", told.text());
    };
    say().await;
    let cause = said()[0]["meta"]["causation"].as_str().unwrap().to_owned();

    for (field, value) in [
        ("causation", json!(cause)),
        ("run", turn["run"].clone()),
        ("iteration", json!(1)),
        ("duration_ms", json!(1)),
        ("owner", json!(turn["run"])),
        ("actor", json!("user:carol")),
    ] {
        let event = json!({"kind": "note.made", "meta": {field: value}});
        let refused = bob.post("/streams/forged/events", &json!({"events": [event]})).await;
        assert_eq!(refused.error().0, 400, "{field}");
        assert!(refused.text().contains(&format!("`{field}`")), "{}", refused.text());
    }
    let fine = json!({"kind": "note.made", "meta": {"trace": "00-1", "labels": {"run": 1}}});
    bob.post("/streams/forged/events", &json!({"events": [fine]})).await.ok();
    // Whoever has the data directory may write that; the request has led to what it has led to.
    let meta = json!({"causation": cause}).to_string();
    project.ok(&["append", "--stream", "forged", "--kind", "note.made", "--meta", &meta]);
    say().await;
    assert_eq!(said().len(), 1);
}

#[tokio::test]
async fn a_key_for_one_session_is_not_a_key_for_another() {
    let project = Project::new();
    let server = project.serve().start().await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(server.say("helper", "hello", None).await.session);
    }
    let body = json!({"model": "helper", "messages": [{"role": "user", "content": "pay 5"}]});
    let ask = async |session: Option<&str>, key: &str| {
        let mut request = server.posting("/v1/chat/completions", &body).header("idempotency-key", key);
        if let Some(session) = session {
            request = request.header("x-weir-session", session);
        }
        Answer::to(request).await
    };
    let first = ask(Some(&sessions[0]), "k").await;
    assert_eq!((first.status.as_u16(), first.header("x-weir-session")), (200, Some(sessions[0].as_str())));
    for other in [Some(sessions[1].as_str()), None] {
        let refused = ask(other, "k").await;
        assert_eq!(refused.status, 422, "{other:?}: {}", refused.text());
    }
    let again = ask(Some(&sessions[0]), "k").await;
    assert_eq!((again.text(), again.header("idempotency-replayed")), (first.text(), Some("true")));
    // Without the header, it is written down as it always was.
    let new = ask(None, "l").await;
    assert_eq!((ask(None, "l").await.text(), new.status.as_u16()), (new.text(), 200));
    let received = project.lines(&["cat", "--stream", "engine:requests", "--kind", "request.received"]);
    let fields = |event: &Value| event["payload"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(received.last().unwrap()), ["route", "body"]);
}

#[tokio::test]
async fn whoever_can_do_nothing_leaves_no_trace_and_nobody_a_long_one() {
    let project = Project::new();
    project.write("policies/board.cedar", BOARD);
    project.build();
    project.ok(&["append", "--stream", "board", "--kind", "note.made"]);
    let ritas = token(&project, "user:rita", &["--groups", "group:reader"]);
    let alices = token(&project, "user:alice", &["--groups", "group:reader"]);
    let bobs = token(&project, "user:bob", &[]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let [rita, alice, bob] = [&ritas, &alices, &bobs].map(|token| Person::new(&server, token));
    let requests = || project.lines(&["cat", "--stream", "engine:requests"]);
    let event = json!({"events": [{"kind": "note.made"}]});
    keyed(&bob, "/streams/lake/events", "k", &event).await.ok();
    let before = requests().len();
    for n in 0..5 {
        let key = format!("k{n}");
        assert_eq!(keyed(&rita, "/streams/lake/events", &key, &event).await.status, 403);
        let nowhere = format!("/sessions/{n}{}/messages", "0".repeat(7_000));
        assert_eq!(keyed(&rita, &nowhere, &key, &json!({"message": "hello"})).await.status, 404);
    }
    // What a policy lets her do all the same is done once, by the key of the append.
    for replayed in [false, true] {
        let appended = keyed(&rita, "/streams/board/events", "k", &event).await.ok();
        assert_eq!((&appended["seq"], &appended["replayed"]), (&json!(2), &json!(replayed)));
    }
    assert_eq!(requests().len(), before, "nothing is written down about her requests");

    // A reader who may talk to an agent does so once, and goes on with what is theirs.
    let hello = json!({"message": "hello"});
    let first = keyed(&alice, "/agents/helper/chat", "k", &hello).await;
    let again = keyed(&alice, "/agents/helper/chat", "k", &hello).await;
    assert_eq!((again.text(), again.header("idempotency-replayed")), (first.text(), Some("true")));

    let long = format!("/streams/{}/events", "%61".repeat(200));
    let first = keyed(&bob, &long, "k", &event).await;
    assert_eq!(first.ok()["seq"], 1);
    let again = keyed(&bob, &long, "k", &event).await;
    assert_eq!((again.text(), again.header("idempotency-replayed")), (first.text(), Some("true")));
    let longest =
        requests().iter().filter_map(|event| event["payload"]["route"].as_str().map(str::len)).max();
    assert!(longest.is_some_and(|longest| longest <= 256), "{longest:?}");
}

#[tokio::test]
async fn calls_that_somebody_does_not_see_are_not_counted_for_them() {
    let project = Project::new();
    let text = |name: &str| std::fs::read_to_string(project.path().join(name)).unwrap();
    let boss = text("agents/boss/spec.yaml").replace("weir://helper", "weir://careful");
    let boss = boss.replace("access: read", "access: write");
    let approver = r#"  - { principal: "user:dora", role: approve }"#;
    project.write("agents/boss/spec.yaml", &format!("{}\n{approver}\n", boss.trim_end()));
    project.write("models/boss.yaml", &text("models/boss.yaml").replace("tool: helper", "tool: careful"));
    let granted = "  - tool: weir://careful\n    grants: [{ principal: \"group:staff\", access: write }]\n";
    project.write("weir.yaml", &format!("{}\n{granted}", text("weir.yaml").trim_end()));
    project.build();
    let [alices, doras] = ["user:alice", "user:dora"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, dora) = (Person::new(&server, &alices), Person::new(&server, &doras));
    let turn = alice.post("/agents/boss/chat", &json!({"message": "refund 5"})).await.ok();
    assert_eq!(turn["stop"], "approval", "{turn}");
    let session = turn["session"].as_str().unwrap();

    let listed = dora.get(&format!("/approvals?session={session}")).await.ok();
    assert_eq!(listed["approvals"], json!([]), "the agent that asks is not hers to decide about");
    let gate = format!("/sessions/{session}/gate");
    let refused = dora.post(&gate, &json!({"decision": "allow"})).await;
    assert_eq!(refused.error(), (404, "engine::no-approval".to_owned()), "{}", refused.text());
    alice.post(&gate, &json!({"decision": "allow"})).await.ok();
}

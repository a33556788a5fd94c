//! Two users, every endpoint of the document, and ids that were guessed, leaked or made up from leaked ones: what one of them is
//! told about what belongs to the other is what is told about what does not exist.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Answer, Person, Project, Server, token};

/// What nobody but its owner may ever be shown.
const PLANTED: &str = "lighthouse-7";

/// What somebody would have to know to name something.
#[derive(Clone, Debug)]
struct Ids {
    session: String,
    chat: String,
    run: String,
    call: String,
    stream: String,
    blob: String,
    event: String,
    frame: String,
    branch: String,
}

/// How an endpoint is asked.
enum Row {
    /// Without a body.
    Plain,
    /// With this one.
    Body(fn(&Ids) -> Value),
    /// With bytes.
    Bytes,
    /// With this one, and a session in a header.
    Continues(fn(&Ids) -> Value),
    /// With tokens of its own, which users do not have.
    Bridge,
}

/// INVARIANT: every endpoint of the document has a row; a new one fails the test until it does.
fn row(endpoint: &str) -> Option<Row> {
    Some(match endpoint {
        "GET /agents"
        | "GET /agents/{name}/status"
        | "GET /approvals"
        | "GET /blobs/{hash}"
        | "HEAD /blobs/{hash}"
        | "GET /health"
        | "GET /metrics"
        | "GET /openapi.json"
        | "GET /ready"
        | "GET /sessions"
        | "GET /sessions/{id}"
        | "GET /sessions/{id}/events"
        | "GET /sessions/{id}/events/stream"
        | "GET /sessions/{id}/files"
        | "GET /sessions/{id}/files/{path}"
        | "GET /sessions/{id}/messages"
        | "GET /sessions/{id}/runs/{run}/stream"
        | "GET /sessions/{id}/state"
        | "GET /streams"
        | "GET /streams/{stream}"
        | "GET /streams/{stream}/events"
        | "GET /v1/models"
        | "GET /v1/models/{model}"
        | "GET /agents/{name}/ui/{chat}/stream"
        | "GET /agents/{name}/mcp"
        | "DELETE /agents/{name}/mcp" => Row::Plain,
        "PUT /blobs" | "PUT /blobs/{hash}" | "POST /ingest/{stream}" => Row::Bytes,
        "POST /agents/{name}/chat" | "POST /agents/{name}/chat/stream" => {
            Row::Body(|ids| json!({"message": "hello", "session": ids.session, "branch": ids.branch}))
        }
        "POST /agents/{name}/ui" => Row::Body(|ids| {
            let part = json!([{"type": "text", "text": "hello"}]);
            json!({"id": ids.chat, "messages": [{"id": "m", "role": "user", "parts": part}]})
        }),
        "POST /agents/{name}/mcp" => Row::Body(|ids| {
            let arguments = json!({"message": "hello", "session": ids.session});
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": "helper", "arguments": arguments}})
        }),
        "POST /sessions/{id}/approvals/{call}" => Row::Body(|_| json!({"decision": "allow"})),
        "POST /sessions/{id}/gate" | "POST /api/sessions/{id}/gate" => {
            Row::Body(|ids| json!({"call": ids.call, "decision": "allow"}))
        }
        "POST /sessions/{id}/cancel" => Row::Body(|_| json!({})),
        "POST /sessions/{id}/close" | "POST /sessions/{id}/halt" => Row::Body(|_| json!({"reason": "bored"})),
        "POST /sessions/{id}/fork" => Row::Body(|_| json!({"at": 1, "name": "mine"})),
        "POST /streams/{stream}/fork" => Row::Body(|_| json!({"at": 1, "name": "mine"})),
        "POST /sessions/{id}/messages" => Row::Body(|_| json!({"message": "hello"})),
        "POST /sessions/{id}/resume" => Row::Body(|_| json!({})),
        "POST /sessions/{id}/signals" => Row::Body(|_| json!({"name": "ping", "data": {}})),
        "POST /streams/{stream}/events" => Row::Body(
            |ids| json!({"events": [{"kind": "note.made", "payload": {"n": 1}, "refs": [ids.blob]}]}),
        ),
        "POST /v1/chat/completions" => {
            Row::Continues(|_| json!({"model": "helper", "messages": [{"role": "user", "content": "hello"}]}))
        }
        "POST /v1/messages" => Row::Continues(
            |_| json!({"model": "helper", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}),
        ),
        "POST /v1/responses" => Row::Continues(
            |ids| json!({"model": "helper", "input": "hello", "previous_response_id": format!("resp_{}", ids.run)}),
        ),
        other if other.ends_with(" /bridge/mcp") => Row::Bridge,
        _ => return None,
    })
}

/// A change to ids.
type Craft = fn(&Ids) -> Ids;

/// What is made of ids that leaked, and of ids that do not exist, alike.
fn crafted() -> Vec<(&'static str, Craft)> {
    fn each(ids: &Ids, change: impl Fn(&str) -> String) -> Ids {
        Ids {
            session: change(&ids.session),
            chat: change(&ids.chat),
            run: change(&ids.run),
            call: change(&ids.call),
            stream: change(&ids.stream),
            blob: change(&ids.blob),
            ..ids.clone()
        }
    }
    vec![
        ("leaked", |ids| ids.clone()),
        ("lower case", |ids| each(ids, str::to_lowercase)),
        ("upper case", |ids| each(ids, str::to_uppercase)),
        ("beginning", |ids| each(ids, |id| id.chars().take(id.len() / 2).collect())),
        ("with a branch", |ids| each(ids, |id| format!("{id}@main"))),
        ("with a kind", |ids| each(ids, |id| format!("session:{id}"))),
        ("with a slash", |ids| each(ids, |id| format!("{id}/"))),
        ("with a zero", |ids| each(ids, |id| format!("{id}\0"))),
        ("from above", |ids| each(ids, |id| format!("../{id}"))),
        ("as a stream", |ids| Ids { stream: format!("session:{}", ids.session), ..ids.clone() }),
        ("an event", |ids| Ids { run: ids.event.clone(), call: ids.event.clone(), ..ids.clone() }),
        ("another branch", |ids| Ids { branch: "main".to_owned(), ..ids.clone() }),
    ]
}

/// One character after the other, percent-encoded where it has to be.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Bob asks.
async fn ask(bob: &Person<'_>, method: &str, path: &str, query: &str, ids: &Ids) -> Answer {
    let filled = [
        ("{id}", &ids.session),
        ("{chat}", &ids.chat),
        ("{run}", &ids.run),
        ("{call}", &ids.call),
        ("{stream}", &ids.stream),
        ("{hash}", &ids.blob),
        ("{path}", &"notes.txt".to_owned()),
        ("{name}", &"helper".to_owned()),
        ("{model}", &"helper".to_owned()),
    ]
    .into_iter()
    .fold(path.to_owned(), |path, (slot, id)| path.replace(slot, &encoded(id)));
    assert!(!filled.contains('{'), "{path} has a part that the test knows nothing of");
    let mut request = bob.request(method.parse::<Method>().unwrap(), &format!("{filled}{query}"));
    if method == "GET" {
        request = request.header("last-event-id", &ids.frame);
    }
    let body = |body: fn(&Ids) -> Value| body(ids).to_string();
    request = match row(&format!("{method} {path}")) {
        Some(Row::Plain | Row::Bridge) => request,
        Some(Row::Bytes) => request.body("bytes"),
        Some(Row::Body(made)) => request.header("content-type", "application/json").body(body(made)),
        Some(Row::Continues(made)) => {
            let session: String = ids.session.chars().filter(|c| !c.is_control()).collect();
            let request = request.header("x-weir-session", session);
            request.header("content-type", "application/json").body(body(made))
        }
        None => panic!("{method} {path} has no row"),
    };
    Answer::to(request).await
}

/// An answer without what differs from one request to the next: what was asked for, new ids, times and places.
fn told(answer: &Answer, ids: &Ids) -> (u16, String, BTreeMap<String, String>) {
    let hide = |text: &str| {
        let all = [&ids.session, &ids.chat, &ids.run, &ids.call, &ids.stream, &ids.blob, &ids.event];
        let mut text =
            all.iter().fold(text.to_owned(), |text, id| text.replace(id.trim_end_matches('\0'), "<id>"));
        for (pattern, with) in [
            (r"[0-9a-f]{64}", "<hash>"),
            (r"[0-9A-HJKMNP-TV-Z]{26}", "<ulid>"),
            (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<time>"),
            (r#""(created|created_at|took_ms)":\d+"#, "<number>"),
            (r"(req|msg|resp|rs|chatcmpl)[-_][0-9A-Za-z]+", "<vendor>"),
        ] {
            text = regex::Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
        }
        text
    };
    let ignored = ["x-request-id", "request-id", "date", "content-length"];
    let headers = answer.headers.iter().filter(|(name, _)| !ignored.contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), hide(value.to_str().unwrap()))).collect();
    (answer.status.as_u16(), hide(&String::from_utf8_lossy(&answer.body)), headers)
}

/// What Alice has.
async fn life_of(alice: &Person<'_>) -> Ids {
    let said = alice.post("/agents/helper/chat", &json!({"message": format!("remember {PLANTED}")})).await;
    let session = said.ok()["session"].as_str().unwrap().to_owned();
    assert!(said.text().contains(PLANTED), "what is planted is there: {}", said.text());
    let run = said.header("x-weir-run").unwrap().to_owned();
    let asked = alice.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let call = asked["approvals"][0]["id"].as_str().unwrap().to_owned();
    let event = json!({"events": [{"kind": "note.made", "payload": {"text": PLANTED}}]});
    let event =
        alice.post("/streams/diary-q71x/events", &event).await.ok()["id"].as_str().unwrap().to_owned();
    alice.post("/streams/diary-q71x/fork", &json!({"at": 1, "name": "draft"})).await.ok();
    alice.post(&format!("/sessions/{session}/fork"), &json!({"at": 2, "name": "draft"})).await.ok();
    let stored = Answer::to(alice.request(Method::PUT, "/blobs").body(PLANTED)).await.ok();
    let blob = stored["hash"].as_str().unwrap().to_owned();
    let chat = "q71xz-chat".to_owned();
    let part = json!([{"type": "text", "text": format!("remember {PLANTED}")}]);
    let messages = json!([{"id": "m", "role": "user", "parts": part}]);
    let talk = alice.post("/agents/helper/ui", &json!({"id": chat, "messages": messages})).await;
    assert!(talk.text().contains("[DONE]"), "{}", talk.text());
    let frames = alice.get(&format!("/sessions/{session}/runs/{run}/stream")).await;
    let frame = frames.text().lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    Ids {
        session,
        chat,
        run,
        call,
        stream: "diary-q71x".to_owned(),
        blob,
        event,
        frame,
        branch: "draft".to_owned(),
    }
}

/// Ids of the same kinds, of nothing that exists.
fn guessed() -> Ids {
    Ids {
        session: "01JZZZZZZZ0000000000000001".to_owned(),
        chat: "w82yv-chat".to_owned(),
        run: "01JZZZZZZZ0000000000000002".to_owned(),
        call: "01JZZZZZZZ0000000000000003".to_owned(),
        stream: "tzary-w82y".to_owned(),
        blob: "5d".repeat(32),
        event: "01JZZZZZZZ0000000000000004".to_owned(),
        frame: "9999.0".to_owned(),
        branch: "drift".to_owned(),
    }
}

/// Everything of the document, as method and path.
async fn endpoints(server: &Server) -> Vec<(String, String)> {
    let document = server.get("/openapi.json").await.ok();
    let methods = ["get", "head", "put", "post", "patch", "delete", "options", "trace"];
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in methods.iter().filter(|method| item.get(**method).is_some()) {
            all.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Where everything of the journal stands that is not Bob's.
fn heads(project: &Project) -> Vec<Value> {
    let streams = project.lines(&["streams"]).into_iter();
    let bobs = project.lines(&["session", "list"]).into_iter().filter(|row| row["principal"] == "user:bob");
    let bobs: Vec<String> = bobs.map(|row| format!("session:{}", row["id"].as_str().unwrap())).collect();
    let is_bobs = |name: &str| {
        name.contains("user:bob")
            || bobs.iter().any(|bobs| bobs == name)
            || name.starts_with("budget:")
            || name == "engine:requests"
    };
    streams.filter(|row| !is_bobs(row["stream"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn nobody_is_told_anything_about_what_belongs_to_somebody_else() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    let (leaked, guessed) = (life_of(&alice).await, guessed());
    let endpoints = endpoints(&server).await;
    let before = heads(&project);

    let mut asked = 0;
    for (method, path) in &endpoints {
        for (how, craft) in crafted() {
            let queries: &[&str] = if how == "leaked" { &["", "?branch=draft"] } else { &[""] };
            for query in queries {
                let (theirs, nothing) = (craft(&leaked), craft(&guessed));
                let said = ask(&bob, method, path, query, &theirs);
                let (said, control) = tokio::join!(said, ask(&bob, method, path, query, &nothing));
                let place = format!("{method} {path}{query}, {how}: {said:?}");
                assert_eq!(told(&said, &theirs), told(&control, &nothing), "{place}");
                assert!(!said.status.is_server_error(), "{place}");
                assert!(!String::from_utf8_lossy(&said.body).contains(PLANTED), "{place}");
                asked += 1;
            }
        }
    }
    assert!(asked > 500, "{asked}");
    assert_eq!(heads(&project), before, "nothing that is not Bob's has changed");
}

#[tokio::test]
async fn lists_have_what_is_ones_own() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let admins = token(&project, "user:carol", &["--groups", "group:admin"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    let theirs = life_of(&alice).await;
    let ids = [&theirs.session, &theirs.call, &theirs.stream, &theirs.blob];
    for list in [
        "/sessions".to_owned(),
        "/sessions?status=waiting".to_owned(),
        "/sessions?agent=helper".to_owned(),
        "/approvals".to_owned(),
        "/approvals?agent=careful".to_owned(),
        "/streams".to_owned(),
        "/streams?after=a".to_owned(),
    ] {
        let said = bob.get(&list).await;
        assert_eq!(said.status, 200, "{list}");
        assert!(ids.iter().all(|id| !said.text().contains(*id)), "{list}: {}", said.text());
    }
    assert!(alice.get("/sessions").await.text().contains(&theirs.session));
    assert!(alice.get("/approvals").await.text().contains(&theirs.call));
    assert_eq!(alice.get("/streams").await.ok()["streams"][0]["stream"], "diary-q71x");
    // Whoever may see everything sees it under its own name.
    let carol = Person::new(&server, &admins);
    assert!(carol.get("/sessions").await.text().contains(&theirs.session));
    assert!(carol.get("/approvals").await.text().contains(&theirs.call));
    assert!(carol.get("/streams/user:alice%2Fdiary-q71x").await.text().contains("draft"));
    assert_eq!(carol.get(&format!("/blobs/{}", theirs.blob)).await.text(), PLANTED);
    assert_eq!(carol.get("/metrics").await.status, 200);
    assert_eq!(bob.get("/metrics").await.error(), (403, "server::admins-only".to_owned()));
}

#[tokio::test]
async fn what_is_ones_own_is_there() {
    let project = Project::new();
    let alices = token(&project, "user:alice", &[]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let alice = Person::new(&server, &alices);
    let Ids { session, blob, .. } = life_of(&alice).await;
    for path in [
        format!("/sessions/{session}"),
        format!("/sessions/{session}?branch=draft"),
        format!("/sessions/{session}/events"),
        format!("/sessions/{session}/state"),
        format!("/sessions/{session}/messages"),
        format!("/sessions/{session}/files"),
        format!("/streams/session:{session}/events"),
        "/streams/diary-q71x".to_owned(),
        "/streams/user:alice%2Fdiary-q71x".to_owned(),
        "/streams/diary-q71x/events?branch=draft".to_owned(),
        format!("/blobs/{blob}"),
    ] {
        assert_eq!(alice.get(&path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_same_key_is_two_requests_of_two_people() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let chat = async |person: &Person<'_>| {
        let request = server.posting("/agents/helper/chat", &json!({"message": "hi"}));
        let request = request.bearer_auth(&person.token).header("idempotency-key", "one");
        Answer::to(request).await.ok()["session"].as_str().unwrap().to_owned()
    };
    let (alice, bob) = (Person::new(&server, &alices), Person::new(&server, &bobs));
    let first = chat(&alice).await;
    assert_eq!(chat(&alice).await, first);
    assert_ne!(chat(&bob).await, first);
}

#[tokio::test]
async fn every_endpoint_asks_who_asks() {
    let project = Project::new();
    let server = project.serve().arg("--auth-tokens").start().await;
    let nobody = Person::new(&server, "weir_0000000000000000000000000000000000000000000");
    for (method, path) in endpoints(&server).await {
        let endpoint = format!("{method} {path}");
        if ["GET /health", "GET /ready", "GET /openapi.json"].contains(&endpoint.as_str()) {
            continue;
        }
        let said = ask(&nobody, &method, &path, "", &guessed()).await;
        // Without a secret there is no bridge.
        let is_bridge = matches!(row(&endpoint), Some(Row::Bridge));
        assert_eq!(said.status, if is_bridge { 404 } else { 401 }, "{endpoint}");
        let challenge = said.header("www-authenticate").unwrap_or_default();
        assert!(is_bridge || challenge.starts_with("Bearer "), "{endpoint}: {challenge}");
    }
}

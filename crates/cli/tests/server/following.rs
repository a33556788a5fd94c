//! Plain streams as server-sent events: complete, in order, and exactly the rest for whoever comes back.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Frame, Frames, Person, Project, Server, token, within};

const LAKE: &str = "/streams/lake/events";

async fn append(server: &Server, count: usize) {
    let events: Vec<Value> =
        (0..count).map(|n| json!({"kind": format!("k.{}", n % 2), "payload": n})).collect();
    server.post(LAKE, &json!({ "events": events })).await.ok();
}

/// The next so many frames.
async fn taken(frames: &mut Frames, count: usize) -> Vec<Frame> {
    assert_eq!(frames.status, 200);
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(frames.next().await.expect("a further frame"));
    }
    taken
}

fn seqs(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.json()["seq"].as_u64().unwrap()).collect()
}

fn events(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(Frame::json).collect()
}

#[tokio::test]
async fn all_events_come_and_then_whatever_is_appended() {
    let project = Project::empty();
    let server = project.serve_as(&["serve"]).start().await;
    // More than a follower reads at once, some of it large, some over several lines.
    for _ in 0..3 {
        append(&server, 200).await;
    }
    let large = "x".repeat(300_000);
    let odd = json!({"events": [{"kind": "a.b", "payload": large}, {"kind": "raw.bytes", "payload_base64": "AP/+"}]});
    server.post(LAKE, &odd).await.ok();
    project.write("lines.json", "{\n  \"a\": 1,\r\n  \"b\": \"two\"\n}\n");
    project.ok(&["append", "--stream", "lake", "--kind", "over.lines", "--payload-file", "lines.json"]);

    let mut frames = server.follow(LAKE, None).await;
    assert_eq!(frames.header("content-type"), Some("text/event-stream"));
    assert_eq!(frames.header("cache-control"), Some("no-cache"));
    let mut told = taken(&mut frames, 603).await;
    // From this server, and from another process.
    append(&server, 2).await;
    project.ok(&["append", "--stream", "lake", "--kind", "from.outside"]);
    told.extend(taken(&mut frames, 3).await);

    let all = project.lines(&["cat", "--stream", "lake"]);
    assert_eq!(events(&told), all);
    for frame in &told {
        assert_eq!(frame.event.as_deref(), frame.json()["kind"].as_str());
    }
    let ids: std::collections::BTreeSet<_> = told.iter().map(|frame| frame.id.clone().unwrap()).collect();
    assert_eq!(ids.len(), told.len(), "every frame has an id of its own");

    // From any of them on, by id and by place; the id counts.
    for at in [0, 1, 255, 256, 257, 599, 600, 601, 605] {
        let mut frames = server.follow(&format!("{LAKE}?after=3"), told[at].id.as_deref()).await;
        assert_eq!(events(&taken(&mut frames, 605 - at).await), all[at + 1..], "after {at}");
        let mut frames = server.follow(&format!("{LAKE}?after={at}"), None).await;
        assert_eq!(events(&taken(&mut frames, 606 - at).await), all[at..], "from {at}");
    }
    let mut odd = server.follow(&format!("{LAKE}?kind=k.1&since=590"), None).await;
    assert_eq!(seqs(&taken(&mut odd, 6).await), [592, 594, 596, 598, 600, 605]);
    server.post("/streams/lake/fork", &json!({"at": 2, "name": "dry"})).await.ok();
    let mut dry = server.follow(&format!("{LAKE}?branch=dry"), None).await;
    assert_eq!(events(&taken(&mut dry, 2).await), all[..2]);
}

#[tokio::test]
async fn json_is_what_is_answered_unless_events_are_wanted() {
    let server = Project::empty().serve_as(&["serve"]).start().await;
    append(&server, 1).await;
    for (accept, is_stream) in [
        ("*/*", false),
        ("application/json", false),
        ("application/json, text/event-stream", false),
        ("text/event-stream;q=0.5, application/json", false),
        ("text/event-stream; q=0", false),
        ("text/event-stream", true),
        ("Text/Event-Stream", true),
        ("application/json;q=0.5, text/event-stream", true),
        ("text/event-stream, */*;q=0.1", true),
    ] {
        let request = server.request(Method::GET, LAKE).header("accept", accept);
        let response = within("headers", request.send()).await.unwrap();
        let expected = if is_stream { "text/event-stream" } else { "application/json" };
        assert_eq!(response.headers()["content-type"], expected, "{accept}");
        assert_eq!(response.headers()["vary"], "accept", "caches keep them apart");
    }
}

#[tokio::test]
async fn an_id_of_no_frame_is_refused() {
    let server = Project::empty().serve_as(&["serve"]).start().await;
    append(&server, 3).await;
    // The future, the past before the first event, frames that only sessions have, and what is no id at all.
    for id in [
        "4.1",
        "18446744073709551615.1",
        "0.1",
        "0.0",
        "3.0",
        "3.2",
        "3",
        "3.1.5",
        "03.1",
        "+3.1",
        "3.1 x",
        "-1.1",
        "99999999999999999999.1",
        "3.4294967296",
        "..",
        "ünfug",
        "null",
    ] {
        let request = server.request(Method::GET, LAKE).header("accept", "text/event-stream");
        let request =
            request.header("last-event-id", reqwest::header::HeaderValue::from_bytes(id.as_bytes()).unwrap());
        let answer = crate::kit::Answer::to(request).await;
        assert_eq!(answer.error(), (400, "server::no-such-frame".into()), "{id}");
    }
    for query in ["limit=3", "after=1&since=1", "after=-1", "kind=two%20words", "form=x"] {
        let request =
            server.request(Method::GET, &format!("{LAKE}?{query}")).header("accept", "text/event-stream");
        assert_eq!(
            crate::kit::Answer::to(request).await.error(),
            (400, "server::bad-request".into()),
            "{query}"
        );
    }
    let request = server.request(Method::GET, "/streams/pond/events").header("accept", "text/event-stream");
    assert_eq!(crate::kit::Answer::to(request).await.error().0, 404);
    let mut rest = server.follow(LAKE, Some("2.1")).await;
    assert_eq!(seqs(&taken(&mut rest, 1).await), [3], "and an id that is one is taken");
}

#[tokio::test]
async fn a_reader_that_comes_back_after_kills_has_everything_once() {
    let project = Project::empty();
    let mut server = project.serve_as(&["serve"]).start().await;
    append(&server, 40).await;
    let mut told: Vec<Frame> = Vec::new();
    for round in 0..5 {
        let last = told.last().and_then(|frame| frame.id.clone());
        let mut frames = server.follow(LAKE, last.as_deref()).await;
        // Appends go on while it reads, and while the server is killed.
        let (url, client) = (server.url(LAKE), server.client.clone());
        let appending = tokio::spawn(async move {
            for n in 0.. {
                let body = json!({"events": [{"kind": "while.read", "payload": [round, n]}]}).to_string();
                let request = client.post(&url).header("content-type", "application/json").body(body);
                if request.send().await.is_err() {
                    return;
                }
            }
        });
        told.extend(taken(&mut frames, 30 + round).await);
        let down = server.kill();
        while let Some(frame) = frames.next().await {
            told.push(frame);
        }
        assert!(frames.broken, "it does not look complete");
        appending.await.unwrap();
        server = down.start_again().await;
    }
    let all = project.lines(&["cat", "--stream", "lake"]);
    let last = told.last().and_then(|frame| frame.id.clone());
    let mut frames = server.follow(LAKE, last.as_deref()).await;
    let missing = all.len() - told.len();
    told.extend(taken(&mut frames, missing).await);
    assert_eq!(events(&told), all);
}

#[tokio::test]
async fn a_stream_breaks_off_when_the_server_stops() {
    let project = Project::empty();
    let server = project.serve_as(&["serve"]).start().await;
    append(&server, 3).await;
    let mut frames = server.follow(LAKE, None).await;
    let told = taken(&mut frames, 3).await;
    let down = server.terminate().await;
    assert_eq!(down.ran.code, 0, "{}", down.ran.stderr);
    assert_eq!(frames.next().await, None);
    assert!(frames.broken, "nobody takes it for all that there will ever be");
    let server = down.start_again().await;
    append(&server, 1).await;
    let mut frames = server.follow(LAKE, told[2].id.as_deref()).await;
    assert_eq!(seqs(&taken(&mut frames, 1).await), [4]);
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_is_there() {
    let server = Project::empty().serve_as(&["serve", "--keep-alive=1"]).start().await;
    append(&server, 1).await;
    // Also one that finds nothing of what is wanted, and one that waits for what is far away.
    for query in ["after=1", "kind=no.such", "after=18446744073709551615"] {
        let request =
            server.request(Method::GET, &format!("{LAKE}?{query}")).header("accept", "text/event-stream");
        let mut bytes = within("headers", request.send()).await.unwrap().bytes_stream();
        for _ in 0..2 {
            let sign = within("a sign of life", bytes.next()).await.unwrap().unwrap();
            assert_eq!(&sign[..], b": keep-alive\n\n", "{query}");
        }
    }
}

#[tokio::test]
async fn what_is_somebody_elses_is_not_followed() {
    let project = Project::new();
    let [alices, bobs, admins] =
        [("user:alice", None), ("user:bob", None), ("user:root", Some("--groups=group:admin"))]
            .map(|(who, more)| token(&project, who, more.as_slice()));
    let server = project.serve().arg("--auth-tokens").start().await;
    let [alice, bob, admin] = [&alices, &bobs, &admins].map(|token| Person::new(&server, token));
    let follow = async |person: &Person<'_>, path: &str, id: Option<&str>| {
        let mut request = person.request(Method::GET, path).header("accept", "text/event-stream");
        if let Some(id) = id {
            request = request.header("last-event-id", id);
        }
        Frames::of(within("headers", request.send()).await.unwrap())
    };
    let note = |text: &str| json!({"events": [{"kind": "note.added", "payload": text}]});
    alice.post(LAKE, &note("of Alice")).await.ok();
    assert_eq!(follow(&bob, LAKE, None).await.status, 404);
    let name = admin.get("/streams").await.ok()["streams"].as_array().unwrap().iter().find_map(|row| {
        let name = row["stream"].as_str().unwrap();
        name.contains("alice").then(|| name.to_owned())
    });
    let full = format!("/streams/{}/events", name.unwrap().replace('/', "%2F"));
    assert_eq!(follow(&bob, &full, None).await.status, 404, "nor by its full name");
    assert_eq!(follow(&bob, &full, Some("1.1")).await.status, 404);
    // Of the same name, there is one for each of them.
    bob.post(LAKE, &note("of Bob")).await.ok();
    for (person, text) in [(&alice, "of Alice"), (&bob, "of Bob")] {
        let mut frames = follow(person, LAKE, None).await;
        let frame = taken(&mut frames, 1).await.remove(0).json();
        assert_eq!((&frame["payload"], &frame["stream"]), (&json!(text), &json!("lake")));
        assert!(frame.get("position").is_none(), "how much others write is not told: {frame}");
    }
    // Nor is a stream of the runtime.
    assert_eq!(follow(&alice, "/streams/engine:tokens/events", None).await.status, 404);
    let frame = taken(&mut follow(&admin, &full, None).await, 1).await.remove(0).json();
    assert!(frame["position"].is_u64(), "{frame}");
}

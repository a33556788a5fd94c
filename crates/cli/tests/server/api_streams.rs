//! The persistence layer as a service, with and without a build.

use reqwest::Method;
use serde_json::json;

use crate::kit::{Answer, Project, Server};

async fn put(server: &Server, path: &str, content: &[u8]) -> Answer {
    let request = server.request(Method::PUT, path).header("content-type", "application/octet-stream");
    Answer::to(request.body(content.to_vec())).await
}

#[tokio::test]
async fn events_are_kept_byte_for_byte() {
    // Without any build: nothing but the journal.
    let project = Project::empty();
    let server = project.serve_as(&["serve"]).start().await;
    assert_eq!(server.get("/agents").await.ok(), json!({"agents": []}));
    assert_eq!(server.get("/streams").await.ok(), json!({"streams": [], "next": null}));
    let odd = r#"{"events":[
        {"kind":"finance.invoice","payload":{"b": 1.50,"a":[10000000000000000000000.50e3, "\u00e9"]},"meta":{"z": 1,  "y":2.0}},
        {"kind":"raw.bytes","payload_base64":"AP/+"},
        {"kind":"nothing.at.all","payload":null},
        {"kind":"empty.one"}]}"#;
    let request = server
        .request(Method::POST, "/streams/a%2Fb:c%20d/events")
        .header("content-type", "application/json");
    let appended = Answer::to(request.body(odd)).await.ok();
    assert_eq!(
        (&appended["stream"], &appended["first"], &appended["seq"]),
        (&json!("a/b:c d"), &json!(1), &json!(4))
    );
    let page = server.get("/streams/a%2Fb:c%20d/events").await;
    let text = page.text();
    assert!(text.contains(r#""payload":{"b": 1.50,"a":[10000000000000000000000.50e3, "\u00e9"]}"#), "{text}");
    assert!(text.contains(r#","z": 1,  "y":2.0}"#) && text.contains(r#""payload_base64":"AP/+""#), "{text}");
    assert!(text.contains(r#""kind":"nothing.at.all","payload":null"#), "{text}");
    let events = page.ok();
    assert_eq!(events["events"][3]["payload"], json!({}));
    assert_eq!(events["events"][3]["id"], appended["id"]);
    // Whoever runs the server is who did it, whatever they say.
    let actor = events["events"][0]["meta"]["actor"].as_str().unwrap();
    assert!(actor.starts_with("user:"), "{actor}");
    // The command line sees the same.
    assert_eq!(project.lines(&["cat", "--stream", "a/b:c d"]), *events["events"].as_array().unwrap());
}

#[tokio::test]
async fn pages_follow_one_another() {
    let server = Project::empty().serve_as(&["serve"]).start().await;
    let events: Vec<_> = (0..25).map(|n| json!({"kind": format!("k.{}", n % 2), "payload": n})).collect();
    server.post("/streams/lake/events", &json!({"events": events})).await.ok();
    let (mut seen, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = server.get(&format!("/streams/lake/events?limit=10&after={after}")).await.ok();
        seen.extend(
            page["events"].as_array().unwrap().iter().map(|event| event["payload"].as_u64().unwrap()),
        );
        after = page["next"].clone();
    }
    assert_eq!(seen, (0..25).collect::<Vec<_>>());
    let odd = server.get("/streams/lake/events?kind=k.1&since=20").await.ok();
    let payloads: Vec<_> =
        odd["events"].as_array().unwrap().iter().map(|event| event["payload"].clone()).collect();
    assert_eq!((payloads, &odd["next"]), (vec![json!(21), json!(23)], &json!(null)));
    for name in ["b", "a", "c"] {
        server.post(&format!("/streams/{name}/events"), &json!({"events": [{"kind": "x.y"}]})).await.ok();
    }
    let first = server.get("/streams?limit=2").await.ok();
    let second =
        server.get(&format!("/streams?limit=2&after={}", first["next"].as_str().unwrap())).await.ok();
    let names = |page: &serde_json::Value| {
        page["streams"].as_array().unwrap().iter().map(|row| row["stream"].clone()).collect::<Vec<_>>()
    };
    assert_eq!([names(&first), names(&second)].concat(), ["a", "b", "c", "lake"]);
    for query in
        ["limit=0", "limit=1001", "after=1&since=1", "after=-1", "lmit=3", "kind=two%20words", "kind=%ff"]
    {
        assert_eq!(
            server.get(&format!("/streams/lake/events?{query}")).await.error(),
            (400, "server::bad-request".into()),
            "{query}"
        );
    }
    let typo = server.get("/streams/lake/events?lmit=3").await.json();
    assert!(typo["error"]["message"].as_str().unwrap().contains("`limit`"), "{typo}");
}

#[tokio::test]
async fn what_is_expected_is_checked_and_keys_repeat() {
    let server = Project::empty().serve_as(&["serve"]).start().await;
    let append = async |more: serde_json::Value| {
        let mut body = json!({"events": [{"kind": "a.b"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/streams/lake/events", &body).await
    };
    assert_eq!(append(json!({"expected": 1})).await.error(), (409, "journal::conflict".into()));
    assert_eq!(append(json!({"expected": 0, "key": "one"})).await.ok()["replayed"], false);
    let again = append(json!({"expected": 0, "key": "one"})).await.ok();
    assert_eq!((&again["replayed"], &again["seq"]), (&json!(true), &json!(1)));
    assert_eq!(append(json!({"expected": 0})).await.error(), (409, "journal::conflict".into()));
    let other = json!({"events": [{"kind": "a.c"}], "key": "one"});
    assert_eq!(
        server.post("/streams/lake/events", &other).await.error(),
        (400, "journal::key-reused".into())
    );

    let fork = server.post("/streams/lake/fork", &json!({"at": 1, "name": "dry"})).await.ok();
    assert_eq!(fork, json!({"stream": "lake", "branch": "dry", "at": 1}));
    assert_eq!(
        server.post("/streams/lake/fork", &json!({"at": 1, "name": "dry"})).await.error(),
        (409, "journal::branch-exists".into())
    );
    assert_eq!(
        server.post("/streams/lake/fork", &json!({"at": 9})).await.error(),
        (404, "journal::no-event".into())
    );
    server.post("/streams/lake/events?branch=dry", &json!({"events": [{"kind": "d.e"}]})).await.ok();
    let dry = server.get("/streams/lake/events?branch=dry").await.ok();
    assert_eq!((&dry["events"][1]["kind"], dry["events"].as_array().unwrap().len()), (&json!("d.e"), 2));
    assert_eq!(server.get("/streams/lake/events").await.ok()["events"].as_array().unwrap().len(), 1);
    assert_eq!(server.get("/streams/lake/events?branch=wet").await.error().0, 404);
    assert_eq!(server.get("/streams/pond").await.error(), (404, "server::not-found".into()));
    let branches = server.get("/streams/lake").await.ok();
    assert_eq!(branches["branches"][1]["parent"], json!({"branch": "main", "at": 1}));
}

#[tokio::test]
async fn the_runtimes_own_is_refused_and_so_is_what_makes_no_sense() {
    let server = Project::empty().serve_as(&["serve"]).start().await;
    let post = async |stream: &str, body: serde_json::Value| {
        server.post(&format!("/streams/{stream}/events"), &body).await.error()
    };
    for stream in ["session:01J9ZDQ8M3E4F5G6H7J8K9MNPQ", "engine:requests", "loop:x", "budget:y"] {
        assert_eq!(
            post(stream, json!({"events": [{"kind": "a.b"}]})).await,
            (403, "server::reserved-stream".into())
        );
    }
    assert_eq!(
        post("lake", json!({"events": [{"kind": "user.message"}]})).await,
        (403, "server::reserved-kind".into())
    );
    for body in [
        json!({"events": []}),
        json!({"events": [{"kind": "two words"}]}),
        json!({"events": [{"kind": "a.b", "payload": 1, "payload_base64": "AA=="}]}),
        json!({"events": [{"kind": "a.b", "payload_base64": "%"}]}),
        json!({"events": [{"kind": "a.b", "meta": {"actor": "user:root"}}]}),
        json!({"events": [{"kind": "a.b", "meta": [1]}]}),
        json!({"events": [{"kind": "a.b", "refs": ["zz"]}]}),
        json!({"events": [{"kind": "a.b", "paylod": 1}]}),
        json!({"events": [{"kind": "a.b"}], "key": ""}),
        json!([{"kind": "a.b"}]),
    ] {
        assert_eq!(post("lake", body.clone()).await, (400, "server::bad-request".into()), "{body}");
    }
    let absent = "0".repeat(64);
    assert_eq!(post("lake", json!({"events": [{"kind": "a.b", "refs": [absent]}]})).await.0, 404);
    assert_eq!(server.get("/streams/lake").await.error().0, 404, "nothing was appended on the way");
}

#[tokio::test]
async fn blobs_have_the_names_they_deserve() {
    let server = Project::empty().serve_as(&["serve"]).start().await;
    let large = vec![7_u8; 3_000_000];
    let first = put(&server, "/blobs", &large).await.ok();
    assert_eq!(put(&server, "/blobs", &large).await.ok(), first);
    let path = format!("/blobs/{}", first["hash"].as_str().unwrap());
    assert_eq!(put(&server, &path, &large).await.ok(), first);
    assert_eq!(put(&server, &path, b"other").await.error(), (400, "server::hash-mismatch".into()));
    let got = server.get(&path).await;
    assert!(got.body == large);
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    let head = Answer::to(server.request(Method::HEAD, &path)).await;
    assert_eq!(
        (head.status.as_u16(), head.header("content-length"), head.body.len()),
        (200, Some("3000000"), 0)
    );
    assert_eq!(put(&server, "/blobs", b"").await.ok()["bytes"], 0);
    for name in ["0".repeat(64), "zz".to_owned(), "..%2f..%2fetc".to_owned()] {
        let missing = server.get(&format!("/blobs/{name}")).await;
        assert_eq!(missing.error(), (404, "server::not-found".into()));
        // No list has it: an event that refers to it does.
        assert!(missing.text().contains("`refs` of an event"), "{}", missing.text());
    }
    // An event that refers to it.
    let hash = &first["hash"];
    let event = json!({"events": [{"kind": "file.seen", "refs": [hash]}]});
    server.post("/streams/lake/events", &event).await.ok();
    assert_eq!(server.get("/streams/lake/events").await.ok()["events"][0]["refs"], json!([hash]));
    // A large payload comes back inline.
    let text = "x".repeat(200_000);
    server.post("/streams/large/events", &json!({"events": [{"kind": "a.b", "payload": text}]})).await.ok();
    assert_eq!(server.get("/streams/large/events").await.ok()["events"][0]["payload"], text.as_str());
}

#[tokio::test]
async fn a_blob_that_is_too_large_is_not_kept() {
    let server = Project::empty().serve_as(&["serve", "--max-blob=1000"]).start().await;
    assert_eq!(put(&server, "/blobs", &[1; 1_001]).await.error(), (413, "server::too-large".into()));
    let stored = put(&server, "/blobs", &[1; 1_000]).await.ok();
    assert_eq!(server.get(&format!("/blobs/{}", stored["hash"].as_str().unwrap())).await.body.len(), 1_000);
}

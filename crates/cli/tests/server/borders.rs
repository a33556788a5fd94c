//! What one user can do to another through what they share: content with the same hash, the journal, keys, the counting of calls.

use reqwest::Method;
use serde_json::{Value, json};
use weir_types::Hash;

use crate::kit::{Answer, Person, Project, token};

/// Lets Alice look at whatever belongs to nobody.
const SHARED: &str = "permit (principal == User::\"alice\", action == Action::\"read\", resource)\nwhen { context.shared };\n";

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

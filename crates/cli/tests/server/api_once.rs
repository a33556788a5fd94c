//! `Idempotency-Key`: what is repeated is not done again, whatever happened to the server in between.

use serde_json::{Value, json};

use crate::kit::{Answer, Project, Server, asked_again, within};

async fn keyed(server: &Server, path: &str, key: &str, body: &Value) -> Answer {
    Answer::to(server.posting(path, body).header("idempotency-key", key)).await
}

fn count(project: &Project, session: &str, kind: &str) -> usize {
    project.events(session).iter().filter(|event| event["kind"] == kind).count()
}

#[tokio::test]
async fn the_first_answer_is_given_again_also_by_the_next_server() {
    let project = Project::new();
    let server = project.serve().start().await;
    let (path, body) = ("/agents/helper/chat", json!({"message": "weather in Lisbon"}));
    let first = keyed(&server, path, "one", &body).await;
    assert_eq!((first.ok()["stop"].as_str(), first.header("idempotency-replayed")), (Some("end"), None));
    let again = keyed(&server, path, "one", &body).await;
    assert_eq!((again.text(), again.header("idempotency-replayed")), (first.text(), Some("true")));
    let server = server.kill().start_again().await;
    let later = keyed(&server, path, "one", &body).await;
    assert_eq!((later.text(), later.header("idempotency-replayed")), (first.text(), Some("true")));
    for name in ["x-weir-session", "x-weir-run", "content-type"] {
        assert_eq!(later.header(name), first.header(name), "{name}");
    }
    assert_eq!(count(&project, first.json()["session"].as_str().unwrap(), "user.message"), 1);

    let other = keyed(&server, path, "one", &json!({"message": "hello"})).await;
    assert_eq!(other.error(), (422, "server::key-reused".to_owned()));
    // The same key for something else is another key.
    let elsewhere = keyed(&server, "/agents/echo/chat", "one", &body).await;
    assert_eq!(elsewhere.header("idempotency-replayed"), None);
    assert_ne!(elsewhere.ok()["session"], first.json()["session"]);
}

#[tokio::test]
async fn a_run_that_was_cut_off_is_found_again() {
    let project = Project::new();
    let server = project.serve().start().await;
    let (path, body) = ("/agents/helper/chat", json!({"message": "slow"}));
    let begun = server.post(path, &json!({"message": "hello"})).await.ok();
    let session = begun["session"].as_str().unwrap().to_owned();
    let body = json!({"message": body["message"], "session": session});
    let request = server.posting(path, &body).header("idempotency-key", "cut").send();
    // The client leaves, and so does the server, in the middle of the answer.
    let asked = async {
        let mut frames = server.follow(&format!("/sessions/{session}/events/stream"), None).await;
        let mut requests = 0;
        while requests < 2 {
            let frame = frames.next().await.expect("it goes on");
            requests += usize::from(frame.event.as_deref() == Some("model.requested"));
        }
    };
    tokio::select! {
        _ = request => panic!("it was answered before it was cut off"),
        () = within("the second request to the model", asked) => {}
    }
    let under_way = keyed(&server, path, "cut", &body).await;
    assert_eq!(under_way.error(), (409, "server::under-way".to_owned()));
    let server = server.kill().start_again().await;
    let turn = keyed(&server, path, "cut", &body).await;
    assert_eq!(
        (turn.ok()["session"].as_str(), turn.header("idempotency-replayed")),
        (Some(session.as_str()), None)
    );
    assert!(turn.json()["answer"].as_str().unwrap().starts_with("This answer"), "{}", turn.text());
    assert_eq!(count(&project, &session, "user.message"), 2);
    // Whatever comes after it, this is what came of it.
    server.post(path, &json!({"message": "more", "session": session})).await.ok();
    let again = keyed(&server, path, "cut", &body).await;
    assert_eq!((again.text(), again.header("idempotency-replayed")), (turn.text(), Some("true")));
}

#[tokio::test]
async fn everything_else_is_done_once_too() {
    let project = Project::new();
    let mut server = project.serve().start().await;
    let turn = server.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
    let asking = server.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let session =
        |turn: &Value, rest: &str| format!("/sessions/{}/{rest}", turn["session"].as_str().unwrap());
    let posts = [
        ("/streams/lake/events".to_owned(), json!({"events": [{"kind": "a.b"}, {"kind": "a.c"}]})),
        ("/streams/lake/fork".to_owned(), json!({"at": 1})),
        (session(&turn, "signals"), json!({"name": "paid"})),
        (session(&turn, "messages"), json!({"message": "and now?"})),
        (session(&turn, "fork"), json!({"at": 2})),
        (session(&asking, "gate"), json!({"decision": "allow"})),
        (session(&turn, "halt"), json!({})),
        (session(&turn, "resume"), json!({})),
        (session(&turn, "close"), json!({"reason": "done"})),
    ];
    let mut answers = Vec::new();
    for (path, body) in &posts {
        let answer = keyed(&server, path, "k", body).await;
        answer.ok();
        answers.push(answer);
    }
    server = server.kill().start_again().await;
    for ((path, body), first) in posts.iter().zip(&answers) {
        let again = keyed(&server, path, "k", body).await;
        assert_eq!(
            (again.text(), again.header("idempotency-replayed")),
            (first.text(), Some("true")),
            "{path}"
        );
    }
    let stream = server.get("/streams/lake").await.ok();
    assert_eq!(stream["branches"].as_array().unwrap().len(), 2, "{stream}");
    assert_eq!(stream["branches"][0]["seq"], 2);
}

#[tokio::test]
async fn keys_are_checked_and_errors_are_not_kept() {
    let server = Project::new().serve().start().await;
    let body = json!({"events": [{"kind": "a.b"}], "expected": 1});
    let early = keyed(&server, "/streams/lake/events", "k", &body).await;
    assert_eq!(early.error(), (409, "journal::conflict".to_owned()));
    server.post("/streams/lake/events", &json!({"events": [{"kind": "a.b"}]})).await.ok();
    assert_eq!(keyed(&server, "/streams/lake/events", "k", &body).await.ok()["seq"], 2);
    let long = "k".repeat(256);
    for key in ["", &long] {
        assert_eq!(keyed(&server, "/streams/lake/events", key, &body).await.error().0, 400, "{key:?}");
    }
    let twice = server.posting("/streams/lake/events", &body).header("idempotency-key", "a");
    assert_eq!(Answer::to(twice.header("idempotency-key", "b")).await.error().0, 400);
}

/// A project in which whatever a user says waits for as long as there is a file `hold`; each that waits writes a line into `asked`.
fn held() -> Project {
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    let hook =
        "hooks:\n  pre_append:\n    - { run: /bin/sh hooks/wait.sh, kinds: [user.message], timeout: 60s }\n";
    project.write("weir.yaml", &format!("{text}{hook}"));
    let script = "echo asked >> asked\nwhile [ -e hold ]; do /bin/sleep 0.02; done\n";
    project.write("hooks/wait.sh", &format!("#!/bin/sh\n{script}"));
    project.write("hold", "");
    project.ok(&["build", "--yes"]);
    project
}

fn asked(project: &Project) -> usize {
    std::fs::read_to_string(project.path().join("asked")).map_or(0, |text| text.lines().count())
}

/// Waits until so many wait.
async fn until_asked(project: &Project, times: usize) {
    // A script with a file is all that is asked; neither tells anybody.
    asked_again("someone who is asked", async || (asked(project) >= times).then_some(())).await;
}

/// The same request to two servers, of which one has to be told that the other is at it; the other's answer once nothing is in
/// its way any more.
async fn one_of(project: &Project, [one, two]: [&Server; 2], key: &str, body: &Value) -> Answer {
    let (first, second) =
        (keyed(one, "/agents/helper/chat", key, body), keyed(two, "/agents/helper/chat", key, body));
    tokio::pin!(first, second);
    let (refused, other) = tokio::select! {
        answer = &mut first => (answer, second),
        answer = &mut second => (answer, first),
    };
    assert_eq!(refused.error(), (409, "server::under-way".to_owned()));
    std::fs::remove_file(project.path().join("hold")).unwrap();
    other.await
}

#[tokio::test]
async fn what_two_servers_are_asked_at_once_is_done_by_one() {
    let project = held();
    let (one, two) = tokio::join!(project.serve().start(), project.serve().start());
    let body = json!({"message": "hello"});
    let answer = one_of(&project, [&one, &two], "k", &body).await;
    assert_eq!(answer.ok()["answer"], "You said: hello");
    assert_eq!((asked(&project), project.lines(&["session", "list"]).len()), (1, 1));
    for server in [&one, &two] {
        let again = keyed(server, "/agents/helper/chat", "k", &body).await;
        assert_eq!((again.text(), again.header("idempotency-replayed")), (answer.text(), Some("true")));
    }
}

#[tokio::test]
async fn what_a_dead_server_was_asked_is_taken_over_by_one() {
    let project = held();
    let (one, two, three) =
        tokio::join!(project.serve().start(), project.serve().start(), project.serve().start());
    let body = json!({"message": "hello"});
    tokio::select! {
        answer = keyed(&one, "/agents/helper/chat", "k", &body) => panic!("{answer:?}"),
        () = until_asked(&project, 1) => {}
    }
    // It lives, and so nobody else does it, though its client has left.
    let early = keyed(&two, "/agents/helper/chat", "k", &body).await;
    assert_eq!(early.error(), (409, "server::under-way".to_owned()));
    one.kill();
    let answer = one_of(&project, [&two, &three], "k", &body).await;
    assert_eq!(answer.ok()["answer"], "You said: hello");
    assert_eq!((asked(&project), project.lines(&["session", "list"]).len()), (2, 1));
}

#[tokio::test]
async fn what_failed_at_one_server_may_be_repeated_at_another() {
    let project = Project::new();
    let (one, two) = tokio::join!(project.serve().start(), project.serve().start());
    let body = json!({"events": [{"kind": "a.b"}], "expected": 1});
    let early = keyed(&one, "/streams/lake/events", "k", &body).await;
    assert_eq!(early.error(), (409, "journal::conflict".to_owned()));
    assert_eq!(
        keyed(&two, "/streams/lake/events", "k", &body).await.error(),
        (409, "journal::conflict".to_owned())
    );
    one.post("/streams/lake/events", &json!({"events": [{"kind": "a.b"}]})).await.ok();
    let done = keyed(&two, "/streams/lake/events", "k", &body).await;
    assert_eq!((&done.ok()["seq"], done.header("idempotency-replayed")), (&json!(2), None));
    let again = keyed(&one, "/streams/lake/events", "k", &body).await;
    assert_eq!((again.text(), again.header("idempotency-replayed")), (done.text(), Some("true")));
}

//! What is said, by whichever route: whoever says it hears what comes of that and of nothing else, and if not, is told where it is.

mod chats;
mod leaving;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{Answer, Frames, Project, Server, within};
use crate::stopping::{calling, dawdling, drawling};

const SESSION: &str = "x-weir-session";

/// Waits until this was said in a session.
async fn said(project: &Project, session: &str, text: &str) {
    let is_it =
        |event: &Value| event["kind"] == "user.message" && event["payload"]["content"][0]["text"] == text;
    let there = async {
        while !project.events(session).iter().any(is_it) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("it was said", there).await;
}

/// What the model had been told when each run of a session asked it last.
fn heard(events: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let (mut runs, mut run, mut told) = (BTreeMap::<String, BTreeSet<String>>::new(), "", BTreeSet::new());
    for event in events {
        let payload = &event["payload"];
        match event["kind"].as_str().unwrap() {
            "user.message" => drop(told.insert(payload["content"][0]["text"].as_str().unwrap().to_owned())),
            "run.started" => run = payload["run"].as_str().unwrap(),
            "model.requested" => runs.entry(run.to_owned()).or_default().extend(told.clone()),
            _ => {}
        }
    }
    runs
}

/// Every way to say something in a session that exists.
fn ways(server: &Server, session: &str, text: &str) -> Vec<RequestBuilder> {
    let message = json!([{ "role": "user", "content": text }]);
    let native = json!({ "message": text, "session": session });
    let chat = json!({ "model": "helper", "messages": message });
    let messages = json!({ "model": "helper", "max_tokens": 100, "messages": message, "stream": true });
    vec![
        server.posting("/agents/helper/chat/stream?format=openai", &native),
        server.posting("/agents/helper/chat", &native),
        server.posting("/v1/chat/completions", &chat).header(SESSION, session),
        server.posting("/v1/messages", &messages).header(SESSION, session),
    ]
}

#[tokio::test]
async fn whoever_speaks_gets_the_run_that_has_heard_them() {
    let server = Project::new().serve().start().await;
    for way in 0..4 {
        for round in 0..6 {
            let session = server.say("helper", "first", None).await.session;
            let texts: Vec<String> = (0..4).map(|n| format!("message {way}.{round}.{n}")).collect();
            let requests = texts.iter().map(|text| ways(&server, &session, text).swap_remove(way));
            let answers = join_all(requests.map(Answer::to)).await;
            let runs = heard(&server.project.events(&session));
            for (text, answer) in texts.iter().zip(answers) {
                assert_eq!(answer.status, 200, "{}", answer.text());
                let run = answer.header("x-weir-run").unwrap();
                assert!(runs[run].contains(text), "{text:?} in {run}: {runs:?}");
            }
        }
    }
}

#[tokio::test]
async fn whoever_waits_to_be_heard_is_told_that_it_was_said() {
    let project = dawdling(600_000);
    let server = project.serve().start().await;
    let (_frames, session) = calling(&server).await;
    let texts = ["one", "two", "three", "four"];
    let asked = texts.iter().enumerate().map(|(n, text)| ways(&server, &session, text).swap_remove(n));
    let waiting: Vec<_> = asked.map(|request| tokio::spawn(Answer::to(request))).collect();
    for text in texts {
        said(&project, &session, text).await;
    }
    server.signal(Signal::TERM);
    let mut told = Vec::new();
    for answer in waiting {
        told.push(answer.await.unwrap());
    }
    assert_eq!(told[1].status, 202, "{}", told[1].text());
    for (n, answer) in told.iter().enumerate().filter(|(n, _)| *n != 1) {
        assert_eq!(answer.status, 503, "{n}: {}", answer.text());
        assert_eq!(answer.header(SESSION), Some(session.as_str()), "{n}");
        assert!(answer.text().contains(&session), "{n}: {}", answer.text());
        // A client that tries again by itself would say it twice.
        let retry = (n > 1).then_some("false");
        assert_eq!(answer.header("x-should-retry"), retry, "{n}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.ended().await.ran.code, 0);
}

#[tokio::test]
async fn nobody_waits_to_be_heard_for_longer_than_the_server_has_patience() {
    let project = dawdling(600_000);
    let server = project.serve().env("WEIR_PATIENCE", "1").start().await;
    let (_frames, session) = calling(&server).await;
    for (n, request) in ways(&server, &session, "hello?").into_iter().enumerate().filter(|(n, _)| *n != 1) {
        let answer = Answer::to(request).await;
        assert_eq!(answer.status, 504, "{n}: {}", answer.text());
        assert_eq!(answer.header(SESSION), Some(session.as_str()), "{n}");
        assert_eq!(answer.header("x-should-retry"), (n > 1).then_some("false"), "{n}");
    }
}

#[tokio::test]
async fn half_an_answer_does_not_end_like_a_whole_one() {
    let project = drawling();
    let server = project.serve().start().await;
    let message = json!([{ "role": "user", "content": "slow" }]);
    let chat = json!({ "model": "helper", "messages": message, "stream": true });
    let messages = json!({ "model": "helper", "max_tokens": 100, "messages": message, "stream": true });
    let responses = json!({ "model": "helper", "input": "slow", "stream": true });
    let part = json!({ "type": "text", "text": "slow" });
    let ui = json!({ "id": "chat", "messages": [{ "role": "user", "parts": [part] }] });
    let mut streams: Vec<Frames> = Vec::new();
    for (path, body) in [
        ("/v1/chat/completions", &chat),
        ("/v1/messages", &messages),
        ("/v1/responses", &responses),
        ("/agents/helper/ui", &ui),
    ] {
        let mut frames = server.stream(path, body).await;
        while !frames.next().await.unwrap().data.contains("This") {}
        streams.push(frames);
    }
    server.signal(Signal::TERM);
    for (n, mut frames) in streams.into_iter().enumerate() {
        while frames.next().await.is_some() {}
        assert!(frames.broken, "{n}");
    }
    assert_eq!(server.ended().await.ran.code, 0);
}

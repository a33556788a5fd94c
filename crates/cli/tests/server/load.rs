//! Two thousand sessions at once, each of which hears its own words and nobody else's.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kit::{Frame, Frames, Project, Server};

/// As many as the issue asks for.
const SESSIONS: usize = 2_000;

/// Pieces of an answer.
const PIECES: u32 = 10;

/// How long the slowest machine may take for all of it.
const PATIENCE: Duration = Duration::from_secs(280);

/// A project whose agent takes this long to answer, whatever the machine: only so can all answers be under way at once.
fn project(takes: Duration) -> Project {
    let project = Project::empty();
    project.write("weir.yaml", "project: load\n");
    project
        .write("agents/crowd/spec.yaml", "name: crowd\nmodel: scripted/crowd\ndescription: Answers many.\n");
    let delay = takes.as_millis() / u128::from(PIECES);
    let chunk = said(0).len() as u32 / PIECES + 1;
    let script = format!(
        "replies:\n  - when: {{ user: '^number (\\d+)$' }}\n    say: \"{}\"\n    delay: {delay}ms\n    chunk: {chunk}\n",
        said(0).replace("0000", "{{1}}")
    );
    project.write("models/crowd.yaml", &script);
    project.build();
    project
}

/// What number `n` is told.
fn said(n: usize) -> String {
    let n = format!("{n:04}");
    format!("Number {n} hears {n}, {n} and {n}, and the words of nobody else but number {n}.")
}

/// When a session heard its first words, and when its last.
struct Heard {
    session: String,
    first: Instant,
    last: Instant,
}

/// Begins a session, hears all of it, and checks every word.
async fn hear(server: Arc<Server>, n: usize, all_there: Arc<Barrier>) -> Heard {
    all_there.wait().await;
    let body = json!({ "message": format!("number {n:04}") });
    let request = server.posting("/agents/crowd/chat/stream?format=native", &body);
    let mut frames = Frames::of(request.send().await.unwrap());
    assert_eq!(frames.status, 200);
    let session = frames.header("x-weir-session").unwrap().to_owned();
    let mut all: Vec<Frame> = Vec::new();
    let mut first = None;
    while let Some(frame) = frames.next_within(PATIENCE).await {
        if first.is_none() && frame.event.as_deref() == Some("text.delta") {
            first = Some(Instant::now());
        }
        all.push(frame);
    }
    assert!(!frames.broken, "{n} was cut off after {all:?}");
    let last = Instant::now();
    let of = |event: &'static str| {
        all.iter().filter(move |frame| frame.event.as_deref() == Some(event)).map(Frame::json)
    };
    let text: String = of("text.delta").map(|delta| delta["delta"].as_str().unwrap().to_owned()).collect();
    assert_eq!(text, said(n));
    let finished: Vec<_> = of("run.finished").collect();
    assert_eq!(finished.len(), 1, "{n}");
    assert_eq!(finished[0]["payload"]["answer"], said(n));
    assert_eq!(finished[0]["stream"], format!("session:{session}"));
    assert_eq!(all.last().unwrap().json()["stop"], "end");
    let ids: HashSet<&str> = all.iter().filter_map(|frame| frame.id.as_deref()).collect();
    assert_eq!(ids.len(), all.iter().filter(|frame| frame.id.is_some()).count(), "{n}: an id came twice");
    Heard { session, first: first.unwrap(), last }
}

/// Lets so many sessions run at once, and says whether all of them were under way at one moment.
async fn crowd(takes: Duration) -> bool {
    let server = Arc::new(project(takes).serve_as(&["serve", "--manifest", "latest"]).start().await);
    let all_there = Arc::new(Barrier::new(SESSIONS));
    let mut all = JoinSet::new();
    for n in 0..SESSIONS {
        all.spawn(hear(Arc::clone(&server), n, Arc::clone(&all_there)));
    }
    let mut heard = Vec::with_capacity(SESSIONS);
    while let Some(one) = all.join_next().await {
        heard.push(one.unwrap());
    }
    let sessions: HashSet<&str> = heard.iter().map(|heard| heard.session.as_str()).collect();
    assert_eq!(sessions.len(), SESSIONS);
    let text = server.get("/metrics").await.text().to_owned();
    assert!(text.contains("weir_streams_open 0\n"), "{text}");
    let line = format!("weir_runs_total{{stop=\"end\"}} {SESSIONS}\n");
    assert!(text.contains(&line), "{text}");
    let last_to_begin = heard.iter().map(|heard| heard.first).max().unwrap();
    let first_to_end = heard.iter().map(|heard| heard.last).min().unwrap();
    last_to_begin < first_to_end
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_sessions_at_once_are_complete_and_correct() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    // On a slow machine the first have ended before the last have begun: then it takes its time.
    let mut takes = Duration::from_secs(12);
    while !crowd(takes).await {
        takes *= 2;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quick_turns_side_by_side_do_not_wait_for_one_another_for_ever() {
    let server = Arc::new(Project::new().serve().start().await);
    let mut all = JoinSet::new();
    for worker in 0..16 {
        let server = Arc::clone(&server);
        all.spawn(async move {
            for turn in 0..15 {
                let message = format!("{worker} says {turn}");
                let told = server.say("helper", &message, None).await;
                assert_eq!(told.answer, format!("You said: {message}"));
            }
        });
    }
    while let Some(worker) = all.join_next().await {
        worker.unwrap();
    }
}

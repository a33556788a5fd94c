//! Two thousand sessions at once, in all formats, each of which hears its own words and nobody else's.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kit::{Frame, Frames, Project, Server, asked_again};
use crate::reconnect::{FORMATS, delta};

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
    let format = FORMATS[n % FORMATS.len()];
    let body = json!({ "message": format!("number {n:04}") });
    let request = server.posting(&format!("/agents/crowd/chat/stream?format={format}"), &body);
    let mut frames = Frames::of(request.send().await.unwrap());
    assert_eq!(frames.status, 200);
    let [session, run] = ["x-weir-session", "x-weir-run"].map(|name| frames.header(name).unwrap().to_owned());
    let mut all: Vec<Frame> = Vec::new();
    let mut first = None;
    while let Some(frame) = frames.next_within(PATIENCE).await {
        if first.is_none() && delta(format, &frame).is_some() {
            first = Some(Instant::now());
        }
        all.push(frame);
    }
    assert!(!frames.broken, "{n} was cut off after {all:?}");
    let last = Instant::now();
    let text: String = all.iter().filter_map(|frame| Some(delta(format, frame)?.1)).collect();
    assert_eq!(text, said(n), "{format}");
    check(format, &session, &run, n, &all);
    let ids: HashSet<&str> = all.iter().map(|frame| frame.id.as_deref().unwrap()).collect();
    assert_eq!(ids.len(), all.len(), "{n}: an id came twice");
    Heard { session, first: first.unwrap(), last }
}

/// What a stream has besides the words: a beginning that names the run, and one end.
fn check(format: &str, session: &str, run: &str, n: usize, all: &[Frame]) {
    let done = if ["openai", "vercel"].contains(&format) { all.len() - 1 } else { all.len() };
    assert!(all[done..].iter().all(|frame| frame.data == "[DONE]"), "{n}: {all:?}");
    let all: Vec<Value> = all[..done].iter().map(Frame::json).collect();
    let of =
        |field: &str, word: &str| all.iter().filter(|data| data[field] == word).cloned().collect::<Vec<_>>();
    let [first, last] = [&all[0], &all[all.len() - 1]];
    match format {
        "native" => {
            let finished = of("kind", "run.finished");
            assert_eq!(finished.len(), 1, "{n}");
            assert_eq!(finished[0]["payload"]["answer"], said(n));
            assert_eq!(finished[0]["stream"], format!("session:{session}"));
            assert_eq!((&first["payload"]["run"], &last["stop"]), (&json!(run), &json!("end")));
        }
        "openai" => {
            assert!(all.iter().all(|chunk| chunk["id"] == format!("chatcmpl-{run}")), "{n}: {all:?}");
            assert_eq!(last["choices"][0]["finish_reason"], "stop");
        }
        "anthropic" => {
            assert_eq!(first["message"]["id"], format!("msg_{run}"));
            let stops = of("type", "message_delta");
            assert_eq!((stops.len(), &stops[0]["delta"]["stop_reason"]), (1, &json!("end_turn")));
            assert_eq!(last["type"], "message_stop");
        }
        _ => {
            assert_eq!(first["messageId"], run);
            assert_eq!((of("type", "text-end").len(), &last["finishReason"]), (1, &json!("stop")));
        }
    }
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
    // Who counts follows the journal, and may be behind.
    let line = format!("weir_runs_total{{stop=\"end\"}} {SESSIONS}\n");
    let counted = async || server.get("/metrics").await.text().contains(&line).then_some(());
    asked_again("all runs are counted", counted).await;
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

//! A thousand clients at once, in all formats, that leave and come back, while the server is killed and started again twice.
//!
//! The model answers differently on each attempt: every word of an answer names the attempt and its place. So a gap, a word that comes
//! twice and two attempts in one answer show, in whatever a client has put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};

use super::told::delta;
use super::{FORMATS, Place, Project};
use crate::kit::{Frame, Server, client, within};

const CLIENTS: usize = 1_000;

/// Runs that they follow, each of them several.
const RUNS: usize = 40;

/// Words of an answer.
const WORDS: usize = 60;

fn project() -> Project {
    let project = Project::new();
    let words: Vec<String> = (0..WORDS).map(|n| format!("{{{{attempt}}}}.{n}")).collect();
    project.write(
        "agents/counter/spec.yaml",
        "name: counter\nmodel: scripted/counter\ndescription: You count.\ntools:\n  - { name: tools/weather, access: read }\nacl: [{ principal: \"group:staff\", role: execute }]\n",
    );
    project.write(
        "models/counter.yaml",
        &format!(
            "replies:\n  - when: {{ user: '^count' }}\n    say: \"I begin.\"\n    call: [{{ tool: weather, input: {{ city: Oslo }} }}]\n  - when: {{ tool: weather }}\n    say: \"{}\"\n    delay: 250ms\n    chunk: 7\n",
            words.join(" ")
        ),
    );
    project.build();
    project
}

/// What all clients share.
struct Crowd {
    base: String,
    http: reqwest::Client,
    /// Connections at once while they are made, so that a machine under load is not flooded.
    doors: Semaphore,
    /// Clients that have heard something of the answer since the server was last started.
    hearing: AtomicUsize,
    heard: Notify,
    generation: AtomicUsize,
}

/// What one client has put together.
#[derive(Default)]
struct Client {
    frames: Vec<Frame>,
    /// Frames of streams that ended with an error, because the attempt was gone.
    given_up: Vec<Vec<Frame>>,
}

impl Crowd {
    async fn follow(&self, place: &Place, format: &str, n: usize) -> Client {
        let mut client = Client::default();
        let mut cuts = n;
        let mut noted = usize::MAX;
        loop {
            let last = client.frames.last().map(|frame| frame.id.clone().unwrap());
            let Some(mut frames) = self.connect(place, format, last.as_deref()).await else { continue };
            // Every client leaves by itself now and then, at a place of its own.
            cuts = cuts * 31 % 97;
            let leave_after = 1 + cuts;
            let mut count = 0;
            while let Some(frame) = frames.next().await {
                let generation = self.generation.load(Ordering::SeqCst);
                if noted != generation
                    && delta(format, &frame)
                        .is_some_and(|(_, text)| text.contains(|c: char| c.is_ascii_digit()))
                {
                    noted = generation;
                    self.hearing.fetch_add(1, Ordering::SeqCst);
                    self.heard.notify_waiters();
                }
                count += 1;
                let end = ended(format, &frame);
                client.frames.push(frame);
                match end {
                    Some(Ended::Well) => return client,
                    // As the error says: from the start.
                    Some(Ended::Gone) => {
                        client.given_up.push(std::mem::take(&mut client.frames));
                        break;
                    }
                    None if count == leave_after => break,
                    None => {}
                }
            }
        }
    }

    /// Tries until the server is there.
    async fn connect(&self, place: &Place, format: &str, last: Option<&str>) -> Option<crate::kit::Frames> {
        let door = self.doors.acquire().await.unwrap();
        let mut request = self.http.get(format!("{}{}", self.base, place.path(format)));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = within("an answer or a refusal", request.send()).await;
        drop(door);
        match response {
            Ok(response) => {
                assert_eq!(response.status(), 200, "{format} after {last:?}");
                Some(crate::kit::Frames::of(response))
            }
            Err(_) => {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                None
            }
        }
    }

    /// Waits until so many clients have heard something of the answer.
    async fn hears(&self, clients: usize) {
        let heard = async {
            loop {
                let heard = self.heard.notified();
                if self.hearing.load(Ordering::SeqCst) >= clients {
                    return;
                }
                heard.await;
            }
        };
        within("clients that hear something", heard).await;
    }

    fn next_generation(&self) {
        self.hearing.store(0, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

enum Ended {
    Well,
    Gone,
}

fn ended(format: &str, frame: &Frame) -> Option<Ended> {
    let data: Value = serde_json::from_str(&frame.data).unwrap_or_default();
    match format {
        "native" => (frame.event.as_deref() == Some("end")).then_some(Ended::Well),
        "vercel" => (frame.data == "[DONE]").then_some(Ended::Well),
        "openai" if frame.data == "[DONE]" => Some(Ended::Well),
        "openai" => data.get("error").map(|_| Ended::Gone),
        _ if data["type"] == "message_stop" => Some(Ended::Well),
        _ => (data["type"] == "error").then_some(Ended::Gone),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_miss_nothing_when_the_server_is_killed_twice() {
    let mut server = project().serve().start().await;
    let crowd = Arc::new(Crowd {
        base: server.base.clone(),
        http: client(),
        doors: Semaphore::new(64),
        hearing: AtomicUsize::new(0),
        heard: Notify::new(),
        generation: AtomicUsize::new(0),
    });
    let begun: FuturesUnordered<_> = (0..RUNS).map(|_| Place::begin(&server, "counter", "count")).collect();
    let places: Arc<Vec<Place>> = Arc::new(begun.collect().await);
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..CLIENTS {
        let (crowd, places) = (Arc::clone(&crowd), Arc::clone(&places));
        clients.spawn(async move {
            let (place, format) = (&places[n / FORMATS.len() % RUNS], FORMATS[n % FORMATS.len()]);
            (n, crowd.follow(place, format, n).await)
        });
    }
    for _ in 0..2 {
        crowd.hears(CLIENTS / 2).await;
        let down = server.kill();
        crowd.next_generation();
        server = down.start_again().await;
    }
    let mut followed = Vec::new();
    while let Some(done) = within_minutes(clients.join_next()).await {
        followed.push(done.unwrap());
    }
    assert_eq!(followed.len(), CLIENTS);
    check(&server, &places, &followed);
}

async fn within_minutes<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(3 * crate::kit::DEADLINE, future).await.expect("not in time: the clients' ends")
}

fn check(server: &Server, places: &[Place], followed: &[(usize, Client)]) {
    let journals: Vec<Vec<Value>> =
        places.iter().map(|place| server.project.events(&place.session)).collect();
    let (mut resets, mut gone) = (0, 0);
    for (n, client) in followed {
        let (at, format) = (n / FORMATS.len() % RUNS, FORMATS[n % FORMATS.len()]);
        let answer = answer(&journals[at]);
        let context = format!("client {n} ({format}) of {}", places[at].session);
        gone += client.given_up.len();
        for frames in &client.given_up {
            let text = text(format, frames, &context).0;
            assert!(is_one_attempt(&text), "{context}: {text}");
        }
        let (said, reset) = text(format, &client.frames, &context);
        resets += reset;
        assert_eq!(said, answer, "{context}");
        if format == "native" {
            check_events(&journals[at], &client.frames, &context);
        }
    }
    // It was not in vain: attempts were cut off while clients were listening.
    assert!(resets > 0 && gone > 0, "{resets} resets, {gone} streams that ended because an attempt was gone");
    eprintln!(
        "{CLIENTS} clients of {RUNS} runs: {resets} resets, {gone} streams ended because an attempt was gone"
    );
}

/// The answer's words, as the journal has them.
fn answer(journal: &[Value]) -> String {
    let finished = journal.iter().find(|event| event["kind"] == "run.finished").unwrap();
    let answer = finished["payload"]["answer"].as_str().unwrap();
    assert!(is_one_attempt(answer) && answer.split(' ').count() == WORDS, "{answer}");
    format!("I begin.\n\n{answer}")
}

/// Whether all words are of the same attempt, in order and from the first on; the last may be cut.
fn is_one_attempt(text: &str) -> bool {
    let text = text.strip_prefix("I begin.").unwrap_or(text).trim_start();
    let Some(attempt) = text.split('.').next() else { return true };
    let whole: Vec<String> = (0..WORDS).map(|n| format!("{attempt}.{n}")).collect();
    whole.join(" ").starts_with(text)
}

/// The text that a client has put together, as its format says; and how often something was taken back.
fn text(format: &str, frames: &[Frame], context: &str) -> (String, usize) {
    let mut resets = 0;
    // Where what may be taken back begins.
    let mut step = 0;
    // Answers, each with what names it.
    let mut answers: Vec<(String, String)> = Vec::new();
    for frame in frames {
        let data: Value = serde_json::from_str(&frame.data).unwrap_or_default();
        if data["type"] == "start-step" {
            step = answers.len();
        }
        if data["kind"] == "reset" || data["type"] == "reset-step" {
            resets += 1;
            // A part may have been begun, and nothing said in it.
            let taken_back = answers.split_off(step.min(answers.len()));
            assert!(
                taken_back.len() <= 1 && taken_back.iter().all(|(_, said)| is_one_attempt(said)),
                "{context}"
            );
            if format == "native" {
                let name = format!("{} {}", data["request"], data["attempt"]);
                assert!(
                    taken_back.iter().all(|(taken, _)| *taken == name),
                    "{context}: {name} is not what was said"
                );
            }
            continue;
        }
        if data["kind"] == "assistant.message" {
            step = answers.len();
        }
        let Some((key, delta)) = delta(format, frame) else { continue };
        let name = match format {
            "native" => format!("{} {}", data["request"], data["attempt"]),
            "openai" | "anthropic" => String::new(),
            _ => key,
        };
        if answers.last().is_none_or(|(last, _)| *last != name) {
            assert!(answers.iter().all(|(known, _)| *known != name), "{context}: {name} again");
            answers.push((name, String::new()));
        }
        let (_, said) = answers.last_mut().unwrap();
        if format == "native" {
            assert_eq!(data["offset"], said.len(), "{context}: {frame:?}");
        }
        said.push_str(&delta);
    }
    let said: Vec<String> = answers.into_iter().map(|(_, said)| said).collect();
    (said.join("\n\n"), resets)
}

/// Every event of the run came, once, in order.
fn check_events(journal: &[Value], frames: &[Frame], context: &str) {
    let start = journal.iter().position(|event| event["kind"] == "run.started").unwrap();
    let there: Vec<&str> = journal[start..]
        .iter()
        .filter(|event| event["kind"] != "text.delta")
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    let told: Vec<Value> = frames.iter().map(Frame::json).filter(|data| data.get("seq").is_some()).collect();
    let told: Vec<&str> = told.iter().map(|data| data["id"].as_str().unwrap()).collect();
    assert_eq!(told, there, "{context}");
}

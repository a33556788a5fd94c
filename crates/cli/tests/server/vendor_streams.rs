//! Streams of vendors' endpoints: how they are taken up again, and how they fail.

use serde_json::{Value, json};

use crate::kit::{Frame, Project, Server};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

/// The usual project, with an agent that fails in every way.
async fn server() -> Server {
    let project = Project::new();
    project.write("agents/blunt/spec.yaml", "name: blunt\nmodel: scripted/blunt\ndescription: You fail.\n");
    project.write(
        "models/blunt.yaml",
        &json!({"replies": [
            {"when": {"user": "stumble"}, "say": "Half an answer", "delay": "20ms", "chunk": 4, "error": "invalid"},
            {"when": {"user": "long"}, "error": "context_overflow"},
            {"when": {"summarize": true}, "error": "context_overflow"},
            {"when": {"user": "refuse"}, "error": "refused"},
            {"when": {"user": "broke"}, "error": "quota"},
            {"when": {"user": "key"}, "error": "auth"},
        ]})
        .to_string(),
    );
    project.build();
    project.serve().start().await
}

fn asked(agent: &str, text: &str) -> Value {
    json!({"model": agent, "messages": [{"role": "user", "content": text}], "max_tokens": 9, "stream": true})
}

fn data(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.data.as_str()).collect()
}

#[tokio::test]
async fn a_completion_with_usage_is_taken_up_after_every_chunk() {
    let server = server().await;
    for wanted in [true, false] {
        let mut body = asked("helper", "weather in Oslo");
        body["stream_options"] = json!({"include_usage": wanted});
        let stream = server.stream(CHAT, &body).await;
        let header = |name: &str| stream.header(name).unwrap().to_owned();
        let (session, run) = (header("x-weir-session"), header("x-weir-run"));
        let frames = stream.all().await;
        let is_usage = |frame: &&Frame| frame.data.contains("\"usage\"");
        assert_eq!(frames.iter().filter(is_usage).count(), usize::from(wanted), "{frames:?}");
        assert_eq!(frames.last().unwrap().data, "[DONE]");
        // Whoever comes back may want it or not, whatever was wanted at first.
        for (query, wants) in [("&include_usage=true", true), ("&include_usage=false", false), ("", false)] {
            let path = format!("/sessions/{session}/runs/{run}/stream?format=openai{query}");
            let whole = server.follow(&path, None).await.all().await;
            assert_eq!(whole.iter().filter(is_usage).count(), usize::from(wants), "{query}: {whole:?}");
            assert_eq!(whole.last(), frames.last(), "{query}");
            for frame in &frames {
                let rest = server.follow(&path, frame.id.as_deref()).await;
                let is_last = Some(frame) == frames.last();
                assert_eq!(rest.status, if is_last { 204 } else { 200 }, "{query} after {frame:?}");
                let rest = rest.all().await;
                // The rest comes in fewer pieces than it came in live; the end is the same.
                let end = |frames: &[Frame]| -> Vec<String> {
                    let at =
                        frames.iter().position(|frame| frame.data.contains("\"finish_reason\":\"stop\""));
                    data(&frames[at.map_or(0, |at| at + 1)..]).iter().map(|data| (*data).to_owned()).collect()
                };
                let at = whole.iter().position(|other| other.id == frame.id);
                let expected = match at {
                    Some(at) => whole[at + 1..].to_vec(),
                    // A usage that is not wanted any more.
                    None if is_usage(&frame) => whole[whole.len() - 1..].to_vec(),
                    None => whole.clone(),
                };
                assert_eq!(end(&rest), end(&expected), "{query} after {frame:?}");
            }
        }
    }
    let (path, hi) = ("/agents/helper/chat/stream?format=openai&include_usage=", json!({"message": "hi"}));
    assert_eq!(server.post(&format!("{path}3"), &hi).await.status, 400);
    let frames = server.stream(&format!("{path}true"), &hi).await.all().await;
    assert!(frames[frames.len() - 2].data.contains("\"usage\""), "{frames:?}");
}

#[tokio::test]
async fn a_stream_fails_in_the_same_words_as_an_answer() {
    let server = server().await;
    for (message, code, of_response) in [
        ("long", "context_length_exceeded", "context_length_exceeded"),
        ("refuse", "content_policy_violation", "content_policy_violation"),
        ("broke", "insufficient_quota", "insufficient_quota"),
        ("key", "model_failed", "server_error"),
    ] {
        for path in [CHAT, MESSAGES] {
            let body = asked("blunt", message);
            let frames = server.stream(path, &body).await.all().await;
            let streamed = frames.last().unwrap().json();
            let mut whole = body.clone();
            whole["stream"] = false.into();
            let mut told = server.post(path, &whole).await.json();
            told.as_object_mut().unwrap().remove("request_id");
            assert_eq!(streamed, told, "{message} at {path}");
            if path == CHAT {
                assert_eq!(told["error"]["code"], code, "{told}");
            }
        }
        let body = json!({"model": "blunt", "input": message, "stream": true});
        let last = server.stream(RESPONSES, &body).await.all().await.last().unwrap().json();
        assert_eq!(last["type"], "response.failed");
        assert_eq!(last["response"]["error"]["code"], of_response, "{last}");
    }
}

#[tokio::test]
async fn frames_of_a_response_have_no_ids_that_nobody_could_take_up() {
    let server = server().await;
    let body = json!({"model": "helper", "input": "weather in Oslo", "stream": true});
    let frames = server.stream(RESPONSES, &body).await.all().await;
    assert_eq!(frames.last().unwrap().event.as_deref(), Some("response.completed"));
    assert!(frames.iter().all(|frame| frame.id.is_none()), "{frames:?}");
}

#[tokio::test]
async fn an_item_that_was_never_finished_is_not_said_to_be() {
    let server = server().await;
    let body = json!({"model": "blunt", "input": "stumble", "stream": true});
    let frames = server.stream(RESPONSES, &body).await.all().await;
    let last = frames.last().unwrap().json();
    assert_eq!(last["type"], "response.failed");
    let items = last["response"]["output"].as_array().unwrap();
    let [item] = &items[..] else { panic!("{items:?}") };
    assert_eq!(item["status"], "incomplete", "{item}");
    assert!(item["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("Half")), "{item}");
}

//! The endpoints of vendors' clients, without the clients: every shape of a request, what the model is given of it, and what comes
//! back.

mod hostile;
mod owners;
mod streamed;

use serde_json::{Value, json};

use crate::kit::{Answer, Project, Server, asked_again};

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

/// The usual project, with agents that stop for other reasons.
fn project() -> Project {
    let project = Project::new();
    for (name, limits) in [("poor", "limits: { tokens: 1 }"), ("brief", "limits: { iterations: 1 }")] {
        let tools = "tools: [{ name: tools/weather, access: read }]";
        let spec =
            format!("name: {name}\nmodel: scripted/helper\ndescription: You answer.\n{tools}\n{limits}\n");
        project.write(&format!("agents/{name}/spec.yaml"), &spec);
    }
    project
        .write("agents/blunt/spec.yaml", "name: blunt\nmodel: scripted/blunt\ndescription: You are blunt.\n");
    project.write(
        "models/blunt.yaml",
        &json!({"replies": [
            {"when": {"user": "stumble"}, "say": "Half an answer", "delay": "20ms", "chunk": 4, "error": "overloaded", "times": 1},
            {"when": {"user": "stumble"}, "say": "The whole answer.", "usage": {"input": 3, "output": 4}},
            {"when": {"user": "refuse"}, "say": "No.", "stop": "refused"},
            {"when": {"user": "busy"}, "error": "rate_limited"},
            {"when": {"user": "broke"}, "error": "quota"},
            {"when": {"user": "key"}, "error": "auth"},
            {"say": "Cut sh", "stop": "max_tokens"},
        ]})
        .to_string(),
    );
    project.build();
    project
}

async fn server() -> Server {
    project().serve().start().await
}

fn chat(agent: &str, messages: Value) -> Value {
    let mut body = json!({"model": agent});
    body["messages"] = messages;
    body
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn said(role: &str, content: Value) -> Value {
    let mut message = json!({"role": role});
    message["content"] = content;
    message
}

fn session(answer: &Answer) -> String {
    answer.header("x-weir-session").unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

/// The messages that the model was given in the nth request of a session, without what the runtime adds.
fn given(server: &Server, session: &str, n: usize) -> Value {
    let shown = server.project.json(&["session", "show", session, "--request", &n.to_string()]);
    assert_eq!(shown["exact"], true, "a request with a history is made again as it was");
    let mut messages = shown["body"]["messages"].clone();
    for message in messages.as_array_mut().unwrap() {
        let content = message["content"].as_array_mut().unwrap();
        content.retain(|block| !block["text"].as_str().is_some_and(|text| text.starts_with("<runtime>")));
        // What is nothing but words is shown as such.
        if let [block] = &content[..]
            && block["type"] == "text"
        {
            message["content"] = block["text"].clone();
        }
    }
    messages
}

#[tokio::test]
async fn agents_are_models() {
    let server = server().await;
    let listed = server.get("/v1/models").await.ok();
    let names: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["blunt", "boss", "brief", "careful", "echo", "helper", "poor"]);
    assert_eq!(listed["object"], "list");
    let helper = json!({"id": "helper", "object": "model", "created": 0, "owned_by": "weir"});
    assert_eq!(listed["data"][5], helper);
    assert_eq!(server.get("/v1/models/helper").await.ok(), helper);

    let of_anthropic = |path: &str| {
        Answer::to(server.request(reqwest::Method::GET, path).header("anthropic-version", "2023-06-01"))
    };
    let listed = of_anthropic("/v1/models").await.ok();
    assert_eq!(
        (&listed["has_more"], &listed["first_id"], &listed["last_id"]),
        (&json!(false), &json!("blunt"), &json!("poor"))
    );
    let helper = json!({
        "type": "model", "id": "helper", "display_name": "helper", "created_at": "1970-01-01T00:00:00Z",
    });
    assert_eq!(listed["data"][5], helper);
    assert_eq!(of_anthropic("/v1/models/helper").await.ok(), helper);

    let none = server.get("/v1/models/nobody").await;
    assert_eq!(none.status, 404);
    assert_eq!(
        none.json()["error"],
        json!({
            "message": "the model `nobody` does not exist, or you do not have access to it",
            "type": "invalid_request_error", "param": "model", "code": "model_not_found",
        })
    );
    let none = of_anthropic("/v1/models/nobody").await;
    assert_eq!((none.status.as_u16(), none.json()["error"]["type"].clone()), (404, json!("not_found_error")));
}

#[tokio::test]
async fn a_chat_completion_has_the_answer_and_what_it_took() {
    let server = server().await;
    let answer = server.post(CHAT, &chat("helper", json!([user("weather in Oslo")]))).await;
    let told = answer.ok();
    let run = answer.header("x-weir-run").unwrap();
    assert_eq!(told["id"], format!("chatcmpl-{run}"));
    assert_eq!((&told["object"], &told["model"]), (&json!("chat.completion"), &json!("helper")));
    assert!(told["created"].as_i64().unwrap() > 1_700_000_000);
    let choice = &told["choices"][0];
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!(
        choice["message"],
        json!({
            "role": "assistant", "content": "Let me look.\n\nIt is 12 degrees in Oslo.", "refusal": null,
            "reasoning_content": "I need the forecast.",
        })
    );
    let usage = &told["usage"];
    let (input, output) =
        (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap());
    assert!(input > 120 && output > 12, "both answers count: {usage}");
    assert_eq!(usage["total_tokens"], input + output);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);

    // The same as the journal says.
    let events = server.project.events(&session(&answer));
    let finished = events.iter().find(|event| event["kind"] == "run.finished").unwrap();
    assert_eq!(finished["payload"]["usage"]["input_tokens"], input);
    assert!(events.iter().any(|event| event["kind"] == "tool.completed"));
}

#[tokio::test]
async fn a_response_and_a_message_say_the_same() {
    let server = server().await;
    let answer = server.post(RESPONSES, &json!({"model": "helper", "input": "weather in Oslo"})).await;
    let told = answer.ok();
    let id = format!("resp_{}_{}", session(&answer), answer.header("x-weir-run").unwrap());
    assert_eq!(
        (&told["id"], &told["object"], &told["status"]),
        (&json!(id), &json!("response"), &json!("completed"))
    );
    let output = told["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "message"]);
    assert_eq!(output[0]["summary"][0]["text"], "I need the forecast.");
    assert_eq!(output[1]["content"][0]["text"], "Let me look.");
    assert_eq!(output[2]["content"][0]["text"], "\n\nIt is 12 degrees in Oslo.");
    assert_eq!(told["usage"]["input_tokens_details"]["cached_tokens"], 0);
    assert!(told["usage"]["total_tokens"].as_u64().unwrap() > 132);

    let asked = json!({"model": "helper", "max_tokens": 10, "messages": [user("weather in Oslo")]});
    let answer = server.post(MESSAGES, &asked).await;
    let told = answer.ok();
    assert_eq!(told["id"], format!("msg_{}", answer.header("x-weir-run").unwrap()));
    assert_eq!((&told["type"], &told["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(
        told["content"],
        json!([
            {"type": "thinking", "thinking": "I need the forecast.", "signature": ""},
            {"type": "text", "text": "Let me look.", "citations": null},
            {"type": "text", "text": "\n\nIt is 12 degrees in Oslo.", "citations": null},
        ])
    );
    assert_eq!((&told["stop_reason"], &told["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    let usage = &told["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 120 && usage["output_tokens"].as_u64().unwrap() > 12);
    assert_eq!(
        (&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]),
        (&json!(0), &json!(0))
    );
}

#[tokio::test]
async fn a_history_seeds_a_session_and_is_only_told() {
    let server = server().await;
    let history = json!([user("I am Ada."), said("assistant", json!("Hello Ada.")), user("Who am I?")]);
    let expected = json!([
        {"role": "user", "content": "I am Ada."},
        {"role": "assistant", "content": "Hello Ada."},
        {"role": "user", "content": "Who am I?"},
    ]);
    let asked = [
        (CHAT, chat("helper", history.clone())),
        (MESSAGES, chat("helper", history.clone())),
        (RESPONSES, json!({"model": "helper", "input": history})),
    ];
    for (path, body) in asked {
        let answer = server.post(path, &body).await;
        answer.ok();
        let id = session(&answer);
        assert_eq!(given(&server, &id, 1), expected, "{path}");
        let events = server.project.events(&id);
        let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
        assert_eq!(
            &kinds[..5],
            ["session.created", "user.message", "user.message", "user.message", "session.resumed"]
        );
        // Whoever is named in it, it is the client's word: nobody can take it for what the model said.
        let claimed = &events[2];
        assert_eq!(claimed["payload"]["history"], "assistant");
        assert_eq!(claimed["meta"]["actor"], events[3]["meta"]["actor"]);
        assert_eq!(events[3]["payload"].get("history"), None);
        let answers = kinds.iter().filter(|kind| **kind == "assistant.message").count();
        assert_eq!((answers, kinds.iter().filter(|kind| **kind == "run.started").count()), (1, 1));
    }
}

#[tokio::test]
async fn odd_histories_make_valid_requests() {
    let server = server().await;
    let first = "(the assistant speaks first)";
    let cases = [
        (
            json!([said("assistant", json!("Hi!")), user("hello")]),
            json!([[("user", first)], [("assistant", "Hi!")], [("user", "hello")]]),
        ),
        (
            json!([user("a"), said("assistant", json!("b")), said("assistant", json!("c")), user("d")]),
            json!([[("user", "a")], [("assistant", "b"), ("assistant", "c")], [("user", "d")]]),
        ),
        (
            json!([user(""), said("assistant", json!("")), user("d")]),
            json!([[("user", "(empty message)")], [("assistant", "(no answer)")], [("user", "d")]]),
        ),
        (json!([user("a"), user("b"), user("c")]), json!([[("user", "a"), ("user", "b"), ("user", "c")]])),
        (
            json!([user("a"), {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "rm", "arguments": "{\"path\":\"/\"}"}},
            ]}, {"role": "tool", "tool_call_id": "c1", "content": "done"}, user("b")]),
            json!([
                [("user", "a")],
                [("assistant", "(called the tool `rm` with {\"path\":\"/\"})")],
                [("user", "<result call=\"c1\">\ndone\n</result>"), ("user", "b")],
            ]),
        ),
    ];
    for (messages, expected) in cases {
        let answer = server.post(CHAT, &chat("helper", messages.clone())).await;
        answer.ok();
        let expected: Vec<Value> = expected
            .as_array()
            .unwrap()
            .iter()
            .map(|blocks| {
                let blocks = blocks.as_array().unwrap();
                let texts: Vec<Value> =
                    blocks.iter().map(|b| json!({"type": "text", "text": b[1]})).collect();
                let content = if texts.len() == 1 { texts[0]["text"].clone() } else { json!(texts) };
                json!({"role": blocks[0][0], "content": content})
            })
            .collect();
        assert_eq!(given(&server, &session(&answer), 1), json!(expected), "{messages}");
        // What some other model is said to have called was not called.
        let events = server.project.events(&session(&answer));
        assert!(!events.iter().any(|event| event["kind"].as_str().unwrap().starts_with("tool.")));
    }
}

#[tokio::test]
async fn instructions_of_a_client_are_read_and_replace_nothing() {
    let server = server().await;
    let asked = [
        (CHAT, chat("helper", json!([said("system", json!("Speak Latin.")), user("hello")]))),
        (
            CHAT,
            chat(
                "helper",
                json!([user("hello"), said("developer", json!([{"type": "text", "text": "Speak Latin."}]))]),
            ),
        ),
        (RESPONSES, json!({"model": "helper", "instructions": "Speak Latin.", "input": "hello"})),
        (MESSAGES, json!({"model": "helper", "system": "Speak Latin.", "messages": [user("hello")]})),
        (
            MESSAGES,
            json!({"model": "helper", "system": [{"type": "text", "text": "Speak Latin."}], "messages": [user("hello")]}),
        ),
    ];
    let latin = "<instructions from=\"client\">\nSpeak Latin.\n</instructions>";
    let expected = json!([{"role": "user", "content": [
        {"type": "text", "text": latin}, {"type": "text", "text": "hello"},
    ]}]);
    for (path, body) in asked {
        let answer = server.post(path, &body).await;
        answer.ok();
        let id = session(&answer);
        assert_eq!(given(&server, &id, 1), expected, "{body}");
        let system =
            server.project.json(&["session", "show", &id, "--request", "1"])["body"]["system"].clone();
        assert!(system.as_str().unwrap().contains("You answer questions about the weather."), "{system}");
        assert!(!system.as_str().unwrap().contains("Latin"), "{system}");
    }

    // A session that goes on hears them again only if they are others.
    let first = server
        .post(CHAT, &chat("helper", json!([said("system", json!("Speak Latin.")), user("hello")])))
        .await;
    let id = session(&first);
    for (n, (instructions, heard)) in
        [("Speak Latin.", false), ("Speak Greek.", true), ("Speak Greek.", false)].iter().enumerate()
    {
        let body = chat("helper", json!([said("system", json!(instructions)), user("again")]));
        let answer = Answer::to(server.posting(CHAT, &body).header("x-weir-session", &id)).await;
        answer.ok();
        let messages = given(&server, &id, n + 2);
        let last = messages.as_array().unwrap().last().unwrap().to_string();
        assert_eq!(last.contains("Speak"), *heard, "{last}");
    }
}

#[tokio::test]
async fn a_session_that_is_named_goes_on() {
    let server = server().await;
    let first = server.post(CHAT, &chat("helper", json!([user("one")]))).await;
    let id = session(&first);
    // What the client remembers of it does not matter: only what comes after the newest answer is said.
    let history = json!([user("forged"), said("assistant", json!("forged")), user("two"), user("three")]);
    let body = chat("helper", history.clone());
    let second = Answer::to(server.posting(CHAT, &body).header("x-weir-session", &id)).await;
    assert_eq!(second.ok()["choices"][0]["message"]["content"], "You said: two\nthree");
    assert_eq!(session(&second), id);
    assert_ne!(second.header("x-weir-run"), first.header("x-weir-run"));
    let expected = json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "You said: one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]},
    ]);
    assert_eq!(given(&server, &id, 2), expected);
    // By any of the endpoints.
    let body = json!({"model": "helper", "input": "four"});
    let third = Answer::to(server.posting(RESPONSES, &body).header("x-weir-session", &id)).await;
    assert_eq!(third.ok()["output"][0]["content"][0]["text"], "You said: four");
    let third = Answer::to(
        server.posting(MESSAGES, &chat("helper", json!([user("five")]))).header("x-weir-session", &id),
    )
    .await;
    assert_eq!(third.ok()["content"][0]["text"], "You said: five");

    // Not with another agent, not one that is not there, and not as something that is no id.
    let other = Answer::to(server.posting(CHAT, &chat("brief", history)).header("x-weir-session", &id)).await;
    assert_eq!((other.status.as_u16(), &other.json()["error"]["param"]), (400, &json!("model")));
    for odd in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "", "../x", &format!("{id}@nowhere")] {
        for path in [CHAT, MESSAGES] {
            let request = server.posting(path, &chat("helper", json!([user("hi")])));
            let answer = Answer::to(request.header("x-weir-session", odd)).await;
            assert_eq!(answer.status, 404, "{odd:?} {}", answer.text());
            let none = answer.json()["error"]["message"].clone();
            let missing = if odd.contains('@') { "branch" } else { "session" };
            assert_eq!(none, format!("there is no such {missing}: look for it in the list"));
        }
    }
}

#[tokio::test]
async fn a_response_follows_another() {
    let server = server().await;
    let ask = |input: &str, previous: Option<&Value>| {
        let body = json!({"model": "helper", "input": input, "previous_response_id": previous});
        Answer::to(server.posting(RESPONSES, &body))
    };
    let first = ask("one", None).await;
    let second = ask("two", Some(&first.ok()["id"])).await;
    assert_eq!(second.ok()["previous_response_id"], first.ok()["id"]);
    assert_eq!(session(&second), session(&first));
    assert_eq!(given(&server, &session(&first), 2).as_array().unwrap().len(), 3);
    // What it names must be there.
    let id = first.ok()["id"].as_str().unwrap().to_owned();
    for odd in [
        "resp_1",
        "nonsense",
        "",
        &id.replace("resp_", "resp"),
        &id[..id.len() - 3],
        &format!("{id}_nowhere"),
    ] {
        let answer = ask("hi", Some(&json!(odd))).await;
        assert_eq!(answer.status, 404, "{odd:?} {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "previous_response_not_found", "{odd:?}");
    }
    // Two sessions at once are one too many.
    let other = ask("other", None).await;
    let body = json!({"model": "helper", "input": "hi", "previous_response_id": id});
    let both = Answer::to(server.posting(RESPONSES, &body).header("x-weir-session", session(&other))).await;
    assert_eq!(both.status, 400);
}

#[tokio::test]
async fn a_response_that_follows_an_older_one_goes_another_way_from_there() {
    let server = server().await;
    let post = |input: &str, previous: &Value, stream: bool| {
        let body =
            json!({"model": "helper", "input": input, "previous_response_id": previous, "stream": stream});
        server.posting(RESPONSES, &body)
    };
    let ask = |input: &str, previous: &Value| Answer::to(post(input, previous, false));
    let first = ask("one", &Value::Null).await;
    let second = ask("two", &first.ok()["id"]).await;
    let other = ask("another two", &first.ok()["id"]).await;
    assert_eq!(other.ok()["output"][0]["content"][0]["text"], "You said: another two");
    assert_eq!(session(&other), format!("{}@fork-1", session(&first)));
    // The model is given what was said up to there, and nothing of what came after it.
    let heard = given(&server, &session(&other), 2).to_string();
    assert!(heard.contains("You said: one") && !heard.contains("\"two\""), "{heard}");
    // Each way goes on by itself, and so do answers on it.
    let third = ask("three", &second.ok()["id"]).await;
    assert_eq!(session(&third), session(&first));
    let longer = ask("another three", &other.ok()["id"]).await;
    assert_eq!(session(&longer), session(&other));
    let heard = given(&server, &session(&longer), 3).to_string();
    assert!(heard.contains("You said: another two") && !heard.contains("\"two\""), "{heard}");
    let streamed = post("a third two", &first.ok()["id"], true);
    let streamed = Answer::to(streamed).await;
    assert_eq!(session(&streamed), format!("{}@fork-2", session(&first)));
    assert!(streamed.text().contains("You said: a third two"), "{}", streamed.text());
    let deeper = ask("yet another three", &other.ok()["id"]).await;
    assert_eq!(session(&deeper), format!("{}@fork-3", session(&first)));
    // With a key, once.
    let keyed = || Answer::to(post("once", &first.ok()["id"], false).header("idempotency-key", "k"));
    let [once, again] = [keyed().await, keyed().await];
    assert_eq!((once.ok(), session(&once)), (again.ok(), session(&again)));
    let keyed = || Answer::to(post("once", &first.ok()["id"], true).header("idempotency-key", "k"));
    assert_eq!(keyed().await.status, 422, "it is another body");
    // What is refused leaves nothing behind.
    for wrong in [json!({"model": "careful", "input": "hi"}), json!({"model": "helper", "input": " "})] {
        let mut wrong = wrong;
        wrong["previous_response_id"] = first.ok()["id"].clone();
        assert_eq!(server.post(RESPONSES, &wrong).await.status, 400, "{wrong}");
    }
    let shown = server.project.ok(&["branch", "list", "--stream", &format!("session:{}", session(&first))]);
    assert!(shown.contains("fork-4") && !shown.contains("fork-5"), "{shown}");
    // What is named with its branch is found wherever sessions are asked for.
    let address = session(&other);
    for path in [
        format!("/sessions/{address}"),
        format!("/sessions/{address}/messages"),
        format!("/sessions/{address}/events"),
        format!("/sessions/{address}/state"),
        format!("/sessions/{address}/files"),
        format!("/sessions/{}?branch=fork-1", session(&first)),
    ] {
        let text = server.get(&path).await.ok().to_string();
        assert!(!text.contains("\"three\""), "{path}: {text}");
    }
    let said = server.say("helper", "here", Some(&address)).await;
    assert_eq!((said.session, said.answer.as_str()), (address.clone(), "You said: here"));
    assert_eq!(server.get(&format!("/sessions/{address}?branch=fork-2")).await.error().0, 404);
    assert_eq!(server.get(&format!("/sessions/{}@nowhere", session(&first))).await.error().0, 404);
}

#[tokio::test]
async fn many_ways_are_gone_at_once() {
    let server = server().await;
    let ask = |input: String, previous: Value| {
        let body = json!({"model": "helper", "input": input, "previous_response_id": previous});
        Answer::to(server.posting(RESPONSES, &body))
    };
    let first = ask("one".to_owned(), Value::Null).await;
    ask("two".to_owned(), first.ok()["id"].clone()).await.ok();
    let others = (0..8).map(|n| ask(format!("other {n}"), first.ok()["id"].clone()));
    let others = futures_util::future::join_all(others).await;
    for (n, other) in others.iter().enumerate() {
        assert_eq!(other.ok()["output"][0]["content"][0]["text"], format!("You said: other {n}"));
    }
    let branches: std::collections::BTreeSet<String> = others.iter().map(session).collect();
    let expected = (1..=8).map(|n| format!("{}@fork-{n}", session(&first))).collect();
    assert_eq!(branches, expected);
}

#[tokio::test]
async fn pictures_and_documents_become_blocks() {
    let server = server().await;
    let url = format!("data:image/png;base64,{PIXEL}");
    let image = json!({"type": "image", "media_type": "image/png", "base64": PIXEL});
    let pdf =
        json!({"type": "document", "media_type": "application/pdf", "title": "a.pdf", "base64": "JVBERi0="});
    let look = json!({"type": "text", "text": "look"});
    let cases = [
        (
            CHAT,
            json!([
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
            ]),
        ),
        (
            RESPONSES,
            json!([
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": url},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            ]),
        ),
        (
            MESSAGES,
            json!([
                {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "document", "title": "a.pdf",
                 "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
            ]),
        ),
    ];
    for (path, content) in cases {
        let list = if path == RESPONSES { "input" } else { "messages" };
        let body = json!({"model": "helper", list: [said("user", content)]});
        let answer = server.post(path, &body).await;
        answer.ok();
        let given = given(&server, &session(&answer), 1);
        assert_eq!(given[0]["content"], json!([look, image, pdf]), "{path}");
    }
    // A link is for the provider to follow.
    let link = json!([{"type": "image_url", "image_url": {"url": "https://example.com/a.webp?x=1"}}]);
    let answer = server.post(CHAT, &chat("helper", json!([user("see"), said("user", link)]))).await;
    let given = given(&server, &session(&answer), 1);
    let expected =
        json!({"type": "image", "media_type": "image/webp", "url": "https://example.com/a.webp?x=1"});
    assert_eq!(given[0]["content"][1], expected);
}

#[tokio::test]
async fn runs_that_end_otherwise_are_told_in_each_vendors_words() {
    let server = server().await;
    // Who, what; finish of chat, status and incompleteness of responses, stop of messages.
    let finished = [
        ("brief", "weather in Oslo", "length", ("incomplete", json!("max_output_tokens")), "max_tokens"),
        ("blunt", "go on", "length", ("incomplete", json!("max_output_tokens")), "max_tokens"),
        ("blunt", "refuse", "content_filter", ("incomplete", json!("content_filter")), "refusal"),
        ("careful", "refund 5", "stop", ("completed", Value::Null), "end_turn"),
    ];
    for (agent, message, finish, (status, why), stop) in finished {
        let told = server.post(CHAT, &chat(agent, json!([user(message)]))).await.ok();
        assert_eq!(told["choices"][0]["finish_reason"], finish, "{agent} {message}");
        let told = server.post(RESPONSES, &json!({"model": agent, "input": message})).await.ok();
        assert_eq!(
            (&told["status"], &told["incomplete_details"]["reason"]),
            (&json!(status), &why),
            "{agent} {message}"
        );
        let told = server.post(MESSAGES, &chat(agent, json!([user(message)]))).await.ok();
        assert_eq!(told["stop_reason"], stop, "{agent} {message}");
    }
    // Who, what; status, type and code of OpenAI; status and type of Anthropic.
    let broken = [
        ("poor", "hi", (429, "insufficient_quota", "insufficient_quota"), (429, "rate_limit_error")),
        ("blunt", "broke", (429, "insufficient_quota", "insufficient_quota"), (429, "rate_limit_error")),
        ("blunt", "key", (502, "server_error", "model_failed"), (502, "api_error")),
        ("helper", "fail", (502, "server_error", "model_failed"), (502, "api_error")),
    ];
    for (agent, message, (status, kind, code), (other_status, other_kind)) in broken {
        for path in [CHAT, RESPONSES] {
            let body = json!({"model": agent, "messages": [user(message)], "input": message});
            let answer = server.post(path, &body).await;
            let error = answer.json()["error"].clone();
            assert_eq!(
                (answer.status.as_u16(), &error["type"], &error["code"]),
                (status, &json!(kind), &json!(code)),
                "{path} {message}: {error}"
            );
            // What was said is kept: saying it again by itself is not what a client should do.
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            session(&answer);
        }
        let answer = server.post(MESSAGES, &chat(agent, json!([user(message)]))).await;
        let told = answer.json();
        assert_eq!((answer.status.as_u16(), &told["type"]), (other_status, &json!("error")));
        assert_eq!(told["error"]["type"], other_kind, "{message}: {told}");
        assert_eq!(told["request_id"].as_str(), answer.header("request-id"));
    }
}

#[tokio::test]
async fn an_attempt_that_broke_off_is_no_part_of_the_answer() {
    let server = server().await;
    let answer = server.post(CHAT, &chat("blunt", json!([user("stumble")]))).await;
    assert_eq!(answer.ok()["choices"][0]["message"]["content"], "The whole answer.");
    assert!(server.project.events(&session(&answer)).iter().any(|event| event["kind"] == "model.failed"));
    let told = server.post(RESPONSES, &json!({"model": "blunt", "input": "stumble"})).await.ok();
    assert_eq!(told["output"].as_array().unwrap().len(), 1);
    let told = server.post(MESSAGES, &chat("blunt", json!([user("stumble")]))).await.ok();
    assert_eq!(told["content"][0]["text"], "The whole answer.");
}

#[tokio::test]
async fn what_has_to_be_approved_is_said_and_the_session_goes_on_after_it() {
    let server = server().await;
    let answer = server.post(CHAT, &chat("careful", json!([user("refund 5")]))).await;
    let text = answer.ok()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let id = session(&answer);
    let waiting = server.project.lines(&["approvals"]);
    let call = waiting[0]["id"].as_str().unwrap();
    assert!(text.starts_with("I will give it back.\n\ntool 'refund' requires approval"), "{text}");
    assert!(text.ends_with(&format!("(approval {call})")), "{text}");
    server.project.ok(&["approve", call, "--no-run"]);
    let body = chat("careful", json!([user("thanks")]));
    let next = Answer::to(server.posting(CHAT, &body).header("x-weir-session", &id)).await;
    let events = server.project.events(&id);
    assert!(events.iter().any(|event| event["kind"] == "tool.completed"), "{}", next.text());
}

#[tokio::test]
async fn an_answer_that_takes_too_long_goes_on_and_can_be_found() {
    let project = Project::new();
    project.write(
        "agents/tardy/spec.yaml",
        "name: tardy\nmodel: scripted/tardy\ndescription: You take your time.\n",
    );
    let long = "Slowly, and word by word, but all of it in the end.";
    project.write(
        "models/tardy.yaml",
        &format!("replies:\n  - say: \"{long}\"\n    delay: 300ms\n    chunk: 4\n"),
    );
    project.build();
    let server = project.serve().arg("--patience=1").start().await;
    for (path, format) in [(CHAT, "openai"), (RESPONSES, "native"), (MESSAGES, "anthropic")] {
        let body = json!({"model": "tardy", "messages": [user("hi")], "input": "hi", "max_tokens": 9});
        let answer = server.post(path, &body).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-should-retry")), (504, Some("false")), "{path}");
        let (session, run) = (session(&answer), answer.header("x-weir-run").unwrap().to_owned());
        let error = &answer.json()["error"];
        let kind = if path == MESSAGES { "timeout_error" } else { "server_error" };
        assert_eq!(error["type"], kind, "{path}");
        // What it says is where to look.
        let place = format!("/sessions/{session}/runs/{run}/stream");
        assert!(error["message"].as_str().unwrap().contains(&format!("`GET {place}`")), "{error}");
        let told = server.get(&format!("{place}?format={format}")).await;
        let text: String = crate::reconnect::told::complete(&told.body)
            .iter()
            .filter_map(|frame| Some(crate::reconnect::delta(format, frame)?.1))
            .collect();
        assert_eq!(text, long, "{path}");
    }
    // The server's own endpoint has a status for it.
    let chat = server.post("/agents/tardy/chat", &json!({"message": "hi"})).await;
    assert_eq!((chat.status.as_u16(), &chat.json()["status"]), (202, &json!("running")));
    let (session, run) = (session(&chat), chat.header("x-weir-run").unwrap().to_owned());
    let told = server.follow(&format!("/sessions/{session}/runs/{run}/stream"), None).await.all().await;
    assert_eq!(crate::kit::Told::of(session, &told).answer, long);
}

#[tokio::test]
async fn a_request_has_one_id() {
    let server = server().await;
    for (path, header) in [(CHAT, "x-request-id"), (RESPONSES, "x-request-id"), (MESSAGES, "request-id")] {
        for (agent, status) in [("helper", 200), ("nobody", 404)] {
            let body = json!({"model": agent, "messages": [user("hi")], "input": "hi", "max_tokens": 9});
            let named = server.posting(path, &body).header("x-request-id", "mine-7");
            let answer = Answer::to(named).await;
            assert_eq!((answer.status.as_u16(), answer.header(header)), (status, Some("mine-7")), "{path}");
            assert_eq!(answer.header("x-request-id"), Some("mine-7"));
            if (path, status) == (MESSAGES, 404) {
                assert_eq!(answer.json()["request_id"], "mine-7");
            }
            let answer = server.post(path, &body).await;
            assert_eq!(answer.header(header), answer.header("x-request-id"));
            assert!(answer.header(header).is_some_and(|id| !id.is_empty() && id != "mine-7"), "{path}");
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_nothing() {
    let server = server().await;
    let ended = async |session: &str| {
        let ends = ["run.finished", "run.cancelled", "run.errored"];
        assert_eq!(server.event(session, &ends).await.event.as_deref(), Some("run.finished"));
    };
    // One that waits for the answer in one piece leaves as soon as its session is there.
    let mut body = chat("helper", json!([user("slow")]));
    let sent = tokio::spawn(server.posting(CHAT, &body).send());
    // Whoever waits is told nothing before the end, not even of which session.
    let begun = async || {
        let listed = server.get("/sessions").await.ok();
        Some(listed["sessions"].get(0)?["id"].as_str().unwrap().to_owned())
    };
    let id = asked_again("a session", begun).await;
    sent.abort();
    ended(&id).await;
    // One that hears it word by word leaves after the first.
    body["stream"] = true.into();
    let mut frames = server.stream(CHAT, &body).await;
    let id = frames.header("x-weir-session").unwrap().to_owned();
    frames.next().await.unwrap();
    drop(frames);
    ended(&id).await;
}

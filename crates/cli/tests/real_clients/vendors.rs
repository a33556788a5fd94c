//! OpenAI's and Anthropic's own clients, and the AI SDK.

use serde_json::{Value, json};

use crate::clients::{node, python};
use crate::kit::{Project, Server};

const ANSWER: &str = "Let me look.\n\nIt is 18 degrees in Lisbon.";

/// The usual project, and an agent that can afford nothing.
async fn server() -> Server {
    let project = Project::new();
    let spec = "name: poor\nmodel: scripted/helper\ndescription: You answer.\nlimits: { tokens: 1 }\n";
    project.write("agents/poor/spec.yaml", spec);
    project.build();
    project.serve().start().await
}

fn told(server: &Server, part: &str) -> Value {
    json!({"base": server.base, "part": part})
}

/// Whether a session has used its tool.
fn has_used_a_tool(server: &Server, session: &Value) -> bool {
    let events = server.project.events(session.as_str().unwrap());
    events.iter().any(|event| event["kind"] == "tool.completed")
}

fn sessions(server: &Server) -> usize {
    server.project.lines(&["session", "list"]).len()
}

#[tokio::test]
async fn openai_chat() {
    let server = server().await;
    let out = python("openai_chat", &told(&server, "turn"));
    let choice = &out["answer"]["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!(ANSWER), &json!("stop")));
    assert!(has_used_a_tool(&server, &out["session"]));
    assert_eq!((&out["streamed"], &out["joined"]), (&json!(ANSWER), &json!(ANSWER)));
    assert_eq!(out["finish"], json!(["stop"]));
    for usage in [&out["answer"]["usage"], &out["usage"]] {
        let [input, output, total] =
            ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| usage[name].as_u64().unwrap());
        assert!(input > 120 && output > 12 && total == input + output, "{usage}");
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
    }
    assert_eq!(out["history"], "You said: thanks");
    assert_eq!((&out["more"], &out["same"]), (&json!("You said: and then?"), &json!(true)));
    assert_eq!(out["models"], json!(["boss", "careful", "echo", "helper", "poor"]));
    assert_eq!((&out["model"]["id"], &out["model"]["owned_by"]), (&json!("helper"), &json!("weir")));
    let asks = out["asks"].as_str().unwrap();
    assert!(asks.contains("tool 'refund' requires approval") && asks.contains("(approval "), "{asks}");
}

#[tokio::test]
async fn openai_chat_raises_its_own_errors() {
    let server = server().await;
    let out = python("openai_chat", &told(&server, "errors"));
    assert_eq!(
        out["missing"],
        json!({"class": "NotFoundError", "status": 404, "code": "model_not_found", "param": "model"})
    );
    assert_eq!(
        out["tools"],
        json!({"class": "BadRequestError", "status": 400, "code": "invalid_value", "param": "tools"})
    );
    assert_eq!(out["several"]["class"], "BadRequestError");
    assert_eq!(
        out["budget"],
        json!({"class": "RateLimitError", "status": 429, "code": "insufficient_quota", "param": null})
    );
    assert_eq!(
        (&out["failed"]["class"], &out["failed"]["status"]),
        (&json!("InternalServerError"), &json!(502))
    );
    assert_eq!(
        (&out["in_stream"]["class"], &out["in_stream"]["type"]),
        (&json!("APIError"), &json!("server_error"))
    );
    let message = out["in_stream"]["message"].as_str().unwrap();
    assert!(message.contains("the script fails here"), "{message}");
    assert_eq!(out["model"], "model_not_found");
    // One for each thing that was said: a client that would try again by itself is told that it must not.
    assert_eq!(sessions(&server), 3);
}

#[tokio::test]
async fn openai_responses() {
    let server = server().await;
    let out = python("openai_responses", &told(&server, "turn"));
    for (text, whole) in [("text", "answer"), ("final_text", "final")] {
        assert_eq!((&out[text], &out[whole]["status"]), (&json!(ANSWER), &json!("completed")));
        let usage = &out[whole]["usage"];
        assert!(usage["input_tokens"].as_u64().unwrap() > 120, "{usage}");
        assert_eq!(usage["input_tokens_details"]["cached_tokens"], 0);
    }
    assert_eq!((&out["streamed"], &out["thought"]), (&json!(ANSWER), &json!("I need the forecast.")));
    let kinds = out["kinds"].as_array().unwrap();
    assert_eq!(
        (&kinds[0], kinds.last().unwrap()),
        (&json!("response.created"), &json!("response.completed"))
    );
    let sequence: Vec<u64> =
        out["sequence"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(sequence, (0..sequence.len() as u64).collect::<Vec<_>>());
    let session = out["answer"]["id"].as_str().unwrap().split('_').nth(1).unwrap().to_owned();
    assert!(has_used_a_tool(&server, &json!(session)));
    assert_eq!(out["history"], "You said: thanks");
    assert_eq!(out["follow"], json!({"text": "You said: and then?", "previous": true}));
    let (other, streamed) = (&out["other"], &out["streamed_other"]);
    assert_eq!((&other["text"], &other["more"]), (&json!("You said: or what?"), &json!("You said: and on")));
    assert_eq!(streamed["text"], "You said: or so?");
    for (id, branch) in [(&other["id"], "fork-1"), (&other["more_id"], "fork-1"), (&streamed["id"], "fork-2")]
    {
        let parts: Vec<&str> = id.as_str().unwrap().split('_').collect();
        assert_eq!((parts[1], parts[3]), (session.as_str(), branch), "{id}");
    }
    assert!(out["asks"].as_str().unwrap().contains("tool 'refund' requires approval"), "{}", out["asks"]);
    assert_eq!(
        out["missing"],
        json!({"class": "NotFoundError", "code": "model_not_found", "param": "model"})
    );
    assert_eq!(out["tools"]["class"], "BadRequestError");
    assert_eq!(
        (&out["no_previous"]["class"], &out["no_previous"]["code"]),
        (&json!("NotFoundError"), &json!("previous_response_not_found"))
    );
    assert_eq!(out["budget"]["class"], "RateLimitError");
    assert_eq!(out["failed"], json!({"type": "response.failed", "status": "failed", "code": "server_error"}));
}

#[tokio::test]
async fn anthropic() {
    let server = server().await;
    let out = python("anthropic_messages", &told(&server, "turn"));
    assert_eq!(out["streamed"], ANSWER);
    for whole in ["answer", "final"] {
        let message = &out[whole];
        let blocks = message["content"].as_array().unwrap();
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["thinking", "text", "text"], "{whole}");
        let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        assert_eq!((text.as_str(), &message["stop_reason"]), (ANSWER, &json!("end_turn")));
        let usage = &message["usage"];
        assert!(
            usage["input_tokens"].as_u64().unwrap() > 120 && usage["output_tokens"].as_u64().unwrap() > 12,
            "{whole}: {usage}"
        );
        assert_eq!(
            (&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]),
            (&json!(0), &json!(0))
        );
    }
    assert!(has_used_a_tool(&server, &out["session"]));
    assert_eq!(out["history"], "You said: thanks");
    assert_eq!((&out["more"], &out["same"]), (&json!("You said: and then?"), &json!(true)));
    assert_eq!(out["models"], json!(["boss", "careful", "echo", "helper", "poor"]));
    assert_eq!(out["model"], "helper");
    assert!(out["asks"].as_str().unwrap().contains("tool 'refund' requires approval"), "{}", out["asks"]);
}

#[tokio::test]
async fn anthropic_raises_its_own_errors() {
    let server = server().await;
    let out = python("anthropic_messages", &told(&server, "errors"));
    let expected = [
        ("missing", "NotFoundError", 404, "not_found_error"),
        ("tools", "BadRequestError", 400, "invalid_request_error"),
        ("budget", "RateLimitError", 429, "rate_limit_error"),
        ("failed", "InternalServerError", 502, "api_error"),
    ];
    for (name, class, status, kind) in expected {
        assert_eq!(
            out[name],
            json!({"class": class, "status": status, "type": kind, "request_id": true}),
            "{name}"
        );
    }
    assert_eq!(out["in_stream"], "api_error");
    assert_eq!(sessions(&server), 3);
}

#[tokio::test]
async fn ai_sdk_with_a_compatible_server() {
    let server = server().await;
    let out = node("ai_compatible", &told(&server, "turn"));
    assert_eq!((&out["text"], &out["reasoning"]), (&json!(ANSWER), &json!("I need the forecast.")));
    assert_eq!(out["finish"], "stop");
    let usage = &out["usage"];
    assert!(
        usage["inputTokens"].as_u64().unwrap() > 120 && usage["outputTokens"].as_u64().unwrap() > 12,
        "{usage}"
    );
    assert_eq!(out["history"], "You said: thanks");
    assert_eq!((&out["more"], &out["same"]), (&json!("You said: and then?"), &json!(true)));
    assert_eq!((&out["missing"]["is"], &out["missing"]["status"]), (&json!(true), &json!(404)));
    assert!(out["missing"]["message"].as_str().unwrap().contains("`nobody` does not exist"));
    assert!(
        out["failed"].as_str().is_some_and(|message| message.contains("script fails here")),
        "{}",
        out["failed"]
    );
}

#[tokio::test]
async fn strangers_are_told_in_each_vendors_own_class() {
    let project = Project::new();
    let issued = project.json(&["token", "issue", "--principal", "user:alice"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let ask = |script: &str, part: &str, more: Value| {
        let mut told = told(&server, part);
        told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        python(script, &told)
    };
    let out = ask("openai_chat", "stranger", json!({"key": "wrong"}));
    assert_eq!(
        out["stranger"],
        json!({"class": "AuthenticationError", "status": 401, "code": "invalid_api_key", "param": null})
    );
    let out = ask("anthropic_messages", "stranger", json!({"key": "wrong"}));
    assert_eq!(
        out["stranger"],
        json!({"class": "AuthenticationError", "status": 401, "type": "authentication_error", "request_id": true})
    );
    // Either of the headers that Anthropic's client can send.
    for how in ["key", "token"] {
        let out = ask("anthropic_messages", "who", json!({how: issued["token"]}));
        assert_eq!(out["answer"], "You said: hi", "{how}");
    }
    // The agents that she may talk to, and no others.
    let out = ask("openai_chat", "turn", json!({"key": issued["token"]}));
    assert_eq!(out["models"], json!(["boss", "careful", "helper"]));
}

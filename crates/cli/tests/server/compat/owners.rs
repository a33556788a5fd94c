//! Whose sessions and agents are whose, for vendors' clients.

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, MESSAGES, RESPONSES, chat, project, session, user};
use crate::kit::{Answer, Server};

struct Two {
    server: Server,
    alice: String,
    bob: String,
}

async fn two() -> Two {
    let project = project();
    let token = |name: &str| {
        let issued = project.json(&["token", "issue", "--principal", &format!("user:{name}")]);
        issued["token"].as_str().unwrap().to_owned()
    };
    let (alice, bob) = (token("alice"), token("bob"));
    Two { server: project.serve().arg("--auth-tokens").start().await, alice, bob }
}

impl Two {
    async fn post(&self, token: &str, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.server.posting(path, body).bearer_auth(token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::to(request).await
    }
}

#[tokio::test]
async fn who_asks_is_told_in_either_header() {
    let two = two().await;
    let body = json!({"model": "helper", "messages": [user("hi")], "input": "hi"});
    for path in [CHAT, RESPONSES, MESSAGES] {
        let key = two.server.posting(path, &body).header("x-api-key", &two.alice);
        assert_eq!(Answer::to(key).await.status, 200, "{path}");
        assert_eq!(two.post(&two.alice, path, &body, &[]).await.status, 200, "{path}");
        for request in
            [two.server.posting(path, &body), two.server.posting(path, &body).header("x-api-key", "wrong")]
        {
            let answer = Answer::to(request).await;
            assert_eq!(answer.status, 401);
            let error = &answer.json()["error"];
            match path {
                MESSAGES => assert_eq!(error["type"], "authentication_error"),
                _ => assert_eq!(
                    (&error["type"], &error["code"]),
                    (&json!("invalid_request_error"), &json!("invalid_api_key"))
                ),
            }
        }
    }
    let models =
        Answer::to(two.server.request(Method::GET, "/v1/models").header("anthropic-version", "x")).await;
    assert_eq!(
        (models.status.as_u16(), &models.json()["error"]["type"]),
        (401, &json!("authentication_error"))
    );
}

#[tokio::test]
async fn agents_that_someone_may_not_talk_to_are_not_there() {
    let two = two().await;
    let get = |path: &str| Answer::to(two.server.request(Method::GET, path).bearer_auth(&two.alice));
    let listed = get("/v1/models").await.ok();
    let names: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(names, ["boss", "careful", "helper"]);
    // Byte for byte like one that never was, but for the name.
    let (hidden, none) = (get("/v1/models/echo").await, get("/v1/models/ehco").await);
    assert_eq!((hidden.status, hidden.text().replace("echo", "ehco")), (none.status, none.text().to_owned()));
    for path in [CHAT, RESPONSES, MESSAGES] {
        let ask = |model: &str| json!({"model": model, "messages": [user("hi")], "input": "hi"});
        let hidden = two.post(&two.alice, path, &ask("echo"), &[]).await;
        let none = two.post(&two.alice, path, &ask("ehco"), &[]).await;
        let words = |answer: &Answer| answer.json()["error"].to_string().replace("echo", "ehco");
        assert_eq!((hidden.status.as_u16(), words(&hidden)), (404, words(&none)), "{path}");
    }
}

#[tokio::test]
async fn sessions_of_others_are_not_there() {
    let two = two().await;
    let hers = two.post(&two.alice, RESPONSES, &json!({"model": "helper", "input": "secret"}), &[]).await;
    let (response, id) = (hers.ok()["id"].clone(), session(&hers));
    let body = json!({"model": "helper", "messages": [user("hi")], "input": "hi"});
    let never = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for path in [CHAT, RESPONSES, MESSAGES] {
        let asked = two.post(&two.bob, path, &body, &[("x-weir-session", &id)]).await;
        let none = two.post(&two.bob, path, &body, &[("x-weir-session", never)]).await;
        assert_eq!((asked.status.as_u16(), &asked.json()["error"]), (404, &none.json()["error"]), "{path}");
        let own = two.post(&two.alice, path, &body, &[("x-weir-session", &id)]).await;
        assert_eq!(session(&own), id);
    }
    let follow =
        |response: &Value| json!({"model": "helper", "input": "hi", "previous_response_id": response});
    let asked = two.post(&two.bob, RESPONSES, &follow(&response), &[]).await;
    let crafted = json!(response.as_str().unwrap().replace(&id, never));
    let none = two.post(&two.bob, RESPONSES, &follow(&crafted), &[]).await;
    let words = |answer: &Answer| answer.text().replace(&id, never);
    assert_eq!((asked.status.as_u16(), words(&asked)), (404, words(&none)));
    // A run of hers in a session of his is no run of his.
    let his = two.post(&two.bob, CHAT, &chat("helper", json!([user("hi")])), &[]).await;
    let mixed = json!(response.as_str().unwrap().replace(&id, &session(&his)));
    assert_eq!(two.post(&two.bob, RESPONSES, &follow(&mixed), &[]).await.status, 404);
}

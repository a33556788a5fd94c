//! The tool `http`: what it sends, what it shows, and what is known when it fails.

use std::time::Duration;

use serde_json::{Value, json};
use weir_tools::{Builtin, Done, Failed, Kind};
use weir_types::{Effect, Json, Outcome};

use crate::caller::Caller;
use crate::serve::{Reply, Server};

async fn call(caller: &Caller, input: Value) -> Result<Done, Failed> {
    caller.call(Kind::Builtin(Builtin::Http), &input).await
}

async fn shown(server: &Server) -> String {
    call(&Caller::reaching(&[&server.host()]), json!({"url": server.url("/")})).await.unwrap().words()
}

#[tokio::test]
async fn an_answer_is_shown_whatever_its_status() {
    let json = Server::saying("200 OK\r\ncontent-type: application/json", r#"{"a": 1}"#).await;
    assert_eq!(shown(&json).await, "200 OK\ncontent-type: application/json\n\n{\"a\": 1}");
    let missing = Server::saying("404 Not Found\r\ncontent-type: text/html; charset=utf-8", "<p>no").await;
    assert_eq!(shown(&missing).await, "404 Not Found\ncontent-type: text/html; charset=utf-8\n\n<p>no");
    let empty = Server::saying("599 Odd", "").await;
    assert_eq!(shown(&empty).await, "599\n");
    let picture = Server::saying("200 OK\r\ncontent-type: image/png", [0, 159, 146, 150]).await;
    assert_eq!(shown(&picture).await, "200 OK\ncontent-type: image/png\n\n[4 bytes that are not text]");
    let problem = Server::saying("500 X\r\ncontent-type: application/problem+json", "{}").await;
    assert!(shown(&problem).await.ends_with("\n\n{}"));
    let unnamed = Server::saying("200 OK", "text").await;
    assert_eq!(shown(&unnamed).await, "200 OK\n\ntext");
    let latin = Server::saying("200 OK\r\ncontent-type: text/plain", b"caf\xe9").await;
    assert!(shown(&latin).await.ends_with("caf\u{fffd}"));
}

#[tokio::test]
async fn a_redirect_says_where_it_led() {
    let server = Server::start(|request| {
        let head = if request.contains(" /b ") { "200 OK" } else { "302 Found\r\nlocation: /b" };
        Reply::Bytes(crate::serve::reply(head, b"end"))
    })
    .await;
    assert_eq!(shown(&server).await, format!("200 OK\nredirected to: {}\n\nend", server.url("/b")));
}

#[tokio::test]
async fn a_write_carries_the_key_of_its_call() {
    let server = Server::saying("200 OK", "").await;
    let caller = Caller::reaching(&[&server.host()]);
    let url = server.url("/");
    for input in [
        json!({"url": url, "headers": {"X-A": "b"}}),
        json!({"url": url, "method": "POST", "body": "{\"a\": 1}"}),
        json!({"url": url, "method": "PUT", "body": "text", "headers": {"Idempotency-Key": "mine"}}),
        json!({"url": url, "method": "DELETE", "headers": {"CONTENT-TYPE": "text/x"}}),
    ] {
        call(&caller, input).await.unwrap();
    }
    let asked = server.asked();
    let has = |at: usize, line: &str| asked[at].lines().any(|each| each == line);
    assert!(
        asked[0].starts_with("GET / ") && has(0, "x-a: b") && !asked[0].contains("idempotency"),
        "{}",
        asked[0]
    );
    assert!(
        has(1, "idempotency-key: key-of-the-call") && has(1, "content-type: application/json"),
        "{}",
        asked[1]
    );
    assert!(
        has(2, "idempotency-key: mine") && has(2, "content-type: text/plain; charset=utf-8"),
        "{}",
        asked[2]
    );
    assert_eq!(asked[2].matches("idempotency-key").count(), 1);
    assert!(asked[3].starts_with("DELETE / ") && has(3, "content-type: text/x"), "{}", asked[3]);
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_untouched() {
    let canary = Server::saying("200 OK", "touched").await;
    let elsewhere = Caller::reaching(&["api.example.com"]);
    let refused =
        call(&elsewhere, json!({"url": canary.url("/?key=hush"), "method": "POST"})).await.unwrap_err();
    assert_eq!((refused.class.as_str(), refused.outcome), ("refused", Outcome::Failed));
    let entry = format!("hosts: [\"{}\"]", canary.host());
    assert!(refused.message.contains(&entry) && !refused.message.contains("hush"), "{}", refused.message);
    let caller = Caller::reaching(&[&canary.host()]);
    for input in [
        json!({"url": canary.url("/"), "headers": {"Host": "evil.example"}}),
        json!({"url": canary.url("/"), "headers": {"Transfer-Encoding": "chunked"}}),
        json!({"url": canary.url("/"), "method": "get"}),
        json!({"url": canary.url("/"), "body": "x"}),
        json!({"url": "file:///etc/passwd"}),
    ] {
        let refused = call(&caller, input.clone()).await.unwrap_err();
        assert_eq!(refused.class, "refused", "{input}: {}", refused.message);
    }
    let odd = call(&caller, json!({"url": canary.url("/"), "extra": 1})).await.unwrap_err();
    assert_eq!(odd.class, "invalid");
    assert_eq!(canary.asked(), [""; 0]);
}

#[tokio::test]
async fn an_unclear_write_is_unknown_and_a_read_is_not() {
    let cut = Server::start(|_| Reply::Bytes(Vec::new())).await;
    let silent = Server::start(|_| Reply::Stall(Vec::new())).await;
    let (long, short) = (Duration::from_secs(60), Duration::from_millis(500));
    for (server, class, time) in [(&cut, "transport", long), (&silent, "timeout", short)] {
        let caller = Caller::reaching(&[&server.host()]).within(time);
        let write = call(&caller, json!({"url": server.url("/"), "method": "POST"})).await.unwrap_err();
        assert_eq!((write.class.as_str(), write.outcome), (class, Outcome::Unknown), "{}", write.message);
        let read = call(&caller, json!({"url": server.url("/")})).await.unwrap_err();
        assert_eq!((read.class.as_str(), read.outcome), (class, Outcome::Failed), "{}", read.message);
    }
    let gone = { Server::saying("200 OK", "").await.host() };
    let input = json!({"url": format!("http://{gone}/"), "method": "POST"});
    let never = call(&Caller::reaching(&[&gone]), input).await.unwrap_err();
    assert_eq!((never.class.as_str(), never.outcome), ("transport", Outcome::Failed));
}

#[tokio::test]
async fn a_cancelled_request_ends_at_once() {
    let server = Server::start(|_| Reply::Stall(Vec::new())).await;
    let caller = Caller::reaching(&[&server.host()]);
    caller.cancelled.cancel();
    let write = call(&caller, json!({"url": server.url("/"), "method": "POST"})).await.unwrap_err();
    assert_eq!((write.class.as_str(), write.outcome), ("cancelled", Outcome::Unknown));
}

#[test]
fn the_effect_of_a_call_is_in_its_method() {
    let effect = |input: Value| Builtin::Http.effect_of(&Json::of(&input));
    assert_eq!(effect(json!({"url": "x"})), Some(Effect::Read));
    assert_eq!(effect(json!({"url": "x", "method": "get"})), None);
    assert_eq!(effect(json!({"url": "x", "method": "POST"})), None);
    let schema = Builtin::Http.definition().schema.to_value();
    assert_eq!((&schema["required"], &schema["additionalProperties"]), (&json!(["url"]), &json!(false)));
}

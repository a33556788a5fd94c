//! Handlers that panic: no client is told, it is counted, and whatever comes after it is served.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use weir_types::{BranchId, Seq};

use super::*;
use crate::fixture::Data;

/// Status and body of an answer.
async fn ask(service: &Router, request: axum::http::request::Builder) -> (StatusCode, String) {
    let request = request.header("host", "127.0.0.1").body(Body::empty()).unwrap();
    let answer = service.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_panic_is_an_error_like_any_other_and_is_counted() {
    async fn boom() -> String {
        panic!("the secret place where it went wrong")
    }
    let data = Data::default();
    let app = data.app().await;
    let routes = ["/boom", "/v1/chat/completions", "/v1/messages"]
        .iter()
        .fold(Router::new(), |routes, path| routes.route(path, get(boom).post(boom)));
    let routes = routes.route("/fine", post(async || "fine"));
    let service = around(routes.merge(metrics::routes().split_for_parts().0), &app);

    let own = json!({"error": {
        "code": "server::bug", "message": "something went wrong inside the server", "help": "the server's log says what",
    }});
    let mut panics = 0;
    for (path, key) in [
        ("/boom", None),
        ("/boom", Some("k")),
        ("/boom", Some("k")),
        ("/v1/chat/completions", None),
        ("/v1/messages", None),
        ("/v1/messages", Some("k")),
    ] {
        let request = Request::post(path).header("content-type", "application/json");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let (status, body) = ask(&service, request).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path} {key:?}: {body}");
        assert!(!body.contains("secret place"), "{body}");
        let told: Value = serde_json::from_str(&body).unwrap();
        match path {
            "/boom" => assert_eq!(told, own),
            "/v1/messages" => assert_eq!(told["error"]["type"], "api_error", "{told}"),
            _ => assert_eq!(told["error"]["type"], "server_error", "{told}"),
        }
        panics += 1;
        let (_, counted) = ask(&service, Request::get("/metrics")).await;
        assert!(counted.contains(&format!("weir_panics_total {panics}\n")), "{counted}");
    }
    assert_eq!(ask(&service, Request::post("/fine")).await.1, "fine");
    // Each request with a key was let go, so that it can be repeated anywhere.
    let requests = BranchId::main("engine:requests".parse().unwrap());
    let events = app.journal.read(&requests, Seq(0), 100).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let (received, taken, released) = ("request.received", "request.taken", "request.released");
    assert_eq!(kinds, [received, released, taken, released, received, released]);
}

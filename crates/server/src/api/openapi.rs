//! `/openapi.json`: what the server can do, from the declarations of the routes themselves. What every route has in common is
//! added here, once: what the guard may answer, the key that makes a POST repeatable, and an example that the tests run.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::curl;
use crate::app::App;
use crate::router;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(openapi))
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "server", responses((status = 200, body = Object)))]
async fn openapi() -> Response {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| router::document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], text.clone()).into_response()
}

/// The methods of a path, as the document names them.
pub(super) const METHODS: [&str; 6] = ["get", "put", "post", "delete", "head", "patch"];

/// What any route may answer before its handler has a say.
pub(super) const ALWAYS: [(&str, &str); 8] = [
    ("400", "The request is wrong: `message` says how."),
    ("401", "Who asks is not known."),
    ("403", "Not from there, or not by them."),
    ("408", "It took too long to arrive."),
    ("414", "The address is too long."),
    ("421", "This server does not answer for that host."),
    ("500", "Something went wrong inside the server."),
    ("503", "Too much at once, or nothing can be stored at the moment."),
];

/// What a route that takes a body may answer, besides.
pub(super) const WITH_BODY: [(&str, &str); 2] = [
    ("413", "The body is too large."),
    ("415", "The body is not said to be what it must be, or it is compressed."),
];

/// What a POST may answer, besides.
pub(super) const POSTED: [(&str, &str); 2] = [
    ("409", "The world has moved on, or the same request is still being handled."),
    ("422", "The `Idempotency-Key` was used for another request."),
];

/// Adds what every route has in common.
pub(crate) fn complete(document: &mut Value) {
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return };
    // The rest of a path is one parameter, whatever the router calls it.
    let named = std::mem::take(paths).into_iter().map(|(path, item)| (path.replace("{*", "{"), item));
    *paths = named.collect();
    for (path, item) in paths.iter_mut() {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                complete_operation(path, method, operation);
            }
        }
    }
}

fn complete_operation(path: &str, method: &str, operation: &mut Map<String, Value>) {
    let has_body = operation.contains_key("requestBody");
    let mut common = ALWAYS.to_vec();
    common.extend(has_body.then_some(WITH_BODY).into_iter().flatten());
    if method == "post" {
        common.extend(POSTED);
        add_key(operation);
    }
    if path.starts_with("/sessions/{id}") {
        describe_session(operation);
    }
    if path.ends_with("/mcp") {
        common.push(("406", "The client does not accept JSON and streams of events."));
    }
    let shape = match method {
        "head" => Shape::None,
        _ if path.starts_with("/v1/") => Shape::Vendor,
        _ => Shape::Own,
    };
    let responses = operation.entry("responses").or_insert_with(|| json!({}));
    for (status, words) in common {
        let Some(responses) = responses.as_object_mut() else { continue };
        let told = responses.entry(status).or_insert_with(|| error(words, shape));
        if is_silent(told) {
            told["description"] = words.into();
        }
    }
    describe(responses);
    if let Some(example) = curl::example(method, path) {
        operation.insert("x-curl".to_owned(), example.into());
    }
    // Handlers of different modules may have the same name; a method and a path are there once.
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let id: Vec<&str> = std::iter::once(method).chain(words).collect();
    operation.insert("operationId".to_owned(), id.join("_").into());
    if let Some(body) = operation.get_mut("requestBody") {
        complete_content(body);
        // No bytes are bytes, too.
        if body["content"].get(BYTES).is_some() {
            body["required"] = false.into();
        }
    }
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    for response in responses.into_iter().flat_map(|all| all.values_mut()) {
        complete_content(response);
        complete_stream(response);
    }
}

/// A session is named in the same way wherever it is asked for.
fn describe_session(operation: &mut Map<String, Value>) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten().filter(|parameter| parameter["name"] == "id") {
        parameter["description"] =
            "The session: its id, or `ID@branch`, as in `X-Weir-Session`, for another branch than `main`."
                .into();
    }
}

const BYTES: &str = "application/octet-stream";

/// What is bytes is said in the words of JSON Schema; and so is what a stream of events consists of.
fn complete_content(holder: &mut Value) {
    let Some(content) = holder.get_mut("content").and_then(Value::as_object_mut) else { return };
    if let Some(bytes) = content.get_mut(BYTES) {
        bytes["schema"] = json!({ "type": "string", "format": "binary" });
    }
}

fn complete_stream(response: &mut Value) {
    if let Some(events) = response.get_mut("content").and_then(|content| content.get_mut("text/event-stream"))
    {
        let text = json!({ "type": "string" });
        events["schema"] = json!({
            "description": "Server-sent events, one after the other.", "type": "object",
            "properties": { "id": text, "event": text, "data": text, "retry": { "type": ["integer", "string"] } },
        });
    }
}

fn is_silent(response: &Value) -> bool {
    response["description"].as_str().is_none_or(str::is_empty)
}

/// How a route tells errors.
#[derive(Clone, Copy)]
enum Shape {
    /// In the server's own words.
    Own,
    /// In those of whoever made the clients.
    Vendor,
    /// By the status alone.
    None,
}

fn error(words: &str, shape: Shape) -> Value {
    let schema = match shape {
        Shape::None => return json!({ "description": words }),
        Shape::Own => json!({ "$ref": "#/components/schemas/ErrorBody" }),
        Shape::Vendor => json!({
            "type": "object", "required": ["error"],
            "properties": { "error": {
                "type": "object", "required": ["type", "message"],
                "properties": { "type": { "type": "string" }, "message": { "type": "string" } },
            } },
        }),
    };
    json!({ "description": words, "content": { "application/json": { "schema": schema } } })
}

/// A word for what nobody has described.
fn describe(responses: &mut Value) {
    let Some(responses) = responses.as_object_mut() else { return };
    for (status, response) in responses {
        if is_silent(response) {
            let words = match status.as_str() {
                "200" => "Done.",
                "404" => "There is no such thing, or not for whoever asks.",
                "409" => "The world has moved on: look again.",
                _ => "As said above.",
            };
            response["description"] = words.into();
        }
    }
}

fn add_key(operation: &mut Map<String, Value>) {
    let key = json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Makes it safe to repeat: the second request with a key gets the answer of the first.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$" },
    });
    match operation.entry("parameters").or_insert_with(|| json!([])) {
        Value::Array(parameters) => parameters.push(key),
        other => *other = json!([key]),
    }
}

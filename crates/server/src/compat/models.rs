//! `/v1/models`: the agents that whoever asks may talk to.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use weir_types::Verdict;

use super::docs::{ModelList, ModelShown, VendorError};
use super::refused::{Refused, Vendor};
use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::Path;

/// Agents, as models.
///
/// Only those that the caller may talk to. In the shape of OpenAI, or in that of Anthropic for requests with `anthropic-version`.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "compatible",
    params(("anthropic-version" = Option<String>, Header, description = "Answers in the shape of Anthropic.")),
    responses((status = 200, body = ModelList), (status = "4XX", body = VendorError), (status = "5XX", body = VendorError)),
)]
pub(super) async fn models(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Json<Value> {
    let build = app.builds.current();
    let names = build.iter().flat_map(|build| {
        build
            .manifest
            .agents
            .keys()
            .filter(|name| build.gate.admit(caller.who(), name).verdict == Verdict::Allow)
    });
    let vendor = vendor(&headers);
    let data: Vec<Value> = names.map(|name| model(vendor, name)).collect();
    Json(match vendor {
        Vendor::OpenAi => json!({"object": "list", "data": data}),
        Vendor::Anthropic => {
            let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
            json!({
                "first_id": id(data.first()),
                "last_id": id(data.last()),
                "has_more": false,
                "data": data,
            })
        }
    })
}

/// An agent, as a model.
#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    tag = "compatible",
    params(
        ("model" = String, Path, description = "The agent."),
        ("anthropic-version" = Option<String>, Header, description = "Answers in the shape of Anthropic."),
    ),
    responses((status = 200, body = ModelShown), (status = "4XX", body = VendorError), (status = "5XX", body = VendorError)),
)]
pub(super) async fn one_model(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refused> {
    access::agent(&app, &caller, &name).map_err(|_| Refused::no_model(&name))?;
    Ok(Json(model(vendor(&headers), &name)))
}

fn vendor(headers: &HeaderMap) -> Vendor {
    Vendor::of("/v1/models", headers).unwrap_or(Vendor::OpenAi)
}

/// Nobody wrote down when an agent was made; both vendors' documents allow for that.
fn model(vendor: Vendor, name: &str) -> Value {
    match vendor {
        Vendor::OpenAi => json!({"id": name, "object": "model", "created": 0, "owned_by": "weir"}),
        Vendor::Anthropic => json!({
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
        }),
    }
}

//! An offer in the words of the protocol.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;
use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion, RequestId,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weir_types::Json;

use super::content;
use super::offer::{Asking, Given, Incoming, Offer, Offered, Progress, Refusal};
use crate::call::KEY_FIELD;

/// The longest key that makes a call repeatable.
const KEY_BYTES_MAX: usize = 256;

/// Speaks for an offer. Its clones share the calls under way.
#[derive(Clone)]
pub(crate) struct Speaker {
    offer: Arc<dyn Offer>,
    versions: &'static [ProtocolVersion],
    /// Whether this server goes: then nobody has asked for anything to stop.
    closing: CancellationToken,
    calls: Arc<Mutex<HashMap<RequestId, CancellationToken>>>,
}

impl Speaker {
    pub(crate) fn new(
        offer: Arc<dyn Offer>,
        versions: &'static [ProtocolVersion],
        closing: CancellationToken,
    ) -> Self {
        Self { offer, versions, closing, calls: Arc::default() }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancelled when the client asks for the call to stop. Before 2026-07-28 it says so; from then on it hangs up.
    fn asked_to_stop(&self, context: &RequestContext<RoleServer>) -> Asked<'_> {
        let token = CancellationToken::new();
        if context.protocol_version().is_some_and(|version| !version.has_initialize()) {
            let (gone, closing, asked) = (context.ct.clone(), self.closing.clone(), token.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = asked.cancelled() => {}
                    () = closing.cancelled() => {}
                    () = gone.cancelled() => if !closing.is_cancelled() { asked.cancel() },
                }
            });
        }
        self.calls().insert(context.id.clone(), token.clone());
        Asked { speaker: self, id: context.id.clone(), token }
    }
}

/// A call under way.
struct Asked<'a> {
    speaker: &'a Speaker,
    id: RequestId,
    token: CancellationToken,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.speaker.calls().remove(&self.id);
        // Whoever waits for it need not any more.
        self.token.cancel();
    }
}

impl ServerHandler for Speaker {
    fn get_info(&self) -> ServerConfig {
        let about = self.offer.about();
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(about.name, about.version);
        info.instructions = about.instructions;
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offer.tools().await?.iter().map(tool).collect();
        Ok(ListToolsResult { tools, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let asked = self.asked_to_stop(&context);
        let incoming = Incoming {
            tool: request.name.into_owned(),
            arguments: Json::of(&Value::Object(request.arguments.unwrap_or_default())),
            key: key(&context)?,
            progress: Progress::new(&context.peer, context.meta.get_progress_token()),
            cancelled: asked.token.clone(),
            asking: can_be_asked(&context).then(|| Asking::new(&context.peer)),
        };
        let given = self.offer.call(incoming).await;
        drop(asked);
        Ok(result(given?).into())
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        let call = notification.request_id.and_then(|id| self.calls().get(&id).cloned());
        if let Some(call) = call {
            call.cancel();
        }
    }
}

/// From 2026-07-28 on a server may ask nothing in the middle of a call.
fn can_be_asked(context: &RequestContext<RoleServer>) -> bool {
    let may = context.protocol_version().is_some_and(|version| version.has_initialize());
    may && context.client_capabilities().is_some_and(|client| client.elicitation.is_some())
}

/// What makes repeating a call harmless, in its `_meta` or in the header of the same name.
fn key(context: &RequestContext<RoleServer>) -> Result<Option<String>, ErrorData> {
    let said = match context.meta.get(KEY_FIELD) {
        Some(Value::String(key)) => Some(key.clone()),
        Some(_) => return Err(Refusal::invalid_params(format!("`{KEY_FIELD}` is not text")).into()),
        None => context
            .extensions
            .get::<Parts>()
            .and_then(|parts| parts.headers.get("idempotency-key"))
            .map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()),
    };
    match said {
        Some(key) if key.is_empty() || key.len() > KEY_BYTES_MAX => {
            let message = format!("an idempotency key has 1 to {KEY_BYTES_MAX} bytes, not {}", key.len());
            Err(Refusal::invalid_params(message).into())
        }
        said => Ok(said),
    }
}

fn tool(offered: &Offered) -> Tool {
    let Offered { name, description, input_schema, output_schema, hints } = offered;
    let mut tool = Tool::new(name.clone(), description.clone(), object(input_schema));
    tool.output_schema = output_schema.as_ref().map(|schema| Arc::new(object(schema)));
    let annotations = ToolAnnotations::from_raw(
        None,
        hints.read_only,
        hints.destructive,
        hints.idempotent,
        hints.open_world,
    );
    tool.annotations = (annotations != ToolAnnotations::default()).then_some(annotations);
    tool
}

/// A schema that is none says nothing about what it describes.
fn object(schema: &Json) -> JsonObject {
    match schema.to_value() {
        Value::Object(object) => object,
        _ => JsonObject::from_iter([("type".to_owned(), Value::from("object"))]),
    }
}

fn result(given: Given) -> CallToolResult {
    let content = content::of(&given.content);
    let mut result =
        if given.failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = given.structured;
    result
}

//! A client of MCP that says exactly what a test wants it to.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::kit::{Answer, Server, within};

pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A client of one endpoint.
#[derive(Clone)]
pub(crate) struct Mcp<'a> {
    pub(crate) server: &'a Server,
    pub(crate) path: String,
    /// Headers of every request.
    pub(crate) headers: Vec<(String, String)>,
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// The messages in it, in order.
    pub(crate) messages: Vec<Value>,
}

impl<'a> Mcp<'a> {
    pub(crate) fn new(server: &'a Server, path: &str) -> Self {
        Self { server, path: path.to_owned(), headers: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn request(&self, method: Method) -> RequestBuilder {
        let request = self.server.request(method, &self.path);
        let request = request.header("accept", "application/json, text/event-stream");
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Sends a body as it is.
    pub(crate) async fn post(&self, body: impl Into<String>) -> Reply {
        let request = self.request(Method::POST).header("content-type", "application/json");
        Reply::of(Answer::to(request.body(body.into())).await)
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Reply {
        self.post(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// A call of somebody who answers the first thing that they are asked: what that was, and the words of the result.
    pub(crate) async fn answering(
        &self,
        tool: &str,
        arguments: Value,
        content: Value,
    ) -> (Option<Value>, String) {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params});
        let request =
            self.request(Method::POST).header("content-type", "application/json").body(call.to_string());
        let mut response = within("an answer", request.send()).await.unwrap();
        let (mut text, mut asked) = (String::new(), None);
        let said = |text: &str| -> Vec<Value> {
            let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
            lines.filter_map(|line| serde_json::from_str(line.trim()).ok()).collect()
        };
        while let Some(chunk) = within("a chunk", response.chunk()).await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            if asked.is_none() {
                asked = said(&text).into_iter().find(|message| message["method"] == "elicitation/create");
                if let Some(asked) = &asked {
                    let result = json!({"action": "accept", "content": content});
                    let told = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
                    assert_eq!(self.post(told.to_string()).await.status(), 202);
                }
            }
        }
        let last = said(&text).pop().unwrap_or_else(|| panic!("nothing was said: {text}"));
        (asked, last["result"]["content"][0]["text"].as_str().unwrap().to_owned())
    }

    /// A call that may be repeated.
    pub(crate) async fn keyed(&self, tool: &str, arguments: Value, key: &str) -> Reply {
        let meta = json!({"weir/idempotency-key": key});
        self.ask("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta})).await
    }

    /// The answer to `initialize`.
    pub(crate) async fn hello(&self, version: &str, capabilities: Value) -> Reply {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        self.ask("initialize", params).await
    }

    /// The same client with a session of its own.
    pub(crate) async fn begin(&self, version: &str, capabilities: Value) -> Self {
        let hello = self.hello(version, capabilities).await;
        assert_eq!(hello.result()["protocolVersion"], version, "{hello:?}");
        let session = hello.answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let begun = self.clone().with("mcp-session-id", &session).with("mcp-protocol-version", version);
        let told =
            begun.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
        assert_eq!(told.answer.status, StatusCode::ACCEPTED);
        begun
    }
}

impl Reply {
    fn of(answer: Answer) -> Self {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        let messages = match parse(&text) {
            Some(message) => vec![message],
            None => text.lines().filter_map(|line| parse(line.strip_prefix("data:")?.trim())).collect(),
        };
        Self { answer, messages }
    }

    pub(crate) fn status(&self) -> u16 {
        self.answer.status.as_u16()
    }

    pub(crate) fn last(&self) -> &Value {
        self.messages.last().unwrap_or_else(|| panic!("nothing was said: {self:?}"))
    }

    /// The result, which must be one.
    pub(crate) fn result(&self) -> &Value {
        assert!(self.last()["result"].is_object(), "{:?}", self.last());
        &self.last()["result"]
    }

    /// The code of the error, which must be one.
    pub(crate) fn code(&self) -> i64 {
        self.last()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }

    /// The words of a result.
    pub(crate) fn words(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap()
    }
}

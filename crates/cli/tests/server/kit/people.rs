//! Those who talk to a server that asks everybody who they are.

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::awaiting;
use super::project::Project;
use super::server::{Answer, Server};
use super::sse::Frame;

/// A token of `weir token issue`, with more words for it.
pub(crate) fn token(project: &Project, principal: &str, more: &[&str]) -> String {
    let args = [&["token", "issue", "--principal", principal], more].concat();
    project.json(&args)["token"].as_str().unwrap().to_owned()
}

/// Someone with a token.
pub(crate) struct Person<'a> {
    pub(crate) server: &'a Server,
    pub(crate) token: String,
}

impl<'a> Person<'a> {
    /// Someone whom the server lets in.
    pub(crate) fn new(server: &'a Server, token: &str) -> Self {
        Self { server, token: token.to_owned() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.server.request(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::to(self.server.posting(path, body).bearer_auth(&self.token)).await
    }

    /// Waits until a session has this status, and returns it as it is then.
    pub(crate) async fn until(&self, session: &str, status: &str) -> Value {
        awaiting::until(|path| self.request(Method::GET, path), session, status).await
    }

    /// Waits for the first event of one of these kinds.
    pub(crate) async fn event(&self, session: &str, kinds: &[&str]) -> Frame {
        awaiting::event(|path| self.request(Method::GET, path), session, 0, kinds).await
    }
}

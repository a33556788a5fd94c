//! A server behind HTTP whose every answer is scripted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_mcp::{Answered, CallError, Connections, Headers, Server, Target};

use crate::stage::{call, shown, target};

/// A request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Request {
    /// What it asks for: a method of MCP, a name of a tool, or the method of HTTP.
    pub(crate) fn what(&self) -> String {
        match (self.body["method"].as_str(), self.body["params"]["name"].as_str()) {
            (Some("tools/call"), Some(tool)) => tool.to_owned(),
            (Some(method), _) => method.to_owned(),
            (None, _) if self.body.is_object() => "reply".to_owned(),
            (None, _) => self.method.clone(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The answer with this text.
    pub(crate) fn text(&self, text: &str) -> String {
        let result = json!({"content": [{"type": "text", "text": text}]});
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string()
    }
}

/// What the server does about a request.
pub(crate) enum Reply {
    /// A whole answer: status, more headers, body.
    Whole(u16, &'static str, String),
    /// A stream of events, which ends with its sender.
    Events(mpsc::Receiver<String>),
    /// Hangs up.
    Nothing,
    /// Says nothing and stays.
    Silence,
}

/// A message as JSON.
pub(crate) fn message(body: String) -> Reply {
    Reply::Whole(200, "content-type: application/json\r\n", body)
}

/// Events that are all known at once; then the stream ends.
pub(crate) fn events(events: &[&str]) -> Reply {
    let (sender, receiver) = mpsc::channel(events.len().max(1));
    events.iter().for_each(|event| sender.try_send((*event).to_owned()).unwrap());
    Reply::Events(receiver)
}

/// One event with a message in it.
pub(crate) fn event(body: &str) -> String {
    format!("event: message\ndata: {body}\n\n")
}

/// What a script adds to the headers of a reply when the connection is not kept.
pub(crate) const HANG_UP: &str = "content-type: application/json\r\nconnection: close\r\n";

type Script = dyn Fn(&Request) -> Option<Reply> + Send + Sync;

/// A server, and the connections to it.
pub(crate) struct Web {
    pub(crate) connections: Connections,
    pub(crate) target: Target,
    pub(crate) seen: Arc<Mutex<Vec<Request>>>,
    address: std::net::SocketAddr,
    _serving: JoinSet<()>,
}

impl Web {
    /// A server that does what `script` says, and where it says nothing, what is right.
    pub(crate) async fn new(script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = Server::Http { url: format!("http://{address}/mcp") };
        let target = target(server, std::path::Path::new("/"));
        let mut web =
            Self { connections: Connections::new(), target, seen, address, _serving: JoinSet::new() };
        web.serve(listener, Arc::new(script));
        web
    }

    fn serve(&mut self, listener: TcpListener, script: Arc<Script>) {
        let seen = Arc::clone(&self.seen);
        let sessions = Arc::new(AtomicUsize::new(0));
        self._serving.spawn(async move {
            let mut talks = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                talks.spawn(talk(stream, Arc::clone(&script), Arc::clone(&seen), Arc::clone(&sessions)));
            }
        });
    }

    /// Another server in place of this one, at the same address.
    pub(crate) async fn replace(
        &mut self,
        script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) {
        self.stop().await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener, Arc::new(script));
    }

    /// Nobody is there any more.
    pub(crate) async fn stop(&mut self) {
        self._serving.shutdown().await;
    }

    pub(crate) fn as_user(&self, identity: &str, token: &str) -> Target {
        let headers = Headers::new([("authorization", token)]).unwrap();
        Target { identity: identity.to_owned(), headers, ..self.target.clone() }
    }

    pub(crate) async fn call(&self, tool: &str) -> Result<Answered, CallError> {
        self.connections.call(&self.target, call(tool, "{}")).await
    }

    pub(crate) async fn shown(&self, tool: &str) -> String {
        shown(&self.call(tool).await)
    }

    /// What was asked for, in order.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(Request::what).collect()
    }

    /// How often this was asked for.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.seen().iter().filter(|seen| *seen == what).count()
    }

    /// The last request for this.
    pub(crate) fn last(&self, what: &str) -> Request {
        self.seen.lock().unwrap().iter().rev().find(|request| request.what() == what).unwrap().clone()
    }
}

async fn talk(
    stream: TcpStream,
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Request>>>,
    sessions: Arc<AtomicUsize>,
) {
    let mut stream = BufReader::new(stream);
    // Connections are kept, as real servers do.
    while let Some(request) = read(&mut stream).await {
        seen.lock().unwrap().push(request.clone());
        let reply = script(&request).unwrap_or_else(|| right(&request, &sessions));
        let written = match reply {
            Reply::Nothing => return,
            Reply::Silence => std::future::pending().await,
            Reply::Whole(status, headers, body) => {
                let head =
                    format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {}\r\n\r\n", body.len());
                let written = stream.write_all((head + &body).as_bytes()).await;
                if headers == HANG_UP {
                    let _ = stream.shutdown().await;
                    return;
                }
                written
            }
            Reply::Events(mut events) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                let mut written = stream.write_all(head.as_bytes()).await;
                while let (Ok(()), Some(event)) = (&written, events.recv().await) {
                    written = stream.write_all(event.as_bytes()).await;
                }
                let _ = stream.shutdown().await;
                return;
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// What a server does that behaves.
fn right(request: &Request, sessions: &AtomicUsize) -> Reply {
    let result = match request.what().as_str() {
        "initialize" => {
            let n = sessions.fetch_add(1, Ordering::Relaxed);
            let result = json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "web", "version": "1"},
            });
            let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string();
            let session = ["s0", "s1", "s2", "s3", "s4", "s5"].get(n).copied().unwrap_or("many");
            let headers: &'static str = match session {
                "s0" => "content-type: application/json\r\nmcp-session-id: s0\r\n",
                "s1" => "content-type: application/json\r\nmcp-session-id: s1\r\n",
                _ => "content-type: application/json\r\nmcp-session-id: many\r\n",
            };
            return Reply::Whole(200, headers, body);
        }
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {}});
            json!({"tools": [tool("echo"), tool("odd"), tool("slow")]})
        }
        "GET" => return Reply::Whole(405, "", String::new()),
        "echo" | "odd" | "slow" => return message(request.text("hi")),
        _ => return Reply::Whole(202, "", String::new()),
    };
    message(json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string())
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|bytes| *bytes > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let method = first.split(' ').next().unwrap_or_default().to_owned();
    Some(Request { method, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}

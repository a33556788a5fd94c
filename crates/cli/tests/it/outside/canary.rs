//! A canary behind HTTP, on loopback: it answers everybody and remembers who came. `/mcp` is an MCP server with all its tools, and
//! `/mcp/NAME` one with that tool alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::running::eventually_or;

/// A canary.
pub(crate) struct Canary {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    heard: Mutex<Vec<Heard>>,
    tools: Mutex<Vec<Value>>,
    /// What every request to the MCP server has to carry; anything, if nothing is demanded.
    demands: Mutex<Option<String>>,
    /// Every `authorization` that it was sent there, with whatever request.
    authorizations: Mutex<Vec<String>>,
    /// While it is set, everything that would be counted hangs in the middle.
    holds: AtomicBool,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// What was asked for: `GET /path`, or the tool that was called.
    pub(crate) what: String,
    /// The `authorization` header.
    pub(crate) authorization: String,
    /// What was sent with it.
    pub(crate) body: Value,
}

impl Canary {
    pub(crate) fn new() -> Self {
        Self::with_tools(&[])
    }

    /// One that is also an MCP server with these tools.
    pub(crate) fn with_tools(tools: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { tools: Mutex::new(tools.to_vec()), ..Shared::default() });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                // A client that was killed is gone; that is what it is for.
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, shared }
    }

    /// Its host and port.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The address of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its address as an MCP server, as specs have it; or that of the server with one of its tools.
    pub(crate) fn server(&self, path: &str) -> String {
        format!("mcp://{}/mcp{path}", self.address)
    }

    /// Offers other tools from now on.
    pub(crate) fn offer(&self, tools: &[Value]) {
        *self.shared.tools.lock().unwrap() = tools.to_vec();
    }

    /// Speaks MCP only with those who send this as their `authorization`.
    pub(crate) fn demand(&self, authorization: &str) {
        *self.shared.demands.lock().unwrap() = Some(authorization.to_owned());
    }

    /// Every `authorization` that it was sent as an MCP server, and forgets them.
    pub(crate) fn authorizations(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.authorizations.lock().unwrap())
    }

    /// Lets calls hang in the middle, or go on.
    pub(crate) fn hold(&self, holds: bool) {
        self.shared.holds.store(holds, Ordering::SeqCst);
    }

    /// Everything that it was asked to do, in order. Introductions and lists of tools do nothing.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// The same in words, and forgets it.
    pub(crate) fn touched(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.heard.lock().unwrap()).into_iter().map(|heard| heard.what).collect()
    }

    /// Waits until it has been asked for so many things.
    pub(crate) fn await_touches(&self, count: usize) {
        let look = || (self.heard().len() >= count).then_some(());
        eventually_or(look, || format!("only {:?}", self.heard()));
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let (head, body) = read(stream)?;
        let line = head.lines().next()?.to_owned();
        let mut words = line.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let authorization = header(&head, "authorization").unwrap_or_default();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let heard = |what: String| {
            let heard = Heard { what, authorization: authorization.clone(), body: message.clone() };
            self.heard.lock().unwrap().push(heard);
            while self.holds.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let Some(only) = path.strip_prefix("/mcp") else {
            heard(format!("{method} {path}"));
            return answer(stream, "200 OK", "text/plain", b"the canary sings");
        };
        if !authorization.is_empty() {
            self.authorizations.lock().unwrap().push(authorization.clone());
        }
        if self.demands.lock().unwrap().as_ref().is_some_and(|demanded| *demanded != authorization) {
            return answer(stream, "401 Unauthorized", "text/plain", b"");
        }
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "canary", "version": "1"},
            }),
            Some("tools/list") => {
                let mut tools = self.tools.lock().unwrap().clone();
                tools.retain(|tool| only.is_empty() || tool["name"] == only.trim_start_matches('/'));
                json!({"tools": tools})
            }
            Some("tools/call") => {
                let tool = message["params"]["name"].as_str()?.to_owned();
                heard(tool.clone());
                called(&tool, &authorization)
            }
            Some(_) => return answer(stream, "202 Accepted", "text/plain", b""),
            None => return answer(stream, "405 Method Not Allowed", "text/plain", b""),
        };
        let field = if result.get("code").is_some() { "error" } else { "result" };
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], field: result}).to_string();
        answer(stream, "200 OK", "application/json", reply.as_bytes())
    }
}

/// What its tools answer; some repeat what they were trusted with.
fn called(tool: &str, authorization: &str) -> Value {
    let says =
        |text: String, failed: bool| json!({"content": [{"type": "text", "text": text}], "isError": failed});
    match tool {
        "indiscreet" => says(format!("harmless, and you are {authorization}."), false),
        "failing" => says(format!("harmless, but {authorization} was not accepted"), true),
        "broken" => json!({"code": -32603, "message": format!("harmless, but {authorization} broke me")}),
        "send_report" => says("line of a report\n".repeat(4_000), false),
        _ => says(format!("{tool} is done"), false),
    }
}

fn read(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
}

fn answer(mut stream: &TcpStream, status: &str, kind: &str, body: &[u8]) -> Option<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()
}

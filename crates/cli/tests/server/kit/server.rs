//! The real server as a child process, and a client for it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::watch;

use super::project::{Project, Ran};
use super::sse::{Frame, Frames};
use super::{DEADLINE, awaiting, within};

/// How a server is started.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) args: Vec<String>,
    pub(super) variables: Vec<(String, OsString)>,
    pub(super) port: u16,
}

impl Plan {
    pub(super) fn command(&self, project: &Project) -> Command {
        let mut command = project.command();
        command.args(&self.args).args(["--json", "--port", &self.port.to_string()]);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A server that runs; killed when it is dropped.
pub(crate) struct Server {
    pub(crate) project: Project,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    pub(crate) port: u16,
    /// Follows no proxy and no redirect, keeps connections.
    pub(crate) client: reqwest::Client,
    plan: Plan,
    running: Running,
}

/// A server that does not run any more, and can be started again.
pub(crate) struct Down {
    /// What it came to.
    pub(crate) ran: Ran,
    project: Project,
    plan: Plan,
}

/// The process, killed when dropped.
struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    /// How many lines it has said; closed once it can say no more.
    news: watch::Receiver<usize>,
    /// Who hears it, until it is waited for.
    reader: Option<JoinHandle<()>>,
}

/// A client as the tests want it.
#[expect(clippy::disallowed_methods, reason = "a client that is not Weir's")]
pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    // The server closes connections that nothing is asked on; one that is closed in the moment of a request looks like a failure.
    builder.pool_idle_timeout(Duration::from_secs(5)).build().unwrap()
}

impl Server {
    pub(super) async fn start(project: Project, plan: Plan) -> Self {
        let until = Instant::now() + DEADLINE;
        loop {
            let mut running = Running::start(&mut plan.command(&project));
            let Some(line) = running.listening().await else {
                let said = running.text();
                // A port that was ours a moment ago may be somebody's outgoing connection now.
                assert!(said.contains("cli::listen") && plan.port != 0 && Instant::now() < until, "{said}");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let base = line["url"].as_str().unwrap().to_owned();
            let port: u16 = base.rsplit(':').next().unwrap().parse().unwrap();
            let plan = Plan { port, ..plan };
            return Self { project, base, port, client: client(), plan, running };
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A request to be sent, for those that need headers of their own.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::to(self.posting(path, body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::DELETE, path)).await
    }

    /// A POST of JSON to be sent.
    pub(crate) fn posting(&self, path: &str, body: &Value) -> RequestBuilder {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        request.body(body.to_string())
    }

    /// A POST whose answer is a stream.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Frames {
        Frames::of(within("headers of a stream", self.posting(path, body).send()).await.unwrap())
    }

    /// A GET whose answer is a stream, after the frame with this id.
    pub(crate) async fn follow(&self, path: &str, last_event_id: Option<&str>) -> Frames {
        let mut request = self.request(Method::GET, path).header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        Frames::of(within("headers of a stream", request.send()).await.unwrap())
    }

    /// Waits until a session has this status, and returns it as it is then.
    pub(crate) async fn until(&self, session: &str, status: &str) -> Value {
        awaiting::until(|path| self.request(Method::GET, path), session, status).await
    }

    /// Waits for the first event of one of these kinds.
    pub(crate) async fn event(&self, session: &str, kinds: &[&str]) -> Frame {
        self.event_after(session, 0, kinds).await
    }

    /// The same among those after this event.
    pub(crate) async fn event_after(&self, session: &str, seq: u64, kinds: &[&str]) -> Frame {
        awaiting::event(|path| self.request(Method::GET, path), session, seq, kinds).await
    }

    /// Says something to an agent, in a new session or in this one, and waits for what comes of it.
    pub(crate) async fn say(&self, agent: &str, message: &str, session: Option<&str>) -> Told {
        let mut body = serde_json::json!({ "message": message });
        if let Some(session) = session {
            body["session"] = session.into();
        }
        let frames = self.stream(&format!("/agents/{agent}/chat/stream?format=native"), &body).await;
        let (status, session) = (frames.status, frames.header("x-weir-session").map(str::to_owned));
        let frames = frames.all().await;
        assert_eq!(status, 200, "{frames:?}");
        Told::of(session.unwrap(), &frames)
    }

    /// The first line of its log with this message, waited for.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        self.logged_times(message, 1).await
    }

    /// The nth line of its log with this message, waited for.
    pub(crate) async fn logged_times(&self, message: &str, n: usize) -> Value {
        let mut news = self.running.news.clone();
        let looked = async {
            loop {
                let found = self.log().into_iter().filter(|line| line["message"] == message).nth(n - 1);
                match found {
                    Some(line) => return line,
                    None => news.changed().await.unwrap_or_else(|_| panic!("it ended without: {message}")),
                }
            }
        };
        within(message, looked).await
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        let said = self.running.said.lock().unwrap();
        said.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// `kill -9`.
    pub(crate) fn kill(self) -> Down {
        let Self { project, plan, mut running, .. } = self;
        running.child.kill().unwrap();
        let ran = running.ended();
        Down { ran, project, plan }
    }

    /// SIGTERM, and what it came to.
    pub(crate) async fn terminate(self) -> Down {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.running.child), signal).unwrap();
    }

    /// Waits for it to end by itself.
    pub(crate) async fn ended(self) -> Down {
        let Self { project, plan, mut running, .. } = self;
        // A process that has ended can say no more.
        within("the end of the server", async { while running.news.changed().await.is_ok() {} }).await;
        let ran = running.ended();
        Down { ran, project, plan }
    }
}

impl Down {
    /// Starts it again, over the same data and on the same port.
    pub(crate) async fn start_again(self) -> Server {
        Server::start(self.project, self.plan).await
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let (sender, news) = watch::channel(0);
        let writes = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut said = writes.lock().unwrap();
                said.push(line);
                let _ = sender.send(said.len());
            }
        });
        Self { child, said, news, reader: Some(reader) }
    }

    /// The line that says where it listens; nothing if it ends before.
    async fn listening(&mut self) -> Option<Value> {
        let found = async {
            loop {
                let line = self.said.lock().unwrap().iter().find_map(|line| {
                    serde_json::from_str::<Value>(line).ok().filter(|line| line["message"] == "listening")
                });
                if line.is_some() {
                    return line;
                }
                if self.news.changed().await.is_err() {
                    return None;
                }
            }
        };
        within("the server listens", found).await
    }

    fn text(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// What a process that is about to end, or has ended, came to.
    fn ended(&mut self) -> Ran {
        let status = self.child.wait().unwrap();
        // The reader sees the end of the pipe once the process is gone.
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Ran { code: status.code().unwrap_or(-1), stdout: String::new(), stderr: self.text() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came of something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) session: String,
    pub(crate) answer: String,
    pub(crate) stop: String,
}

impl Told {
    /// As the frames of a native stream tell it.
    pub(crate) fn of(session: String, frames: &[Frame]) -> Self {
        let last = |event: &str| {
            let named = |frame: &&Frame| frame.event.as_deref() == Some(event);
            frames.iter().rfind(named).map_or(Value::Null, Frame::json)
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (answer, stop) = (text(&last("run.finished")["payload"]["answer"]), text(&last("end")["stop"]));
        Self { session, answer, stop }
    }
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: bytes::Bytes,
}

impl Answer {
    /// Sends a request and reads what is answered.
    pub(crate) async fn to(request: RequestBuilder) -> Self {
        let answered = async {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status(), response.headers().clone());
            Self { status, headers, body: response.bytes().await.unwrap() }
        };
        within("an answer", answered).await
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The document of an answer that must be a 2xx.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text());
        self.json()
    }

    /// Status and code of an answer that must be an error, told completely.
    pub(crate) fn error(&self) -> (u16, String) {
        let document = self.json();
        for field in ["code", "message", "help"] {
            let text = document["error"][field].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{field} in {document}");
        }
        (self.status.as_u16(), document["error"]["code"].as_str().unwrap().to_owned())
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

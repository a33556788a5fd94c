//! Servers that others wrote, and the official conformance suite. `cargo xtask test` installs them and then starts this;
//! no other run does, so that nothing here can be skipped by accident.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use weir_mcp::{
    Answered, Call, CallError, Connections, Definition, Headers, Options, Server, Target, list_tools,
};
use weir_types::{Block, Explain, Json, View};

/// A busy machine, and interpreters that have to start.
const PLENTY: Duration = Duration::from_secs(120);

/// Where `cargo xtask` put everything.
fn tools() -> PathBuf {
    std::env::var_os("WEIR_TEST_MCP_TOOLS")
        .expect("`cargo xtask test` installs the servers and sets this")
        .into()
}

fn node() -> PathBuf {
    tools().join("node")
}

fn package(name: &str) -> String {
    let package = tools().join("node_modules").join("@modelcontextprotocol").join(name);
    package.join("dist").join("index.js").display().to_string()
}

fn python() -> String {
    tools().join("python").join("bin").join("python").display().to_string()
}

fn python_server() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("real_mcp")
        .join("server.py")
        .display()
        .to_string()
}

/// A server, what it offers, and the connections to it.
struct Stage {
    directory: TempDir,
    connections: Connections,
    target: Target,
    pinned: Vec<Definition>,
    /// A server that we started ourselves, because it is reached over HTTP.
    _running: Option<Running>,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself in the meantime.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    async fn new(server: Server, running: Option<Running>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let options = Options {
            directory: directory.path().to_owned(),
            environment: environment.clone(),
            headers: Headers::default(),
            launcher: vec![],
            timeout: PLENTY,
        };
        let pinned = list_tools(&server, &options).await.unwrap();
        let target = Target {
            server,
            identity: "user:ada".to_owned(),
            directory: directory.path().to_owned(),
            environment,
            headers: Headers::default(),
            launcher: vec![],
        };
        Self { directory, connections: Connections::new(), target, pinned, _running: running }
    }

    async fn stdio(argv: &[String]) -> Self {
        Self::new(Server::Stdio { argv: argv.to_vec() }, None).await
    }

    /// Starts a program that listens on the port in its variable `PORT`, which is also put in place of `PORT` in its
    /// arguments.
    async fn http(argv: &[String]) -> Self {
        // Somebody else may take it in between, and then the test fails.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let arguments = argv[1..].iter().map(|word| word.replace("PORT", &port.to_string()));
        let mut command = Command::new(&argv[0]);
        command.args(arguments).env("PORT", port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < PLENTY, "nobody listens on {port}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self::new(Server::Http { url: format!("http://127.0.0.1:{port}/mcp") }, Some(running)).await
    }

    /// Calls the tool as it was listed.
    async fn call_within(
        &self,
        deadline: Duration,
        tool: &str,
        arguments: &str,
    ) -> Result<Answered, CallError> {
        let pinned = self.pinned.clone();
        let call = Call {
            tool: tool.to_owned(),
            arguments: Json::parse(arguments).unwrap(),
            deadline,
            cancelled: CancellationToken::new(),
            key: Some("01KEY".to_owned()),
            accepts: Arc::new(move |offered| match pinned.contains(offered) {
                true => Ok(()),
                false => Err("it is not as it was listed".to_owned()),
            }),
        };
        self.connections.call(&self.target, call).await
    }

    async fn call(&self, tool: &str, arguments: &str) -> Result<Answered, CallError> {
        self.call_within(PLENTY, tool, arguments).await
    }

    /// The words of a result, or of an error.
    async fn shown(&self, tool: &str, arguments: &str) -> String {
        shown(&self.call(tool, arguments).await)
    }

    async fn close(self) {
        assert!(self.connections.close().await);
    }
}

fn shown(answered: &Result<Answered, CallError>) -> String {
    match answered {
        Ok(Answered { content, failed }) => {
            let words: Vec<&str> = content.iter().map(|block| Block::as_text(block).unwrap_or("?")).collect();
            format!("{}{}", if *failed { "failed: " } else { "" }, words.join("|"))
        }
        Err(error) => format!("{} ({}): {error}", error.code(), error.may_have_happened()),
    }
}

fn everything(how: &str) -> Vec<String> {
    vec![node().display().to_string(), package("server-everything"), how.to_owned()]
}

/// The reference server, over one transport or the other.
async fn ask_everything(stage: &Stage) {
    assert_eq!(stage.shown("echo", r#"{"message":"grüße\n"}"#).await, "Echo: grüße\n");
    assert_eq!(stage.shown("get-sum", r#"{"a":2,"b":3}"#).await, "The sum of 2 and 3 is 5.");

    let image = stage.call("get-tiny-image", "{}").await.unwrap();
    let kinds: Vec<bool> = image
        .content
        .iter()
        .map(|block| matches!(&block.view, View::Image { media_type, .. } if media_type == "image/png"))
        .collect();
    assert_eq!(kinds, [false, true, false]);

    let links = stage.shown("get-resource-links", r#"{"count":2}"#).await;
    assert!(links.contains("[Blob Resource 1](demo://resource/"), "{links}");
    let reference = stage.shown("get-resource-reference", r#"{"resourceType":"Text","resourceId":1}"#).await;
    assert!(reference.contains("demo://resource/dynamic/text/1\n\n"), "{reference}");
    let structured = stage.shown("get-structured-content", r#"{"location":"Chicago"}"#).await;
    assert!(structured.contains(r#""humidity":82"#), "{structured}");

    // Arguments that do not fit are the tool's failure or the protocol's, never ours.
    let wrong = stage.shown("get-sum", r#"{"a":"two"}"#).await;
    assert!(wrong.contains("-32602"), "{wrong}");

    // It asks for what we do not offer, if at all, and goes on. What it needs a capability for it does not list.
    for tool in ["trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"] {
        assert!(!stage.pinned.iter().any(|pinned| pinned.name == tool), "{tool}");
    }

    // Progress comes, and the call ends in time.
    let long = stage.shown("trigger-long-running-operation", r#"{"duration":1,"steps":20}"#).await;
    assert!(long.starts_with("Long running operation completed"), "{long}");

    // One that is too slow is given up, and others are not delayed by it.
    let slow = stage.call_within(
        Duration::from_secs(2),
        "trigger-long-running-operation",
        r#"{"duration":600,"steps":6000}"#,
    );
    let calls = (0..100).map(|n| async move {
        assert_eq!(stage.shown("echo", &format!(r#"{{"message":"{n}"}}"#)).await, format!("Echo: {n}"));
    });
    let (slow, _) = tokio::join!(slow, futures_util::future::join_all(calls));
    assert!(slow.as_ref().unwrap_err().may_have_happened());
    assert!(shown(&slow).starts_with("mcp::late"), "{}", shown(&slow));
    assert_eq!(stage.shown("echo", r#"{"message":"still here"}"#).await, "Echo: still here");
    assert_eq!(stage.connections.count(), 1);
}

#[tokio::test]
async fn the_reference_server_over_stdio() {
    let stage = Stage::stdio(&everything("stdio")).await;
    ask_everything(&stage).await;
    stage.close().await;
}

#[tokio::test]
async fn the_reference_server_over_http() {
    let stage = Stage::http(&everything("streamableHttp")).await;
    ask_everything(&stage).await;
    stage.close().await;
}

#[tokio::test]
async fn the_file_server() {
    // What it may touch is decided when it starts, so the directory has to be there before.
    let files = tempfile::tempdir().unwrap();
    let root = files.path().canonicalize().unwrap();
    let argv = [node().display().to_string(), package("server-filesystem"), root.display().to_string()];
    let stage = Stage::stdio(&argv).await;
    let path = root.join("notes.txt");
    let write = serde_json::json!({"path": path, "content": "one\ntwo\n"}).to_string();
    let written = stage.shown("write_file", &write).await;
    assert!(written.starts_with("Successfully wrote to"), "{written}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    let read = serde_json::json!({ "path": path }).to_string();
    assert_eq!(stage.shown("read_text_file", &read).await, "one\ntwo\n");
    let outside = serde_json::json!({"path": stage.directory.path().join("x")}).to_string();
    let refused = stage.shown("read_text_file", &outside).await;
    assert!(refused.starts_with("failed: Access denied"), "{refused}");

    // The greatest file that fits, and one that does not: it costs its own call.
    std::fs::write(&path, "x".repeat(7_000_000)).unwrap();
    assert_eq!(stage.shown("read_text_file", &read).await.len(), 7_000_000);
    std::fs::write(&path, "x".repeat(20_000_000)).unwrap();
    let long = stage.shown("read_text_file", &read).await;
    assert!(long.starts_with("mcp::too-much (true)"), "{long}");
    std::fs::write(&path, "small").unwrap();
    assert_eq!(stage.shown("read_text_file", &read).await, "small");
    assert_eq!(stage.connections.count(), 1);
    stage.close().await;
}

/// A server of the Python SDK, over one transport or the other.
async fn ask_python(stage: &Stage) {
    assert_eq!(stage.shown("add", r#"{"a":2,"b":3}"#).await, "5");
    let failed = stage.shown("fail", "{}").await;
    assert!(failed.starts_with("failed: "), "{failed}");
    let picture = stage.call("picture", "{}").await.unwrap();
    assert!(matches!(&picture.content[0].view, View::Image { media_type, .. } if media_type == "image/png"));
    let slow = stage.call_within(Duration::from_secs(2), "slow", r#"{"seconds":600}"#).await;
    assert!(slow.as_ref().unwrap_err().may_have_happened(), "{}", shown(&slow));
    assert_eq!(stage.shown("slow", r#"{"seconds":0.3}"#).await, "done");

    // A tool that is new was not pinned; before the change it was not even there.
    let unknown = stage.shown("subtract", r#"{"a":2,"b":3}"#).await;
    assert!(unknown.ends_with("the server does not offer it any more"), "{unknown}");
    assert_eq!(stage.shown("learn", "{}").await, "learned");
    let new = async {
        // Over HTTP the word of the change travels on a stream of its own.
        loop {
            let answered = stage.shown("subtract", r#"{"a":2,"b":3}"#).await;
            if answered.ends_with("it is not as it was listed") {
                return;
            }
        }
    };
    tokio::time::timeout(PLENTY, new).await.expect("the change is seen");
    assert_eq!(stage.shown("add", r#"{"a":2,"b":3}"#).await, "5");
    assert_eq!(stage.connections.count(), 1);
}

#[tokio::test]
async fn a_server_of_the_python_sdk_over_stdio() {
    let stage = Stage::stdio(&[python(), python_server(), "stdio".to_owned()]).await;
    ask_python(&stage).await;
    stage.close().await;
}

#[tokio::test]
async fn a_server_of_the_python_sdk_over_http() {
    let stage = Stage::http(&[python(), python_server(), "http".to_owned(), "PORT".to_owned()]).await;
    ask_python(&stage).await;
    stage.close().await;
}

/// What the suite says of our client in one scenario: whether it passed, and everything it printed.
fn conformance(scenario: &str) -> (bool, String) {
    let client = std::env::var("WEIR_TEST_MCP_CONFORMANCE_CLIENT")
        .expect("`cargo xtask test` builds the client and sets this");
    let mut suite = Command::new(node());
    suite.arg(package("conformance")).args(["client", "--command", &client, "--scenario", scenario]);
    let output = suite.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn the_conformance_suite_passes() {
    for scenario in ["initialize", "tools_call", "sse-retry"] {
        let (passed, said) = conformance(scenario);
        assert!(
            passed && said.contains("OVERALL: PASSED") && said.contains(" 0 failed"),
            "{scenario}: {said}"
        );
    }
}

/// This scenario wants a client that answers for its user. Ours declares that it does not, and refuses; all that fails is
/// that the suite's server asks nevertheless.
#[test]
fn the_scenario_of_elicitation_is_refused_and_nothing_else_goes_wrong() {
    let (passed, said) = conformance("elicitation-sep1034-client-defaults");
    assert!(!passed, "{said}");
    assert!(said.contains("MCP error -32601: not offered: elicitation/create"), "{said}");
    // The client ended well: its calls were answered.
    assert!(!said.contains("Client exited with code"), "{said}");
}

/// The suite must not have scenarios that nobody has looked at: all others are about OAuth, which is not ours to do.
#[test]
fn no_other_scenario_is_there_to_be_passed() {
    let list = Command::new(node()).arg(package("conformance")).args(["list", "--client"]).output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let scenarios = list.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let scenarios = scenarios.filter_map(|line| line.split(' ').next());
    let others: Vec<&str> = scenarios.filter(|scenario| !scenario.starts_with("auth/")).collect();
    assert_eq!(others, ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"]);
}

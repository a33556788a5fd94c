//! How connections begin, differ and end.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_mcp::{CallError, Connections, Server, Target};

use crate::stage::{Stage, call, shown, until};
use crate::stdio::runs;
use crate::{PLENTY, write_program};

#[tokio::test]
async fn two_identities_are_two_servers_with_their_own_credentials() {
    let stage = Stage::new();
    let with = |identity: &str, token: &str| {
        let mut target = Target { identity: identity.to_owned(), ..stage.target.clone() };
        target.environment.insert("TOKEN".to_owned(), token.to_owned());
        target
    };
    let ask = async |target: &Target| {
        let shown = shown(&stage.connections.call(target, call("environment", "{}")).await);
        let (environment, id) = shown.rsplit_once('|').unwrap();
        let environment: BTreeMap<String, String> = serde_json::from_str(environment).unwrap();
        (environment["TOKEN"].clone(), id.to_owned())
    };
    let (ada, bob) = (with("user:ada", "ada's"), with("user:bob", "bob's"));
    let (first, second) = (ask(&ada).await, ask(&bob).await);
    assert_eq!((first.0.as_str(), second.0.as_str()), ("ada's", "bob's"));
    assert_ne!(first.1, second.1);
    assert_eq!(ask(&ada).await, first);
    // A credential that was changed is another connection, too.
    assert_eq!(ask(&with("user:ada", "ada's new one")).await.0, "ada's new one");
    assert_eq!(stage.connections.count(), 3);
}

#[tokio::test]
async fn a_program_sees_only_what_it_is_given() {
    let mut stage = Stage::new();
    stage.target.environment.insert("GIVEN".to_owned(), "1".to_owned());
    let shown = stage.shown("environment", "{}").await;
    let environment: BTreeMap<String, String> =
        serde_json::from_str(shown.rsplit_once('|').unwrap().0).unwrap();
    // What starts Python may add variables of its own, but has none of ours to pass on.
    assert_eq!(environment["GIVEN"], "1");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let foreign: Vec<&String> = environment.keys().filter(|name| name.starts_with("CARGO")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[tokio::test]
async fn a_launcher_starts_the_program() {
    let mut stage = Stage::new();
    write_program(
        &stage.directory.path().join("launcher"),
        "#!/bin/sh\necho \"$@\" > launched\nshift\nLAUNCHED=yes exec \"$@\"\n",
    );
    stage.target.launcher = vec!["./launcher".to_owned(), "--quietly".to_owned()];
    stage.target.server = Server::Stdio { argv: vec!["./server".to_owned(), "an argument".to_owned()] };
    let shown = stage.shown("environment", "{}").await;
    assert!(shown.contains(r#""LAUNCHED": "yes""#), "{shown}");
    assert_eq!(stage.lines("launched"), ["--quietly ./server an argument"]);
}

#[tokio::test]
async fn closing_lets_servers_end_by_themselves() {
    let stage = Stage::new();
    assert_eq!(stage.shown("echo", "{}").await, "");
    let hang = stage.call("hang", "{}");
    let close = async {
        stage.until("calls", 2).await;
        assert!(stage.connections.close().await);
    };
    let (answered, ()) = tokio::join!(hang, close);
    assert!(answered.unwrap_err().may_have_happened());
    assert_eq!(stage.lines("ends"), ["stdin"]);
    assert!(!runs(&stage.lines("starts")[0]));
    assert_eq!(stage.connections.count(), 0);
    let answered = stage.call("echo", "{}").await;
    assert!(matches!(answered, Err(CallError::Closed)), "{}", shown(&answered));
    assert_eq!(stage.lines("starts").len(), 1);
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed() {
    const IDLE: Duration = Duration::from_secs(10 * 60);
    let stage = Stage::new();
    assert_eq!(stage.shown("echo", "{}").await, "");
    // What is in use stays, however long it takes.
    let wait = stage.shown("wait", r#"{"file":"go"}"#);
    let later = async {
        stage.until("calls", 2).await;
        tokio::time::pause();
        tokio::time::advance(PLENTY / 2).await;
        tokio::time::resume();
        assert_eq!(stage.connections.count(), 1);
        stage.put("go");
    };
    let (waited, ()) = tokio::join!(wait, later);
    assert_eq!(waited, "waited");
    tokio::time::pause();
    tokio::time::advance(IDLE - Duration::from_secs(1)).await;
    tokio::time::resume();
    assert_eq!(stage.shown("echo", "{}").await, "");
    assert_eq!(stage.lines("starts").len(), 1);
    tokio::time::pause();
    tokio::time::advance(IDLE + Duration::from_secs(1)).await;
    tokio::time::resume();
    until(|| stage.connections.count() == 0).await;
    assert_eq!(stage.lines("ends"), ["stdin"]);
    assert_eq!(stage.shown("echo", "{}").await, "");
    assert_eq!(stage.lines("starts").len(), 2);
}

#[tokio::test]
async fn with_the_last_clone_everything_ends() {
    let mut stage = Stage::new();
    assert_eq!(stage.shown("echo", "{}").await, "");
    let id = stage.lines("starts")[0].clone();
    let clone = stage.connections.clone();
    stage.connections = Connections::new();
    assert!(runs(&id));
    drop(clone);
    until(|| !runs(&id)).await;
}

#[test]
fn without_a_runtime_nothing_lives_on() {
    let stage = Stage::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(stage.shown("echo", "{}")), "");
    let id = stage.lines("starts")[0].clone();
    assert!(runs(&id));
    drop(runtime);
    let deadline = std::time::Instant::now() + PLENTY;
    while runs(&id) {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn there_is_a_limit_and_the_oldest_that_nobody_uses_makes_room() {
    let stage = Stage::new();
    let script = "#!/bin/sh\nread -r line\nprintf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}'\nread -r line\nread -r line\nprintf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}'\nwhile read -r line; do :; done\n";
    write_program(&stage.directory.path().join("small"), script);
    let small = |n: usize| Target {
        server: Server::Stdio { argv: vec!["./small".to_owned(), n.to_string()] },
        ..stage.target.clone()
    };
    // One is in use all the time, and must stay.
    let wait = stage.shown("wait", r#"{"file":"go"}"#);
    let others = async {
        stage.until("calls", 1).await;
        for n in 0..80 {
            let answered = shown(&stage.connections.call(&small(n), call("a", "{}")).await);
            assert!(answered.starts_with("mcp::changed"), "{answered}");
            assert!(stage.connections.count() <= 64);
        }
        assert_eq!(stage.connections.count(), 64);
        stage.put("go");
    };
    let (waited, ()) = tokio::join!(wait, others);
    assert_eq!(waited, "waited");
    assert!(stage.connections.close().await);
}

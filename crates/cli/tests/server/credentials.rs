//! What a credential is good for, and until when.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, get_current_timestamp};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::auth_jwt::{RSA, by, jwk, shared, signed, status, with};
use crate::kit::{Answer, Frames, Person, Project, token, within};
use crate::mcp::Mcp;

#[tokio::test]
async fn a_session_of_mcp_is_for_the_groups_that_it_was_begun_with() {
    let project = Project::new();
    let plain = token(&project, "user:alice", &[]);
    let admin = token(&project, "user:alice", &["--groups", "admin"]);
    let bobs = token(&project, "user:bob", &[]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let said =
        Person::new(&server, &bobs).post("/agents/helper/chat", &json!({"message": "a secret"})).await.ok();
    let begun = Mcp::new(&server, "/agents/helper/mcp").token(&admin).begin("2025-11-25", json!({})).await;
    let intruding = json!({"message": "hi", "session": said["session"]});
    let tried = begun.clone().token(&plain).call("helper", intruding).await;
    assert_eq!(tried.status(), 404, "{tried:?}");
    assert_eq!(begun.ask("tools/list", json!({})).await.status(), 200, "it is still there");
    // Another token with the same groups is as good.
    let other = token(&project, "user:alice", &["--groups", "admin"]);
    assert_eq!(begun.clone().token(&other).ask("tools/list", json!({})).await.status(), 200);
}

#[tokio::test]
async fn streams_end_with_the_token_that_they_were_asked_for_with() {
    let project = Project::new();
    let issued = project.json(&["token", "issue", "--principal", "user:alice"]);
    let (text, id) = (issued["token"].as_str().unwrap(), issued["id"].as_str().unwrap());
    let other = token(&project, "user:alice", &[]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let alice = Person::new(&server, text);
    let said = alice.post("/agents/helper/chat", &json!({"message": "hi"})).await.ok();
    let path = format!("/sessions/{}/events/stream?after=1000000", said["session"].as_str().unwrap());
    let mut events = Frames::of(alice.request(Method::GET, &path).send().await.unwrap());
    let mut others =
        Frames::of(Person::new(&server, &other).request(Method::GET, &path).send().await.unwrap());
    let mcp = Mcp::new(&server, "/agents/helper/mcp").token(text).begin("2025-11-25", json!({})).await;
    let mut listened = Frames::of(mcp.request(Method::GET).send().await.unwrap());
    assert_eq!((events.status, listened.status), (reqwest::StatusCode::OK, reqwest::StatusCode::OK));
    project.ok(&["token", "revoke", id]);
    within("the stream of events ends", async { while events.next().await.is_some() {} }).await;
    assert!(events.broken, "and not as if it were over");
    within("what MCP listens to ends", async { while listened.next().await.is_some() {} }).await;
    assert!(listened.broken);
    // It is the token that has ended, and nothing else of hers.
    let message = json!({"message": "hi", "session": said["session"]});
    Person::new(&server, &other).post("/agents/helper/chat", &message).await.ok();
    let path = format!("/sessions/{}/events/stream", said["session"].as_str().unwrap());
    let mut again =
        Frames::of(Person::new(&server, &other).request(Method::GET, &path).send().await.unwrap());
    assert!(again.next().await.is_some());
    let quiet = tokio::time::timeout(Duration::from_millis(300), others.next()).await;
    assert!(quiet.is_err() && !others.broken);
}

#[tokio::test]
async fn streams_end_with_the_jwt_that_they_were_asked_for_with() {
    let project = Project::new();
    let server = shared(&project).arg("--auth-clock-skew").arg("1").start().await;
    let short = signed(&with(&json!({"exp": get_current_timestamp() + 2})));
    let [short, long] = [short, signed(&with(&json!({})))].map(|token| Person::new(&server, &token));
    let said = long.post("/agents/helper/chat", &json!({"message": "hi"})).await.ok();
    let path = format!("/sessions/{}/events/stream", said["session"].as_str().unwrap());
    let mut goes_on = Frames::of(long.request(Method::GET, &path).send().await.unwrap());
    assert!(goes_on.next().await.is_some());
    let mut ends = Frames::of(short.request(Method::GET, &path).send().await.unwrap());
    within("it ends", async { while ends.next().await.is_some() {} }).await;
    assert!(ends.broken);
    assert_eq!(status(&server, &short.token).await, 401);
    let rest = async { while goes_on.next().await.is_some() {} };
    assert!(tokio::time::timeout(Duration::from_millis(300), rest).await.is_err(), "the other one goes on");
}

/// How often the test below hangs up.
const HANGS_UP: usize = 10;

#[tokio::test]
async fn whoever_hangs_up_does_not_have_keys_asked_for_more_often() {
    let [one, two] = RSA.map(EncodingKey::from_rsa_der);
    let keys = json!({"keys": [jwk(&one, Algorithm::RS256, "one"), jwk(&two, Algorithm::RS256, "two")]});
    // Counts who asks, and answers while it is open.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let (open, opened) = watch::channel(true);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut opened, keys) = (opened.clone(), keys.to_string());
            // The second key is new.
            let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            let keys = if is_first { keys.replace(r#""kid":"two""#, r#""kid":"old""#) } else { keys };
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = opened.wait_for(|is_open| *is_open).await;
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", keys.len());
                let _ = stream.write_all(format!("{head}{keys}").as_bytes()).await;
            });
        }
    });
    let project = Project::new();
    let serving = project.serve().arg("--auth-jwks").arg(&url).arg("--auth-audience").arg("weir");
    let server = serving.arg("--auth-jwks-refresh").arg("2").start().await;
    assert_eq!(status(&server, &by(&one, Algorithm::RS256, "one")).await, 200);
    open.send_replace(false);
    // They may be asked for again after two seconds.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let before = asked.load(Ordering::SeqCst);
    for n in 0..HANGS_UP {
        let token = by(&one, Algorithm::RS256, &format!("made-up-{n}"));
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let request = format!(
            "GET /sessions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {token}\r\n\r\n",
            server.port
        );
        client.write_all(request.as_bytes()).await.unwrap();
        // Long enough to be heard.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let more = asked.load(Ordering::SeqCst) - before;
    assert!((1..=2).contains(&more), "{HANGS_UP} that hung up had keys asked for {more} times");
    open.send_replace(true);
    let next = by(&two, Algorithm::RS256, "two");
    within("the new key is known", async { while status(&server, &next).await != 200 {} }).await;
}

#[tokio::test]
async fn a_secret_that_is_there_and_none_is_a_mistake() {
    let project = Project::new();
    for variable in ["WEIR_AUTH_JWT_SECRET", "WEIR_BRIDGE_SECRET"] {
        for nothing in [&b""[..], b"\xff\xfe, and more than thirty-two bytes of it"] {
            let ran = project.serve().env_os(variable, OsStr::from_bytes(nothing)).refused();
            assert_eq!(ran.code, 2, "{}", ran.stderr);
            assert!(ran.stderr.contains(variable) && ran.stderr.contains("cli::secret"), "{}", ran.stderr);
            assert!(!ran.stderr.contains("thirty-two bytes of it"), "{}", ran.stderr);
        }
    }
}

#[tokio::test]
async fn where_nobody_proves_anything_nothing_passed_on_is_taken() {
    let project = Project::new();
    let secret = "a secret of more than thirty-two bytes";
    let server = project.serve().env("WEIR_BRIDGE_SECRET", secret).start().await;
    let refused = async |method: Method, path: &str, header: &str| {
        let passed_on = server.request(method, path).header(header, "203.0.113.7");
        Answer::to(passed_on).await.error() == (403, "server::forwarded".to_owned())
    };
    for header in [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-prefix",
        "x-forwarded-scheme",
        "x-forwarded-ssl",
        "x-forwarded-user",
        "x-real-ip",
        "x-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "fly-client-ip",
    ] {
        assert!(refused(Method::GET, "/sessions", header).await, "{header}");
    }
    for path in ["/health", "/ready", "/openapi.json", "/metrics", "/nothing"] {
        assert!(refused(Method::GET, path, "x-forwarded-for").await, "{path}");
        assert!(!server.get(path).await.text().contains("server::forwarded"), "{path}");
    }
    assert!(refused(Method::POST, "/bridge/mcp", "x-forwarded-for").await);
    // Where everybody has to, it is no matter.
    let server = project.serve().arg("--auth-tokens").start().await;
    let probe = server.request(Method::GET, "/health").header("x-forwarded-for", "203.0.113.7");
    assert_eq!(Answer::to(probe).await.status, 200);
}

#[tokio::test]
async fn where_keys_are_is_told_without_what_may_be_secret() {
    let project = Project::new();
    // It has the port and does not listen, so that no other test gets it.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = deaf.local_addr().unwrap();
    let serve = |url: &str| project.serve().arg("--auth-jwks").arg(url).arg("--auth-audience").arg("weir");
    let server = serve(&format!("http://{address}/jwks?key=hunter2#hunter2")).start().await;
    let line = server.logged("the keys that tokens are signed with cannot be had yet").await;
    assert!(line.to_string().contains(&format!("http://{address}/jwks")), "{line}");
    assert!(!server.log().iter().any(|line| line.to_string().contains("hunter2")), "{line}");
    for bad in ["http://id.example/jwks?key=hunter2", "https://ada:hunter2@id.example/jwks"] {
        let ran = serve(bad).refused();
        assert!(ran.stderr.contains("id.example/jwks") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}

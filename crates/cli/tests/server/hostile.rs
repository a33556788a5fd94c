//! Bytes that no honest client sends: the right status, nothing told, and the server lives.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::{Answer, Project, Server, within};

/// What is answered to these bytes, to the end of the connection; as much of it as comes.
async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    // A server that has heard enough need not hear the rest.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = within("the end of a connection", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn host(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port)
}

/// A request of its own connection.
fn request(server: &Server, line: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n{body}", host(server))
        .into_bytes()
}

async fn lives(server: &Server) {
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(server.get("/sessions").await.status, 200);
}

/// Nothing of the inside: no path, no place in the source, no names of libraries, no panic.
fn tells_nothing(answer: &str) {
    for inside in ["src/", ".rs:", "panicked", "serde", "hyper", "axum", "rusqlite", ".weir", "/tmp", "RUST_"]
    {
        assert!(!answer.contains(inside), "{inside} in {answer}");
    }
    assert!(!answer.to_lowercase().contains("\nserver:"), "{answer}");
}

async fn answers(server: &Server, what: &str, bytes: &[u8], expected: &[u16]) {
    let answer = raw(server, bytes).await;
    assert!(expected.contains(&status(&answer)), "{what}: {answer}");
    tells_nothing(&answer);
    lives(server).await;
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn hosts_and_origins_of_others_are_refused() {
    let project = Project::new();
    let serving = project.serve().arg("--allow-host").arg("weir.example");
    let server = serving.arg("--allow-origin").arg("https://app.example").start().await;
    let port = server.port;
    for (hosts, expected) in [
        (format!("host: 127.0.0.1:{port}\r\n"), 200),
        (format!("host: LOCALHOST:{port}\r\n"), 200),
        (format!("host: [::1]:{port}\r\n"), 200),
        ("host: weir.example\r\n".to_owned(), 200),
        ("host: WEIR.example:443\r\n".to_owned(), 200),
        ("host: evil.example\r\n".to_owned(), 421),
        (format!("host: evil.example:{port}\r\n"), 421),
        (format!("host: localhost.evil.example:{port}\r\n"), 421),
        (format!("host: 127.0.0.1.evil.example:{port}\r\n"), 421),
        (format!("host: 192.0.2.1:{port}\r\n"), 421),
        ("host: 127.0.0.1:1\r\n".to_owned(), 421),
        ("host: localhost\r\n".to_owned(), 421),
        (String::new(), 400),
        ("host:\r\n".to_owned(), 400),
        (format!("host: 127.0.0.1:{port}\r\nhost: 127.0.0.1:{port}\r\n"), 400),
        (format!("host: 127.0.0.1:{port}\r\nhost: evil.example\r\n"), 400),
        (format!("host: evil@127.0.0.1:{port}\r\n"), 400),
        ("host: a b\r\n".to_owned(), 400),
    ] {
        for path in ["/health", "/sessions", "/nowhere", "/v1/models"] {
            let bytes = format!("GET {path} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
            let answer = raw(&server, bytes.as_bytes()).await;
            let expected = if expected == 200 && path == "/nowhere" { 404 } else { expected };
            assert_eq!(status(&answer), expected, "{hosts:?} {path}: {answer}");
            tells_nothing(&answer);
        }
    }
    // Another host in the first line than in the header.
    let absolute =
        |line: &str, host: &str| format!("GET {line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let own = host(&server);
    for (line, header, expected) in [
        (format!("http://{own}/health"), own.as_str(), 200),
        ("http://evil.example/health".to_owned(), own.as_str(), 400),
        (format!("http://{own}/health"), "evil.example", 400),
        ("http://evil.example/health".to_owned(), "evil.example", 421),
    ] {
        assert_eq!(
            status(&raw(&server, absolute(&line, header).as_bytes()).await),
            expected,
            "{line} {header}"
        );
    }
    for (origin, expected) in [
        (format!("http://127.0.0.1:{port}"), 200),
        ("https://app.example".to_owned(), 200),
        ("https://evil.example".to_owned(), 403),
        ("https://app.example.evil.example".to_owned(), 403),
        ("http://app.example".to_owned(), 403),
        (format!("http://localhost:{port}"), 403),
        ("null".to_owned(), 403),
        ("file://".to_owned(), 403),
    ] {
        for path in ["/health", "/sessions", "/v1/models"] {
            let answer =
                raw(&server, &request(&server, &format!("GET {path}"), &format!("origin: {origin}\r\n"), ""))
                    .await;
            assert_eq!(status(&answer), expected, "{origin} {path}");
            let shared = answer.contains(&format!("access-control-allow-origin: {origin}\r\n"));
            assert_eq!(shared, expected == 200, "{answer}");
        }
    }
    let preflight =
        "access-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n";
    let asks = |origin: &str| {
        request(&server, "OPTIONS /agents/helper/chat", &format!("origin: {origin}\r\n{preflight}"), "")
    };
    let answer = raw(&server, &asks("https://app.example")).await;
    assert_eq!(status(&answer), 204);
    assert!(answer.contains("access-control-allow-headers: authorization"), "{answer}");
    assert_eq!(status(&raw(&server, &asks("https://evil.example")).await), 403);
    lives(&server).await;
}

#[tokio::test]
async fn requests_that_are_too_much_are_refused() {
    let project = Project::new();
    let server = project.serve().arg("--max-body").arg("10000").start().await;
    let chat = "POST /agents/helper/chat";
    let long = format!(r#"{{"message":"{}"}}"#, "a".repeat(20_000));
    let said = |bytes: usize| format!("{JSON}content-length: {bytes}\r\n");
    answers(&server, "a long body", &request(&server, chat, &said(long.len()), &long), &[413]).await;
    let chunked = format!("{JSON}transfer-encoding: chunked\r\n");
    let piece = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    answers(&server, "a long body in pieces", &request(&server, chat, &chunked, &piece), &[413]).await;
    answers(
        &server,
        "a body that is said to be endless",
        &request(&server, chat, &said(usize::MAX / 4), "{"),
        &[400, 408, 413],
    )
    .await;
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    answers(&server, "many headers", &request(&server, "GET /health", &many, ""), &[431]).await;
    let wide = format!("x: {}\r\n", "y".repeat(100_000));
    answers(&server, "wide headers", &request(&server, "GET /health", &wide, ""), &[431]).await;
    let far = format!("GET /sessions?after={}", "a".repeat(9_000));
    answers(&server, "a long address", &request(&server, &far, "", ""), &[414]).await;
    let farther = format!("GET /{}", "a".repeat(70_000));
    answers(&server, "a longer address", &request(&server, &farther, "", ""), &[414, 431]).await;
    let deep = format!(r#"{{"message":{}1{}}}"#, "[".repeat(3_000), "]".repeat(3_000));
    answers(&server, "deep JSON", &request(&server, chat, &said(deep.len()), &deep), &[400]).await;
    let blob = "b".repeat(20_000);
    let put = format!("content-length: {}\r\n", blob.len());
    answers(&server, "blobs have their own limit", &request(&server, "PUT /blobs", &put, &blob), &[200])
        .await;
}

#[tokio::test]
async fn requests_that_do_not_come_are_given_up() {
    let project = Project::new();
    let server = project.serve().arg("--arrival").arg("1").start().await;
    let begun =
        request(&server, "POST /agents/helper/chat", &format!("{JSON}content-length: 100\r\n"), r#"{"mess"#);
    answers(&server, "a body that stays away", &begun, &[408]).await;
    let piece = request(
        &server,
        "POST /agents/helper/chat",
        &format!("{JSON}transfer-encoding: chunked\r\n"),
        "5\r\n{\"mes",
    );
    answers(&server, "a piece that stays away", &piece, &[408]).await;
    let blob = request(&server, "PUT /blobs", "content-length: 100\r\n", "some");
    answers(&server, "a blob that stays away", &blob, &[408]).await;
    for (what, bytes) in [
        ("nothing", &b""[..]),
        ("a letter", b"P"),
        ("the beginning of the other version", b"PRI * HTTP/2.0\r\n"),
        ("half a head", b"GET /health HTTP/1.1\r\nhost: 127.0.0.1"),
    ] {
        let answer = raw(&server, bytes).await;
        assert!([0, 408].contains(&status(&answer)), "{what}: {answer}");
    }
    // A stream that is quiet for longer is no request that does not come.
    let said = server.post("/agents/helper/chat", &json!({"message": "hi"})).await.ok();
    let path = format!("/sessions/{}/events/stream", said["session"].as_str().unwrap());
    let mut frames = server.follow(&path, None).await;
    assert!(frames.next().await.is_some());
    tokio::time::timeout(Duration::from_millis(2_500), async { while frames.next().await.is_some() {} })
        .await
        .expect_err("the stream goes on");
    lives(&server).await;
}

#[tokio::test]
async fn there_is_room_for_so_many() {
    let project = Project::new();
    let server = project.serve().arg("--max-requests").arg("1").start().await;
    let said = server.post("/agents/helper/chat", &json!({"message": "hi"})).await.ok();
    let path = format!("/sessions/{}/events/stream", said["session"].as_str().unwrap());
    let mut held = server.follow(&path, None).await;
    assert!(held.next().await.is_some());
    let refused = server.get("/sessions").await;
    assert_eq!(refused.error(), (503, "server::busy".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(server.get("/health").await.status, 200, "whoever looks after it is always answered");
    drop(held);
    let free = async { while server.get("/sessions").await.status != 200 {} };
    within("there is room again", free).await;

    let server = project.serve().arg("--max-connections").arg("1").start().await;
    let mut first = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let keep = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", host(&server));
    first.write_all(keep.as_bytes()).await.unwrap();
    let mut some = [0; 12];
    within("the first is served", first.read_exact(&mut some)).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
    // Only the health of the server is told without a place.
    let bytes = request(&server, "GET /health", "", "");
    assert_eq!(status(&raw(&server, &bytes).await), 200);
    let bytes = request(&server, "GET /agents", "", "");
    let second = raw(&server, &bytes);
    tokio::pin!(second);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut second).await.is_err(), "the second waits");
    drop(first);
    assert_eq!(status(&second.await), 200);
}

#[tokio::test]
async fn broken_and_ambiguous_requests_are_refused() {
    let project = Project::new();
    let server = project.serve().start().await;
    let body = r#"{"message":"hi"}"#;
    let chat = "POST /agents/helper/chat";
    let before = project.lines(&["session", "list"]).len();
    let smuggled = format!("0\r\n\r\nGET /sessions HTTP/1.1\r\nhost: {}\r\n\r\n", host(&server));
    for (what, headers, body) in [
        ("two lengths", "content-length: 5\r\ncontent-length: 16\r\n".to_owned(), body),
        ("a list of lengths", "content-length: 5, 16\r\n".to_owned(), body),
        ("no number", "content-length: many\r\n".to_owned(), body),
        ("a negative length", "content-length: -1\r\n".to_owned(), body),
        ("a length with a sign", "content-length: +16\r\n".to_owned(), body),
        (
            "a length and pieces",
            "content-length: 4\r\ntransfer-encoding: chunked\r\n".to_owned(),
            smuggled.as_str(),
        ),
        (
            "pieces and a length",
            "transfer-encoding: chunked\r\ncontent-length: 4\r\n".to_owned(),
            smuggled.as_str(),
        ),
        (
            "pieces that are not last",
            "transfer-encoding: chunked, identity\r\n".to_owned(),
            smuggled.as_str(),
        ),
        ("another coding", "transfer-encoding: gzip\r\n".to_owned(), body),
        ("a space before the colon", "transfer-encoding : chunked\r\n".to_owned(), smuggled.as_str()),
        ("a piece without a length", "transfer-encoding: chunked\r\n".to_owned(), "zz\r\nhello\r\n0\r\n\r\n"),
        (
            "a piece that is too long",
            "transfer-encoding: chunked\r\n".to_owned(),
            "fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        ),
        ("a piece that goes on", "transfer-encoding: chunked\r\n".to_owned(), "2\r\n{}xx\r\n0\r\n\r\n"),
        ("a bare line feed", "x: y\n z\r\ncontent-length: 0\r\n".to_owned(), ""),
        ("a zero", "x: \0\r\ncontent-length: 0\r\n".to_owned(), ""),
    ] {
        let answer = raw(&server, &request(&server, chat, &format!("{JSON}{headers}"), body)).await;
        assert!((400..500).contains(&status(&answer)), "{what}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{what}: {answer}");
        tells_nothing(&answer);
    }
    assert_eq!(project.lines(&["session", "list"]).len(), before, "nothing was begun");
    for (what, bytes) in [
        ("no HTTP", &b"hello\r\n\r\n"[..]),
        ("another version", b"GET / HTTP/9.9\r\n\r\n"),
        ("bytes", &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0xff, 0x00, b'\r', b'\n', b'\r', b'\n']),
        ("no path", b"GET\r\n\r\n"),
    ] {
        let answer = raw(&server, bytes).await;
        assert!([0, 400, 505].contains(&status(&answer)), "{what}: {answer}");
        lives(&server).await;
    }
    // One after the other on one connection is fine, and each is answered.
    let one = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", host(&server));
    let last = String::from_utf8(request(&server, "GET /health", "", "")).unwrap();
    let answer = raw(&server, format!("{one}{one}{last}").as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    lives(&server).await;
}

#[tokio::test]
async fn bodies_are_what_they_say_and_say_what_they_are() {
    let project = Project::new();
    let server = project.serve().start().await;
    let send = async |kind: Option<&str>, body: &[u8]| {
        let mut request = server.request(reqwest::Method::POST, "/agents/helper/chat");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let answer = Answer::to(request.body(body.to_vec())).await;
        tells_nothing(answer.text());
        answer.status.as_u16()
    };
    let body = br#"{"message":"hi"}"#;
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=x"),
        Some("application/xml"),
        Some("text/json"),
        Some("application/jsonx"),
    ] {
        assert_eq!(send(kind, body).await, 415, "{kind:?}");
    }
    assert_eq!(send(Some("Application/JSON; charset=utf-8"), body).await, 200);
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for bad in [
        &b"message=hi"[..],
        b"--x\r\ncontent-disposition: form-data; name=\"message\"\r\n\r\nhi\r\n--x--",
        b"\xff\xfe{\"message\":\"hi\"}",
        b"{\"message\":\"\xc3\x28\"}",
        b"{\"message\":\"\\ud800\"}",
        b"{\"message\":\"hi\"",
        b"{\"message\":\"hi\"} {}",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
        b"[]",
        b"null",
        b"",
        &deep,
    ] {
        assert_eq!(
            send(Some("application/json"), bad).await,
            400,
            "{:?}",
            String::from_utf8_lossy(&bad[..bad.len().min(40)])
        );
    }
    lives(&server).await;
}

#[tokio::test]
async fn paths_lead_where_they_say() {
    let project = Project::new();
    project.write("secret.txt", "found-it");
    let server = project.serve().start().await;
    for path in [
        "/../weir.yaml",
        "/..%2fweir.yaml",
        "/%2e%2e/weir.yaml",
        "/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/sessions/../metrics",
        "/sessions/%2e%2e/metrics",
        "//metrics",
        "/sessions//events",
        "/blobs/../../secret.txt",
        "/blobs/..%2f..%2fsecret.txt",
        "/blobs/%00",
        "/sessions/%00",
        "/streams/%ff%fe",
        "/streams/a%0d%0ax-injected:%20yes",
        "/streams/%c0%ae%c0%ae%2fsecret.txt",
        "/sessions/%",
        "/sessions/%zz",
        "/agents/..%2f..%2fsecret/status",
        "/health/",
        "/HEALTH",
        "/health;x=y",
        "/.git/config",
        "/.weir/journal.db",
    ] {
        let answer = raw(&server, &request(&server, &format!("GET {path}"), "", "")).await;
        assert!([400, 404].contains(&status(&answer)), "{path}: {answer}");
        assert!(!answer.contains("found-it") && !answer.contains("\nx-injected: "), "{path}: {answer}");
        tells_nothing(&answer);
    }
    for line in
        ["GET *", "CONNECT 127.0.0.1:80", "TRACE /health", "DELETE /health", "BREW /health", "OPTIONS *"]
    {
        let answer = raw(&server, &request(&server, line, "", "")).await;
        assert!((400..500).contains(&status(&answer)), "{line}: {answer}");
    }
    lives(&server).await;
}

#[tokio::test]
async fn answers_are_for_no_cache_and_no_other_use() {
    let project = Project::new();
    let server = project.serve().start().await;
    for path in ["/sessions", "/nowhere", "/health", "/v1/models"] {
        let said = server.get(path).await;
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(said.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(said.header("server"), None, "{path}");
        assert!(said.header("x-request-id").is_some_and(|id| !id.is_empty()), "{path}");
    }
    let named = server.request(reqwest::Method::GET, "/sessions").header("x-request-id", "mine-7");
    assert_eq!(Answer::to(named).await.header("x-request-id"), Some("mine-7"));
    let odd = server.request(reqwest::Method::GET, "/sessions").header("x-request-id", "<script>");
    assert_ne!(Answer::to(odd).await.header("x-request-id"), Some("<script>"));
}

#[tokio::test]
async fn compressed_bodies_are_refused_and_stored_nowhere() {
    let server = Project::new().serve().start().await;
    let hash = "b".repeat(64);
    for line in ["POST /agents/helper/chat", "POST /v1/messages", "PUT /blobs", &format!("PUT /blobs/{hash}")]
    {
        for coding in ["gzip", "identity, br", "GZIP"] {
            let headers = format!("{JSON}content-length: 16\r\ncontent-encoding: {coding}\r\n");
            let bytes = request(&server, line, &headers, r#"{"message":"hi"}"#);
            answers(&server, &format!("{line} in {coding}"), &bytes, &[415]).await;
        }
    }
    assert_eq!(server.get("/sessions").await.json()["sessions"], json!([]));
    let headers = format!("{JSON}content-length: 16\r\ncontent-encoding: Identity\r\n");
    let plain = request(&server, "POST /agents/helper/chat", &headers, r#"{"message":"hi"}"#);
    answers(&server, "a plain one", &plain, &[200]).await;
}

#[tokio::test]
async fn whoever_is_lost_is_told_where_to_look() {
    let server = Project::new().serve().start().await;
    for path in ["/", "//health", "/health/", "/index.html", "/chat"] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("/openapi.json"), "{path}: {}", answer.text());
    }
}

/// What is answered to someone who hears nothing before the last byte is sent.
async fn after_sending(server: &Server, headers: &str, bytes: usize) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = format!("POST /agents/helper/chat HTTP/1.1\r\n{headers}content-length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b' '; 64 * 1024];
    for _ in 0..bytes / piece.len() {
        stream.write_all(&piece).await.expect("the connection is there until everything is sent");
    }
    let mut answer = vec![0; 4_096];
    let read = within("an answer", stream.read(&mut answer)).await.expect("an answer");
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn whoever_is_still_sending_hears_the_answer() {
    let server = Project::new().serve().start().await;
    let own = format!("host: {}\r\n", host(&server));
    let bytes = 8 * 1024 * 1024;
    for (what, headers, expected) in [
        ("too much", format!("{own}{JSON}"), 413),
        ("not JSON", own.clone(), 415),
        ("for somebody else", format!("host: evil.example\r\n{JSON}"), 421),
        ("of another page", format!("{own}{JSON}origin: https://evil.example\r\n"), 403),
    ] {
        let answer = after_sending(&server, &headers, bytes).await;
        assert_eq!(status(&answer), expected, "{what}: {answer}");
    }
    lives(&server).await;
}

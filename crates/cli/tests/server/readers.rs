//! Readers that take their time, and streams that have nothing to say.

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::kit::{Project, Server, within};

/// Readers that do not read, and pieces of the answer they do not read.
const READERS: usize = 60;
const PIECES: usize = 20_000;

/// More than the server may keep for all of them: about two megabytes each, of an answer and what surrounds it. That no frames are among that
/// is shown by [`what_a_reader_does_not_take_is_not_made_for_it`].
const KEPT_KILOBYTES_MAX: u64 = 120_000;

#[tokio::test]
async fn a_stream_that_has_nothing_to_say_says_so() {
    let project = Project::new();
    let server = project.serve().arg("--keep-alive").arg("1").start().await;
    let session = server.say("helper", "hello", None).await.session;
    let path = format!("/sessions/{session}/events/stream?after=1000000");
    let response = server.request(reqwest::Method::GET, &path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut bytes = response.bytes_stream();
    for _ in 0..2 {
        let sign = within("a sign of life", bytes.next()).await.unwrap().unwrap();
        assert_eq!(&sign[..], b": keep-alive\n\n");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_keeps_nobody_waiting_and_costs_little() {
    let project = Project::new();
    let long = "0123456789".repeat(PIECES);
    project.write("models/helper.yaml", &format!("replies:\n  - say: \"{long}\"\n    chunk: 10\n"));
    project.build();
    let server = project.serve().start().await;
    // What the sessions take that somebody listens to, the next ones take as well.
    let empty = resident_kilobytes(&server);
    for _ in 0..READERS {
        assert_eq!(server.say("helper", "go on", None).await.answer, long);
    }
    let before = resident_kilobytes(&server);

    let mut slow = Vec::new();
    for _ in 0..READERS {
        slow.push(asking(&server, "go on").await);
    }
    // Their runs come to an end although nobody listens.
    for (_, session) in &slow {
        assert_eq!(server.until(session, "idle").await["stop"], "end");
    }
    let (usual, grown) = (before - empty, resident_kilobytes(&server).saturating_sub(before));
    assert!(
        grown < usual + KEPT_KILOBYTES_MAX,
        "{READERS} slow readers cost {grown} kB, quick ones {usual} kB"
    );

    // Whoever reads after all has it whole.
    let (mut slowest, _) = slow.swap_remove(READERS / 2);
    let mut text = Vec::new();
    within("the whole stream", slowest.read_to_end(&mut text)).await.unwrap();
    assert_eq!(pieces(&String::from_utf8(text).unwrap()).concat(), long);
}

/// Pieces of an answer that is given slowly enough for everybody to follow, and bytes of each: more in all than a connection holds.
const SLOW_PIECES: usize = 3_000;
const SLOW_PIECE_BYTES: usize = 2_000;

#[tokio::test]
async fn what_a_reader_does_not_take_is_not_made_for_it() {
    let project = Project::new();
    let part = "0123456789".repeat(SLOW_PIECES * SLOW_PIECE_BYTES / 300);
    let script = format!(
        "replies:\n  - when: {{ user: '^(\\d+)' }}\n    say: \"{}\"\n    chunk: {SLOW_PIECE_BYTES}\n    delay: 1ms\n",
        "{{1}}".repeat(30)
    );
    project.write("models/helper.yaml", &script);
    project.build();
    let server = project.serve().start().await;
    let (mut slow, session) = asking(&server, &part).await;
    assert_eq!(server.until(&session, "idle").await["stop"], "end");
    let mut text = Vec::new();
    within("the whole stream", slow.read_to_end(&mut text)).await.unwrap();
    let pieces = pieces(&String::from_utf8(text).unwrap());
    assert!(pieces.concat() == part.repeat(30));
    // What was said while it did not read comes in one piece: nobody has kept the frames for it.
    assert!(pieces.len() < SLOW_PIECES * 3 / 4, "{} pieces of {SLOW_PIECES}", pieces.len());
}

/// Asks for a stream, with little room for what comes, and reads nothing of it but which session it is about.
async fn asking(server: &Server, message: &str) -> (TcpStream, String) {
    let url = server.url("/agents/helper/chat/stream?format=native");
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(host.parse().unwrap()).await.unwrap();
    let body = json!({ "message": message }).to_string();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within("the head of an answer", stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let session = head.lines().find_map(|line| line.strip_prefix("x-weir-session: "));
    (stream, session.unwrap_or_else(|| panic!("{head}")).to_owned())
}

/// The pieces of a native stream; lines that are cut by chunks are put together first.
fn pieces(mut rest: &str) -> Vec<String> {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap();
    }
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let data = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    data.filter(|data| data["kind"] == "text.delta")
        .map(|data| data["delta"].as_str().unwrap().to_owned())
        .collect()
}

fn resident_kilobytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

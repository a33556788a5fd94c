//! Other users of the machine on the loopback listener without authentication. The requests come from a real process of another
//! user, which only root can start; anyone else sees these tests skipped, aloud.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use crate::kit::{Project, Server, token};

/// `nobody`.
const OTHER: u32 = 65_534;

/// Whether tests can be somebody else.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can act as another user");
    }
    is_root
}

/// The status and the body of a request that another user sends with curl.
fn other(server: &Server, path: &str, more: &[&str]) -> (u16, String) {
    as_user(OTHER, &server.url(path), more)
}

fn as_user(user: u32, url: &str, more: &[&str]) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "-w", "\n%{http_code}", url]).args(more);
    let output = curl.uid(user).gid(user).current_dir("/").env("HOME", "/").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap_or_else(|| {
        panic!("{url}: {}", String::from_utf8_lossy(&output.stderr));
    });
    (status.parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn another_user_of_the_machine_is_not_the_owner() {
    if !is_root() {
        return;
    }
    let project = Project::new();
    let server = project.serve().start().await;
    let body = json!({"message": "hello"}).to_string();
    let say = ["-H", "content-type: application/json", "-d", &body];
    let any = ["-H", "authorization: Bearer sk-of-some-vendor"];
    let key = ["-H", "x-api-key: sk-of-some-vendor"];
    for (path, more) in [
        ("/sessions", &[][..]),
        ("/metrics", &[]),
        ("/approvals", &[]),
        ("/agents/helper/chat", &say[..]),
        ("/v1/models", &any[..]),
        ("/v1/models", &key[..]),
        ("/streams", &any[..]),
    ] {
        let (status, said) = other(&server, path, more);
        assert_eq!(status, 401, "{path} {more:?}: {said}");
        assert!(said.contains("weir token issue"), "it says what to do: {said}");
        assert_ne!(as_user(0, &server.url(path), more).0, 401, "{path}: the owner is let in");
    }
    assert_eq!(other(&server, "/health", &[]).0, 200);
    assert_eq!(other(&server, "/ready", &[]).0, 200);
    let sessions = server.get("/sessions").await.ok();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "the owner's, and no other: {sessions}");

    // With a token it is whoever that names.
    let alice = format!("authorization: Bearer {}", token(&project, "user:alice", &[]));
    let (status, seen) = other(&server, "/sessions", &["-H", &alice]);
    assert_eq!(status, 200, "{seen}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&seen).unwrap()["sessions"], json!([]));
    assert_eq!(other(&server, "/metrics", &["-H", &alice]).0, 403);
}

#[tokio::test]
async fn another_user_is_told_apart_on_the_newer_family_as_well() {
    if !is_root() {
        return;
    }
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: this machine has no loopback address of IPv6");
        return;
    }
    let server = Project::new().serve().arg("--host").arg("::1").start().await;
    assert_eq!(other(&server, "/sessions", &[]).0, 401);
    assert_eq!(as_user(0, &server.url("/sessions"), &[]).0, 200);
}

/// The kernel names user 0 for a socket that was closed: whoever is gone before the server looks must not be taken for root.
#[tokio::test]
async fn a_connection_that_is_closed_before_it_is_looked_at_belongs_to_nobody() {
    if !is_root() {
        return;
    }
    let server = Project::new().serve().start().await;
    let body = json!({"message": "hello"}).to_string();
    let request = format!(
        "POST /agents/helper/chat HTTP/1.1\\r\\nhost: 127.0.0.1:{}\\r\\ncontent-type: application/json\\r\\n\
         content-length: {}\\r\\n\\r\\n{body}",
        server.port,
        body.len()
    );
    let script = format!(
        "for i in $(seq 300); do exec 3<>/dev/tcp/127.0.0.1/{}; printf '{}' >&3; exec 3>&-; done",
        server.port,
        request.replace('%', "%%")
    );
    let ran =
        Command::new("bash").args(["-c", &script]).uid(OTHER).gid(OTHER).current_dir("/").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // Everything that came before is taken up before this is answered.
    server.get("/health").await;
    assert_eq!(server.get("/sessions").await.ok()["sessions"], json!([]));
}

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

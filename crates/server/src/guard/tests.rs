//! Whom requests are meant for, and whose pages send them.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;

use super::origin::{Origin, host};
use super::{LOGGED_SEGMENT_MAX, is_host, is_origin, loggable};
use crate::auth::{Ends, PeerUser};

fn ends(local: &str) -> Ends {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    Ends { peer: address("127.0.0.1:9"), local: address(local), user: PeerUser::Owner }
}

fn status_of(named: &str, allowed: &[&str], local: &str) -> u16 {
    let request = Request::builder().uri("/").header("host", named).body(Body::empty()).unwrap();
    let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
    host(&request, &allowed, Some(ends(local))).map_or_else(|error| error.status.as_u16(), |_| 200)
}

#[test]
fn a_server_is_called_by_names_of_this_machine_and_those_it_was_given() {
    for (named, allowed, local, expected) in [
        ("127.0.0.1:8080", &[][..], "127.0.0.1:8080", 200),
        ("127.8.9.1:8080", &[], "127.0.0.1:8080", 200),
        ("[::1]:8080", &[], "127.0.0.1:8080", 200),
        ("localhost:8080", &[], "127.0.0.1:8080", 200),
        ("localhost", &[], "127.0.0.1:80", 200),
        ("localhost", &[], "127.0.0.1:8080", 421),
        ("localhost:9", &[], "127.0.0.1:8080", 421),
        ("10.0.0.5:8080", &[], "10.0.0.5:8080", 200),
        ("10.0.0.5:8080", &[], "[::ffff:10.0.0.5]:8080", 200),
        ("10.0.0.6:8080", &[], "10.0.0.5:8080", 421),
        ("weir.example", &["weir.example"], "10.0.0.5:8080", 200),
        ("weir.example:9", &["weir.example"], "10.0.0.5:8080", 200),
        ("weir.example:9", &["weir.example:8"], "10.0.0.5:8080", 421),
        ("weir.example", &["weir.example:8"], "10.0.0.5:8080", 421),
        ("a.weir.example", &["weir.example"], "10.0.0.5:8080", 421),
        ("weir.example.", &["weir.example"], "10.0.0.5:8080", 421),
    ] {
        assert_eq!(status_of(named, allowed, local), expected, "{named} {allowed:?} {local}");
    }
}

#[test]
fn pages_of_others_may_not_ask() {
    let own = "127.0.0.1:8080".parse().unwrap();
    let allowed = ["https://app.example/".to_owned()];
    for (origin, expected) in [
        ("http://127.0.0.1:8080", true),
        ("https://127.0.0.1:8080", true),
        ("https://app.example", true),
        ("https://app.example:444", false),
        ("http://127.0.0.1:8081", false),
        ("http://127.0.0.1:8080.evil.example", false),
        ("null", false),
        ("", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("origin", origin.parse().unwrap());
        assert_eq!(Origin::of(&headers, &own, &allowed).is_ok(), expected, "{origin:?}");
        headers.append("origin", origin.parse().unwrap());
        assert!(Origin::of(&headers, &own, &allowed).is_err(), "twice: {origin:?}");
    }
    assert_eq!(Origin::of(&HeaderMap::new(), &own, &allowed).unwrap(), None);
}

#[test]
fn what_can_be_allowed() {
    assert!(["weir.example", "weir.example:80", "[::1]:80", "10.0.0.1"].iter().all(|host| is_host(host)));
    assert!(["", "*", "a/b", "a@b", "a b", "a:99999", "http://a"].iter().all(|host| !is_host(host)));
    assert!(["https://a", "http://a:80", "https://a/"].iter().all(|origin| is_origin(origin)));
    assert!(["a", "ftp://a", "https://", "https://a/b", "*", "null"].iter().all(|origin| !is_origin(origin)));
}

#[test]
fn the_log_repeats_no_credential_from_a_path() {
    assert_eq!(loggable("/sessions/01J0/events"), "/sessions/01J0/events");
    assert_eq!(loggable("/streams/eyJhbGciOiJIUzI1NiJ9.e30.c2ln/events"), "/streams/[redacted]/events");
    assert_eq!(loggable("/blobs/weir_c2VjcmV0"), "/blobs/[redacted]");
    assert_eq!(loggable(&format!("/streams/{}", "a".repeat(LOGGED_SEGMENT_MAX + 1))), "/streams/[redacted]");
}

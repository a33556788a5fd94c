//! Calls to a server behind HTTP, on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_mcp::{Call, CallError, Server, Target};

use crate::stage::{call, shown, until};
use crate::web::{HANG_UP, Reply, Web, event, events, message};

const SOON: Duration = Duration::from_secs(1);

/// A reply that is given to the tool `odd` and nobody else.
fn odd(reply: impl Fn() -> Reply + Send + Sync + 'static) -> impl Fn(&crate::web::Request) -> Option<Reply> {
    move |request| (request.what() == "odd").then(&reply)
}

#[tokio::test]
async fn a_session_is_opened_used_and_given_back() {
    let web = Web::new(|_| None).await;
    assert_eq!(web.shown("echo").await, "hi");
    assert_eq!(web.shown("echo").await, "hi");
    let request = web.last("echo");
    assert_eq!(request.header("mcp-session-id"), "s0");
    assert_eq!(request.header("mcp-protocol-version"), "2025-06-18");
    assert_eq!(web.last("initialize").header("mcp-session-id"), "");
    assert!(web.connections.close().await);
    assert_eq!(web.last("DELETE").header("mcp-session-id"), "s0");
    assert_eq!(web.count("initialize"), 1);
    assert_eq!(web.count("tools/list"), 1);
}

#[tokio::test]
async fn answers_come_as_events_after_whatever_else_is_said() {
    let web = Web::new(|request| {
        (request.what() == "odd").then(|| {
            let answer = event(&request.text("from a stream"));
            events(&[
                ": alive\n\n",
                "unknown: field\r\rretry: soon\rid: a\rid: b\r\r",
                "event: ping\ndata: {}\n\n",
                "data: not json\n\n",
                &event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#),
                &event(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#),
                &event(r#"{"jsonrpc":"2.0","id":"b","method":"sampling/createMessage","params":{}}"#),
                &answer,
            ])
        })
    })
    .await;
    assert_eq!(web.shown("odd").await, "from a stream");
    until(|| web.count("reply") == 2).await;
    let replies: Vec<_> =
        web.seen.lock().unwrap().iter().filter(|seen| seen.what() == "reply").cloned().collect();
    assert!(replies.iter().any(|reply| reply.body == json!({"jsonrpc": "2.0", "id": "a", "result": {}})));
    assert!(replies.iter().any(|reply| reply.body["id"] == "b" && reply.body["error"]["code"] == -32601));
}

#[tokio::test]
async fn a_hundred_calls_at_once_and_a_slow_one_delays_none() {
    let (go, gone) = mpsc::channel(1);
    let gone = Arc::new(Mutex::new(Some(gone)));
    let web = Web::new(move |request| match request.what().as_str() {
        "slow" => gone.lock().unwrap().take().map(Reply::Events),
        _ => None,
    })
    .await;
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let (connections, target) = (web.connections.clone(), web.target.clone());
        let tool = if n == 0 { "slow" } else { "echo" };
        calls.spawn(async move { (n, shown(&connections.call(&target, call(tool, "{}")).await)) });
    }
    for _ in 1..100 {
        assert_eq!(calls.join_next().await.unwrap().unwrap().1, "hi");
    }
    let answer = event(&web.last("slow").text("at last"));
    go.send(answer).await.unwrap();
    assert_eq!(calls.join_next().await.unwrap().unwrap(), (0, "at last".to_owned()));
    assert_eq!(web.count("initialize"), 1);
}

#[tokio::test]
async fn many_that_are_not_answered_delay_none() {
    let web = Web::new(odd(|| Reply::Silence)).await;
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let (connections, target) = (web.connections.clone(), web.target.clone());
        calls.spawn(async move { shown(&connections.call(&target, call("odd", "{}")).await) });
    }
    until(|| web.count("odd") == 100).await;
    assert_eq!(web.shown("echo").await, "hi");
    assert!(web.connections.close().await);
    for answered in calls.join_all().await {
        assert!(answered.starts_with("mcp::cancelled (may have happened)"), "{answered}");
    }
}

#[tokio::test]
async fn who_is_not_there_has_not_been_asked() {
    // No connection is kept, so that the next one has to be made.
    let mut web = Web::new(|request| {
        let result = match request.what().as_str() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "w", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {}}]}),
            "echo" => json!({"content": []}),
            _ => return Some(Reply::Whole(202, HANG_UP, String::new())),
        };
        let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string();
        Some(Reply::Whole(200, HANG_UP, body))
    })
    .await;
    assert_eq!(web.shown("echo").await, "");
    web.stop().await;
    let answered = web.shown("echo").await;
    assert!(answered.starts_with("mcp::unreachable (did not happen)"), "{answered}");
}

#[tokio::test]
async fn what_breaks_in_mid_call_was_sent_once() {
    type Breaks = fn() -> Reply;
    let cases: [(Breaks, &str); 3] = [
        // Hung up, on a connection that was used before: what a client is most tempted to repeat.
        (|| Reply::Nothing, "mcp::unreachable (may have happened): the server cannot be reached: "),
        (|| events(&[": begun\n\n"]), "mcp::ended (may have happened): the server ended before it answered"),
        (
            || Reply::Whole(502, "", "bad gateway".to_owned()),
            "mcp::status (may have happened): the server answered HTTP 502",
        ),
    ];
    for (reply, expected) in cases {
        let web = Web::new(odd(reply)).await;
        assert_eq!(web.shown("echo").await, "hi");
        let answered = web.shown("odd").await;
        assert!(answered.starts_with(expected), "{answered}");
        assert_eq!(web.shown("echo").await, "hi");
        assert_eq!(web.count("odd"), 1);
    }
}

#[tokio::test]
async fn statuses_say_whether_anything_ran() {
    for (status, expected) in [
        (400, "mcp::session-ended (did not happen): the server has ended the session (HTTP 400)"),
        (401, "mcp::credentials (did not happen): the server wants credentials (HTTP 401)"),
        (403, "mcp::credentials (did not happen): the server wants credentials (HTTP 403)"),
        (
            408,
            "mcp::status (may have happened): the server answered HTTP 408; the tool may have run all the same",
        ),
        (413, "mcp::status (did not happen): the server answered HTTP 413"),
        (429, "mcp::status (did not happen): the server answered HTTP 429"),
        (
            500,
            "mcp::status (may have happened): the server answered HTTP 500; the tool may have run all the same",
        ),
        (
            503,
            "mcp::status (may have happened): the server answered HTTP 503; the tool may have run all the same",
        ),
        (
            307,
            "mcp::redirected (did not happen): the server redirects to `http://elsewhere.example/`, and redirects are not followed",
        ),
    ] {
        let web = Web::new(odd(move || {
            Reply::Whole(status, "location: http://elsewhere.example/\r\n", String::new())
        }))
        .await;
        assert_eq!(web.shown("odd").await, expected);
        assert_eq!(web.count("odd"), 1, "{status}");
    }
}

#[tokio::test]
async fn an_error_of_the_protocol_counts_whatever_its_status() {
    for status in [200, 400, 500] {
        let web = Web::new(move |request| {
            let error = json!({"code": -32602, "message": "no such\ncolumn"});
            let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}).to_string();
            (request.what() == "odd")
                .then(|| Reply::Whole(status, "content-type: application/json\r\n", body))
        })
        .await;
        assert_eq!(
            web.shown("odd").await,
            "mcp::call-refused (did not happen): the server refused the call (-32602): no such column",
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_session_that_is_gone_is_begun_anew_and_its_tools_are_checked() {
    let web = Web::new(|request| {
        let is_old = request.header("mcp-session-id") == "s0";
        (request.what() == "odd" && is_old).then(|| Reply::Whole(404, "", "no such session".to_owned()))
    })
    .await;
    assert_eq!(web.shown("echo").await, "hi");
    // The server said that it did not read it, so it is sent again.
    assert_eq!(web.shown("odd").await, "hi");
    assert_eq!(web.last("odd").header("mcp-session-id"), "s1");
    assert_eq!((web.count("initialize"), web.count("tools/list"), web.count("odd")), (2, 2, 2));
}

#[tokio::test]
async fn a_session_that_is_always_gone_is_not_begun_for_ever() {
    let web = Web::new(odd(|| Reply::Whole(404, "", String::new()))).await;
    assert_eq!(
        web.shown("odd").await,
        "mcp::session-ended (did not happen): the server has ended the session (HTTP 404)"
    );
    assert_eq!((web.count("initialize"), web.count("odd")), (2, 2));
}

#[tokio::test]
async fn a_session_that_is_unknown_in_other_words_is_begun_anew_by_the_next_call() {
    for names_the_request in [false, true] {
        let web = Web::new(move |request| {
            let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
            let id = if names_the_request { request.body["id"].clone() } else { json!(null) };
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            let is_old = request.header("mcp-session-id") == "s0";
            (request.what() == "odd" && is_old)
                .then(|| Reply::Whole(400, "content-type: application/json\r\n", body))
        })
        .await;
        assert_eq!(
            web.shown("odd").await,
            "mcp::session-ended (did not happen): the server has ended the session (HTTP 400); \
             it said: Bad Request: No valid session ID provided"
        );
        assert_eq!(web.count("odd"), 1);
        assert_eq!(web.shown("odd").await, "hi");
    }
}

#[tokio::test]
async fn a_deadline_is_kept_and_the_server_is_told() {
    let silent: [fn() -> Reply; 2] = [|| Reply::Silence, || events_that_never_end()];
    for reply in silent {
        let web = Web::new(odd(reply)).await;
        assert_eq!(web.shown("echo").await, "hi");
        let odd = Call { deadline: SOON, ..call("odd", "{}") };
        let answered = shown(&web.connections.call(&web.target, odd).await);
        assert!(answered.starts_with("mcp::late (may have happened)"), "{answered}");
        until(|| web.count("notifications/cancelled") == 1).await;
        let id = web.last("odd").body["id"].clone();
        assert_eq!(web.last("notifications/cancelled").body["params"]["requestId"], id);
        assert_eq!(web.shown("echo").await, "hi");
        assert_eq!((web.count("initialize"), web.count("odd")), (1, 1));
    }
}

/// A stream that says it is alive, and nothing else.
fn events_that_never_end() -> Reply {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while sender.send(": alive\n\n".to_owned()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    Reply::Events(receiver)
}

#[tokio::test]
async fn floods_cost_their_own_call_alone() {
    const MEGABYTE: usize = 1024 * 1024;
    fn flood(piece: String) -> Reply {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move { while sender.send(piece.clone()).await.is_ok() {} });
        Reply::Events(receiver)
    }
    type Floods = fn() -> Reply;
    let cases: [(Floods, usize); 4] = [
        (|| message(" ".repeat(17 * MEGABYTE)), 16 * MEGABYTE),
        (|| flood("x".repeat(MEGABYTE)), 16 * MEGABYTE),
        (|| flood(format!(": {}\n\n", "x".repeat(MEGABYTE))), 64 * MEGABYTE),
        (
            || {
                flood(event(&format!(
                    r#"{{"method":"notifications/message","params":"{}"}}"#,
                    "x".repeat(MEGABYTE)
                )))
            },
            64 * MEGABYTE,
        ),
    ];
    for (reply, limit) in cases {
        let web = Web::new(odd(reply)).await;
        let expected = format!(
            "mcp::too-much (may have happened): the server sends more than {limit} bytes; the tool may have run all the same"
        );
        assert_eq!(web.shown("odd").await, expected);
        assert_eq!(web.shown("echo").await, "hi");
        assert_eq!((web.count("initialize"), web.count("odd")), (1, 1));
    }
}

#[tokio::test]
async fn a_flood_on_the_sessions_stream_ends_the_session() {
    let floods = Arc::new(AtomicUsize::new(0));
    let web = Web::new(move |request| {
        (request.what() == "GET" && floods.fetch_add(1, Ordering::SeqCst) == 0).then(|| {
            let (sender, receiver) = mpsc::channel(1);
            let log = event(&format!(
                r#"{{"method":"notifications/message","params":"{}"}}"#,
                "x".repeat(1_000_000)
            ));
            tokio::spawn(async move { while sender.send(log.clone()).await.is_ok() {} });
            Reply::Events(receiver)
        })
    })
    .await;
    let first = web.call("echo").await;
    assert!(first.is_ok(), "{}", shown(&first));
    until(|| web.connections.count() == 0).await;
    assert_eq!(web.last("DELETE").header("mcp-session-id"), "s0");
    assert_eq!(web.shown("echo").await, "hi");
    assert_eq!(web.last("echo").header("mcp-session-id"), "s1");
}

#[tokio::test]
async fn nonsense_costs_its_own_call_alone() {
    let long = "<html>".to_owned() + &"x".repeat(1000);
    let cases = [
        (long.clone(), format!("the server wrote `{}`", &long[..120])),
        (r#"{"jsonrpc":"2.0","id":12345,"result":{}}"#.to_owned(), "the server wrote `{".to_owned()),
        (String::new(), "the server wrote ``".to_owned()),
    ];
    for (body, expected) in cases {
        let web = Web::new(odd(move || message(body.clone()))).await;
        let answered = web.shown("odd").await;
        assert!(
            answered.starts_with(&format!("mcp::nonsense (may have happened): {expected}")),
            "{answered}"
        );
        assert_eq!(web.shown("echo").await, "hi");
        assert_eq!((web.count("initialize"), web.count("odd")), (1, 1));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_resumed_where_it_was() {
    let web = Web::new(|request| match request.what().as_str() {
        "odd" => Some(events(&["id: e1\nretry: 150\ndata:\n\n"])),
        "GET" if request.header("last-event-id") == "e1" => Some(events(&["id: e2\nretry: 100\ndata:\n\n"])),
        "GET" if request.header("last-event-id") == "e2" => {
            let answer =
                r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"resumed"}]}}"#;
            Some(events(&[&event(answer)]))
        }
        _ => None,
    })
    .await;
    assert_eq!(web.shown("odd").await, "resumed");
    assert_eq!(web.last("odd").body["id"], 2);
    assert_eq!(web.count("odd"), 1);
    let get = web.last("GET");
    assert_eq!((get.header("mcp-session-id"), get.header("last-event-id")), ("s0", "e2"));
    // The stream of the session itself, and the call's, twice.
    assert_eq!(web.count("GET"), 3);
}

#[tokio::test]
async fn a_server_that_wants_to_be_hammered_is_not() {
    let web = Web::new(|request| match request.what().as_str() {
        "odd" => Some(events(&["id: e1\nretry: 0\ndata:\n\n"])),
        "GET" if !request.header("last-event-id").is_empty() => Some(events(&["retry: 0\n\n"])),
        _ => None,
    })
    .await;
    let odd = Call { deadline: SOON, ..call("odd", "{}") };
    let answered = shown(&web.connections.call(&web.target, odd).await);
    assert!(answered.starts_with("mcp::late"), "{answered}");
    // At most once in a tenth of a second.
    assert!((2..=12).contains(&web.count("GET")), "{}", web.count("GET"));
}

/// A server whose tools change, which it says on the session's own stream.
async fn changing(tools: &Arc<Mutex<serde_json::Value>>, said: mpsc::Receiver<String>) -> Web {
    let (tools, said) = (Arc::clone(tools), Arc::new(Mutex::new(Some(said))));
    Web::new(move |request| match request.what().as_str() {
        "GET" => said.lock().unwrap().take().map(Reply::Events),
        "tools/list" => {
            let result = json!({"tools": *tools.lock().unwrap()});
            Some(message(json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string()))
        }
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_change_that_is_told_on_the_sessions_stream_is_seen() {
    let tools = Arc::new(Mutex::new(json!([{"name": "echo", "inputSchema": {}}])));
    let (say, said) = mpsc::channel(4);
    let web = changing(&tools, said).await;
    assert_eq!(web.shown("echo").await, "hi");
    *tools.lock().unwrap() = json!([]);
    say.send(event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)).await.unwrap();
    // A request on the same stream, behind it: when that is answered, it has been heard.
    say.send(event(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#)).await.unwrap();
    until(|| web.count("reply") == 1).await;
    let answered = web.call("echo").await;
    assert!(matches!(answered, Err(CallError::Changed { .. })), "{}", shown(&answered));
    assert_eq!((web.count("echo"), web.count("tools/list")), (1, 2));
}

#[tokio::test]
async fn what_was_said_while_the_sessions_stream_was_closed_is_asked_for() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let (say, said) = mpsc::channel::<String>(1);
    let said = Arc::new(Mutex::new(Some(said)));
    let web = Web::new(move |request| match request.what().as_str() {
        "GET" => match count.fetch_add(1, Ordering::SeqCst) {
            0 => Some(events(&["retry: 100\n\n"])),
            _ => said.lock().unwrap().take().map(Reply::Events),
        },
        _ => None,
    })
    .await;
    assert_eq!(web.shown("echo").await, "hi");
    assert_eq!(web.count("tools/list"), 1);
    // The second stream says something, so it is open.
    say.send(event(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#)).await.unwrap();
    until(|| web.count("reply") == 1).await;
    assert_eq!(web.shown("echo").await, "hi");
    assert_eq!(web.count("tools/list"), 2);
}

#[tokio::test]
async fn two_identities_have_two_sessions_and_their_own_credentials() {
    let web = Web::new(|_| None).await;
    for (identity, token, session) in
        [("ada", "Bearer a", "s0"), ("bob", "Bearer b", "s1"), ("ada", "Bearer a", "s0")]
    {
        let target = web.as_user(identity, token);
        assert_eq!(shown(&web.connections.call(&target, call("echo", "{}")).await), "hi");
        let request = web.last("echo");
        assert_eq!((request.header("authorization"), request.header("mcp-session-id")), (token, session));
    }
    // Every request carries them, the last one included.
    assert!(web.connections.close().await);
    let seen = web.seen.lock().unwrap();
    for request in seen.iter() {
        let expected = match request.header("mcp-session-id") {
            "s0" => "Bearer a",
            "s1" => "Bearer b",
            _ => continue,
        };
        assert_eq!(request.header("authorization"), expected, "{request:?}");
    }
    assert_eq!(seen.iter().filter(|request| request.method == "DELETE").count(), 2);
}

#[tokio::test]
async fn no_credential_is_in_an_error_of_ours() {
    const TOKEN: &str = "Bearer planted-token";
    for status in [401, 404, 500, 302] {
        let web = Web::new(move |_| Some(Reply::Whole(status, "", String::new()))).await;
        let error = web.connections.call(&web.as_user("ada", TOKEN), call("echo", "{}")).await.unwrap_err();
        assert_eq!(web.last("initialize").header("authorization"), TOKEN);
        assert!(!format!("{error} {error:?}").contains("planted"), "{error:?}");
    }
    let mut web = Web::new(|_| None).await;
    web.stop().await;
    let target = web.as_user("ada", TOKEN);
    let error = web.connections.call(&target, call("echo", "{}")).await.unwrap_err();
    assert!(!format!("{error} {error:?} {target:?}").contains("planted"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_reached_again_and_checked_again() {
    let mut web = Web::new(|_| None).await;
    assert_eq!(web.shown("echo").await, "hi");
    web.stop().await;
    let answered = web.shown("echo").await;
    // The connection that was kept open may have taken the bytes.
    assert!(answered.starts_with("mcp::unreachable"), "{answered}");
    let answered = web.shown("echo").await;
    assert!(answered.starts_with("mcp::unreachable (did not happen)"), "{answered}");
    let answered = web.shown("echo").await;
    assert!(answered.starts_with("mcp::backing-off (did not happen)"), "{answered}");
    web.replace(|_| None).await;
    let mut works = false;
    let again = async {
        while !works {
            tokio::time::sleep(Duration::from_millis(20)).await;
            works = web.call("echo").await.is_ok();
        }
    };
    tokio::time::timeout(crate::PLENTY, again).await.expect("it is reached again");
    assert_eq!(web.count("tools/list"), 2);
}

#[tokio::test]
async fn nothing_is_sent_in_the_clear_over_the_network() {
    let web = Web::new(|_| None).await;
    let target =
        Target { server: Server::Http { url: "http://192.0.2.1/mcp".to_owned() }, ..web.as_user("ada", "t") };
    assert_eq!(
        shown(&web.connections.call(&target, call("echo", "{}")).await),
        "mcp::in-the-clear (did not happen): the server would be spoken to in the clear, over the network"
    );
}

#[tokio::test]
async fn a_server_without_sessions_will_do() {
    let web = Web::new(|request| {
        (request.what() == "initialize").then(|| {
            let result = json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "w", "version": "1"},
            });
            message(json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string())
        })
    })
    .await;
    assert_eq!(web.shown("echo").await, "hi");
    assert_eq!(web.last("echo").header("mcp-session-id"), "");
    assert!(web.connections.close().await);
    assert_eq!((web.count("DELETE"), web.count("GET")), (0, 0));
}

//! What goes wrong on a network goes wrong on every wire.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use weir_models::{Endpoint, HttpClient, Limits, Piece, connect};
use weir_types::{FailureClass, Secret, Usage, Wire};

use crate::fixture::{ANTHROPIC, CHAT, GEMINI, KEY, PLANTED, RESPONSES, Wired, run, short_idle, usage};
use crate::stub::{DEADLINE, Reply, Stub, Then, chunk};
use crate::{anthropic, gemini, openai_chat, openai_responses};

struct Case {
    wired: &'static Wired,
    /// An answer that says `Grüße 🙂`.
    text: Vec<String>,
    mid_stream_error: fn(&str) -> Vec<String>,
    /// What was counted before such an error.
    counted: Option<Usage>,
    rate_limit: &'static str,
    overload: (u16, &'static str),
    /// The same in mid-stream.
    overload_event: &'static str,
    overflow: &'static str,
}

fn cases() -> [Case; 4] {
    [
        Case {
            wired: &ANTHROPIC,
            text: anthropic::text(),
            mid_stream_error: anthropic::mid_stream_error,
            counted: Some(usage(115, 1, 100, 5)),
            rate_limit: r#"{"type":"error","error":{"type":"rate_limit_error","message":"too many"}}"#,
            overload: (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            overload_event: r#"{"type":"overloaded_error","message":"Overloaded"}"#,
            overflow: r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 tokens > 1 maximum"}}"#,
        },
        Case {
            wired: &CHAT,
            text: openai_chat::text(),
            mid_stream_error: openai_chat::mid_stream_error,
            counted: None,
            rate_limit: r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#,
            overload: (
                503,
                r#"{"error":{"message":"The engine is currently overloaded","type":"server_error"}}"#,
            ),
            overload_event: r#"{"message":"The server is overloaded","type":"server_error","code":503}"#,
            overflow: r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        },
        Case {
            wired: &RESPONSES,
            text: openai_responses::text(),
            mid_stream_error: openai_responses::mid_stream_error,
            counted: None,
            rate_limit: r#"{"error":{"message":"slow down","type":"tokens","code":"rate_limit_exceeded"}}"#,
            overload: (
                503,
                r#"{"error":{"message":"Our servers are currently overloaded.","type":"server_error"}}"#,
            ),
            overload_event: r#"{"code":"server_is_overloaded","message":"try later"}"#,
            overflow: r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}"#,
        },
        Case {
            wired: &GEMINI,
            text: gemini::text(),
            mid_stream_error: gemini::mid_stream_error,
            counted: Some(usage(120, 7, 100, 0)),
            rate_limit: r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}"#,
            overload: (
                503,
                r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            ),
            overload_event: r#"{"code":503,"message":"busy","status":"UNAVAILABLE"}"#,
            overflow: r#"{"error":{"code":400,"message":"The input token count (2) exceeds the maximum number of tokens allowed (1).","status":"INVALID_ARGUMENT"}}"#,
        },
    ]
}

fn is_json() -> (&'static str, &'static str) {
    ("content-type", "application/json")
}

#[tokio::test]
async fn any_cut_between_two_bytes_changes_nothing() {
    for case in cases() {
        let expected = case.wired.ask(Reply::events(&case.text)).await;
        let outcome = case.wired.ask(Reply::events(&case.text).byte_by_byte()).await;
        assert_eq!(outcome, expected, "{}", case.wired.wire);
    }
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    for case in cases() {
        let headers = [is_json(), ("retry-after", "7")];
        let outcome = case.wired.ask(Reply::status(429, &headers, case.rate_limit)).await;
        let error = outcome.error();
        let expected = (FailureClass::RateLimited, Some(Duration::from_secs(7)), None);
        assert_eq!((error.class, error.retry_after, error.usage), expected, "{}", case.wired.wire);
    }
}

#[tokio::test]
async fn an_overloaded_server_is_told_from_a_broken_one() {
    for case in cases() {
        let (status, body) = case.overload;
        let outcome = case.wired.ask(Reply::status(status, &[is_json()], body)).await;
        assert_eq!(outcome.error().class, FailureClass::Overloaded, "{}", case.wired.wire);
        let outcome =
            case.wired.ask(Reply::status(502, &[("content-type", "text/html")], "<p>bad gateway")).await;
        assert_eq!(outcome.error().class, FailureClass::Transport, "{}", case.wired.wire);
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_ends_the_answer_with_its_class_and_usage() {
    for case in cases() {
        let events = (case.mid_stream_error)(case.overload_event);
        let outcome = case.wired.ask(Reply::events(&events)).await;
        assert_eq!(outcome.joined()[0].2, "Grüße ", "{}", case.wired.wire);
        let error = outcome.error();
        let expected = (FailureClass::Overloaded, case.counted);
        assert_eq!((error.class, error.usage), expected, "{}: {error}", case.wired.wire);
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_as_such() {
    for case in cases() {
        let outcome = case.wired.ask(Reply::status(400, &[is_json()], case.overflow)).await;
        assert_eq!(outcome.error().class, FailureClass::ContextOverflow, "{}", case.wired.wire);
    }
}

#[tokio::test]
async fn a_connection_cut_at_any_event_truncates_the_answer() {
    for case in cases() {
        for count in 0..case.text.len() {
            let outcome = case.wired.ask(Reply::cut(&case.text, count)).await;
            let class = outcome.error().class;
            assert_eq!(class, FailureClass::Truncated, "{} after {count} events", case.wired.wire);
            let said: String = outcome.joined().into_iter().map(|(.., text)| text).collect();
            assert!("Grüße 🙂".starts_with(&said), "{said}");
        }
        // An event is one when the blank line after it is there.
        let body = case.text.concat();
        let unfinished = [body[..body.len() - 1].to_owned()];
        let outcome = case.wired.ask(Reply::cut(&unfinished, 1)).await;
        assert_eq!(outcome.error().class, FailureClass::Truncated, "{}", case.wired.wire);
        // Before the answer has begun there is nothing to truncate.
        let silent = Reply { writes: vec![], then: Then::Close };
        assert_eq!(
            case.wired.ask(silent).await.error().class,
            FailureClass::Transport,
            "{}",
            case.wired.wire
        );
    }
}

#[tokio::test]
async fn an_answer_cut_inside_a_character_is_truncated_and_never_garbled() {
    for case in cases() {
        let body = case.text.concat().into_bytes();
        let smile = body.windows(4).position(|bytes| bytes == "🙂".as_bytes()).unwrap();
        for cut in smile + 1..smile + 4 {
            let head = Reply::events(&[]).writes.remove(0);
            let part = chunk(&body[..cut]);
            let broken = Reply { writes: vec![head.clone(), part.clone()], then: Then::Close };
            // A proxy may even end such a body properly.
            let ended = Reply { writes: vec![head, part, b"0\r\n\r\n".to_vec()], then: Then::KeepOpen };
            let closed = Reply::until_close("text/event-stream", &body[..cut]);
            for reply in [broken, ended, closed] {
                let outcome = case.wired.ask(reply).await;
                assert_eq!(outcome.error().class, FailureClass::Truncated, "{}", case.wired.wire);
                let said: String = outcome.joined().into_iter().map(|(.., text)| text).collect();
                assert_eq!(said, "Grüße ", "{}", case.wired.wire);
            }
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for case in cases() {
        // While the answer is on its way.
        let said = case.text.iter().position(|frame| frame.contains("Grüße")).unwrap() + 1;
        let mut stub = Stub::start([Reply::hang(&case.text, said)]).await;
        let model = case.wired.model(case.wired.endpoint(&stub));
        let mut stream = model.stream(model.encode(&case.wired.request()).unwrap(), 1);
        let first = tokio::time::timeout(DEADLINE, stream.next()).await.unwrap();
        assert!(matches!(first, Some(Ok(Piece::Delta(_)))), "{first:?}");
        drop(stream);
        stub.client_went_away().await;

        // Before it has begun.
        let mut stub = Stub::start([Reply { writes: vec![], then: Then::Hang }]).await;
        let model = case.wired.model(case.wired.endpoint(&stub));
        let mut stream = model.stream(model.encode(&case.wired.request()).unwrap(), 1);
        let asked = async {
            while stub.seen().is_empty() {
                assert_eq!(stream.next().now_or_never(), None);
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, asked).await.unwrap();
        drop(stream);
        stub.client_went_away().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    for case in cases() {
        let said = case.text.iter().position(|frame| frame.contains("Grüße")).unwrap() + 1;
        let silent = Reply { writes: vec![], then: Then::Hang };
        let error_without_body =
            Reply { writes: vec![b"HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\n".to_vec()], then: Then::Hang };
        for reply in [silent, Reply::hang(&case.text, said), error_without_body] {
            let outcome = case.wired.ask_within(reply, short_idle()).await;
            let error = outcome.error();
            let expected = (FailureClass::Transport, "`127.0.0.1` has said nothing for 200ms");
            assert_eq!((error.class, error.message.as_str()), expected, "{}", case.wired.wire);
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for case in cases() {
        let elsewhere = Stub::start([Reply::events(&case.text)]).await;
        let to = format!("http://{}/", elsewhere.address);
        let outcome = case.wired.ask(Reply::status(307, &[("location", &to)], "")).await;
        let error = outcome.error();
        assert_eq!(error.class, FailureClass::Invalid, "{}", case.wired.wire);
        assert!(error.message.contains("redirect"), "{error}");
        assert_eq!((elsewhere.connections(), elsewhere.seen()), (0, vec![]));
    }
}

#[tokio::test]
async fn garbage_is_not_understood_and_says_so() {
    for case in cases() {
        let garbage = [
            Reply::status(200, &[("content-type", "text/html; charset=utf-8")], "<html>Welcome!</html>"),
            Reply::status(200, &[is_json()], r#"{"hello":"world"}"#),
            Reply::status(200, &[("content-type", "text/event-stream")], "data: not json\n\n"),
            Reply::status(200, &[("content-type", "text/event-stream")], "data: [1,2]\n\n"),
            Reply::until_close("text/event-stream", b"data: \xff\xfe\n\n"),
        ];
        for reply in garbage {
            let outcome = case.wired.ask(reply.clone()).await;
            assert_eq!(outcome.error().class, FailureClass::Invalid, "{} {reply:?}", case.wired.wire);
        }
        // Not a single event: that is an answer without its end.
        let nothing = Reply::until_close("text/plain", b"hello\n\n");
        assert_eq!(
            case.wired.ask(nothing).await.error().class,
            FailureClass::Truncated,
            "{}",
            case.wired.wire
        );
        // An error that came as a success is still an error.
        let late = Reply::status(200, &[is_json()], case.rate_limit);
        assert_eq!(
            case.wired.ask(late).await.error().class,
            FailureClass::RateLimited,
            "{}",
            case.wired.wire
        );
    }
}

#[tokio::test]
async fn what_has_no_end_is_cut_off() {
    let limits = Limits {
        frame_bytes_max: 10_000,
        answer_bytes_max: 100_000,
        error_bytes_max: 1_000,
        ..Limits::default()
    };
    let endless = |first: &str, more: &str| {
        let mut writes = Reply::events(&[]).writes;
        writes.truncate(1);
        writes.extend((!first.is_empty()).then(|| chunk(first.as_bytes())));
        writes.extend(std::iter::repeat_n(chunk(more.repeat(100).as_bytes()), 200));
        Reply { writes, then: Then::Hang }
    };
    for case in cases() {
        let check = async |reply: Reply, expected: &str| {
            let outcome = case.wired.ask_within(reply, limits).await;
            let error = outcome.error();
            assert_eq!((error.class, error.message.as_str()), (FailureClass::Invalid, expected));
        };
        let too_long = "the answer cannot be read: an event is longer than 10000 bytes";
        check(endless("data: ", "0123456789"), too_long).await;
        check(endless("", "data: 0123456789\n"), too_long).await;
        check(endless("", ": keep-alive\n\n"), "the answer is longer than 100000 bytes").await;
        let head = b"HTTP/1.1 400 X\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        let error = Reply {
            writes: std::iter::once(head).chain(std::iter::repeat_n(chunk(&[b'e'; 100]), 100)).collect(),
            then: Then::Hang,
        };
        let outcome = case.wired.ask_within(error, limits).await;
        let expected = format!("the server answers 400 with `nothing`: {}", "e".repeat(460));
        assert!(outcome.error().message.starts_with(&expected), "{}", outcome.error());
    }
}

#[tokio::test]
async fn an_echoed_key_never_comes_out() {
    // Right where the message is cut, the front half of a key would be left.
    let long = format!("{}{KEY}", "x".repeat(455));
    for case in cases() {
        for said in [format!("wrong key {KEY}, {PLANTED}"), long.clone(), format!("{KEY}{KEY}\u{1b}[31m")] {
            let error = serde_json::json!({ "error": { "message": said } }).to_string();
            let replies = [
                Reply::status(401, &[is_json()], &error),
                Reply::status(401, &[("x-echo", KEY)], &said),
                Reply::status(200, &[("content-type", "text/html")], &said),
                Reply::events(&(case.mid_stream_error)(&serde_json::json!({ "message": said }).to_string())),
                Reply::status(200, &[("content-type", "text/event-stream")], &format!("data: {said}\n\n")),
            ];
            for reply in replies {
                let outcome = case.wired.ask(reply).await;
                let message = &outcome.error().message;
                assert!(message.contains("***") || !message.contains(&KEY[..8]), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_used_is_refused() {
    let refused = |wire: Wire, base_url: &str, key: Option<&str>| {
        let wired = Wired { wire, name: "a/b", key_header: ("", "") };
        let endpoint = Endpoint {
            base_url: base_url.into(),
            ..Endpoint::of(&wired.card(), wired.name, key.map(Secret::new))
        };
        let error = connect(&wired.card(), wired.name, endpoint, &HttpClient::new()).err().unwrap();
        format!("{}: {error}", error.class)
    };
    let chat = |base_url: &str| refused(Wire::OpenaiChat, base_url, None);
    assert_eq!(chat("x"), "invalid: the model's `base_url` is not a URL: relative URL without a base");
    assert_eq!(chat("ftp://x"), "invalid: the model's `base_url` has to begin with `https://` or `http://`");
    assert_eq!(
        chat("https://me:planted-key@x"),
        "invalid: the model's `base_url` has a user or a password in it; give the key as a key"
    );
    assert_eq!(
        refused(Wire::OpenaiChat, "https://x", Some("planted\nkey")),
        "auth: the key has characters that no key has"
    );
    assert_eq!(refused(Wire::Echo, "https://x", None), "invalid: `a/b` needs no connection");
}

#[tokio::test]
async fn nobody_at_home_is_a_matter_of_transport() {
    // It has the port and does not listen, so that no other test gets it.
    let gone = tokio::net::TcpSocket::new_v4().unwrap();
    gone.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = gone.local_addr().unwrap();
    for case in cases() {
        let endpoint = Endpoint {
            base_url: format!("http://{address}/{PLANTED}"),
            ..Endpoint::of(&case.wired.card(), case.wired.name, Some(Secret::new(KEY)))
        };
        let outcome = run(&*case.wired.model(endpoint.clone()), &case.wired.request()).await;
        case.wired.check_key(&outcome, &endpoint, &[]);
        assert_eq!(outcome.error().class, FailureClass::Transport);
        assert!(outcome.error().message.starts_with("no answer from `127.0.0.1`: "), "{}", outcome.error());
    }
}

//! The network as tools may reach it: what is refused never arrives, and no answer can do harm.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_tools::net::{Limits, Lookup, Net, NetError, Request, Response, Trouble};

use crate::serve::{Reply, Server, reply};

/// Names with the addresses a test gives them, one answer after another, the last one for ever.
#[derive(Default)]
struct Names(Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>);

impl Names {
    fn with(names: &[(&str, &[&str])]) -> Arc<Self> {
        let found = Self::default();
        for (name, addresses) in names {
            let addresses = addresses.iter().map(|each| each.parse().unwrap()).collect();
            found.0.lock().unwrap().entry((*name).to_owned()).or_default().push(addresses);
        }
        Arc::new(found)
    }
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let mut names = self.0.lock().unwrap();
        let answers = names.get_mut(&name);
        let found =
            answers.map(|answers| if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() });
        let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "no such name");
        Box::pin(std::future::ready(found.ok_or_else(missing)))
    }
}

fn get(url: impl Into<String>) -> Request {
    Request { method: "GET".to_owned(), url: url.into(), headers: Vec::new(), body: None }
}

fn post(url: impl Into<String>, body: &str) -> Request {
    Request { method: "POST".to_owned(), body: Some(body.to_owned().into()), ..get(url) }
}

fn with(mut request: Request, headers: &[(&str, &str)]) -> Request {
    request.headers.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    request
}

/// Far more than any of this takes.
fn limits() -> Limits {
    Limits::within(Duration::from_secs(60))
}

async fn fetch(request: Request, hosts: &[&str]) -> Result<Response, NetError> {
    fetch_with(&Net::default(), request, hosts).await
}

async fn fetch_with(net: &Net, request: Request, hosts: &[&str]) -> Result<Response, NetError> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    net.fetch(request, &hosts, &limits()).await
}

fn text(response: &Response) -> String {
    String::from_utf8(response.body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_listed_host_answers() {
    let server = Server::saying("404 Not Found\r\nx-a: b", "nothing here").await;
    let found = fetch(get(server.url("/p?q=1#hidden")), &[&server.host()]).await.unwrap();
    assert_eq!((found.status, text(&found).as_str(), found.header("x-a")), (404, "nothing here", Some("b")));
    assert_eq!((found.url, found.redirected), (server.url("/p?q=1"), false));
    let asked = server.asked();
    assert!(asked[0].starts_with("GET /p?q=1 HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(
        asked[0].contains("user-agent: weir/") && asked[0].contains("accept-encoding: gzip"),
        "{}",
        asked[0]
    );
}

#[tokio::test]
async fn localhost_is_this_machine_whatever_a_name_server_says() {
    let server = Server::saying("200 OK", "here").await;
    let net = Net::new(Names::with(&[("localhost", &["1.1.1.1"])]));
    let url = format!("http://localhost:{}/", server.port());
    let found = fetch_with(&net, get(url), &[&format!("LocalHost:{}", server.port())]).await.unwrap();
    assert_eq!(text(&found), "here");
}

/// Each of these would reach the server, were it not refused.
#[tokio::test]
async fn what_is_not_listed_stays_untouched() {
    let canary = Server::saying("200 OK", "touched").await;
    let port = canary.port();
    let names = Names::with(&[
        ("rebound.example", &["127.0.0.1"]),
        ("mapped.example", &["::ffff:127.0.0.1"]),
        ("weather", &["127.0.0.1"]),
        ("zero.internal", &["0.0.0.0"]),
        ("named.internal", &["127.0.0.1"]),
    ]);
    let net = Net::new(names);
    let at = |host: &str| format!("{host}:{port}");
    let check = async |url: String, hosts: Vec<String>, code: &str| {
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let error = fetch_with(&net, post(&url, "x"), &hosts).await.unwrap_err();
        assert_eq!(weir_types::Explain::code(&error), code, "{url}: {error}");
        assert!(!error.wrote, "{url}");
    };
    check(canary.url("/"), vec![], "net::host").await;
    check(canary.url("/"), vec![at("localhost"), "127.0.0.1".into(), "127.0.0.1:1".into()], "net::host")
        .await;
    check(format!("http://[::ffff:127.0.0.1]:{port}/"), vec![at("127.0.0.1")], "net::host").await;
    check(format!("http://0.0.0.0:{port}/"), vec![at("127.0.0.1")], "net::host").await;
    check(format!("http://user:pw@127.0.0.1:{port}/"), vec![at("127.0.0.1")], "net::credentials").await;
    check(
        format!("http://api.example.com@127.0.0.1:{port}/"),
        vec!["api.example.com".into()],
        "net::credentials",
    )
    .await;
    check(format!("https://rebound.example:{port}/"), vec![at("rebound.example")], "net::address").await;
    check(format!("https://mapped.example:{port}/"), vec![at("*.example")], "net::address").await;
    check(format!("http://rebound.example:{port}/"), vec![at("rebound.example")], "net::plain").await;
    check(format!("http://weather:{port}/"), vec![at("weather")], "net::address").await;
    check(
        format!("http://zero.internal:{port}/"),
        vec![at("zero.internal"), at("127.0.0.1")],
        "net::address",
    )
    .await;
    check(
        format!("http://named.internal:{port}/"),
        vec![at("named.internal"), "127.0.0.1:1".into()],
        "net::address",
    )
    .await;
    check(format!("http://missing.internal:{port}/"), vec![at("*.internal")], "net::unresolved").await;
    check(format!("ftp://127.0.0.1:{port}/"), vec![at("127.0.0.1")], "net::scheme").await;
    assert_eq!(canary.asked(), [""; 0]);
    // The same server can be reached: by a name whose address is listed, too.
    let hosts = [at("named.internal"), at("127.0.0.1")];
    let url = format!("http://named.internal:{port}/");
    let found = fetch_with(&net, get(&url), &[&hosts[0], &hosts[1]]).await.unwrap();
    assert_eq!((text(&found).as_str(), canary.asked().len()), ("touched", 1));
    // And a connection that was made for those who list the address is nobody else's.
    check(url, vec![at("named.internal")], "net::address").await;
    assert_eq!(canary.asked().len(), 1);
}

/// A name that is public when it is looked at first, and ours a moment later.
#[tokio::test]
async fn a_name_is_looked_up_once_and_checked_then() {
    let canary = Server::saying("200 OK", "touched").await;
    let port = canary.port();
    let names = Names::with(&[("moving.example", &["127.0.0.1"]), ("moving.example", &["93.184.215.14"])]);
    let hosts = format!("moving.example:{port}");
    let error =
        fetch_with(&Net::new(Arc::clone(&names) as _), get(format!("https://{hosts}/")), &[&hosts]).await;
    assert!(matches!(error.unwrap_err().trouble, Trouble::Address { .. }));
    assert_eq!(names.0.lock().unwrap()["moving.example"].len(), 1, "one look, not two");
    assert_eq!(canary.asked(), [""; 0]);
}

/// A public and a private address together: only the public one is tried.
#[tokio::test]
async fn of_mixed_addresses_only_the_good_ones_are_used() {
    let server = Server::saying("200 OK", "here").await;
    let port = server.port();
    let names = Names::with(&[("mixed.internal", &["169.254.169.254", "127.0.0.2", "127.0.0.1"])]);
    let (name, address) = (format!("mixed.internal:{port}"), format!("127.0.0.1:{port}"));
    let found =
        fetch_with(&Net::new(names), get(format!("http://{name}/")), &[&name, &address]).await.unwrap();
    assert_eq!(text(&found), "here");
}

#[tokio::test]
async fn redirects_are_checked_like_requests() {
    let canary = Server::saying("200 OK", "touched").await;
    let (port, ours) = (canary.port(), canary.host());
    let names = Names::with(&[("rebound.internal", &["127.0.0.1"])]);
    let net = Net::new(names);
    for (location, code) in [
        (canary.url("/"), "net::host"),
        (format!("//localhost:{port}/"), "net::host"),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "net::host"),
        ("https://evil.example/".to_owned(), "net::host"),
        (format!("http://rebound.internal:{port}/"), "net::host"),
        ("file:///etc/passwd".to_owned(), "net::scheme"),
        (format!("http://a:b@{ours}/"), "net::credentials"),
        ("http://[".to_owned(), "net::url"),
    ] {
        let head = format!("302 Found\r\nlocation: {location}");
        let server = Server::saying(&head, "").await;
        let error = fetch_with(&net, get(server.url("/")), &[&server.host()]).await.unwrap_err();
        assert_eq!(weir_types::Explain::code(&error), code, "{location}: {error}");
    }
    assert_eq!(canary.asked(), [""; 0]);
    // A name that is listed, but leads to what is not.
    let server = Server::saying(&format!("302 Found\r\nlocation: http://rebound.internal:{port}/"), "").await;
    let listed = format!("rebound.internal:{port}");
    let error = fetch_with(&net, get(server.url("/")), &[&server.host(), &listed]).await.unwrap_err();
    assert!(matches!(error.trouble, Trouble::Address { .. }), "{error}");
    assert_eq!(canary.asked(), [""; 0]);
}

#[tokio::test]
async fn another_host_gets_no_credentials() {
    let end = Server::saying("200 OK", "end").await;
    let location = end.url("/there");
    let server = Server::start(move |request| {
        let to = if request.contains(" /first ") { "/second" } else { location.as_str() };
        Reply::Bytes(reply(&format!("307 Temporary Redirect\r\nlocation: {to}"), b""))
    })
    .await;
    let request = with(
        post(server.url("/first"), "body"),
        &[
            ("Authorization", "Bearer hush"),
            ("Cookie", "a=hush"),
            ("X-Api-Key", "hush"),
            ("Content-Type", "text/plain"),
        ],
    );
    let found = fetch(request, &[&server.host(), &end.host()]).await.unwrap();
    assert_eq!((found.url.as_str(), found.redirected), (end.url("/there").as_str(), true));
    for same in server.asked() {
        assert_eq!(same.matches("hush").count(), 3, "{same}");
    }
    assert_eq!(server.asked().len(), 2);
    let there = &end.asked()[0];
    assert!(there.starts_with("POST /there ") && there.ends_with("\r\n\r\nbody"), "{there}");
    assert!(!there.contains("hush") && there.contains("content-type: text/plain"), "{there}");
}

#[tokio::test]
async fn methods_change_on_the_way_as_in_browsers() {
    let check = async |status: &str, method: &str, expected: &str| {
        let head = format!("{status} X\r\nlocation: /next");
        let server = Server::start(move |request| {
            Reply::Bytes(if request.contains(" /next ") { reply("200 OK", b"") } else { reply(&head, b"") })
        })
        .await;
        let mut request = with(get(server.url("/")), &[("Content-Type", "text/plain")]);
        request.method = method.to_owned();
        request.body = (method != "HEAD").then(|| "body".into());
        fetch(request, &[&server.host()]).await.unwrap();
        let next = server.asked()[1].clone();
        assert!(next.starts_with(&format!("{expected} /next ")), "{status} {method}: {next}");
        assert_eq!(next.ends_with("body"), expected == method && method != "HEAD", "{next}");
        assert_eq!(next.contains("content-type"), expected == method, "{next}");
    };
    check("301", "POST", "GET").await;
    check("302", "POST", "GET").await;
    check("303", "PUT", "GET").await;
    check("302", "PUT", "PUT").await;
    check("307", "POST", "POST").await;
    check("308", "DELETE", "DELETE").await;
    check("303", "HEAD", "HEAD").await;
}

#[tokio::test]
async fn redirects_end() {
    let server = Server::saying("302 Found\r\nlocation: /again", "").await;
    let error = fetch(get(server.url("/")), &[&server.host()]).await.unwrap_err();
    assert!(matches!(error.trouble, Trouble::Redirects(5)), "{error}");
    assert_eq!(server.asked().len(), 6);
    // Without a place to go, it is an answer.
    let server = Server::saying("302 Found", "stay").await;
    assert_eq!(text(&fetch(get(server.url("/")), &[&server.host()]).await.unwrap()), "stay");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[tokio::test]
async fn packed_answers_are_unpacked_and_bombs_are_not() {
    let server = Server::saying("200 OK\r\ncontent-encoding: GZIP", gzip(b"small")).await;
    assert_eq!(text(&fetch(get(server.url("/")), &[&server.host()]).await.unwrap()), "small");

    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100 << 10, "a bomb is small: {}", bomb.len());
    let server = Server::saying("200 OK\r\ncontent-encoding: gzip", bomb).await;
    let error = fetch(get(server.url("/")), &[&server.host()]).await.unwrap_err();
    assert!(matches!(error.trouble, Trouble::ResponseSize { max, .. } if max == 8 << 20), "{error}");

    let cut = gzip(&(0..=255).cycle().take(5000).collect::<Vec<u8>>());
    for (packing, bytes) in
        [("gzip", &cut[..cut.len() - 9]), ("gzip", b"not at all"), ("br", b"x"), ("gzip, gzip", b"x")]
    {
        let server = Server::saying(&format!("200 OK\r\ncontent-encoding: {packing}"), bytes).await;
        let error = fetch(get(server.url("/")), &[&server.host()]).await.unwrap_err();
        assert!(matches!(error.trouble, Trouble::Packed { .. }), "{packing}: {error}");
    }
    // What would have been packed has nothing to unpack.
    let server = Server::start(|_| {
        Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\n".to_vec())
    })
    .await;
    let head = Request { method: "HEAD".to_owned(), ..get(server.url("/")) };
    assert_eq!(fetch(head, &[&server.host()]).await.unwrap().body.len(), 0);
}

#[tokio::test]
async fn answers_are_read_as_far_as_allowed() {
    let small = Limits { response_bytes_max: 1000, ..limits() };
    let at =
        async |server: &Server| Net::default().fetch(get(server.url("/")), &[server.host()], &small).await;
    let fits = Server::saying("200 OK", [b'x'; 1000]).await;
    assert_eq!(at(&fits).await.unwrap().body.len(), 1000);
    let announced =
        Server::start(|_| Reply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n".to_vec())).await;
    assert!(matches!(at(&announced).await.unwrap_err().trouble, Trouble::ResponseSize { .. }));
    let endless = Server::start(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())).await;
    assert!(matches!(at(&endless).await.unwrap_err().trouble, Trouble::ResponseSize { .. }));
}

#[tokio::test]
async fn headers_are_bounded_both_ways() {
    let many = format!("200 OK{}", "\r\na: b".repeat(200));
    let long = format!("200 OK\r\na: {}", "x".repeat(65 << 10));
    for head in [many, long] {
        let server = Server::saying(&head, "").await;
        let error = fetch(get(server.url("/")), &[&server.host()]).await.unwrap_err();
        assert!(matches!(error.trouble, Trouble::Headers(_) | Trouble::Transport { .. }), "{error}");
    }
    let endless = Server::start(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\na: ".to_vec())).await;
    let error = fetch(get(endless.url("/")), &[&endless.host()]).await.unwrap_err();
    assert!(matches!(error.trouble, Trouble::Transport { .. }), "{error}");

    let server = Server::saying("200 OK", "").await;
    for (name, value) in [("Host", "evil.example"), ("Content-Length", "0"), ("X", "a\r\nHost: evil.example")]
    {
        let error = fetch(with(get(server.url("/")), &[(name, value)]), &[&server.host()]).await.unwrap_err();
        assert!(matches!(error.trouble, Trouble::Request(_)), "{error}");
    }
    let long = post(server.url("/"), &"x".repeat((1 << 20) + 1));
    let error = fetch(long, &[&server.host()]).await.unwrap_err();
    assert!(matches!(error.trouble, Trouble::RequestSize { max, .. } if max == 1 << 20), "{error}");
    for method in ["get", "CONNECT", "TRACE", "G T", ""] {
        let request = Request { method: method.to_owned(), ..get(server.url("/")) };
        let error = fetch(request, &[&server.host()]).await.unwrap_err();
        assert!(matches!(error.trouble, Trouble::Request(_)), "{error}");
    }
    assert_eq!(server.asked(), [""; 0]);
}

/// What is known after a failure: that nothing was written, or nothing.
#[tokio::test]
async fn a_write_that_may_have_left_is_told() {
    let cut = Server::start(|_| Reply::Bytes(Vec::new())).await;
    let half =
        Server::start(|_| Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec())).await;
    for server in [&cut, &half] {
        let error = fetch(post(server.url("/"), "x"), &[&server.host()]).await.unwrap_err();
        assert!(error.wrote && matches!(error.trouble, Trouble::Transport { .. }), "{error}");
        let error = fetch(get(server.url("/")), &[&server.host()]).await.unwrap_err();
        assert!(!error.wrote, "{error}");
    }
    // Nobody listens where somebody did.
    let gone = { Server::saying("200 OK", "").await.host() };
    let error = fetch(post(format!("http://{gone}/"), "x"), &[&gone]).await.unwrap_err();
    assert!(!error.wrote && matches!(error.trouble, Trouble::Transport { .. }), "{error}");
    // Written, and then sent on to where we may not go.
    let server = Server::saying("303 See Other\r\nlocation: https://evil.example/", "").await;
    let error = fetch(post(server.url("/"), "x"), &[&server.host()]).await.unwrap_err();
    assert!(error.wrote && matches!(error.trouble, Trouble::Host(_)), "{error}");
}

#[tokio::test]
async fn a_slow_answer_ends_at_the_deadline() {
    let short = Limits::within(Duration::from_millis(300));
    let silent = Server::start(|_| Reply::Stall(Vec::new())).await;
    let slow =
        Server::start(|_| Reply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec())).await;
    for server in [&silent, &slow] {
        let error =
            Net::default().fetch(post(server.url("/"), "x"), &[server.host()], &short).await.unwrap_err();
        assert!(error.wrote && matches!(error.trouble, Trouble::Late(_)), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_says_what_would_allow_it_and_no_more() {
    let check = async |url: &str, hosts: &[&str], expected: &str| {
        let told = fetch(get(url), hosts).await.unwrap_err().told();
        assert_eq!(told, expected);
    };
    check(
        "https://api.example.com/v1?key=hush",
        &[],
        "the host `api.example.com` is not listed; `hosts: [\"api.example.com\"]` in the tool's entry in the agent's spec would allow it",
    )
    .await;
    check(
        "http://api.example.com:8080/",
        &["api.example.com:8080"],
        "`api.example.com:8080` is reached with `https:`, not with plain `http:`; use `https:`; `hosts: [\"api.example.com:80\"]` in the agent's spec would allow it unencrypted",
    )
    .await;
    let gone = { Server::saying("200 OK", "").await.host() };
    let told = fetch(get(format!("http://{gone}/?key=hush")), &[&gone]).await.unwrap_err().told();
    assert!(told.contains(&gone) && !told.contains("hush"), "{told}");
}

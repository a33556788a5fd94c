//! Static tokens, trusted proxies, and what is open on loopback.

use reqwest::Method;
use serde_json::json;

use crate::kit::{Answer, Person, Project, token, within};

#[tokio::test]
async fn a_token_lets_in_until_it_is_revoked() {
    let project = Project::new();
    let server = project.serve().arg("--auth-tokens").start().await;
    // Issued while the server runs.
    let issued = project.json(&["token", "issue", "--principal", "user:alice", "--name", "laptop"]);
    let (text, id) = (issued["token"].as_str().unwrap(), issued["id"].as_str().unwrap());
    let alice = Person::new(&server, text);
    let becomes = async |status: u16| {
        let known = async { while alice.get("/sessions").await.status != status {} };
        within("the server knows", known).await;
    };
    assert_eq!(alice.get("/sessions").await.status, 200, "at once");
    assert_eq!(server.get("/sessions").await.error(), (401, "server::unauthorized".to_owned()));
    let changed = text.replace(text.chars().last().unwrap(), "-");
    for wrong in [
        text[..text.len() - 1].to_owned(),
        format!("{text}A"),
        changed,
        "weir_".to_owned(),
        text.to_lowercase(),
    ] {
        let said = Person::new(&server, &wrong).get("/sessions").await;
        assert_eq!(said.status, 401);
        assert_eq!(said.header("www-authenticate"), Some(r#"Bearer realm="weir", error="invalid_token""#));
    }

    let listed = project.lines(&["token", "list"]);
    assert_eq!((&listed[0]["id"], &listed[0]["principal"]), (&json!(id), &json!("user:alice")));
    let journal = project.ok(&["cat", "--stream", "engine:tokens", "--json"]);
    assert!(journal.contains("user:alice") && !journal.contains(text), "only a hash of it is kept");
    assert!(!server.log().iter().any(|line| line.to_string().contains(text)), "and nothing of it is logged");

    assert_eq!(project.json(&["token", "revoke", id])["changed"], true);
    becomes(401).await;
    assert_eq!(project.json(&["token", "revoke", id])["changed"], false);
    let server = server.kill().start_again().await;
    assert_eq!(Person::new(&server, text).get("/sessions").await.status, 401);
    assert_eq!(project.run(&["token", "revoke", "01JZZZZZZZ0000000000000001"]).code, 1);
    assert_eq!(project.run(&["token", "issue", "--principal", "group:admin"]).code, 2);
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_up() {
    let project = Project::new();
    let server = project.serve().arg("--auth-tokens").start().await;
    let text = token(&project, "user:alice", &["--expires", "1500ms"]);
    let alice = Person::new(&server, &text);
    let seen = async { while alice.get("/sessions").await.status != 200 {} };
    within("it counts", seen).await;
    let over = async { while alice.get("/sessions").await.status != 401 {} };
    within("it ends", over).await;
}

#[tokio::test]
async fn groups_of_a_token_count_from_the_door_to_the_last_call() {
    let project = Project::new();
    let plain = token(&project, "user:dora", &[]);
    let staff = token(&project, "user:dora", &["--groups", "staff"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let ask = json!({"message": "weather in Lisbon"});
    let outside = Person::new(&server, &plain).post("/agents/helper/chat", &ask).await;
    assert_eq!(outside.status, 404);
    let said = Person::new(&server, &staff).post("/agents/helper/chat", &ask).await.ok();
    let events = project.events(said["session"].as_str().unwrap());
    let decided = events.iter().find(|event| event["kind"] == "tool.decided").unwrap();
    assert_eq!(decided["payload"]["outcome"], "allow", "{decided}");
    assert_eq!(decided["payload"]["saw"]["groups"], json!(["group:staff"]));
    assert_eq!(events[0]["payload"]["groups"], json!(["group:staff"]));
    // What is hers is hers, with whichever of her tokens.
    let path = format!("/sessions/{}", said["session"].as_str().unwrap());
    assert_eq!(Person::new(&server, &plain).get(&path).await.status, 200);
}

#[tokio::test]
async fn an_approver_by_a_token_approves() {
    let project = Project::new();
    let spec = std::fs::read_to_string(project.path().join("agents/careful/spec.yaml")).unwrap();
    let spec = format!("{}\n  - {{ principal: \"group:bosses\", role: approve }}\n", spec.trim_end());
    project.write("agents/careful/spec.yaml", &spec);
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    project.write("weir.yaml", &text.replace("groups:\n", "groups:\n  bosses: []\n"));
    project.build();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let bosses = token(&project, "user:eve", &["--groups", "bosses"]);
    let server = project.serve().arg("--auth-tokens").start().await;
    let (alice, bob, boss) =
        (Person::new(&server, &alices), Person::new(&server, &bobs), Person::new(&server, &bosses));
    let asked = alice.post("/agents/careful/chat", &json!({"message": "refund 5"})).await.ok();
    let (session, call) = (asked["session"].as_str().unwrap(), asked["approvals"][0]["id"].as_str().unwrap());
    let path = format!("/sessions/{session}/approvals/{call}");
    let yes = json!({"decision": "allow"});
    assert_eq!(bob.post(&path, &yes).await.status, 404);
    assert!(boss.get("/approvals").await.text().contains(call));
    assert_eq!(boss.get(&format!("/sessions/{session}")).await.status, 404, "deciding is not reading");
    boss.post(&path, &yes).await.ok();
    let ended = alice.event(session, &["tool.completed", "tool.failed"]).await;
    assert_eq!(ended.event.as_deref(), Some("tool.completed"), "{ended:?}");
}

#[tokio::test]
async fn credentials_that_disagree_let_nobody_in() {
    let project = Project::new();
    let [alices, bobs] = ["user:alice", "user:bob"].map(|who| token(&project, who, &[]));
    let server = project.serve().arg("--auth-tokens").start().await;
    let models = |bearer: Option<&str>, key: Option<&str>| {
        let mut request = server.request(Method::GET, "/v1/models");
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer);
        }
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        Answer::to(request)
    };
    assert_eq!(models(Some(&alices), None).await.status, 200);
    assert_eq!(models(None, Some(&alices)).await.status, 200);
    assert_eq!(models(Some(&alices), Some(&alices)).await.status, 200);
    assert_eq!(models(Some(&alices), Some(&bobs)).await.status, 400);
    assert_eq!(models(Some(&alices), Some("sk-other")).await.status, 401);
    assert_eq!(models(None, None).await.status, 401);
    let elsewhere = server.request(Method::GET, "/sessions").header("x-api-key", &alices);
    assert_eq!(Answer::to(elsewhere).await.status, 401, "only where vendors' clients ask");
    let basic = server.request(Method::GET, "/sessions").basic_auth("alice", Some(&alices));
    assert_eq!(Answer::to(basic).await.status, 401);
    let twice = server.request(Method::GET, "/sessions").bearer_auth(&alices);
    let twice = twice.header("authorization", format!("Bearer {bobs}"));
    assert_eq!(Answer::to(twice).await.status, 400);
}

#[tokio::test]
async fn loopback_is_open_and_takes_nothing_that_was_passed_on() {
    let project = Project::new();
    let bobs = token(&project, "user:bob", &[]);
    let server = project.serve().start().await;
    assert_eq!(server.get("/sessions").await.status, 200);
    // Clients of vendors have to send something; a token of ours still says who asks.
    assert_eq!(Person::new(&server, "sk-made-up").get("/sessions").await.status, 200);
    assert_eq!(Person::new(&server, &bobs).get("/metrics").await.status, 403);
    assert_eq!(Person::new(&server, "weir_wrong").get("/sessions").await.status, 401);
    for header in
        ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"]
    {
        let passed_on = server.request(Method::GET, "/sessions").header(header, "203.0.113.7");
        assert_eq!(Answer::to(passed_on).await.error(), (403, "server::forwarded".to_owned()), "{header}");
    }
}

#[tokio::test]
async fn the_word_of_a_proxy_counts_where_it_connects_from() {
    let project = Project::new();
    let trusting = |from: &str| {
        let serving = project.serve().arg("--trust-proxy-header").arg("x-auth-user");
        serving.arg("--trust-proxy-groups-header").arg("x-auth-groups").arg("--trust-proxy-from").arg(from)
    };
    let server = trusting("127.0.0.1").start().await;
    let asks = |headers: &[(&str, &str)]| {
        let request = server.request(Method::GET, "/metrics");
        Answer::to(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
    };
    assert_eq!(asks(&[]).await.status, 401);
    let forwarded = ("x-forwarded-for", "203.0.113.7");
    assert_eq!(asks(&[("x-auth-user", "bob"), forwarded]).await.status, 403, "bob is no admin");
    assert_eq!(asks(&[("x-auth-user", "bob"), ("x-auth-groups", "a, admin")]).await.status, 200);
    assert_eq!(asks(&[("x-auth-groups", "admin")]).await.status, 401);
    assert_eq!(asks(&[("x-auth-user", "bob"), ("x-auth-user", "root")]).await.status, 400);
    for odd in ["", "a b", "a\tb"] {
        assert_eq!(asks(&[("x-auth-user", odd)]).await.status, 401, "{odd:?}");
    }
    // The owner of the data directory is somebody on this machine, not whoever is called so elsewhere.
    let owner = project.json(&["whoami"])["principal"].as_str().unwrap().to_owned();
    assert_eq!(asks(&[("x-auth-user", owner.strip_prefix("user:").unwrap())]).await.status, 401);

    let server = trusting("192.0.2.1").start().await;
    let request = server.request(Method::GET, "/sessions").header("x-auth-user", "bob");
    assert_eq!(Answer::to(request).await.error(), (403, "server::not-a-proxy".to_owned()));
}

#[tokio::test]
async fn what_would_let_anybody_in_does_not_start() {
    let project = Project::empty();
    let serve = |words: &[&str]| {
        words.iter().fold(project.serve_as(&["serve"]), |serving, word| serving.arg(word)).refused()
    };
    for (words, code) in [
        (&["--host", "0.0.0.0"][..], "cli::no-auth"),
        (&["--host", "::"], "cli::no-auth"),
        (&["--auth-jwks", "https://id.example/jwks"], "cli::no-audience"),
        (&["--auth-jwks", "http://id.example/jwks", "--auth-audience", "weir"], "cli::jwks"),
        (&["--auth-jwks", "missing.json", "--auth-audience", "weir"], "cli::jwks"),
        (&["--auth-jwt-secret-file", "missing"], "cli::secret"),
        (&["--auth-audience", "weir"], "cli::jwt"),
        (&["--auth-groups-claim", "groups"], "cli::jwt"),
        (&["--trust-proxy-header", "authorization", "--trust-proxy-from", "127.0.0.1"], "cli::proxy-header"),
        (&["--trust-proxy-header", "x y", "--trust-proxy-from", "127.0.0.1"], "cli::proxy-header"),
        (&["--allow-host", "*"], "cli::allow"),
        (&["--allow-origin", "weir.example"], "cli::allow"),
        (&["--max-requests", "0"], "cli::limit"),
    ] {
        let ran = serve(words);
        assert!(ran.stderr.contains(code), "{words:?}: {}", ran.stderr);
        assert_eq!(ran.code, 2, "{words:?}");
    }
    assert_ne!(serve(&["--trust-proxy-header", "x-auth-user"]).code, 0);
    let short =
        project.serve_as(&["serve"]).env("WEIR_AUTH_JWT_SECRET", "thirty-one bytes are not enough").refused();
    assert!(
        short.stderr.contains("cli::short-secret") && !short.stderr.contains("thirty-one"),
        "{}",
        short.stderr
    );
    assert!(!project.data().exists(), "nothing was made");
}

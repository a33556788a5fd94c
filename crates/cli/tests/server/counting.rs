//! `/metrics`: what is counted, and that nobody can make up labels.

use reqwest::Method;
use serde_json::json;

use crate::kit::{Answer, Project, Server, asked_again};

/// The value of one line.
async fn value(server: &Server, line: &str) -> Option<f64> {
    let text = server.get("/metrics").await.text().to_owned();
    text.lines().find_map(|told| told.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn requests_runs_tokens_and_streams_are_counted() {
    let server = Project::new().serve().start().await;
    for _ in 0..3 {
        server.say("helper", "hello", None).await;
    }
    server.say("helper", "fail", None).await;
    server.say("helper", "weather in Oslo", None).await;
    let mut open = server.stream("/agents/helper/chat/stream", &json!({ "message": "slow" })).await;
    open.next().await.unwrap();
    let labels = r#"{route="/agents/{name}/chat/stream",method="POST",status="200"}"#;
    assert_eq!(value(&server, &format!("weir_http_requests_total{labels}")).await, Some(6.0));
    let labels = r#"{route="/agents/{name}/chat/stream",method="POST",le="+Inf"}"#;
    assert_eq!(
        value(&server, &format!("weir_http_request_duration_seconds_bucket{labels}")).await,
        Some(6.0)
    );
    assert_eq!(value(&server, "weir_streams_open").await, Some(1.0));
    assert!(value(&server, "weir_sessions_active").await >= Some(1.0));
    drop(open.all().await);
    assert_eq!(value(&server, "weir_streams_open").await, Some(0.0));
    // Who counts follows the journal like anybody else, and tells nobody how far that is.
    let last = async || value(&server, r#"weir_runs_total{stop="end"}"#).await.filter(|runs| *runs >= 5.0);
    assert_eq!(asked_again("the last run is counted", last).await, 5.0);
    assert_eq!(value(&server, r#"weir_runs_total{stop="failed"}"#).await, Some(1.0));
    assert!(value(&server, r#"weir_tokens_total{kind="input"}"#).await >= Some(150.0));
    assert!(value(&server, "weir_journal_position").await > Some(10.0));
    assert_eq!(value(&server, "weir_cost_usd_total").await, Some(0.0));
    // What a scraper must be able to read: each name once with its type, and no line without a number.
    let text = server.get("/metrics").await.text().to_owned();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, number) = line.rsplit_once(' ').unwrap();
        assert!(number.parse::<f64>().is_ok(), "{line}");
    }
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut once = types.clone();
    once.dedup();
    assert_eq!(types, once);
}

#[tokio::test]
async fn what_runs_here_and_what_it_has_cost_are_told() {
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    let priced = "models:\n  scripted/helper: { wire: scripted, context_window: 100000, output_max: 1000, price: { input: 1000, output: 1000 } }\n";
    project.write("weir.yaml", &format!("{text}{priced}"));
    let hash = project.build();
    let server = project.serve().start().await;
    let info =
        |hash: &str| format!(r#"weir_info{{version="{}",manifest="{hash}"}}"#, env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&server, &info(&hash)).await, Some(1.0));
    assert_eq!(value(&server, "weir_cost_usd_total").await, Some(0.0));
    server.say("helper", "hello", None).await;
    let cost = async || value(&server, "weir_cost_usd_total").await.filter(|cost| *cost != 0.0);
    let cost = asked_again("what it has cost", cost).await;
    assert_eq!(cost, 0.015, "10 and 5 tokens, 1,000 dollars a million");
    assert_eq!(value(&server, r#"weir_tokens_total{kind="output"}"#).await, Some(5.0));
    assert!(value(&server, "process_resident_memory_bytes").await > Some(1_000_000.0));
    project.write("models/helper.yaml", "replies: [{ say: Another. }]\n");
    let second = project.build();
    project.ok(&["deploy", "latest"]);
    server.logged("deployed").await;
    assert_eq!((value(&server, &info(&hash)).await, value(&server, &info(&second)).await), (None, Some(1.0)));
}

#[tokio::test]
async fn what_is_counted_is_documented_and_what_is_documented_is_counted() {
    let server = Project::new().serve().start().await;
    server.say("helper", "hello", None).await;
    let document = server.get("/openapi.json").await.ok();
    let about = &document["paths"]["/metrics"]["get"];
    let described = format!("{} {}", about["summary"], about["description"]);
    let text = server.get("/metrics").await.text().to_owned();
    let counted: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let missing: Vec<_> = counted.iter().filter(|name| !described.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?} in {described}");
    let names = described.split('`').skip(1).step_by(2).filter_map(|name| name.split('{').next());
    let made_up: Vec<_> = names.filter(|name| !counted.contains(name)).collect();
    assert!(made_up.is_empty(), "{made_up:?}");
}

#[tokio::test]
async fn nobody_can_make_up_labels() {
    let server = Project::new().serve().start().await;
    for n in 0..20 {
        let method = Method::from_bytes(format!("MADEUP{n}").as_bytes()).unwrap();
        Answer::to(server.request(method, &format!("/made-up-{n}"))).await;
        server.get(&format!("/agents/made-up-{n}/status")).await;
    }
    let text = server.get("/metrics").await.text().to_owned();
    assert!(!text.to_lowercase().contains("made"), "{text}");
    assert!(text.contains(r#"route="none",method="other""#), "{text}");
}

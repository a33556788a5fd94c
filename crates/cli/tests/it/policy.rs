//! `weir policy`: why a call is allowed or denied, and what another build would have decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use insta::assert_snapshot;
use serde_json::{Value, json};
use weir_blobs::DirBlobs;
use weir_events::{Body, SessionCreated, ToolDecided, ToolFailed, ToolRequested};
use weir_journal::{Journal, NewEvent, Part, mint_call, mint_session};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_types::{BranchId, CallId, Effect, Hash, Json, Level, OnInterrupt, Outcome, Risk, Saw, Verdict};

use crate::outside::{Project, field, script};

/// Bob may read through `http` and Cyd may write; Ada may read because she is in a group. All of them may talk to the agent.
fn project() -> Project {
    let project = Project::new();
    let acl =
        ["ada", "bob", "cyd"].map(|user| format!("  - {{ principal: \"user:{user}\", role: execute }}\n"));
    let spec = format!(
        "tools:\n  - {{ name: http, access: write, hosts: [\"localhost\"] }}\n  - {{ name: get_time }}\nacl:\n{}",
        acl.concat()
    );
    let post = json!([{"tool": "http", "input": {"method": "POST", "url": "http://localhost:1/"}}]);
    project.agent("helper", &spec, &script(&[("^post", post)]));
    project.agent("other", "tools:\n  - { name: get_time }\n", &script(&[]));
    before(&project);
    project
}

fn before(project: &Project) {
    project.write(
        "weir.yaml",
        "project: p\ngroups: { team: [\"user:ada\"] }\ntool_grants:\n  - tool: http\n    grants:\n      \
         - { principal: \"user:bob\", access: read }\n      - { principal: \"user:cyd\", access: write }\n      \
         - { principal: \"group:team\", access: read }\n  - tool: get_time\n    grants: [{ principal: \"user:bob\", access: read }]\n",
    );
}

/// Bob has lost his grant, and Cyd can only read; Ada is no longer in the group.
fn after(project: &Project) {
    project.write(
        "weir.yaml",
        "project: p\ngroups: { team: [\"user:eve\"] }\ntool_grants:\n  - tool: http\n    grants:\n      \
         - { principal: \"user:cyd\", access: read }\n      - { principal: \"group:team\", access: read }\n  \
         - tool: get_time\n    grants: [{ principal: \"user:bob\", access: read }]\n",
    );
}

#[test]
fn a_decision_is_explained_step_by_step() {
    let project = project();
    let explain = |more: &[&str]| {
        let base = ["policy", "explain", "--agent", "helper"];
        project.weir.mask(&project.run(&[&base[..], more].concat()).to_string()).replace("[actor]", "someone")
    };
    let post = r#"{"method":"POST","url":"http://localhost:1/"}"#;
    assert_snapshot!(explain(&["--principal", "user:cyd", "--tool", "http", "--input", post]), @r#"
    exit 0
    -- stdout
    allow: someone → helper → http
      yes  acl        `someone` may talk to agent `helper`
      yes  allowlist  agent `helper` lists it
      yes  schema     the arguments fit
      yes  grant      `someone` holds `write` on `http`
      yes  rules      no rule is about it
      yes  stub       it would only pretend; `--live-writes=http` lets it happen
    looked at: someone · no groups · access write · effect write · risk medium · input {"method":"POST","url":"http://localhost:1/"}
    "#);
    assert_snapshot!(explain(&["--principal", "user:bob", "--tool", "http", "--input", post]), @r#"
    exit 0
    -- stdout
    deny by `grant`: someone → helper → http
      yes  acl        `someone` may talk to agent `helper`
      yes  allowlist  agent `helper` lists it
      yes  schema     the arguments fit
      no   grant      `someone` holds only `read` on `http`, and the call needs `write`
      –    rules      not reached
      –    stub       not reached
    looked at: someone · no groups · access write · effect write · risk medium · input {"method":"POST","url":"http://localhost:1/"}
    help: a `tool_grants` entry for `http` with `access: write` in weir.yaml would allow it
    "#);
    assert_snapshot!(explain(&["--principal", "user:ada", "--tool", "http", "--input", "{}"]), @r#"
    exit 0
    -- stdout
    deny by `schema`: someone → helper → http
      yes  acl        `someone` may talk to agent `helper`
      yes  allowlist  agent `helper` lists it
      no   schema     the arguments do not fit: "url" is a required property
      –    grant      not reached
      –    rules      not reached
      –    stub       not reached
    looked at: someone · group:team · access write · effect read · risk low · input {}
    help: call it again with arguments that fit its schema
    "#);
    assert_snapshot!(explain(&["--as", "user:eve", "--tool", "get_time"]), @"
    exit 0
    -- stdout
    deny by `acl`: someone → helper → get_time
      no   acl        `someone` may not talk to agent `helper`
      –    allowlist  not reached
      –    schema     not reached
      –    grant      not reached
      –    rules      not reached
      –    stub       not reached
    looked at: someone · no groups · access read · effect read · risk low · no input
    help: an `acl` entry with role `execute` in agents/helper/spec.yaml would allow it
    ");
    assert_snapshot!(explain(&["--tool", "bash"]), @"
    exit 0
    -- stdout
    deny by `allowlist`: someone → helper → bash
      yes  acl        `someone` may talk to agent `helper`
      no   allowlist  agent `helper` does not list it (it lists: get_time, http, result_read)
      –    schema     not reached
      –    grant      not reached
      –    rules      not reached
      –    stub       not reached
    looked at: someone · group:admin · no input
    help: an entry under `tools` in the agent's spec would allow it
    ");
    assert_snapshot!(explain(&["--tool", "bash", "--input", "{"]), @r#"
    exit 2
    -- stderr
    error: the arguments are not JSON: EOF while parsing an object at line 1 column 1
    help: write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes
    "#);
}

#[test]
fn an_explanation_is_what_a_run_decides() {
    let project = project();
    let post = r#"{"method":"POST","url":"http://localhost:1/"}"#;
    for user in ["user:ada", "user:bob", "user:cyd"] {
        let session = project.chat("helper", "post it", &["--as", user]);
        let decided = &project.payloads(&session, "tool.decided")[0];
        let args = [
            "policy",
            "explain",
            "--agent",
            "helper",
            "--tool",
            "http",
            "--input",
            post,
            "--principal",
            user,
        ];
        let explained = project.json(&args);
        for same in ["outcome", "because", "stub", "saw"] {
            assert_eq!(explained[same], decided[same], "{user} {same}");
        }
        assert_eq!(explained["rule"], decided["rule"], "{user}");
        let last_reached =
            explained["steps"].as_array().unwrap().iter().rfind(|step| step["answer"] != "not_reached");
        let expected = if user == "user:cyd" { ("stub", "yes") } else { ("grant", "no") };
        let last = last_reached.unwrap();
        assert_eq!((field(last, "step").as_str(), field(last, "answer").as_str()), expected, "{user}");
    }
}

#[test]
fn the_policy_is_shown_in_words() {
    let project = project();
    project.write(
        "weir.yaml",
        "project: p\nrules:\n  - id: no-writes-at-night\n    when: { effect: write, any: [{ tool: http }, { agent: other }] }\n    \
         then: deny\n    why: \"Ask in the morning.\"\n  - id: big\n    when: { input: { n: { above: 5 }, to: bob }, not: { group: admin } }\n    \
         then: require_approval\n    mode: observe\n  - id: rest\n    then: allow\n",
    );
    let shown = project.run(&["policy", "show"]);
    let table = shown.stdout.split("\n\n").next().unwrap();
    assert_snapshot!(table, @r#"
    #  RULE                WHEN                                                                   THEN                              WHY
    1  no-writes-at-night  effect is write and (tool is http or agent is other)                   deny                              Ask in the morning.
    2  big                 input.n is above 5 and input.to is "bob" and not asked by group:admin  require approval (observed only)
    3  rest                every call                                                             allow
    "#);
    let shown = project.json(&["policy", "show"]);
    assert_eq!(shown["rules"][1]["then"], "require_approval");
    assert_eq!(shown["rules"].as_array().unwrap().len(), 3);
    assert!(!shown["defaults"].as_array().unwrap().is_empty());
    let ids = shown["builtin"].as_array().unwrap().iter().map(|rule| field(rule, "id"));
    assert!(ids.collect::<Vec<_>>().contains(&"builtin:admin".to_owned()), "{shown}");
    let text = field(&shown, "text");
    assert!(
        text.contains("@id(\"no-writes-at-night\")")
            && text.contains("permit (principal in Group::\"admin\"")
    );
    // Written by hand, as it is.
    project.write("policies/night.cedar", "@id(\"night\")\nforbid (principal, action, resource is Blob);\n");
    let text = field(&project.json(&["policy", "show"]), "text");
    assert!(text.contains("// policies/night.cedar\n@id(\"night\")"), "{text}");
}

/// A session is recorded, weir.yaml changes, and the calls that would now be decided differently are named.
#[test]
fn a_replay_names_what_would_change() {
    let project = project();
    let sessions =
        ["user:ada", "user:bob", "user:cyd"].map(|user| project.chat("helper", "post it", &["--as", user]));
    let built = field(&project.json(&["build"]), "manifest");
    let same = project.lines(&["policy", "replay"]);
    assert_eq!(
        (same.len(), &same[0]["decisions"], &same[0]["changed"]),
        (1, &json!(3), &json!(0)),
        "{same:?}"
    );
    after(&project);
    let changes = project.lines(&["policy", "replay"]);
    let [change, totals] = changes.as_slice() else { panic!("{changes:?}") };
    let call = field(&project.payloads(&sessions[2], "tool.decided")[0], "call");
    assert_eq!((field(change, "session"), field(change, "call")), (sessions[2].clone(), call.clone()));
    assert_eq!(field(change, "tool"), "http");
    assert_eq!((&change["before"]["outcome"], &change["before"]["rule"]), (&json!("allow"), &json!(null)));
    assert_eq!((&change["after"]["outcome"], &change["after"]["rule"]), (&json!("deny"), &json!("grant")));
    assert_eq!((&totals["decisions"], &totals["changed"]), (&json!(3), &json!(1)));
    let told = project.ok(&["policy", "replay"]);
    assert_eq!(
        told,
        format!(
            "{}  {call}  http  allow → deny (grant)  user:cyd\n3 decisions, 1 would change\n",
            sessions[2]
        )
    );
    // The build under which they were decided decides the same.
    let kept = project.lines(&["policy", "replay", "--manifest", &built[..12]]);
    assert_eq!(kept.last().unwrap()["changed"], 0, "{kept:?}");
    // Nobody sees the sessions of others.
    let theirs = project.lines(&["policy", "replay", "--as", "user:bob"]);
    assert_eq!((theirs.len(), &theirs[0]["decisions"]), (1, &json!(1)), "{theirs:?}");
    // Times.
    let none = project.lines(&["policy", "replay", "--since", "2200-01-01T00:00:00Z"]);
    assert_eq!(none[0]["decisions"], 0);
    assert_eq!(project.lines(&["policy", "replay", "--since", "1h"]).last().unwrap()["decisions"], 3);
    let refused = project.run(&["policy", "replay", "--since", "yesterday", "--json"]);
    assert_eq!(refused.error(), (2, "cli::since".to_owned()));
}

/// A call as it was decided under the first `weir.yaml`, and would be under the second, by a model that knows only who may what.
fn naive(user: &str, tool: &str, writes: bool) -> [Verdict; 2] {
    let grants = |then: bool| match (user, tool) {
        ("user:bob", "get_time") => Some(Level::Read),
        ("user:bob", "http") => then.then_some(Level::Read),
        ("user:cyd", "http") => Some(if then { Level::Write } else { Level::Read }),
        ("user:ada", "http") => then.then_some(Level::Read),
        _ => None,
    };
    let needed = if writes { Level::Write } else { Level::Read };
    [true, false].map(|then| match grants(then) {
        Some(level) if level >= needed => Verdict::Allow,
        _ => Verdict::Deny,
    })
}

const SESSIONS: usize = 500;
const CALLS: usize = 200;

/// A hundred thousand decisions, of which exactly those that a naive model names come out differently.
#[test]
fn a_hundred_thousand_decisions_are_made_again() {
    let project = project();
    // Makes the data directory.
    project.chat("helper", "hello", &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let expected = runtime.block_on(recorded(&project));
    assert!(expected.len() > 10_000 && expected.len() < SESSIONS * CALLS / 2, "{}", expected.len());

    let same = project.lines(&["policy", "replay"]);
    assert_eq!((same.len(), &same[0]["decisions"]), (1, &json!(SESSIONS * CALLS)), "{:?}", same[0]);
    after(&project);
    let mut told = project.lines(&["policy", "replay"]);
    let totals = told.pop().unwrap();
    let change = |line: &Value| {
        let side = |side: &str| field(&line[side], "outcome");
        (field(line, "call"), (side("before"), side("after")))
    };
    let found: BTreeMap<String, (String, String)> = told.iter().map(change).collect();
    assert_eq!((found.len(), &totals["changed"]), (told.len(), &json!(expected.len())));
    let outcomes = ("allow".to_owned(), "deny".to_owned());
    assert!(found.values().all(|found| *found == outcomes));
    assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), expected);
}

/// Records sessions as they would have been, through the journal; the calls that would be decided differently.
async fn recorded(project: &Project) -> BTreeSet<String> {
    let data = project.weir.data();
    let blobs = Arc::new(DirBlobs::open(data.join("blobs")).unwrap());
    let journal =
        SqliteJournal::open(Options { path: project.weir.journal(), blobs, vfs: None }).await.unwrap();
    let mut expected = BTreeSet::new();
    for n in 0..SESSIONS {
        let user = ["user:ada", "user:bob", "user:cyd"][n % 3];
        let mut bodies: Vec<Body> = vec![created(user)];
        for k in 0..CALLS {
            let (tool, writes) = [("http", false), ("http", true), ("get_time", false)][k % 3];
            let [then, now] = naive(user, tool, writes);
            let call = mint_call();
            bodies.extend(decided(call, user, tool, writes, then, k));
            if then != now {
                expected.insert(call.to_string());
            }
        }
        let event = |body: &Body| NewEvent::new(body.kind_str().parse().unwrap(), body.encode().unwrap());
        let stream = format!("session:{}", mint_session()).parse().unwrap();
        let part = Part::new(BranchId::main(stream), bodies.iter().map(event).collect());
        journal.append(vec![part]).await.unwrap();
    }
    journal.close().await;
    expected
}

fn created(user: &str) -> Body {
    SessionCreated {
        agent: "helper".into(),
        manifest: Hash::ZERO,
        principal: user.into(),
        groups: vec![],
        title: None,
        labels: BTreeMap::new(),
        parent: None,
        lane: "direct".into(),
    }
    .into()
}

/// What is written down about a call. Most of them are over; some decisions are from before they said what they saw.
fn decided(call: CallId, user: &str, tool: &str, writes: bool, outcome: Verdict, n: usize) -> Vec<Body> {
    let input = match (tool, writes) {
        ("http", true) => r#"{"method":"POST","url":"http://localhost:1/"}"#,
        ("http", false) => r#"{"url":"http://localhost:1/"}"#,
        _ => "{}",
    };
    let requested = ToolRequested {
        call,
        provider_id: format!("toolu_{n}"),
        tool: tool.into(),
        source: tool.into(),
        input: Json::parse(input).unwrap(),
        effect: if writes { Effect::Write } else { Effect::Read },
        risk: Risk::Low,
        on_interrupt: OnInterrupt::Report,
        key: None,
    };
    let saw = Saw { principal: user.into(), ..Saw::default() };
    let rule = (outcome == Verdict::Deny).then(|| "grant".to_owned());
    let saw = Some(saw).filter(|_| !n.is_multiple_of(5));
    let decided = ToolDecided { call, outcome, rule, step: None, because: "so".into(), stub: false, saw };
    let mut bodies: Vec<Body> = vec![requested.into(), decided.into()];
    if !n.is_multiple_of(50) {
        let (class, message) = ("x".to_owned(), "over".to_owned());
        let failed = ToolFailed { call, class, message, outcome: Outcome::Denied, log: vec![], bill: None };
        bodies.push(failed.into());
    }
    bodies
}

#[test]
fn explain_names_the_step_that_decided() {
    let project = Project::new();
    project.write(
        "weir.yaml",
        "rules:\n  - { id: schema, when: { tool: ring }, then: deny }\ngroups: { staff: [\"user:ada\"] }\n",
    );
    project.write("tools/ring.ts", "import { defineTool } from 'weir';\nexport default defineTool({ name: 'ring', description: 'Rings.', parameters: { n: { type: 'integer' } }, execute: async () => 'rung' });\n");
    project.agent(
        "lab",
        "tools: [{ name: tools/ring }]\nacl: [{ principal: \"group:staff\", role: execute }]\n",
        &json!([{"say": "hello"}]),
    );
    let explain = |more: &[&str]| {
        let ran = project
            .run(&[&["policy", "explain", "--agent", "lab", "--tool", "ring", "--json"], more].concat());
        serde_json::from_str::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{ran}"))
    };
    // Who may not talk to the agent does not come as far as grants.
    let eve = explain(&["--principal", "user:eve"]);
    assert_eq!((&eve["step"], &eve["rule"]), (&json!("acl"), &json!("acl")), "{eve}");
    // Arguments that are not given are not held against anybody.
    let own = explain(&[]);
    let schema =
        own["steps"].as_array().unwrap().iter().find(|step| step["step"] == "schema").unwrap().clone();
    assert_eq!((&schema["answer"], &own["input"]), (&json!("not_checked"), &Value::Null), "{own}");
    // A rule may be called like a step.
    assert_eq!((&own["step"], &own["rule"]), (&json!("rules"), &json!("schema")), "{own}");
    let wrong = explain(&["--input", "{\"n\":\"many\"}"]);
    assert_eq!((&wrong["step"], &wrong["rule"]), (&json!("schema"), &json!("schema")), "{wrong}");
    // Groups are told wherever it ends.
    let ran =
        project.run(&["policy", "explain", "--agent", "lab", "--tool", "bash", "--principal", "user:ada"]);
    assert!(ran.stdout.contains("looked at: user:ada · group:staff"), "{ran}");
}

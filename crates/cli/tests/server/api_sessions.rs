//! Chat, sessions and approvals over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{Answer, Project, Server, within};

async fn chat(server: &Server, agent: &str, message: &str) -> Value {
    server.post(&format!("/agents/{agent}/chat"), &json!({"message": message})).await.ok()
}

fn id(turn: &Value) -> String {
    turn["session"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_chat_answers_as_the_command_line_does() {
    let project = Project::new();
    let server = project.serve().start().await;
    let answer = server
        .post(
            "/agents/helper/chat",
            &json!({"message": "weather in Lisbon", "title": "trip", "labels": {"a": "b"}}),
        )
        .await;
    let turn = answer.ok();
    assert_eq!(
        (answer.header("x-weir-session"), answer.header("x-weir-run")),
        (turn["session"].as_str(), turn["run"].as_str())
    );
    assert_eq!(turn["answer"], "It is 18 degrees in Lisbon.");
    let cli = project.json(&["chat", "helper", "-m", "weather in Lisbon"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut shared = keys(&turn);
    shared.retain(|key| key != "message");
    assert_eq!(shared, keys(&cli));
    assert_eq!(
        (&turn["usage"], &turn["stop"], &turn["cost_usd"]),
        (&cli["usage"], &cli["stop"], &cli["cost_usd"])
    );

    let session = id(&turn);
    let blocks = json!({"message": [{"type": "text", "text": "hello"}, {"type": "image", "media_type": "image/png", "base64": "AA=="}], "session": session});
    assert_eq!(server.post("/agents/helper/chat", &blocks).await.ok()["session"], turn["session"]);
    let found = server.get(&format!("/sessions/{session}")).await.ok();
    assert_eq!(
        (&found["title"], &found["labels"], &found["status"]),
        (&json!("trip"), &json!({"a": "b"}), &json!("idle"))
    );
    let failed = chat(&server, "helper", "fail").await;
    assert_eq!(
        (failed["stop"].as_str(), failed["answer"].is_null(), failed["message"].is_string()),
        (Some("failed"), true, true)
    );
}

#[tokio::test]
async fn what_cannot_be_said_is_told() {
    let server = Project::new().serve().start().await;
    let turn = chat(&server, "helper", "hello").await;
    let session = id(&turn);
    let post = async |path: &str, body: Value| server.post(path, &body).await.error();
    let ghost = "01J9ZDQ8M3E4F5G6H7J8K9MNPQ";
    assert_eq!(post("/agents/nobody/chat", json!({"message": "x"})).await, (404, "server::not-found".into()));
    for session in [ghost, "x", ""] {
        assert_eq!(
            post("/agents/helper/chat", json!({"message": "x", "session": session})).await,
            (404, "server::not-found".into())
        );
    }
    assert_eq!(
        post("/agents/echo/chat", json!({"message": "x", "session": session})).await,
        (409, "server::other-agent".into())
    );
    for body in [
        json!({}),
        json!({"message": ""}),
        json!({"message": "  "}),
        json!({"message": []}),
        json!({"message": 3}),
        json!({"message": [{"type": "tool_result", "id": "1", "name": "x", "content": []}]}),
        json!({"message": [{"type": "text", "text": "x", "sent": {"wire": "anthropic", "json": {}}}]}),
        json!({"message": "x", "lane": "managed"}),
        json!({"message": "x", "branch": "b"}),
        json!({"message": "x", "session": session, "title": "t"}),
        json!({"message": "x", "mesage": "y"}),
        json!({"message": "x", "title": "t".repeat(300)}),
    ] {
        assert_eq!(
            post("/agents/helper/chat", body.clone()).await,
            (400, "server::bad-request".into()),
            "{body}"
        );
    }
    let lane = server.post("/agents/helper/chat", &json!({"message": "x", "lane": "managed"})).await;
    assert!(lane.text().contains("there is no lane `managed`"), "{}", lane.text());
    let plain = server.request(Method::POST, "/agents/helper/chat").body("{\"message\":\"x\"}");
    assert_eq!(Answer::to(plain).await.error().0, 415);
    let huge = json!({"message": "x".repeat(5_000_000)});
    assert_eq!(post("/agents/helper/chat", huge).await.0, 413);
    assert_eq!(
        server.get("/sessions").await.ok()["sessions"].as_array().unwrap().len(),
        1,
        "nothing was begun"
    );
    insta::assert_snapshot!(server.post("/agents/nobody/chat", &json!({"message": "x"})).await.text(), @r#"{"error":{"code":"server::not-found","message":"there is no such agent","help":"`GET /agents` lists those of the deployed build; a new one is there after `weir build` and `weir deploy`"}}"#);
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_the_run() {
    let server = Project::new().serve().start().await;
    let session = id(&chat(&server, "helper", "hello").await);
    let body = json!({"message": "slow", "session": session});
    let request = server.posting("/agents/helper/chat", &body).send();
    let begun = async {
        let mut frames = server.follow(&format!("/sessions/{session}/events/stream"), None).await;
        let mut requests = 0;
        while requests < 2 {
            requests += usize::from(frames.next().await.unwrap().event.as_deref() == Some("model.requested"));
        }
    };
    tokio::select! {
        _ = request => panic!("it was answered too soon"),
        () = within("the run begins", begun) => {}
    }
    let found = server.until(&session, "idle").await;
    assert_eq!(found["stop"], "end");
    let messages = server.get(&format!("/sessions/{session}/messages")).await.ok();
    let last = messages["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(last["text"].as_str().unwrap().starts_with("This answer (attempt 1)"), "{last}");
}

#[tokio::test]
async fn sessions_are_listed_read_and_seen_as_they_were() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turns = [
        chat(&server, "helper", "one").await,
        chat(&server, "echo", "two").await,
        chat(&server, "careful", "refund 3").await,
    ];
    let mut expected: Vec<String> = turns.iter().map(id).collect();
    expected.sort();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/sessions?limit=1{after}")).await.ok();
        seen.extend(
            page["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, expected);
    let waiting = server.get("/sessions?status=waiting").await.ok();
    assert_eq!(waiting["sessions"][0]["id"], turns[2]["session"]);
    let echoes = server.get("/sessions?agent=echo").await.ok();
    let mut cli = project.lines(&["session", "list", "--agent", "echo"]);
    let mut listed = cli.remove(0);
    // The command line has the first words and the parent beside that.
    for more in ["subject", "parent"] {
        assert!(listed.as_object_mut().unwrap().remove(more).is_some(), "{more}");
    }
    assert_eq!(echoes["sessions"][0], listed);
    for query in ["status=asleep", "after=zzz", "after=e30", "limit=0", "limit=501", "x=1"] {
        assert_eq!(
            server.get(&format!("/sessions?{query}")).await.error(),
            (400, "server::bad-request".into()),
            "{query}"
        );
    }

    let session = id(&turns[0]);
    let messages = server.get(&format!("/sessions/{session}/messages")).await.ok();
    let said: Vec<_> = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["type"].as_str().unwrap(), line["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("user", "one"), ("assistant", "You said: one")]);
    let state = server.get(&format!("/sessions/{session}/state?at=2")).await.ok();
    assert_eq!((&state["seq"], &state["state"]["totals"]["model_calls"]), (&json!(2), &json!(0)));
    let now = server.get(&format!("/sessions/{session}/state")).await.ok();
    assert_eq!(now["state"]["totals"]["model_calls"], 1);
    // A time between two events is the last event before it.
    let events = server.get(&format!("/sessions/{session}/events")).await.ok();
    assert_eq!(project.events(&session), *events["events"].as_array().unwrap());
    let second = events["events"][1]["ts"].as_str().unwrap();
    let then = server.get(&format!("/sessions/{session}/state?at={second}")).await.ok();
    let last_then = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ts"].as_str().unwrap() <= second)
        .count();
    assert_eq!(then["seq"], last_then);
    for (at, status) in [("0", 404), ("999", 404), ("1970-01-01T00:00:00Z", 404), ("yesterday", 400)] {
        assert_eq!(server.get(&format!("/sessions/{session}/state?at={at}")).await.error().0, status, "{at}");
    }

    project.write("work/src/a b.txt", "words");
    project.ok(&["fs", "import", &session, "work"]);
    let files = server.get(&format!("/sessions/{session}/files")).await.ok();
    assert_eq!((&files["files"][0]["path"], &files["files"][0]["size"]), (&json!("src/a b.txt"), &json!(5)));
    for path in ["src/a%20b.txt", "src%2Fa%20b.txt"] {
        assert_eq!(server.get(&format!("/sessions/{session}/files/{path}")).await.text(), "words");
    }
    assert_eq!(server.get(&format!("/sessions/{session}/files?at=1")).await.ok()["files"], json!([]));
    assert_eq!(server.get(&format!("/sessions/{session}/files/src%2Fa%20b.txt?at=1")).await.error().0, 404);
    assert_eq!(server.get(&format!("/sessions/{session}/files/..%2F..%2Fetc%2Fpasswd")).await.error().0, 404);
}

#[tokio::test]
async fn sessions_are_forked_stopped_told_and_ended() {
    let project = Project::new();
    let server = project.serve().start().await;
    let session = id(&chat(&server, "helper", "one").await);
    let post =
        async |rest: &str, body: Value| server.post(&format!("/sessions/{session}/{rest}"), &body).await;
    let fork = post("fork", json!({"at": 2})).await.ok();
    assert_eq!((&fork["session"], &fork["branch"]), (&json!(session), &json!("fork-1")));
    let there = json!({"message": "another", "session": session, "branch": "fork-1"});
    assert_eq!(server.post("/agents/helper/chat", &there).await.ok()["branch"], "fork-1");
    let found = server.get(&format!("/sessions/{session}?branch=fork-1")).await.ok();
    assert_eq!(found["branches"], json!(["main", "fork-1"]));
    assert_eq!(
        post("fork", json!({"at": 2, "name": "fork-1"})).await.error(),
        (409, "journal::branch-exists".into())
    );
    assert_eq!(post("fork", json!({"at": 500})).await.error(), (404, "journal::no-event".into()));
    assert_eq!(post("fork", json!({"name": "a\u{202e}b"})).await.error().0, 400);

    let message = post("messages", json!({"message": "slow"})).await.ok();
    assert!(message["seq"].as_u64().unwrap() > 2);
    server.until(&session, "running").await;
    let cancelled = server.request(Method::POST, &format!("/sessions/{session}/cancel"));
    Answer::to(cancelled).await.ok();
    assert_eq!(server.until(&session, "idle").await["stop"], "cancelled");

    post("halt", json!({"reason": "lunch"})).await.ok();
    server.until(&session, "halted").await;
    let refused = server.post("/agents/helper/chat", &json!({"message": "x", "session": session})).await;
    assert_eq!(refused.error(), (409, "engine::halted".into()));
    post("resume", json!({})).await.ok();
    post("signals", json!({"name": "paid", "data": {"n": 7}})).await.ok();
    server.until(&session, "idle").await;
    let signals = server.get(&format!("/sessions/{session}/events?kind=external.signal")).await.ok();
    assert_eq!(signals["events"][0]["payload"], json!({"name": "paid", "data": {"n": 7}}));
    let actor = signals["events"][0]["meta"]["actor"].as_str().unwrap();
    assert!(actor.starts_with("user:"), "{actor}");
    assert_eq!(post("resume", json!({"budget": {}})).await.error().0, 400);
    assert_eq!(post("signals", json!({"name": ""})).await.error().0, 400);
    assert_eq!(post("halt", json!({"reson": "x"})).await.error().0, 400);

    post("close", json!({"reason": "done"})).await.ok();
    assert_eq!(server.until(&session, "closed").await["status"], "closed");
    for rest in ["close", "halt", "cancel", "signals", "messages"] {
        let body = match rest {
            "signals" => json!({"name": "x"}),
            "messages" => json!({"message": "x"}),
            _ => json!({}),
        };
        assert_eq!(post(rest, body).await.error(), (409, "engine::closed".into()), "{rest}");
    }
    for rest in ["", "/messages", "/state", "/events", "/files", "/files/x"] {
        let missing = server.get(&format!("/sessions/01J9ZDQ8M3E4F5G6H7J8K9MNPQ{rest}")).await;
        assert_eq!(missing.text(), server.get(&format!("/sessions/nonsense{rest}")).await.text());
        assert_eq!(missing.error(), (404, "server::not-found".into()));
    }
}

#[tokio::test]
async fn approvals_are_decided_with_other_arguments_or_not_at_all() {
    let project = Project::new();
    let server = project.serve().start().await;
    let turn = chat(&server, "careful", "refund 50").await;
    let (session, call) = (id(&turn), turn["approvals"][0]["id"].as_str().unwrap().to_owned());
    let listed = server.get("/approvals").await.ok();
    assert_eq!((&listed["approvals"][0]["id"], &listed["next"]), (&json!(call), &json!(null)));
    assert_eq!(listed["approvals"].as_array().unwrap()[..], project.lines(&["approvals"])[..]);
    assert_eq!(
        server.get(&format!("/approvals?session={session}")).await.ok()["approvals"],
        listed["approvals"]
    );
    assert_eq!(server.get("/approvals?agent=helper").await.ok()["approvals"], json!([]));

    let path = format!("/sessions/{session}/approvals/{call}");
    for body in [
        json!({"decision": "maybe"}),
        json!({"decision": "deny", "input": {}}),
        json!({"decision": "allow", "message": "x"}),
        json!({"decision": "allow", "scope": "always"}),
    ] {
        assert_eq!(server.post(&path, &body).await.error().0, 400, "{body}");
    }
    let edited = json!({"decision": "allow", "input": {"amount": 5}});
    assert_eq!(
        server.post(&path, &edited).await.error(),
        (400, "engine::approval-edit".into()),
        "not what the tool takes"
    );
    let edited = json!({"decision": "allow", "input": {"amount": "5"}});
    let decided = server.post(&path, &edited).await.ok();
    assert_eq!(
        (&decided["decision"], &decided["session"], &decided["call"]),
        (&json!("approved"), &json!(session), &json!(call))
    );
    server.until(&session, "idle").await;
    let messages = server.get(&format!("/sessions/{session}/messages")).await.text().to_owned();
    assert!(messages.contains("refunded 5") && !messages.contains("refunded 50"), "{messages}");
    assert_eq!(server.post(&path, &edited).await.error(), (409, "engine::approval-decided".into()));

    let turn = chat(&server, "careful", "refund 60").await;
    let gate = format!("/api/sessions/{}/gate", id(&turn));
    server.post(&gate, &json!({"decision": "deny", "deny_message": "not today"})).await.ok();
    server.until(&id(&turn), "idle").await;
    let messages = server.get(&format!("/sessions/{}/messages", id(&turn))).await.text().to_owned();
    assert!(messages.contains("not today"), "{messages}");
    assert_eq!(
        server.post(&gate, &json!({"decision": "deny"})).await.error(),
        (404, "engine::no-approval".into())
    );
    let ghost = format!("/sessions/{session}/approvals/01J9ZDQ8M3E4F5G6H7J8K9MNPQ");
    assert_eq!(server.post(&ghost, &json!({"decision": "deny"})).await.error().0, 404);
}

#[tokio::test]
async fn whoever_waits_too_long_is_told_where_to_look() {
    let project = Project::new();
    let model = std::fs::read_to_string(project.path().join("models/helper.yaml")).unwrap();
    project.write("models/helper.yaml", &model.replace("delay: 15ms", "delay: 80ms"));
    project.build();
    let server = project.serve().arg("--patience=1").start().await;
    let body = json!({"message": "slow"});
    let late = Answer::to(server.posting("/agents/helper/chat", &body).header("idempotency-key", "k")).await;
    assert_eq!(late.status, 202, "{}", late.text());
    let told = late.json();
    assert_eq!((&told["status"], late.header("x-weir-run")), (&json!("running"), told["run"].as_str()));
    assert_eq!(late.header("location"), Some(&*format!("/sessions/{}", id(&told))));
    let events = server.get(told["events"].as_str().unwrap()).await.ok();
    assert_eq!(events["events"][0]["kind"], "session.created");
    server.until(&id(&told), "idle").await;
    // The same request waits for the same run, also when the session has gone on since.
    server.post("/agents/helper/chat", &json!({"message": "more", "session": id(&told)})).await.ok();
    let turn =
        Answer::to(server.posting("/agents/helper/chat", &body).header("idempotency-key", "k")).await.ok();
    assert_eq!(
        (&turn["session"], &turn["run"], &turn["stop"]),
        (&told["session"], &told["run"], &json!("end"))
    );
    assert!(turn["answer"].as_str().unwrap().starts_with("This answer"), "{turn}");
    assert_eq!(server.get("/sessions").await.ok()["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_approves_their_own_where_four_eyes_are_wanted() {
    let project = Project::new();
    let text = std::fs::read_to_string(project.path().join("weir.yaml")).unwrap();
    project.write("weir.yaml", &format!("{text}four_eyes: true\n"));
    project.build();
    let server = project.serve().start().await;
    let turn = chat(&server, "careful", "refund 5").await;
    let path = format!("/sessions/{}/approvals/{}", id(&turn), turn["approvals"][0]["id"].as_str().unwrap());
    let refused = server.post(&path, &json!({"decision": "allow"})).await;
    assert_eq!(refused.error(), (403, "engine::denied".into()));
    assert_eq!(
        server.get("/approvals").await.ok()["approvals"].as_array().unwrap().len(),
        1,
        "it still waits"
    );
}

#[tokio::test]
async fn the_status_of_an_agent_names_the_tools_that_the_command_line_lists() {
    let project = Project::new();
    let server = project.serve().start().await;
    let status = server.get("/agents/helper/status").await.ok();
    let listed: Vec<Value> =
        project.lines(&["tools", "list", "helper"]).iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(status["tools"], json!(listed));
}

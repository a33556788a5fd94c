//! `/agents/{name}/mcp`: the agent as a tool.

use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{CAPABILITIES, CLIENT, Mcp, VERSION};
use crate::kit::{Answer, Project, Server, within};

const WITH_SESSIONS: [&str; 2] = ["2025-06-18", "2025-11-25"];

async fn server() -> Server {
    Project::new().serve().start().await
}

/// A server that asks everyone who they are, and the tokens of two who may talk to agents, and of one who may not.
async fn guarded() -> (Server, [String; 3]) {
    let project = Project::new();
    let tokens = ["user:alice", "user:bob", "user:eve"].map(|principal| {
        let issued = project.json(&["token", "issue", "--principal", principal]);
        issued["token"].as_str().unwrap().to_owned()
    });
    (project.serve().arg("--auth-tokens").start().await, tokens)
}

#[tokio::test]
async fn an_agent_is_a_tool_that_says_honestly_what_it_can_do() {
    let server = server().await;
    for version in WITH_SESSIONS {
        let helper = Mcp::new(&server, "/agents/helper/mcp").begin(version, json!({})).await;
        let tools = helper.ask("tools/list", json!({})).await.result()["tools"].clone();
        assert_eq!(tools.as_array().unwrap().len(), 1);
        assert_eq!(
            (&tools[0]["name"], &tools[0]["description"]),
            (&json!("helper"), &json!("You answer questions about the weather."))
        );
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], json!(true), "all its tools read");
        assert_eq!(tools[0]["inputSchema"]["required"], json!(["message"]));
        let careful = Mcp::new(&server, "/agents/careful/mcp").begin(version, json!({})).await;
        let tools = careful.ask("tools/list", json!({})).await.result()["tools"].clone();
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], json!(false), "one of its tools writes");
    }
}

#[tokio::test]
async fn a_call_is_a_turn_and_a_session_goes_on() {
    let server = server().await;
    for version in WITH_SESSIONS {
        let helper = Mcp::new(&server, "/agents/helper/mcp").begin(version, json!({})).await;
        let first = helper.call("helper", json!({"message": "weather in Lisbon"})).await;
        assert_eq!(first.words(), "It is 18 degrees in Lisbon.");
        let told = &first.result()["structuredContent"];
        assert_eq!((&told["stop"], &told["approvals"]), (&json!("end"), &json!([])));
        assert!(told["usage"]["output_tokens"].as_u64().unwrap() >= 12, "{told}");
        let session = told["session"].as_str().unwrap();
        let again = helper.call("helper", json!({"message": "hi", "session": session})).await;
        assert_eq!(
            (again.words(), &again.result()["structuredContent"]["session"]),
            ("You said: hi", &json!(session))
        );
        let asked = server.project.events(session);
        let said = asked.iter().filter(|event| event["kind"] == "user.message").count();
        assert_eq!(said, 2);
        let failed = helper.call("helper", json!({"message": "fail"})).await;
        assert_eq!(failed.result()["isError"], json!(true));
        assert_eq!(failed.result()["structuredContent"]["stop"], "failed");
    }
}

#[tokio::test]
async fn progress_is_told_in_growing_numbers_to_whoever_asks_for_it() {
    let server = server().await;
    for version in WITH_SESSIONS {
        let helper = Mcp::new(&server, "/agents/helper/mcp").begin(version, json!({})).await;
        let params = json!({"name": "helper", "arguments": {"message": "weather in Lisbon"}, "_meta": {"progressToken": "p"}});
        let reply = helper.ask("tools/call", params).await;
        let told: Vec<&Value> =
            reply.messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
        let words: Vec<&str> = told.iter().map(|told| told["params"]["message"].as_str().unwrap()).collect();
        let expected =
            ["asks scripted/helper", "calls weather", "weather has answered", "asks scripted/helper"];
        assert_eq!(words, expected);
        let numbers: Vec<f64> =
            told.iter().map(|told| told["params"]["progress"].as_f64().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        assert!(told.iter().all(|told| told["params"]["progressToken"] == "p"));
        assert_eq!(reply.words(), "It is 18 degrees in Lisbon.", "the answer comes last");
        let silent = helper.call("helper", json!({"message": "weather in Lisbon"})).await;
        assert_eq!(silent.messages.len(), 1, "{silent:?}");
    }
}

#[tokio::test]
async fn the_protocol_without_sessions_is_spoken_too() {
    let server = server().await;
    let meta = json!({VERSION: "2026-07-28", CLIENT: {"name": "test", "version": "1"}, CAPABILITIES: {}});
    let helper = Mcp::new(&server, "/agents/helper/mcp").with("mcp-protocol-version", "2026-07-28");
    let found = helper
        .clone()
        .with("mcp-method", "server/discover")
        .ask("server/discover", json!({"_meta": meta}))
        .await;
    assert_eq!(found.result()["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
    let mut told = meta.clone();
    told["progressToken"] = json!(1);
    let calling = helper.with("mcp-method", "tools/call").with("mcp-name", "helper");
    let params = json!({"name": "helper", "arguments": {"message": "weather in Lisbon"}, "_meta": told});
    let reply = calling.ask("tools/call", params).await;
    assert_eq!((reply.status(), reply.words()), (200, "It is 18 degrees in Lisbon."));
    assert_eq!(reply.messages.len(), 5, "{reply:?}");
    assert!(!reply.answer.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn what_needs_a_yes_comes_back_as_such() {
    let server = server().await;
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", json!({})).await;
    let reply = careful.call("careful", json!({"message": "refund 5"})).await;
    let told = &reply.result()["structuredContent"];
    assert_eq!((&told["stop"], &told["approvals"][0]["tool"]), (&json!("approval"), &json!("refund")));
    assert_eq!(told["approvals"][0]["input"], json!({"amount": "5"}));
    assert!(reply.words().contains("waits for approval"), "{}", reply.words());
    let (session, call) = (told["session"].as_str().unwrap(), told["approvals"][0]["id"].as_str().unwrap());
    let decided =
        server.post(&format!("/sessions/{session}/approvals/{call}"), &json!({"decision": "allow"})).await;
    assert!(decided.status.is_success(), "{}", decided.text());
}

#[tokio::test]
async fn whoever_sits_before_the_client_decides_if_they_may() {
    let server = server().await;
    let capabilities = json!({"elicitation": {}});
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", capabilities).await;
    for (approve, answer) in [(true, "Done: refunded 5"), (false, "not today")] {
        let content = json!({"approve": approve, "message": "not today"});
        let (asked, words) = careful.answering("careful", json!({"message": "refund 5"}), content).await;
        let asked = asked.expect("they are asked");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains(r#"refund {"amount":"5"}"#), "{message}");
        assert_eq!(asked["params"]["requestedSchema"]["properties"]["runs_as"], Value::Null, "{asked}");
        assert!(words.contains(answer), "{words}");
    }
}

/// What leaves open whether, or what, somebody approves is no approval.
#[tokio::test]
async fn an_answer_that_does_not_fit_decides_nothing() {
    let server = server().await;
    let capabilities = json!({"elicitation": {}});
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", capabilities).await;
    for content in [
        json!({"approve": null}),
        json!({"approve": "yes"}),
        json!({"approve": true, "input": null}),
        json!({"approve": true, "input": {"amount": "6"}}),
        json!({"approve": true, "runs_as": "perhaps"}),
        // It would really happen here.
        json!({"approve": true, "runs_as": "dry_run"}),
    ] {
        let said = json!({"message": "refund 5"});
        let (asked, words) = careful.answering("careful", said, content.clone()).await;
        assert!(asked.is_some() && words.contains("waits for approval"), "{content}: {words}");
    }
    assert_eq!(server.get("/approvals").await.ok()["approvals"].as_array().unwrap().len(), 6);
}

/// A tool that takes its time, so that whoever waits can be told before it is done.
const SLOW_WEATHER: &str = "\
import { defineTool } from 'weir';
export default defineTool({
  name: 'weather',
  description: 'The weather in a city.',
  parameters: { city: { type: 'string', description: 'The city' } },
  execute: async ({ city }: { city: string }) => {
    await new Promise((done) => setTimeout(done, 3000));
    return { city, temp: 18 };
  },
});
";

/// A call whose answer is read piece by piece.
struct Slowly {
    response: reqwest::Response,
    text: String,
}

impl Slowly {
    async fn call(client: &Mcp<'_>, id: u32, arguments: Value, meta: Value) -> Self {
        let tool = client.path.split('/').nth(2).unwrap();
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let request =
            client.request(Method::POST).header("content-type", "application/json").body(call.to_string());
        Self { response: within("an answer", request.send()).await.unwrap(), text: String::new() }
    }

    /// Reads on until this was told.
    async fn told(&mut self, words: &str) {
        while !self.text.contains(words) {
            let chunk = within(words, self.response.chunk()).await.unwrap();
            self.text.push_str(
                std::str::from_utf8(&chunk.unwrap_or_else(|| panic!("no {words}: {}", self.text))).unwrap(),
            );
        }
    }
}

/// The sessions that there are, the newest first.
fn sessions(server: &Server) -> Vec<String> {
    let listed = server.project.lines(&["session", "list"]);
    listed.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

fn count(server: &Server, session: &str, kind: &str) -> usize {
    server.project.events(session).iter().filter(|event| event["kind"] == kind).count()
}

#[tokio::test]
async fn progress_is_told_while_a_tool_works() {
    let project = Project::new();
    project.write("tools/weather.ts", SLOW_WEATHER);
    project.build();
    let server = project.serve().start().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let arguments = json!({"message": "weather in Lisbon"});
    let mut call = Slowly::call(&helper, 1, arguments, json!({"progressToken": 1})).await;
    call.told("calls weather").await;
    assert_eq!(count(&server, &sessions(&server)[0], "tool.completed"), 0, "it works, and that was told");
    call.told("weather has answered").await;
    call.told("It is 18 degrees in Lisbon.").await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_in_the_middle_of_a_tool_ends() {
    let project = Project::new();
    project.write("tools/weather.ts", &SLOW_WEATHER.replace("3000", "600000"));
    project.build();
    let server = project.serve().start().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let arguments = json!({"message": "weather in Lisbon"});
    let mut call = Slowly::call(&helper, 5, arguments, json!({"progressToken": 1})).await;
    call.told("calls weather").await;
    let params = json!({"requestId": 5, "reason": "enough"});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(helper.post(cancelled.to_string()).await.status(), 202);
    let session = sessions(&server)[0].clone();
    server.event(&session, &["run.cancelled"]).await;
    assert_eq!(count(&server, &session, "tool.completed"), 0);
    // The session is as good as before.
    let again = helper.call("helper", json!({"message": "hi", "session": session})).await;
    assert_eq!(again.words(), "You said: hi");
}

#[tokio::test]
async fn a_key_makes_a_call_one_turn_whoever_repeats_it() {
    let server = server().await;
    let arguments = json!({"message": "weather in Lisbon"});
    let calls = (0..8).map(|_| async {
        let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
        helper.keyed("helper", arguments.clone(), "k").await.result().clone()
    });
    let told: Vec<Value> = within("calls", futures_util::future::join_all(calls)).await;
    assert!(told.iter().all(|result| *result == told[0]), "{told:?}");
    assert_eq!(told[0]["content"][0]["text"], "It is 18 degrees in Lisbon.");
    assert_eq!(sessions(&server).len(), 1);
    let session = told[0]["structuredContent"]["session"].as_str().unwrap();
    assert_eq!(count(&server, session, "run.started"), 1);

    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    // The session has gone on since; what came of this call has not changed.
    helper.call("helper", json!({"message": "hi", "session": session})).await;
    assert_eq!(helper.keyed("helper", arguments.clone(), "k").await.result(), &told[0]);
    // The header says the same as the field.
    let by_header = helper.clone().with("idempotency-key", "k").call("helper", arguments.clone()).await;
    assert_eq!(by_header.result(), &told[0]);
    assert_eq!((sessions(&server).len(), count(&server, session, "user.message")), (1, 2));
    // In a session that goes on it is the same.
    let said = json!({"message": "again", "session": session});
    for _ in 0..2 {
        assert_eq!(helper.keyed("helper", said.clone(), "k2").await.words(), "You said: again");
    }
    assert_eq!(count(&server, session, "user.message"), 3);
    // Another call under the same key is none; another agent's key is another.
    assert_eq!(helper.keyed("helper", json!({"message": "hi"}), "k").await.code(), -32602);
    let careful = Mcp::new(&server, "/agents/careful/mcp").begin("2025-11-25", json!({})).await;
    assert_eq!(careful.keyed("careful", json!({"message": "hi"}), "k").await.words(), "You said: hi");
    assert_eq!(sessions(&server).len(), 2);
}

#[tokio::test]
async fn a_call_that_a_kill_cut_off_is_found_by_its_key() {
    let server = server().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let arguments = json!({"message": "slow"});
    let meta = json!({"progressToken": 1, "weir/idempotency-key": "k"});
    let mut call = Slowly::call(&helper, 1, arguments.clone(), meta).await;
    call.told("asks scripted/helper").await;
    let session = sessions(&server)[0].clone();
    let server = server.kill().start_again().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let again = helper.keyed("helper", arguments, "k").await;
    assert!(again.words().starts_with("This answer (attempt 2) comes in many small pieces"), "{again:?}");
    assert_eq!(again.result()["structuredContent"]["session"], json!(session));
    assert_eq!((sessions(&server), count(&server, &session, "user.message")), (vec![session], 1));
}

#[tokio::test]
async fn a_key_is_its_owners_alone() {
    let (server, [alice, bob, _]) = guarded().await;
    let mut told = Vec::new();
    for token in [alice, bob] {
        let helper =
            Mcp::new(&server, "/agents/helper/mcp").token(&token).begin("2025-11-25", json!({})).await;
        // Other words under the same key would be refused, if it were the same key.
        let said = helper.keyed("helper", json!({"message": format!("hi {}", told.len())}), "k").await;
        told.push(said.result()["structuredContent"]["session"].clone());
    }
    assert_ne!(told[0], told[1]);
}

#[tokio::test]
async fn whoever_waits_while_the_server_stops_is_told_that_it_goes_on() {
    let project = Project::new();
    project.write("tools/weather.ts", &SLOW_WEATHER.replace("3000", "600000"));
    project.build();
    let server = project.serve().start().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let meta = json!({"progressToken": 1});
    let mut call = Slowly::call(&helper, 1, json!({"message": "weather in Lisbon"}), meta).await;
    call.told("calls weather").await;
    let session = sessions(&server)[0].clone();
    server.signal(rustix::process::Signal::TERM);
    call.told("the server stops, and the run goes on").await;
    call.told(&session).await;
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended().await.ran.code, 0);
    let events = project.events(&session);
    assert!(events.iter().all(|event| event["kind"] != "run.cancelled"), "nobody has asked for that");
}

#[tokio::test]
async fn without_sessions_to_leave_is_to_ask() {
    let project = Project::new();
    project.write("tools/weather.ts", &SLOW_WEATHER.replace("3000", "600000"));
    project.build();
    let server = project.serve().start().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").with("mcp-protocol-version", "2026-07-28");
    let helper = helper.with("mcp-method", "tools/call").with("mcp-name", "helper");
    let mut meta = json!({VERSION: "2026-07-28", CLIENT: {"name": "test", "version": "1"}, CAPABILITIES: {}});
    meta["progressToken"] = json!(1);
    let mut call = Slowly::call(&helper, 1, json!({"message": "weather in Lisbon"}), meta).await;
    call.told("calls weather").await;
    drop(call);
    server.event(&sessions(&server)[0], &["run.cancelled"]).await;
}

#[tokio::test]
async fn nobody_is_asked_what_they_may_not_decide() {
    let project = Project::new();
    let forbid = "@id(\"four-eyes\")\nforbid (principal, action == Action::\"approve\", resource) when { context.own };\n";
    project.write("policies/four-eyes.cedar", forbid);
    project.build();
    let alice = project.json(&["token", "issue", "--principal", "user:alice"])["token"].clone();
    let server = project.serve().arg("--auth-tokens").start().await;
    let asked = json!({"elicitation": {}});
    let hers = Mcp::new(&server, "/agents/careful/mcp")
        .token(alice.as_str().unwrap())
        .begin("2025-11-25", asked)
        .await;
    // She can be asked, and is not.
    let waits = hers.call("careful", json!({"message": "refund 5"})).await;
    let told = &waits.result()["structuredContent"];
    assert_eq!((waits.messages.len(), &told["stop"]), (1, &json!("approval")), "{waits:?}");
}

#[tokio::test]
async fn to_cancel_is_to_ask_and_to_leave_is_not() {
    let server = server().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let begin = async |id: u32| {
        let mut call =
            Slowly::call(&helper, id, json!({"message": "slow"}), json!({"progressToken": id})).await;
        call.told("asks scripted/helper").await;
        call
    };
    let newest = || sessions(&server)[0].clone();
    let ended =
        async |session: &str| server.event(session, &["run.finished", "run.cancelled"]).await.event.unwrap();
    // Whoever leaves stops nothing.
    drop(begin(1).await);
    assert_eq!(ended(&newest()).await, "run.finished");
    // Whoever says so does.
    let _held = begin(2).await;
    let session = newest();
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(helper.post(cancelled.to_string()).await.status(), 202);
    assert_eq!(ended(&session).await, "run.cancelled");
}

#[tokio::test]
async fn only_agents_one_may_talk_to_exist_and_sessions_are_their_owners_alone() {
    let (server, [alice, bob, eve]) = guarded().await;
    let path = "/agents/helper/mcp";
    let nowhere = Mcp::new(&server, "/agents/nobody/mcp").token(&alice).hello("2025-11-25", json!({})).await;
    for refused in [
        Mcp::new(&server, path).token(&eve).hello("2025-11-25", json!({})).await,
        Mcp::new(&server, "/agents/echo/mcp").token(&alice).hello("2025-11-25", json!({})).await,
    ] {
        assert_eq!((refused.status(), &refused.answer.body), (404, &nowhere.answer.body));
    }
    assert_eq!(Mcp::new(&server, path).hello("2025-11-25", json!({})).await.status(), 401);
    let hers = Mcp::new(&server, path).token(&alice).begin("2025-11-25", json!({})).await;
    let said = hers.call("helper", json!({"message": "hi"})).await;
    let session = said.result()["structuredContent"]["session"].as_str().unwrap().to_owned();
    // A session of MCP: another's, or of another agent, is as good as one that never was.
    let made_up = hers.clone().with("mcp-session-id", "made-up").ask("tools/list", json!({})).await;
    let stolen = hers.clone().token(&bob).ask("tools/list", json!({})).await;
    assert_eq!((made_up.status(), stolen.status(), &stolen.answer.body), (404, 404, &made_up.answer.body));
    let elsewhere = Mcp { headers: hers.headers.clone(), ..Mcp::new(&server, "/agents/careful/mcp") };
    assert_eq!(elsewhere.ask("tools/list", json!({})).await.status(), 404);
    // A session of an agent: the same.
    let his = Mcp::new(&server, path).token(&bob).begin("2025-11-25", json!({})).await;
    let leaked = his.call("helper", json!({"message": "hi", "session": session})).await;
    let guessed = his.call("helper", json!({"message": "hi", "session": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})).await;
    assert_eq!((leaked.result(), &leaked.result()["isError"]), (guessed.result(), &json!(true)));
    assert_eq!(
        server.project.events(&session).iter().filter(|event| event["kind"] == "user.message").count(),
        1
    );
    // It ends when its owner says so, and not before.
    assert_eq!(Answer::to(hers.clone().token(&bob).request(Method::DELETE)).await.status, 404);
    assert_eq!(hers.ask("ping", json!({})).await.status(), 200);
    assert!(Answer::to(hers.request(Method::DELETE)).await.status.is_success());
    assert_eq!(hers.ask("ping", json!({})).await.status(), 404);
}

#[tokio::test]
async fn a_restarted_server_has_a_client_begin_again() {
    let server = server().await;
    let before = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    let headers = before.headers.clone();
    let server = server.kill().start_again().await;
    let after = Mcp { headers, ..Mcp::new(&server, "/agents/helper/mcp") };
    assert_eq!(after.ask("ping", json!({})).await.status(), 404);
    Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
}

#[tokio::test]
async fn bad_input_is_told_and_harms_nobody() {
    let server = server().await;
    let helper = Mcp::new(&server, "/agents/helper/mcp").begin("2025-11-25", json!({})).await;
    assert_eq!(helper.ask("no/such", json!({})).await.code(), -32601);
    assert_eq!(helper.call("nobody", json!({})).await.code(), -32602);
    let wrong = [
        json!({}),
        json!({"message": 7}),
        json!({"message": " "}),
        json!({"message": "hi", "mesage": "hi"}),
        json!({"message": "hi", "session": "../x"}),
    ];
    for arguments in wrong {
        let told = helper.call("helper", arguments.clone()).await;
        assert_eq!(told.result()["isError"], json!(true), "{arguments}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let bodies = [
        String::new(),
        "nonsense".to_owned(),
        "[]".to_owned(),
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_owned(),
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_owned(),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"helper","arguments":{deep}}}}}"#
        ),
    ];
    for body in bodies {
        let short: String = body.chars().take(60).collect();
        let status = helper.post(body).await.status();
        assert!((400..500).contains(&status), "{short}: {status}");
    }
    for version in ["2024-11-05", "2025-03-26", "1999-01-01", "x"] {
        let refused = helper.clone().with("mcp-protocol-version", version).ask("ping", json!({})).await;
        assert_eq!(refused.status(), 400, "{version}");
    }
    let old = Mcp::new(&server, "/agents/helper/mcp").hello("2024-11-05", json!({})).await;
    assert_eq!(old.result()["protocolVersion"], "2025-11-25", "the client may take it or leave");
    let plain = helper.request(Method::POST).header("content-type", "text/plain").body("{}");
    assert_eq!(Answer::to(plain).await.status, 415);
    let foreign = helper.clone().with("origin", "http://evil.example").ask("ping", json!({})).await;
    assert_eq!(foreign.status(), 403);
    let rebound = helper.clone().with("host", "evil.example").ask("ping", json!({})).await;
    assert!((400..500).contains(&rebound.status()));
    assert_eq!(helper.call("helper", json!({"message": "hi"})).await.words(), "You said: hi");
    assert_eq!(Mcp::new(&server, "/conformance/mcp").hello("2025-11-25", json!({})).await.status(), 404);
    let huge = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "helper", "arguments": {"message": "x".repeat(5 << 20)}}});
    assert_eq!(helper.post(huge.to_string()).await.status(), 413);
}

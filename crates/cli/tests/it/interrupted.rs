//! Calls that a `kill -9` of weir cut off, for each kind of tool: what may be repeated is, and what may not is reported. The
//! servers count.

use serde_json::{Value, json};

use crate::outside::{Canary, Project, field, script, tool};
use crate::running::eventually_or;

/// What became of the calls of a session, by tool: `done`, or the outcome that is reported.
fn outcomes(project: &Project, session: &str) -> Vec<(String, String)> {
    let (done, failed) =
        (project.payloads(session, "tool.completed"), project.payloads(session, "tool.failed"));
    let became = |call: &Value| {
        let failed = failed.iter().find(|failed| failed["call"] == *call);
        let done = done.iter().find(|done| done["call"] == *call).map(|_| "done".to_owned());
        done.or(failed.map(|failed| field(failed, "outcome"))).unwrap_or_else(|| "open".to_owned())
    };
    let asked = project.payloads(session, "tool.requested");
    asked.iter().map(|asked| (field(asked, "tool"), became(&asked["call"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(tool, became)| ((*tool).to_owned(), (*became).to_owned())).collect()
}

/// How often each of them was touched.
fn times(touched: &[String], what: &str) -> usize {
    touched.iter().filter(|touched| *touched == what).count()
}

/// Waits until a session has so many events of a kind.
fn await_events(project: &Project, session: &str, kind: &str, count: usize) {
    let look = || (project.payloads(session, kind).len() >= count).then_some(());
    eventually_or(look, || format!("{kind}: {:#?}", project.events(session)));
}

#[test]
fn calls_of_servers_are_repeated_where_the_author_says_so() {
    let tools = ["look", "put", "send", "again"];
    let canary = Canary::with_tools(&tools.map(tool));
    let project = Project::new();
    let entry = |name: &str, how: &str| {
        format!("  - {{ server: \"{}\", access: write{how} }}\n", canary.server(&format!("/{name}")))
    };
    let spec = [
        "tools:\n".to_owned(),
        format!("  - {{ server: \"{}\", access: read }}\n", canary.server("/look")),
        entry("put", ", effect: idempotent"),
        entry("send", ""),
        entry("again", ", on_interrupt: retry"),
    ];
    let calls = tools.map(|name| json!({"tool": name, "input": {"n": 1}}));
    project.agent("busy", &spec.concat(), &script(&[("^go", json!(calls))]));
    project.build();

    canary.hold(true);
    let chat = project.start(&["chat", "busy", "-m", "go", "--live-writes"]);
    canary.await_touches(4);
    chat.kill();
    canary.hold(false);
    let session = project.latest();
    project.ok(&["session", "resume", &session, "--live-writes"]);

    assert_eq!(
        outcomes(&project, &session),
        pairs(&[("look", "done"), ("put", "done"), ("send", "unknown"), ("again", "done")])
    );
    let heard = canary.heard();
    let keys = |what: &str| {
        let heard = heard.iter().filter(|heard| heard.what == what);
        heard.map(|heard| field(&heard.body["params"]["_meta"], "weir/idempotency-key")).collect::<Vec<_>>()
    };
    for (tool, expected) in [("look", 2), ("put", 2), ("send", 1), ("again", 2)] {
        let mut keys = keys(tool);
        assert_eq!(keys.len(), expected, "{tool}: {heard:?}");
        keys.dedup();
        assert_eq!(keys.len(), 1, "{tool}: one call has one key");
        assert!(!keys[0].is_empty());
    }
    // Who reads on is told, and the operator too.
    let unknown = &project.results(&session);
    assert!(unknown.iter().any(|result| result.contains("outcome unknown")), "{unknown:?}");
}

#[test]
fn what_may_not_happen_any_more_is_not_repeated() {
    let tools = ["look", "put", "again"];
    let canary = Canary::with_tools(&tools.map(tool));
    let project = Project::new();
    let server = |name: &str| canary.server(&format!("/{name}"));
    let spec = format!(
        "tools:\n  - {{ server: \"{}\", access: read }}\n  - {{ server: \"{}\", access: write, effect: idempotent }}\n  \
         - {{ server: \"{}\", access: write, on_interrupt: retry }}\nacl:\n  - {{ principal: \"user:eve\", role: execute }}\n",
        server("look"),
        server("put"),
        server("again")
    );
    let calls = tools.map(|name| json!({"tool": name, "input": {"n": 1}}));
    project.agent("busy", &spec, &script(&[("^go", json!(calls))]));
    let grants = tools.map(|name| {
        format!(
            "  - {{ tool: \"{}\", grants: [{{ principal: \"user:eve\", access: write }}] }}\n",
            server(name)
        )
    });
    project.write("weir.yaml", &format!("project: p\ntool_grants:\n{}", grants.concat()));
    project.build();
    let cut_off = || {
        canary.hold(true);
        let chat = project.start(&["chat", "busy", "-m", "go", "--live-writes", "--as", "user:eve"]);
        canary.await_touches(3);
        chat.kill();
        canary.hold(false);
        project.latest()
    };

    // Whoever goes on does not let writes happen.
    let session = cut_off();
    project.ok(&["session", "resume", &session]);
    assert_eq!(
        outcomes(&project, &session),
        pairs(&[("look", "done"), ("put", "unknown"), ("again", "unknown")])
    );
    let touched = canary.touched();
    assert_eq!(["look", "put", "again"].map(|what| times(&touched, what)), [2, 1, 1]);
    let results = project.results(&session);
    assert_eq!(results.iter().filter(|result| result.contains("`--live-writes` would repeat it")).count(), 2);

    // The grants were taken back in the meantime.
    let session = cut_off();
    project.write("weir.yaml", "project: p\n");
    project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(
        outcomes(&project, &session),
        pairs(&[("look", "denied"), ("put", "unknown"), ("again", "unknown")])
    );
    assert_eq!(canary.touched().len(), 3, "nothing was repeated");
    let results = project.results(&session);
    assert_eq!(results.iter().filter(|result| result.contains("`user:eve` holds no grant")).count(), 3);
}

#[test]
fn calls_of_servers_that_are_started_end_with_weir_and_follow_the_same_rule() {
    let project = Project::new();
    project.server("reads", &[tool("look")]);
    project.server("writes", &[tool("ring")]);
    let spec = "tools:\n  - { server: \"mcp://./servers/reads.py\", access: read }\n  \
                - { server: \"mcp://./servers/writes.py\", access: write }\n";
    let calls = json!([{"tool": "look", "input": {"n": 1}}, {"tool": "ring", "input": {"n": 1}}]);
    project.agent("busy", spec, &script(&[("^go", calls)]));
    project.build();
    let before: Vec<String> = project.left("reads", "started");

    for server in ["reads", "writes"] {
        project.hold(server, true);
    }
    let chat = project.start(&["chat", "busy", "-m", "go", "--live-writes"]);
    for server in ["reads", "writes"] {
        project.await_call(server);
    }
    chat.kill();
    // A server that was in the middle of a call does not outlive who called it.
    for server in ["reads", "writes"] {
        let started = project.left(server, "started");
        let pid = started.last().unwrap();
        let look = || (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(());
        eventually_or(look, || format!("`{server}` lives on as {pid}"));
        project.hold(server, false);
    }
    let session = project.latest();
    project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(outcomes(&project, &session), pairs(&[("look", "done"), ("ring", "unknown")]));
    assert_eq!(project.touched("reads"), ["look", "look"]);
    assert_eq!(project.touched("writes"), ["ring"]);
    assert_eq!(project.left("reads", "started").len(), before.len() + 2);
}

#[test]
fn requests_of_scripts_and_of_http_are_repeated_if_they_only_looked() {
    let (project, canary) = (Project::new(), Canary::new());
    for (name, method) in [("peek", "GET"), ("post", "POST")] {
        project.write(
            &format!("tools/{name}.ts"),
            &format!(
                "import {{ defineTool }} from 'weir';\nexport default defineTool({{ name: '{name}', description: 'Fetches.', \
                 parameters: {{}}, execute: async () => (await fetch('{}', {{ method: '{method}' }})).text() }});\n",
                canary.url(&format!("/{name}"))
            ),
        );
    }
    let host = canary.host();
    let spec = format!(
        "tools:\n  - {{ name: tools/peek, access: read, hosts: [\"{host}\"] }}\n  \
         - {{ name: tools/post, access: write, hosts: [\"{host}\"] }}\n  - {{ name: http, access: write, hosts: [\"{host}\"] }}\n"
    );
    let calls = json!([
        {"tool": "peek", "input": {}},
        {"tool": "post", "input": {}},
        {"tool": "http", "input": {"url": canary.url("/http")}},
        {"tool": "http", "input": {"url": canary.url("/http"), "method": "POST", "body": "x"}},
    ]);
    project.agent("busy", &spec, &script(&[("^go", calls)]));
    project.build();

    canary.hold(true);
    let chat = project.start(&["chat", "busy", "-m", "go", "--live-writes"]);
    canary.await_touches(4);
    chat.kill();
    canary.hold(false);
    let session = project.latest();
    project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(
        outcomes(&project, &session),
        pairs(&[("peek", "done"), ("post", "unknown"), ("http", "done"), ("http", "unknown")])
    );
    let touched = canary.touched();
    let counts = ["GET /peek", "POST /post", "GET /http", "POST /http"].map(|what| times(&touched, what));
    assert_eq!(counts, [2, 1, 2, 1], "{touched:?}");
}

#[test]
fn what_changes_files_runs_again_and_changes_them_once() {
    let project = Project::new();
    let spec = "tools:\n  - { name: bash, access: write }\n  - { name: edit, access: write }\n";
    project.write("given/log.txt", "begun\n");
    // Nothing from outside reaches a command, so it waits for a moment. A machine that is too busy to kill it before that
    // gets another try, with more time.
    let cut_off = [3, 10, 30].into_iter().find_map(|seconds| {
        let moment = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + seconds;
        let waits = format!("echo once >> log.txt; until [ $(date +%s) -ge {moment} ]; do sleep 0.02; done");
        // The edit waits for its turn.
        let calls = json!([
            {"tool": "bash", "input": {"command": waits}},
            {"tool": "edit_write", "input": {"path": "note.txt", "content": "hello"}},
        ]);
        project.agent("busy", spec, &script(&[("^go", calls)]));
        let chat =
            project.start(&["chat", "busy", "-m", "go", "--files", "given", "--title", &moment.to_string()]);
        let session = eventually_or(|| project.titled(&moment.to_string()), || "no session began".to_owned());
        await_events(&project, &session, "tool.started", 2);
        chat.kill();
        let is_open = outcomes(&project, &session) == pairs(&[("bash", "open"), ("edit_write", "open")]);
        is_open.then_some(session)
    });
    let session = cut_off.expect("a command that is killed within half a minute");
    let before = project.lines(&["fs", "ls", &session]);
    assert_eq!(before.len(), 1, "a call that was cut off has changed nothing: {before:?}");
    // Nobody else changes files of which a call is still to be repeated.
    project.write("other/log.txt", "mine\n");
    assert_eq!(project.run(&["fs", "import", &session, "other"]).code, 1);

    project.ok(&["session", "resume", &session]);
    assert_eq!(outcomes(&project, &session), pairs(&[("bash", "done"), ("edit_write", "done")]));
    let paths: Vec<String> =
        project.lines(&["fs", "ls", &session]).iter().map(|file| field(file, "path")).collect();
    assert_eq!(paths, ["log.txt", "note.txt"]);
    assert_eq!(project.ok(&["fs", "cat", &session, "log.txt"]), "begun\nonce\n");
    assert_eq!(project.ok(&["fs", "cat", &session, "note.txt"]), "hello");
    let attempts: Vec<Value> =
        project.payloads(&session, "tool.started").iter().map(|started| started["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 1, 2, 2]);
}

/// A confined command changes nothing but its own copy of the files. So when it is cancelled and seen to be gone, its outcome is known; that of a
/// command without confinement is not.
#[test]
fn the_outcome_of_a_cancelled_command_is_known_if_it_was_confined() {
    for (more, expected) in [(None, "failed"), (Some("--unsafe-no-sandbox"), "unknown")] {
        let project = Project::new();
        project.write("given/log.txt", "begun\n");
        let marker = crate::escapes::marker();
        let command = format!("echo it began; echo twice >> log.txt; sleep {marker}");
        let calls = json!([
            {"tool": "bash", "input": {"command": command}},
            {"tool": "bash", "input": {"command": "echo never >> log.txt"}},
        ]);
        project.agent("busy", "tools:\n  - { name: bash, access: write }\n", &script(&[("^go", calls)]));
        let mut words = vec!["chat", "busy", "-m", "go", "--files", "given"];
        words.extend(more);
        let chat = project.start(&words);
        crate::escapes::until("the command runs", || crate::escapes::is_running(&format!("sleep\0{marker}")));
        assert_eq!(chat.interrupt().code, 130);
        crate::escapes::until("the command is gone", || !crate::escapes::is_running(&marker));

        let session = project.latest();
        let became = outcomes(&project, &session);
        assert_eq!(became[0], ("bash".to_owned(), expected.to_owned()), "{more:?}: {became:?}");
        let told = &project.results(&session)[0];
        if more.is_none() {
            // The second one waited for its turn.
            assert_eq!(became[1].1, "interrupted", "{told}");
            assert!(told.contains("it was cancelled") && told.contains("it began"), "{told}");
        }
        assert_eq!(project.ok(&["fs", "cat", &session, "log.txt"]), "begun\n");
    }
}

#[test]
fn a_session_that_an_agent_began_is_joined_and_not_begun_again() {
    let canary = Canary::with_tools(&[tool("look"), tool("send")]);
    let project = Project::new();
    let inner = format!(
        "tools:\n  - {{ server: \"{}\", access: read }}\n  - {{ server: \"{}\", access: write }}\n",
        canary.server("/look"),
        canary.server("/send")
    );
    let calls = json!([{"tool": "look", "input": {"n": 1}}, {"tool": "send", "input": {"n": 1}}]);
    project.agent("inner", &inner, &script(&[("^work", calls)]));
    let asks = json!([{"tool": "inner", "input": {"message": "work"}}]);
    project.agent("outer", "tools:\n  - { server: \"weir://inner\" }\n", &script(&[("^go", asks)]));
    project.build();

    canary.hold(true);
    let chat = project.start(&["chat", "outer", "-m", "go", "--live-writes"]);
    canary.await_touches(2);
    chat.kill();
    canary.hold(false);
    let listed = project.lines(&["session", "list"]);
    let id = |agent: &str| field(listed.iter().find(|session| session["agent"] == agent).unwrap(), "id");
    let (parent, child) = (id("outer"), id("inner"));
    project.ok(&["session", "resume", &parent, "--live-writes"]);

    assert_eq!(project.lines(&["session", "list"]).len(), 2, "one parent and one child");
    assert_eq!(outcomes(&project, &parent), pairs(&[("inner", "done")]));
    assert_eq!(outcomes(&project, &child), pairs(&[("look", "done"), ("send", "unknown")]));
    let touched = canary.touched();
    assert_eq!((times(&touched, "look"), times(&touched, "send")), (2, 1));
    let children = project.payloads(&parent, "tool.started");
    assert_eq!(children.len(), 2, "{children:?}");
    assert!(children.iter().all(|started| field(started, "child") == child), "{children:?}");
    let created = &project.payloads(&child, "session.created")[0];
    assert_eq!(field(&created["parent"], "session"), parent);
}

//! One gate for tools: from no entry point does a call that is not allowed reach the world. Whether it did is seen there: by
//! a canary behind HTTP, and by an MCP server that counts its calls.

use serde_json::{Value, json};
use weir_types::Hash;

use crate::outside::{Canary, Project, field, script, tool};

/// Three ways out into the world: an MCP server, a script that fetches, and the built-in `http`.
const TOOLS: [&str; 3] = ["ring", "post", "http"];

/// The agent `full` has all three ways out and `poor` has none; `outer` can only ask the two of them. All models try the same.
struct World {
    project: Project,
    canary: Canary,
}

impl World {
    fn new() -> Self {
        let (project, canary) = (Project::new(), Canary::new());
        let (host, url) = (canary.host(), canary.url("/post"));
        project.server("bell", &[tool("ring")]);
        project.write(
            "tools/post.ts",
            "import { defineTool } from 'weir';\n\
             export default defineTool({\n  \
               name: 'post', description: 'Posts.',\n  \
               parameters: { url: { type: 'string' }, n: { type: 'integer' } },\n  \
               execute: async ({ url, n }) => (await fetch(url, { method: 'POST', body: String(n) })).text(),\n\
             });\n",
        );
        let grants = |name: &str| {
            format!(
                "  - tool: {name}\n    grants:\n      - {{ principal: \"user:reader\", access: read }}\n      \
                 - {{ principal: \"user:writer\", access: write }}\n"
            )
        };
        let grants = ["mcp://./servers/bell.py", "tools/post", "http"].map(grants).concat();
        project.write("weir.yaml", &format!("project: gate\ntool_grants:\n{grants}"));
        let acl = "acl:\n  - { principal: \"user:eve\", role: execute }\n  - { principal: \"user:reader\", role: execute }\n  \
                   - { principal: \"user:writer\", role: execute }\n";
        let calls = |n: Value| {
            json!([
                {"tool": "ring", "input": {"n": n}},
                {"tool": "post", "input": {"n": n, "url": url}},
                {"tool": "http", "input": {"method": "POST", "url": if n.is_i64() { json!(url) } else { n }}},
            ])
        };
        let tries = script(&[("^good", calls(json!(1))), ("^bad", calls(json!(["many"])))]);
        let full = format!(
            "tools:\n  - {{ server: \"mcp://./servers/bell.py\", access: write }}\n  \
             - {{ name: tools/post, access: write, hosts: [\"{host}\"] }}\n  \
             - {{ name: http, access: write, hosts: [\"{host}\"] }}\n{acl}"
        );
        project.agent("full", &full, &tries);
        project.agent("poor", &format!("tools:\n  - {{ name: get_time }}\n{acl}"), &tries);
        let ask = |agent: &str| json!([{"tool": agent, "input": {"message": "{{1}}"}}]);
        let asks = script(&[("^full (.*)", ask("full")), ("^poor (.*)", ask("poor"))]);
        let outer =
            format!("tools:\n  - {{ server: \"weir://full\" }}\n  - {{ server: \"weir://poor\" }}\n{acl}");
        project.agent("outer", &outer, &asks);
        project.build();
        project.touched("bell");
        Self { project, canary }
    }

    /// What was touched outside since the last look.
    fn touched(&self) -> Vec<String> {
        let mut touched = self.project.touched("bell");
        touched.extend(self.canary.touched());
        touched.sort();
        touched
    }

    /// Lets an agent try all three, by itself or asked by another agent; the session in which they were tried.
    fn tried(&self, entry: Entry, agent: &str, words: &str, flags: &[&str]) -> String {
        match entry {
            Entry::Chat => self.project.chat(agent, words, flags),
            Entry::Child => {
                let parent = self.project.chat("outer", &format!("{agent} {words}"), flags);
                let started = self.project.payloads(&parent, "tool.started");
                field(&started[0], "child")
            }
        }
    }

    /// How the gate decided about each call of a session: the outcome, the step that refused, whether it is a stub, and why.
    fn decided(&self, session: &str) -> Vec<(String, Value, bool, String)> {
        let decided = self.project.payloads(session, "tool.decided").into_iter();
        let decided = decided.map(|decided| {
            let stub = decided["stub"].as_bool().unwrap_or(false);
            (field(&decided, "outcome"), decided["rule"].clone(), stub, field(&decided, "because"))
        });
        decided.collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Chat,
    Child,
}

/// All that a refusal has to have: nothing was touched, every call is decided and failed as denied by this step, and the
/// words say why and what would allow it.
fn refused(world: &World, session: &str, step: &str, reason: &str, remedy: &str) {
    assert_eq!(world.touched(), [""; 0], "{step}");
    let decided = world.decided(session);
    assert_eq!(decided.len(), TOOLS.len(), "{decided:?}");
    for (outcome, rule, stub, because) in &decided {
        assert_eq!((outcome.as_str(), rule, *stub), ("deny", &json!(step), false), "{because}");
        for words in [step, reason, remedy] {
            assert!(because.contains(words), "{words:?} in {because:?}");
        }
    }
    let failed = world.project.payloads(session, "tool.failed");
    assert_eq!(failed.len(), TOOLS.len(), "{failed:?}");
    for failed in failed {
        assert_eq!(failed["outcome"], "denied", "{failed}");
        assert!(field(&failed, "message").contains(reason), "{failed}");
    }
    assert_eq!(world.project.payloads(session, "tool.started"), [Value::Null; 0]);
}

#[test]
fn what_an_agent_may_not_do_does_not_happen_in_a_chat() {
    nothing_gets_past(Entry::Chat);
}

#[test]
fn what_an_agent_may_not_do_does_not_happen_in_a_session_that_another_agent_began() {
    nothing_gets_past(Entry::Child);
}

fn nothing_gets_past(entry: Entry) {
    let world = World::new();
    let live = "--live-writes";
    // Not even the owner of the data directory, with live writes, reaches what the agent does not list.
    let session = world.tried(entry, "poor", "good", &[live]);
    refused(&world, &session, "allowlist", "does not list it", "an entry under `tools` in the agent's spec");

    let session = world.tried(entry, "full", "good", &[live, "--as", "user:eve"]);
    refused(&world, &session, "grant", "`user:eve` holds no grant", "a `tool_grants` entry for");

    let session = world.tried(entry, "full", "good", &[live, "--as", "user:reader"]);
    refused(
        &world,
        &session,
        "grant",
        "`user:reader` holds only `read`",
        "with `access: write` in weir.yaml",
    );

    let session = world.tried(entry, "full", "bad", &[live, "--as", "user:writer"]);
    refused(&world, &session, "schema", "the arguments do not fit", "call it again with arguments that fit");

    // Allowed, and yet nothing happens: the model is told so.
    let session = world.tried(entry, "full", "good", &["--as", "user:writer"]);
    assert_eq!(world.touched(), [""; 0]);
    assert!(world.decided(&session).iter().all(|(outcome, _, stub, _)| outcome == "allow" && *stub));
    let completed = world.project.payloads(&session, "tool.completed");
    assert_eq!(completed.len(), TOOLS.len());
    assert!(completed.iter().all(|done| done["stub"] == true), "{completed:?}");
    for result in world.project.results(&session) {
        assert!(
            result.contains("DRY RUN: nothing happened") && result.contains("--live-writes="),
            "{result}"
        );
    }

    // Some of it happens, and the rest does not.
    world.tried(entry, "full", "good", &["--live-writes=p*t", "--as", "user:writer"]);
    assert_eq!(world.touched(), ["POST /post"]);
    world.tried(entry, "full", "good", &["--live-writes=mcp://./servers/*", "--as", "user:writer"]);
    assert_eq!(world.touched(), ["ring"]);
    world.tried(entry, "full", "good", &["--live-writes=pos", "--live-writes=rin?", "--live-writes="]);
    assert_eq!(world.touched(), [""; 0]);

    // With the right grant, arguments and flag all of it does happen: the canaries are alive.
    world.tried(entry, "full", "good", &[live, "--as", "user:writer"]);
    assert_eq!(world.touched(), ["POST /post", "POST /post", "ring"]);
}

#[test]
fn nobody_talks_to_an_agent_that_does_not_let_them_in() {
    let world = World::new();
    let stranger = ["--live-writes", "--as", "user:mallory"];
    for args in [&["chat", "full", "-m", "good"][..], &["tools", "call", "full", "ring", r#"{"n":1}"#]] {
        let ran = world.project.run(&[args, &stranger].concat());
        assert_eq!(ran.code, 3, "{ran}");
        for words in ["`user:mallory` may not talk to agent `full`", "an `acl` entry with role `execute`"] {
            assert!(ran.stderr.contains(words), "{ran}");
        }
    }
    assert_eq!(world.touched(), [""; 0]);
}

#[test]
fn an_agent_is_asked_only_on_behalf_of_those_it_lets_in() {
    let world = World::new();
    let only_outer =
        "tools:\n  - { server: \"weir://full\" }\nacl:\n  - { principal: \"user:mallory\", role: execute }\n";
    let asks = json!([{"tool": "full", "input": {"message": "good"}}]);
    world.project.agent("door", only_outer, &script(&[("^go", asks)]));
    let session = world.project.chat("door", "go", &["--live-writes", "--as", "user:mallory"]);
    assert_eq!(world.touched(), [""; 0]);
    let [(outcome, rule, _, because)] = &world.decided(&session)[..] else { panic!("one decision") };
    assert_eq!((outcome.as_str(), rule), ("deny", &json!("grant")));
    assert!(because.contains("`user:mallory` may not talk to agent `full`"), "{because}");
    assert_eq!(world.project.lines(&["session", "list"]).len(), 1, "no child began");

    // Whoever is let in by both gets through; the grants for what the other one does are their own.
    world.project.chat("door", "go", &["--live-writes"]);
    assert_eq!(world.touched(), ["POST /post", "POST /post", "ring"]);
}

#[test]
fn trying_a_tool_by_hand_is_no_way_around() {
    let world = World::new();
    let url = world.canary.url("/post");
    let good =
        json!({"ring": {"n": 1}, "post": {"n": 1, "url": url}, "http": {"method": "POST", "url": url}});
    let bad = json!({"ring": {"n": "many"}, "post": {"n": "many", "url": url}, "http": {"method": "SHOUT", "url": url}});
    let call = |agent: &str, tool: &str, input: &Value, flags: &[&str]| {
        let input = input[tool].to_string();
        world.project.run(&[&["tools", "call", agent, tool, &input, "--json"], flags].concat())
    };
    let live = "--live-writes";
    for tool in TOOLS {
        for (agent, input, flags, step, words) in [
            ("poor", &good, &[live][..], "allowlist", "agent `poor` does not list it"),
            ("full", &good, &[live, "--as", "user:eve"], "grant", "`user:eve` holds no grant"),
            ("full", &good, &[live, "--as", "user:reader"], "grant", "`user:reader` holds only `read`"),
            ("full", &bad, &[live, "--as", "user:writer"], "schema", "the arguments do not fit"),
        ] {
            let ran = call(agent, tool, input, flags);
            let refused = if step == "schema" { (2, "tools::arguments") } else { (3, "tools::denied") };
            assert_eq!(ran.error(), (refused.0, refused.1.to_owned()), "{ran}");
            assert!(ran.stderr.contains(words), "{ran}");
            assert_eq!(world.touched(), [""; 0], "{ran}");
            let session = world.project.latest();
            let [(outcome, rule, _, _)] = &world.decided(&session)[..] else { panic!("one decision: {ran}") };
            assert_eq!((outcome.as_str(), rule), ("deny", &json!(step)));
        }
        let stubbed = call("full", tool, &good, &["--as", "user:writer"]);
        assert_eq!(stubbed.code, 0, "{stubbed}");
        let document: Value = serde_json::from_str(&stubbed.stdout).unwrap();
        assert_eq!(document["stub"], true, "{document}");
        assert!(field(&document, "text").contains("DRY RUN: nothing happened"), "{document}");
        assert_eq!(call("full", tool, &good, &["--live-writes=other"]).code, 0);
        assert_eq!(world.touched(), [""; 0]);

        let done = call("full", tool, &good, &[&format!("--live-writes={tool}"), "--as", "user:writer"]);
        assert_eq!(done.code, 0, "{done}");
        assert_eq!(world.touched(), [if tool == "ring" { "ring" } else { "POST /post" }]);
    }
}

#[test]
fn a_script_reaches_the_hosts_of_its_entry_and_writes_only_if_it_is_offered_for_writing() {
    let world = World::new();
    let other = Canary::new();
    let call = |input: Value, flags: &[&str]| {
        world.project.run(&[&["tools", "call", "full", "post", &input.to_string(), "--json"], flags].concat())
    };
    let ran = call(json!({"n": 1, "url": other.url("/post")}), &["--live-writes"]);
    assert_eq!(ran.error(), (1, "tools::failed".to_owned()), "{ran}");
    assert_eq!((other.touched(), world.touched()), (vec![], vec![]));
    assert_eq!(call(json!({"n": 1, "url": world.canary.url("/post")}), &["--live-writes"]).code, 0);
    assert_eq!(world.touched(), ["POST /post"]);

    // Offered for reading, so it runs without `--live-writes`, and so it may only look.
    let host = world.canary.host();
    let reads = format!("tools:\n  - {{ name: tools/post, access: read, hosts: [\"{host}\"] }}\n");
    world.project.agent("full", &reads, &script(&[]));
    let ran = call(json!({"n": 1, "url": world.canary.url("/post")}), &[]);
    assert_eq!(ran.error(), (1, "tools::failed".to_owned()), "{ran}");
    assert!(ran.stderr.contains("`access: write`"), "{ran}");
    assert_eq!(world.touched(), [""; 0]);
    let text = std::fs::read_to_string(world.project.weir.path().join("tools/post.ts")).unwrap();
    world
        .project
        .write("tools/post.ts", &text.replace("{ method: 'POST', body: String(n) }", "{ method: 'GET' }"));
    assert_eq!(call(json!({"n": 1, "url": world.canary.url("/post")}), &[]).code, 0);
    assert_eq!(world.touched(), ["GET /post"]);
}

/// What every kind of tool could leave outside of its session: files of the project, what the canary and the server saw, how
/// often the server was started, which streams there are but for sessions, and how many of those.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    files: Vec<(String, Hash)>,
    heard: usize,
    calls: usize,
    starts: usize,
    streams: Vec<String>,
    sessions: usize,
}

impl World {
    fn traces(&self) -> Traces {
        let (project, canary) = (&self.project, &self.canary);
        let streams = project.lines(&["streams"]).into_iter().map(|stream| field(&stream, "stream"));
        let (sessions, streams): (Vec<String>, Vec<String>) =
            streams.partition(|stream| stream.starts_with("session:"));
        Traces {
            files: files_below(project.weir.path()),
            heard: canary.heard().len(),
            calls: project.calls("bell").len(),
            starts: project.left("bell", "started").len(),
            streams,
            sessions: sessions.len(),
        }
    }
}

/// The files of a project with their contents, but for its data and what the server notes down.
fn files_below(directory: &std::path::Path) -> Vec<(String, Hash)> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == ".weir" || name.starts_with("bell.") {
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push((path.display().to_string(), Hash::of(&std::fs::read(&path).unwrap())));
            }
        }
    }
    found.sort();
    found
}

/// Of every kind of tool one call is denied, for each step that can deny it: the world is as it was. Then the same calls are
/// allowed, and it is not: whatever would have been done could have been seen.
#[test]
fn denials_leave_no_trace_of_an_effect() {
    let world = World::new();
    let (project, host, url) = (&world.project, world.canary.host(), world.canary.url("/post"));
    let acl = "acl:\n  - { principal: \"user:eve\", role: execute }\n";
    let spec = |access: &str| {
        format!(
            "tools:\n  - {{ name: edit, access: {access} }}\n  - {{ name: bash, access: {access} }}\n  - {{ name: memory, access: {access} }}\n  \
             - {{ name: http, access: {access}, hosts: [\"{host}\"] }}\n  - {{ name: tools/post, access: {access}, hosts: [\"{host}\"] }}\n  \
             - {{ server: \"mcp://./servers/bell.py\", access: {access} }}\n  - {{ server: \"weir://sealed\" }}\n{acl}"
        )
    };
    let outside = project.weir.path().join("outside.txt");
    let tries = json!([
        {"tool": "edit_write", "input": {"path": "a.txt", "content": "edited"}},
        {"tool": "bash", "input": {"command": format!("echo b > b.txt; echo c > {}", outside.display())}},
        {"tool": "memory_store", "input": {"title": "t", "text": "c"}},
        {"tool": "http", "input": {"method": "POST", "url": url}},
        {"tool": "post", "input": {"n": 1, "url": url}},
        {"tool": "ring", "input": {"n": 1}},
        {"tool": "sealed", "input": {"message": "good"}},
    ]);
    let count = tries.as_array().unwrap().len();
    let tries = script(&[("^go", tries)]);
    project.agent("sealed", "", &script(&[]));
    project.agent("all", &spec("write"), &tries);
    project.agent("none", &format!("tools: []\n{acl}"), &tries);
    project.build();
    project.chat("none", "hello", &[]);

    for (agent, step, flags) in [
        ("none", "allowlist", &["--live-writes"][..]),
        ("all", "grant", &["--live-writes", "--as", "user:eve"]),
    ] {
        let before = world.traces();
        let session = project.chat(agent, "go", flags);
        let after = Traces { sessions: before.sessions, ..world.traces() };
        assert_eq!(world.traces().sessions, before.sessions + 1, "{agent}: its own session and no other");
        assert_eq!(after, before, "{agent}");
        let decided = world.decided(&session);
        assert_eq!(decided.len(), count);
        assert!(decided.iter().all(|(outcome, rule, ..)| outcome == "deny" && rule == step), "{decided:?}");
        // Nor within it: it has asked, was told no, and that is all.
        let kinds = project.events(&session).into_iter().map(|event| field(&event, "kind"));
        let odd = |kind: &String| {
            ["tool.started", "tool.completed", "file.written", "file.deleted", "memory.stored"]
                .contains(&kind.as_str())
        };
        assert_eq!(kinds.filter(odd).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(project.lines(&["fs", "ls", &session]), [Value::Null; 0]);
    }

    let before = world.traces();
    let session = project.chat("all", "go", &["--live-writes"]);
    let after = world.traces();
    assert_eq!(
        (after.heard, after.calls, after.sessions),
        (before.heard + 2, before.calls + 1, before.sessions + 2)
    );
    assert!(after.starts > before.starts && after.streams.len() > before.streams.len(), "{after:?}");
    assert_eq!(project.lines(&["fs", "ls", &session]).len(), 2);
}

//! Secrets that are planted as credentials reach those they are for, and are found nowhere else: not in the journal, the blobs,
//! a prompt, an output, nor in the environment of a child that they are not meant for. The same search finds what is harmless.

use serde_json::{Value, json};

use crate::outside::{Canary, Project, field, script, tool};
use crate::secrets::{decoded, walk};
use crate::weir::Ran;

/// What must be found nowhere.
const ADA: &str = "planted-ada-0d5c1f7e93";
const BOB: &str = "planted-bob-7be2a9c044";
const EXEC: &str = "planted-exec-4c11d8f0a6";
const FILE: &str = "planted-file-e95a3b7720";
const TOKEN: &str = "planted-token-18f3c6d2ab";
const SECRETS: [&str; 5] = [ADA, BOB, EXEC, FILE, TOKEN];

/// What every server says beside them.
const WORD: &str = "harmless";

/// Everything that weir printed, for the search.
struct Told {
    project: Project,
    text: std::cell::RefCell<String>,
}

impl Told {
    fn run(&self, args: &[&str]) -> Ran {
        let ran = Ran::from(self.project.command(args).env("PLANTED_TOKEN", TOKEN).output().unwrap());
        self.text.borrow_mut().push_str(&ran.to_string());
        ran
    }

    fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran}");
        ran.stdout
    }

    fn chat(&self, principal: &str) -> String {
        let told = self.ok(&["chat", "keeper", "-m", "go", "--live-writes", "--json", "--as", principal]);
        let told: Value = serde_json::from_str(&told).unwrap();
        field(&told, "session")
    }

    /// Stores a credential, as someone who pipes it in.
    fn add(&self, server: &str, principal: &str, secret: &str) {
        let args = ["auth", "add", server, "--principal", principal];
        let ran = self.project.weir.run_with(&args, secret.as_bytes());
        assert_eq!(ran.code, 0, "{ran}");
        self.text.borrow_mut().push_str(&ran.to_string());
    }
}

/// An agent with a server behind HTTP, one that is started with a token, one without, and `bash`.
fn keeper(canary: &Canary) -> Told {
    let project = Project::new();
    let indiscreet = ["indiscreet", "failing", "broken"].map(tool);
    canary.offer(&indiscreet);
    project.server("safe", &[tool("environment"), tool("indiscreet"), tool("failing"), tool("broken")]);
    project.server("other", &[tool("environment")]);
    project.program("print-token.sh", &format!("#!/bin/sh\nprintf '%s\\n' {EXEC}\n"));
    project.write("token.txt", &format!("{FILE}\n"));
    let server = canary.server("");
    let users = ["ada", "bob", "carol", "dan", "eve"];
    let each = |line: &dyn Fn(&str) -> String| users.map(line).concat();
    let grants = |tool: &str| {
        let grants = each(&|user| format!("      - {{ principal: \"user:{user}\", access: write }}\n"));
        format!("  - tool: \"{tool}\"\n    grants:\n{grants}")
    };
    let sources = [&server, "mcp://./servers/safe.py", "mcp://./servers/other.py", "bash"];
    project.write(
        "weir.yaml",
        &format!(
            "project: keeper\nmcp_credentials:\n  \"{server}\":\n    \
             user:carol: {{ type: bearer, from: \"exec:./print-token.sh\" }}\n    \
             user:dan: {{ type: bearer, from: \"file:token.txt\" }}\n    user:eve: {{ type: oauth }}\n\
             tool_grants:\n{}",
            sources.map(grants).concat()
        ),
    );
    let spec = format!(
        "tools:\n  - {{ server: \"{server}\", access: write }}\n  \
         - {{ server: \"mcp://./servers/safe.py\", access: write, env: {{ TOKEN: \"env:PLANTED_TOKEN\" }} }}\n  \
         - {{ server: \"mcp://./servers/other.py\", access: read }}\n  - {{ name: bash, access: write }}\nacl:\n{}",
        each(&|user| format!("  - {{ principal: \"user:{user}\", role: execute }}\n"))
    );
    project.agent("keeper", &spec, &script(&[("^go", json!([]))]));
    let told = Told { project, text: String::new().into() };
    told.ok(&["build", "--yes"]);
    // The names of the tools are the build's to say: several servers have some of the same.
    let listed = told.ok(&["tools", "list", "keeper", "--json"]);
    let listed = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls: Vec<Value> = listed
        .filter(|tool| tool["kind"] == "mcp")
        .map(|tool| json!({"tool": tool["name"], "input": {"n": 1}}))
        .chain([json!({"tool": "bash", "input": {"command": "env; cat /proc/self/environ; echo harmless"}})])
        .collect();
    assert_eq!(calls.len(), 3 + 4 + 1 + 1, "{calls:?}");
    told.project.agent("keeper", &spec, &script(&[("^go", json!(calls))]));
    told
}

#[test]
fn credentials_reach_those_they_are_for_and_nobody_else() {
    let canary = Canary::with_tools(&[]);
    let told = keeper(&canary);
    let server = canary.server("");
    told.add(&server, "user:ada", ADA);
    told.add(&server, "user:bob", BOB);
    // A program that the project names is started once its user wants it, and a file is sent then.
    let wanted = [("user:carol", "exec:./print-token.sh"), ("user:dan", "file:token.txt")];
    for (principal, from) in wanted {
        let session = told.chat(principal);
        assert!(canary.heard().iter().all(|heard| heard.authorization.is_empty()), "{principal}");
        let failed = told.project.payloads(&session, "tool.failed");
        let add = format!("weir auth add {server} --principal {principal} --from {from}");
        assert_eq!(
            failed.iter().filter(|failed| field(failed, "message").contains(&add)).count(),
            3,
            "{failed:#?}"
        );
        told.ok(&["auth", "add", &server, "--principal", principal, "--from", from]);
    }
    let whose = [("user:ada", ADA), ("user:bob", BOB), ("user:carol", EXEC), ("user:dan", FILE)];
    for (principal, secret) in whose {
        let session = told.chat(principal);
        // They are sent, each on behalf of whose they are.
        let sent: Vec<String> = canary.heard().into_iter().map(|heard| heard.authorization).collect();
        assert_eq!(canary.touched().len(), 3);
        assert_eq!(sent, vec![format!("Bearer {secret}"); 3], "{principal}");
        let results = told.project.results(&session);
        assert_eq!(results.iter().filter(|result| result.contains(WORD)).count(), 7, "{results:#?}");
        // Each of the two servers repeats it three times, and one of them its environment.
        assert_eq!(results.iter().filter(|result| result.contains("[secret]")).count(), 7, "{results:#?}");
        let requests = told.project.payloads(&session, "model.requested").len();
        for n in 1..=requests {
            told.ok(&["session", "show", &session, "--request", &n.to_string()]);
        }
        told.ok(&["session", "history", &session, "--all"]);
    }
    // The server that is to have the token has it; the other one, and a command, do not.
    let environment = |name: &str| std::fs::read_to_string(told.project.left_at(name, "env")).unwrap();
    assert!(environment("safe").contains(TOKEN));
    for secret in SECRETS {
        assert!(!environment("other").contains(secret), "{secret}");
    }
    assert!(environment("other").contains("PATH"));

    told.ok(&["auth", "list"]);
    told.ok(&["auth", "list", "--json"]);
    told.ok(&["doctor"]);
    let data = told.project.weir.data();
    let files = walk(&data).into_iter().filter(|path| !path.ends_with("credentials.local"));
    let raw: String =
        files.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()).collect();
    let stored = decoded(&told.project.weir);
    for (place, text) in [("told", &*told.text.borrow()), ("stored", &stored)] {
        assert!(text.contains(WORD), "the search would find it, were it {place}");
    }
    for secret in SECRETS {
        for (place, text) in [("told", &*told.text.borrow()), ("stored", &stored), ("in a file", &raw)] {
            assert!(!text.contains(secret), "{secret} is {place}: {}", around(text, secret));
        }
    }
}

fn around(text: &str, secret: &str) -> String {
    let at = text.find(secret).unwrap_or_default();
    text[..at].chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect()
}

#[test]
fn a_credential_that_is_missing_names_the_tool_the_principal_and_the_command() {
    let canary = Canary::with_tools(&[]);
    let told = keeper(&canary);
    let server = canary.server("");
    let call = |principal: &str| {
        told.run(&[
            "tools",
            "call",
            "keeper",
            &remote(&told, &server),
            "--live-writes",
            "--json",
            "--as",
            principal,
        ])
    };
    let ran = call("user:eve");
    assert_eq!(ran.error(), (1, "tools::failed".to_owned()), "{ran}");
    let command = format!("weir auth add {server} --principal user:eve");
    for words in [&remote(&told, &server), "`user:eve`", &command] {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
    assert_eq!(canary.touched(), [""; 0], "nothing is sent without it");
    // The command that it names is all that was missing.
    told.add(&server, "user:eve", ADA);
    assert_eq!(call("user:eve").code, 0);
    assert_eq!(canary.heard()[0].authorization, format!("Bearer {ADA}"));

    // A server that is started is not, without its variables.
    let started = told.project.left("safe", "started").len();
    let safe = remote(&told, "mcp://./servers/safe.py");
    let ran = told.project.run(&["tools", "call", "keeper", &safe, "--live-writes", "--json"]);
    assert_eq!(ran.error(), (1, "tools::failed".to_owned()), "{ran}");
    for words in [&safe, "TOKEN", "env:PLANTED_TOKEN"] {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
    assert_eq!(told.project.left("safe", "started").len(), started);
}

/// A server that says nothing to strangers, not even which tools it has: what the user stored for it is sent while building,
/// and what the project declares is not.
#[test]
fn a_server_that_wants_a_credential_from_the_start_is_built_with_the_users_own() {
    let canary = Canary::with_tools(&[tool("look")]);
    canary.demand(&format!("Bearer {ADA}"));
    let server = canary.server("");
    let project = Project::new();
    project.agent("plain", "", &script(&[]));
    project.chat("plain", "hello", &[]);
    let me = field(&project.lines(&["session", "list"])[0], "principal");
    let spec = format!("tools:\n  - {{ server: \"{server}\", access: read }}\n");
    project.agent("keeper", &spec, &script(&[]));
    let told = Told { project, text: String::new().into() };
    let run = |args: &[&str], code: i32, words: &[&str]| {
        let ran = told.run(args);
        assert_eq!(ran.code, code, "{args:?}: {ran}");
        assert!(words.iter().all(|words| ran.stderr.contains(words)), "{words:?}: {ran}");
        assert!(!ran.to_string().contains(ADA), "{ran}");
    };

    // A cloned project could name any file of whoever builds it, and any server to send it to.
    let declared = format!("{{ \"{me}\": {{ type: bearer, from: \"file:token.txt\" }} }}");
    told.project.write("weir.yaml", &format!("project: p\nmcp_credentials:\n  \"{server}\": {declared}\n"));
    told.project.write("token.txt", ADA);
    let add = format!("weir auth add {server}");
    run(&["build"], 2, &["the server wants credentials (HTTP 401)", &add]);
    assert_eq!(canary.authorizations(), [""; 0]);
    assert!(!told.project.weir.path().join("weir.lock").exists());

    told.project.write("weir.yaml", "project: p\n");
    told.add(&server, "*", ADA);
    run(&["build"], 0, &[]);
    assert!(canary.authorizations().len() >= 2, "introduced and listed with it");
    run(&["tools", "call", "keeper", "look"], 0, &[]);

    // Without it, and with one that is not accepted: which tool, whose, and what to do.
    run(&["auth", "remove", &server], 0, &[]);
    let mine = format!("`{add} --principal {me}`");
    let call = ["tools", "call", "keeper", "look"];
    run(&call, 1, &["`look` cannot be called", "there is none for", &me, &mine]);
    told.add(&server, &me, BOB);
    run(&call, 1, &["`look` cannot be called", "does not accept the credential", &me, &mine]);
    assert_eq!(canary.touched(), ["look"]);
    let sources =
        ["weir.lock", "weir.yaml"].map(|name| std::fs::read_to_string(told.project.weir.path().join(name)));
    for text in sources.into_iter().flatten().chain([decoded(&told.project.weir)]) {
        assert!(!text.contains(ADA) && !text.contains(BOB), "{text}");
    }
}

#[test]
fn a_server_that_writes_the_credential_into_a_definition_is_not_pinned() {
    let mut sly = tool("look");
    sly["description"] = json!(format!("Looks, as {ADA}."));
    let canary = Canary::with_tools(&[sly]);
    let server = canary.server("");
    let project = Project::new();
    project.agent("keeper", &format!("tools:\n  - {{ server: \"{server}\", access: read }}\n"), &script(&[]));
    let told = Told { project, text: String::new().into() };
    told.add(&server, "*", ADA);
    let ran = told.run(&["build"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("the definition of `look` has the credential in it"), "{ran}");
    assert!(!ran.to_string().contains(ADA), "{ran}");
    assert!(!told.project.weir.path().join("weir.lock").exists());
}

/// Several agents may list one program, each with variables of its own.
#[test]
fn what_one_agent_gives_a_server_no_other_agent_has() {
    let project = Project::new();
    project.server("safe", &[tool("environment")]);
    let agent = |name: &str, env: &str| {
        let spec = format!("tools:\n  - {{ server: \"mcp://./servers/safe.py\", access: read{env} }}\n");
        project.agent(name, &spec, &script(&[]));
    };
    agent("ada", ", env: { TOKEN: \"env:PLANTED_ADA\" }");
    agent("bob", ", env: { TOKEN: \"env:PLANTED_BOB\", MORE: \"env:PLANTED_BOB\" }");
    agent("carol", "");
    let run = |args: &[&str]| {
        let mut command = project.command(args);
        let ran = Ran::from(command.env("PLANTED_ADA", ADA).env("PLANTED_BOB", BOB).output().unwrap());
        assert_eq!(ran.code, 0, "{args:?}: {ran}");
        ran.stdout
    };
    run(&["build", "--yes"]);
    for (name, has, has_not) in
        [("ada", &[ADA][..], &[BOB][..]), ("bob", &[BOB], &[ADA]), ("carol", &[], &[ADA, BOB])]
    {
        let told = run(&["tools", "call", name, "environment"]);
        let given = std::fs::read_to_string(project.left_at("safe", "env")).unwrap();
        assert!(has.iter().all(|secret| given.contains(secret)), "{name}: {given}");
        assert!(!has_not.iter().any(|secret| given.contains(secret)), "{name}: {given}");
        assert!(![ADA, BOB].iter().any(|secret| told.contains(secret)), "{told}");
    }
    // What was approved for one of them was approved with its variables, and for no other.
    agent("dan", ", env: { TOKEN: \"env:PLANTED_ADA\", MORE: \"env:PLANTED_BOB\" }");
    let ran = project.run(&["tools", "call", "dan", "environment"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("has changed since it was approved on this machine"), "{ran}");
}

/// The name under which the model knows the `indiscreet` tool of a server.
fn remote(told: &Told, server: &str) -> String {
    let listed = told.project.lines(&["tools", "list", "keeper"]);
    let found =
        listed.iter().find(|tool| tool["source"] == server && field(tool, "name").contains("indiscreet"));
    field(found.unwrap(), "name")
}

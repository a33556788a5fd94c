//! What changes elsewhere is noticed, shown, and accepted only by command.

use weir_compiler::{Mode, Options};
use weir_spec::Diagnostic;

use crate::project::{HELPER, Project, server, told};

const ENTRY: &str = "tools: [{ server: \"mcp://./servers/notes.sh\", access: write }]\n";

/// An agent with a server that has these tools.
fn notes(tools: &str) -> Project {
    let spec = format!("{}{ENTRY}", HELPER.1);
    Project::new(&[(HELPER.0, &spec), ("servers/notes.sh", &server(tools))])
}

const ADD: &str = r#"{"name":"add_note","description":"Adds a note","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true},"x-vendor":1}"#;

/// Everything a problem says about what changed, and what to do.
fn said(problem: &Diagnostic) -> Vec<String> {
    problem
        .related
        .iter()
        .map(|each| format!("{}: {}", each.file, each.message))
        .chain([problem.help.clone()])
        .collect()
}

const ACCEPT: &str = "if you accept that, run `weir lock --update`";

#[tokio::test]
async fn a_change_of_any_field_is_refused_until_it_is_accepted() {
    for (from, to, shown) in [
        ("Adds a note", "Adds a note!", "`description` was \"Adds a note\", is now \"Adds a note!\""),
        (
            "\"idempotentHint\":true",
            "\"idempotentHint\":false",
            "`annotations.idempotentHint` was true, is now false",
        ),
        (
            "\"inputSchema\":{\"type\":\"object\"}",
            "\"inputSchema\":{\"type\":\"object\",\"required\":[\"text\"]}",
            "`inputSchema.required` is new: [\"text\"]",
        ),
        (",\"x-vendor\":1", "", "`x-vendor` was 1, is gone"),
    ] {
        let project = notes(&format!("[{ADD}]"));
        let first = project.build_and_save().await.built.unwrap();
        let lock = project.read("weir.lock");

        project.write("servers/notes.sh", server(&format!("[{}]", ADD.replace(from, to))));
        let refused = project.build(Mode::Online).await;
        let codes: Vec<&str> = refused.diagnostics.iter().map(|each| each.code).collect();
        assert_eq!(codes, ["build::drift"], "{to}");
        assert_eq!(
            said(&refused.diagnostics[0]),
            [format!("weir.lock: `add_note`: {shown}"), ACCEPT.to_owned()]
        );
        assert_eq!((refused.built, refused.lock), (None, None));

        // Without asking, the build is what it was.
        let offline = project.build(Mode::Offline).await;
        assert_eq!(offline.built.unwrap().hash, first.hash);

        let accepted = project.update_lock().await.built.unwrap();
        assert_ne!(accepted.hash, first.hash);
        assert_ne!(project.read("weir.lock"), lock);
        assert_eq!(project.build(Mode::Online).await.built.unwrap().hash, accepted.hash);
    }
}

#[tokio::test]
async fn the_order_of_keys_and_tools_is_no_change() {
    let other = r#"{"name":"b","inputSchema":{}}"#;
    let project = notes(&format!("[{ADD},{other}]"));
    let first = project.build_and_save().await.built.unwrap();
    let turned = r#"{"x-vendor":1,  "annotations":{"idempotentHint":true},"inputSchema":{"type":"object"},"description":"Adds a note","name":"add_note"}"#;
    project.write("servers/notes.sh", server(&format!("[{other},{turned}]")));
    let again = project.build_and_save().await;
    assert_eq!((again.built.unwrap().hash, again.lock), (first.hash, None));
}

#[tokio::test]
async fn tools_that_come_and_go_are_drift_but_an_authors_choice_is_not() {
    let other = r#"{"name":"b","inputSchema":{}}"#;
    let project = notes(&format!("[{ADD}]"));
    project.build_and_save().await;
    project.write("servers/notes.sh", server(&format!("[{ADD},{other}]")));
    let grown = project.build(Mode::Online).await;
    assert_eq!(
        told(&grown),
        [
            "build::drift agents/helper/spec.yaml:4 `mcp://./servers/notes.sh` is not what weir.lock says: `b` is new"
        ]
    );
    // With `only` nothing new reaches the agent, and what it names more is the author's wish.
    project
        .write(HELPER.0, format!("{}{}", HELPER.1, ENTRY.replace(", access", ", only: [add_note], access")));
    assert_eq!(told(&project.build(Mode::Online).await), [""; 0]);
    project.write(
        HELPER.0,
        format!("{}{}", HELPER.1, ENTRY.replace(", access", ", only: [add_note, b], access")),
    );
    let more = project.build_and_save().await;
    let tools: Vec<&str> = more.built.as_ref().unwrap().manifest.agents["helper"]
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(tools, ["add_note", "b"]);

    project.write("servers/notes.sh", server(&format!("[{other}]")));
    let shrunk = project.build(Mode::Online).await;
    let drift: Vec<String> =
        told(&shrunk).into_iter().filter(|line| line.starts_with("build::drift")).collect();
    assert_eq!(
        drift,
        [
            "build::drift agents/helper/spec.yaml:4 `mcp://./servers/notes.sh` is not what weir.lock says: `add_note` is gone"
        ]
    );
}

#[tokio::test]
async fn pins_that_nobody_needs_any_more_go() {
    let project = notes(&format!("[{ADD}]"));
    project.build_and_save().await;
    assert!(project.read("weir.lock").contains("add_note"));
    project.write(HELPER.0, HELPER.1);
    // Whoever asks nobody takes nothing away.
    assert_eq!(project.build(Mode::Offline).await.lock, None);
    project.build_and_save().await;
    assert_eq!(project.read("weir.lock"), "{\n  \"mcp\": {},\n  \"skills\": {},\n  \"version\": 1\n}\n");
}

#[tokio::test]
async fn a_line_of_the_lock_that_somebody_edited_is_noticed() {
    let project = notes(&format!("[{ADD}]"));
    project.build_and_save().await;
    let lock = project.read("weir.lock");
    let (before, hash) = lock.split_once("sha256:").unwrap();
    let other_hash =
        format!("{before}sha256:{}{}", if hash.starts_with('0') { "1" } else { "0" }, &hash[1..]);
    for edited in [lock.replace("Adds a note", "Adds nothing"), other_hash] {
        project.write("weir.lock", &edited);
        for mode in [Mode::Check, Mode::Offline, Mode::Online] {
            let codes: Vec<&str> =
                project.build(mode).await.diagnostics.iter().map(|each| each.code).collect();
            assert_eq!(codes, ["build::lock-edited"], "{mode:?} {edited}");
        }
    }
    // Whoever updates need not mend it first.
    project.update_lock().await;
    assert_eq!(project.read("weir.lock"), lock);
}

#[tokio::test]
async fn half_a_lock_is_told_once_and_can_be_made_anew() {
    let project = notes(&format!("[{ADD}]"));
    let first = project.build_and_save().await.built.unwrap();
    let lock = project.read("weir.lock");
    project.write("weir.lock", &lock[..lock.len() / 2]);
    for mode in [Mode::Offline, Mode::Online] {
        let codes: Vec<&str> = project.build(mode).await.diagnostics.iter().map(|each| each.code).collect();
        assert_eq!(codes, ["spec::lock"], "{mode:?}");
    }
    assert_eq!(project.update_lock().await.built.unwrap().hash, first.hash);
    assert_eq!(project.read("weir.lock"), lock);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_unless_nobody_asks_it() {
    // It has the port and does not listen, so that no other test gets it.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = deaf.local_addr().unwrap().port();
    let entry = format!("tools: [{{ server: \"mcp://127.0.0.1:{port}/mcp\", access: read }}]\n");
    let project = Project::new(&[(HELPER.0, &format!("{}{entry}", HELPER.1))]);
    let unreachable = project.build(Mode::Online).await;
    let codes: Vec<&str> = unreachable.diagnostics.iter().map(|each| each.code).collect();
    assert_eq!(codes, ["build::no-answer"]);
    assert_eq!(
        unreachable.diagnostics[0].help,
        "check the address and the network, or build with `--offline`"
    );
    let options = Options { update_lock: true, ..project.options(Mode::Offline) };
    let offline = project.build_with(&options).await;
    assert_eq!(offline.diagnostics.iter().map(|each| each.code).collect::<Vec<_>>(), ["build::not-pinned"]);
}

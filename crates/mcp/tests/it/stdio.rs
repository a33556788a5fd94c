//! Servers that are programs.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::{PLENTY, list, options, shown, write_program};

/// Answers the introduction, then waits for the next message.
const HELLO: &str = r#"#!/bin/sh
read -r line
printf '%s\n' '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}}'
read -r line
read -r line
"#;

/// A project whose only program is this script.
fn project(script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_program(&directory.path().join("server"), script);
    directory
}

async fn ask(script: &str, timeout: Duration) -> String {
    let directory = project(script);
    shown(list("./server", &options(directory.path(), timeout)).await)
}

/// Answers to the list request, as `sh` says them.
fn answers(body: &str) -> String {
    format!("{HELLO}{body}\n")
}

#[tokio::test]
async fn definitions_are_kept_as_they_were_written() {
    let script = answers(
        r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"b","inputSchema":{"type":"object","minimum":1.50},"x-new":{"z":1,"a":2}},{"name":"a","inputSchema":{}}]}}'
read -r line"#,
    );
    assert_eq!(
        ask(&script, PLENTY).await,
        "{\"name\":\"a\",\"inputSchema\":{}}\n\
         {\"name\":\"b\",\"inputSchema\":{\"type\":\"object\",\"minimum\":1.50},\"x-new\":{\"z\":1,\"a\":2}}"
    );
}

#[tokio::test]
async fn pages_are_followed_in_order() {
    let script = answers(
        r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"two"}}'
read -r line
case "$line" in *'"cursor":"two"'*) printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"b","inputSchema":{}}],"nextCursor":""}}' ;; esac
read -r line"#,
    );
    assert_eq!(
        ask(&script, PLENTY).await,
        "{\"name\":\"a\",\"inputSchema\":{}}\n{\"name\":\"b\",\"inputSchema\":{}}"
    );
}

#[tokio::test]
async fn a_list_without_an_end_is_left() {
    let script = answers(
        r#"n=1
while true; do
  printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t%s","inputSchema":{}}],"nextCursor":"%s"}}\n' $n $n $n
  n=$((n+1))
  read -r line || exit 0
done"#,
    );
    assert_eq!(
        ask(&script, PLENTY).await,
        "mcp::endless: the server's list of tools does not end: more than 200 pages"
    );
    let same = answers(
        r#"n=1
while true; do
  printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"again"}}\n' $n
  n=$((n+1))
  read -r line || exit 0
done"#,
    );
    assert_eq!(
        ask(&same, PLENTY).await,
        "mcp::endless: the server's list of tools does not end: the next page is the same page again"
    );
}

#[tokio::test]
async fn definitions_that_are_none_are_refused() {
    let tool = |tools: &str| {
        answers(&format!(
            "printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"tools\":{tools}}}}}'\nread -r line"
        ))
    };
    for (tools, expected) in [
        (r#"[{"inputSchema":{}}]"#, "missing field `name`"),
        (r#"[{"name":"a"}]"#, "missing field `inputSchema`"),
        (r#"[{"name":"","inputSchema":{}}]"#, "`` is no name"),
        (r#"[{"name":"a","inputSchema":{}},{"name":"a","inputSchema":{}}]"#, "`a` is there twice"),
        (r#""none""#, "its answer is no list of tools"),
    ] {
        let expected =
            format!("mcp::definition: the server describes a tool in a way that is not MCP: {expected}");
        assert_eq!(ask(&tool(tools), PLENTY).await, expected, "{tools}");
    }
}

#[tokio::test]
async fn a_server_that_ends_or_babbles_is_told_with_its_own_words() {
    for (script, expected) in [
        (
            "#!/bin/sh\nread -r line\necho 'no such table: notes' >&2\nexit 3\n",
            "mcp::ended: the server ended before it answered (exit status: 3); it said: no such table: notes",
        ),
        (
            "#!/bin/sh\nread -r line\nprintf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32000,\"message\":\"a key is missing\"}}'\nsleep 100\n",
            "mcp::refused: the server refused: a key is missing",
        ),
        (
            &answers(
                "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no tools\"}}'\nsleep 100",
            ),
            "mcp::refused: the server refused: no tools",
        ),
        (
            &answers("echo broken >&2\nexit 1"),
            "mcp::ended: the server ended before it answered (exit status: 1); it said: broken",
        ),
    ] {
        assert_eq!(ask(script, PLENTY).await, expected);
    }
}

#[tokio::test]
async fn a_greeting_is_forgiven_unless_nothing_follows() {
    let tool = r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{}}]}}'
read -r line"#;
    let greets = answers(tool).replacen("read -r line\n", "read -r line\necho 'Listening on port 80'\n", 1);
    assert_eq!(ask(&greets, PLENTY).await, r#"{"name":"a","inputSchema":{}}"#);
    let expected = "mcp::nonsense: the server wrote `Listening on port 80`, which is not a message of MCP";
    let hangs = "#!/bin/sh\nread -r line\necho 'Listening on port 80'\nsleep 100\n";
    assert_eq!(ask(hangs, Duration::from_secs(1)).await, expected);
    let ends = "#!/bin/sh\nread -r line\necho 'Listening on port 80'\n";
    assert_eq!(ask(ends, PLENTY).await, expected);
    let babbles = "#!/bin/sh\nread -r line\nyes 'Listening on port 80'\n";
    assert_eq!(ask(babbles, PLENTY).await, expected);
}

#[tokio::test]
async fn a_flood_is_cut_off() {
    let script = "#!/bin/sh\nread -r line\nexec cat /dev/zero\n";
    assert_eq!(ask(script, PLENTY).await, "mcp::too-much: the server sends more than 33554432 bytes");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let listed = list("./server", &options(directory.path(), PLENTY)).await;
    assert_eq!(shown(listed), "mcp::not-started: `./server` cannot be started");
}

#[tokio::test]
async fn a_server_sees_only_what_it_is_given() {
    let directory = project("#!/bin/sh\nenv >&2\npwd >&2\nexit 1\n");
    let mut options = options(directory.path(), PLENTY);
    options.environment = std::collections::BTreeMap::from([("GIVEN".to_owned(), "1".to_owned())]);
    let shown = shown(list("./server", &options).await);
    let (_, said) = shown.split_once("it said: ").unwrap();
    // The shell itself adds `PWD`, and some shells `_`, `SHLVL` and `OLDPWD`.
    let names = said.split(' ').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
    let foreign: Vec<&str> =
        names.filter(|name| !matches!(*name, "PWD" | "_" | "SHLVL" | "OLDPWD")).collect();
    // Python is told not to write beside the program.
    assert_eq!(foreign, ["PYTHONDONTWRITEBYTECODE", "GIVEN"]);
    assert_eq!(Path::new(said.rsplit(' ').next().unwrap()), directory.path().canonicalize().unwrap());
}

/// Whether a process is there and no zombie.
pub(crate) fn runs(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !matches!(rest.split_whitespace().next(), None | Some("Z" | "X")))
}

/// A server that starts a child, writes down both ids, and then never says anything.
const HANGS: &str =
    "#!/bin/sh\nsleep 1000 &\necho $! > child\necho $$ > own\nwhile read -r line; do :; done\nwait\n";

async fn until_written(file: &Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_killed_with_all_it_started() {
    let directory = project(HANGS);
    let listed = list("./server", &options(directory.path(), Duration::from_secs(1))).await;
    assert_eq!(shown(listed), "mcp::late: the server did not answer within 1 s");
    // On a busy machine it may have been killed before it could write down its ids; then there is nobody to look for.
    for file in ["own", "child"] {
        if let Ok(id) = std::fs::read_to_string(directory.path().join(file)) {
            wait_until_gone(&id).await;
        }
    }
}

#[tokio::test]
async fn a_request_that_is_dropped_kills_its_server() {
    let directory = project(HANGS);
    let options = options(directory.path(), PLENTY);
    let own = directory.path().join("own");
    let id = tokio::select! {
        listed = list("./server", &options) => panic!("it answered: {}", shown(listed)),
        id = until_written(&own) => id,
    };
    wait_until_gone(&id).await;
    wait_until_gone(&std::fs::read_to_string(directory.path().join("child")).unwrap()).await;
}

/// A killed process takes a moment to be gone.
async fn wait_until_gone(id: &str) {
    let gone = async {
        while runs(id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PLENTY, gone).await.expect("the process ends");
}

//! Starting scripts that use the clients. A script is told what it needs in one JSON document, as its only argument, and prints one
//! JSON document, which the test checks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than any healthy machine needs to start an interpreter and have it ask a few questions.
const PLENTY: Duration = Duration::from_secs(120);

/// Where `cargo xtask` put everything: `node`, `node_modules` and `python`.
pub(crate) fn tools() -> PathBuf {
    std::env::var_os("WEIR_TEST_CLIENTS")
        .expect("`cargo xtask test` installs the clients and sets this")
        .into()
}

/// What `NAME.py` beside this file prints.
pub(crate) fn python(name: &str, told: &Value) -> Value {
    let mut command = Command::new(tools().join("python/bin/python"));
    // Nothing is compiled into the source tree.
    command.arg("-B").arg(script(&format!("{name}.py"))).arg(told.to_string());
    printed(&mut command)
}

/// What `NAME.mjs` beside this file prints.
pub(crate) fn node(name: &str, told: &Value) -> Value {
    // Modules are looked for from where a script is, so it is copied to where they are.
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(tools().join("node_modules"), directory.path().join("node_modules")).unwrap();
    let file = directory.path().join(format!("{name}.mjs"));
    std::fs::copy(script(&format!("{name}.mjs")), &file).unwrap();
    let mut command = Command::new(tools().join("node"));
    command.arg(&file).arg(told.to_string());
    printed(&mut command)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_clients").join(name)
}

/// What a command prints to its end: JSON, or the test fails with all that it said.
pub(crate) fn printed(command: &mut Command) -> Value {
    let (code, stdout, stderr) = run(command);
    assert_eq!(code, Some(0), "{command:?}\n{stdout}\n{stderr}");
    serde_json::from_str(stdout.trim()).unwrap_or_else(|_| panic!("no JSON: {stdout}\n{stderr}"))
}

/// Runs a command to its end, with nothing of the proxies and keys this machine may have in its environment.
pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] {
        command.env_remove(name);
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let output = child.wait_with_output();
        // Whoever waits may have given up.
        let _ = done.send(());
        output
    });
    if ended.recv_timeout(PLENTY).is_err() {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
    let output = waiting.join().unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_clients_are_there() {
    let versions = python("versions", &json!({}));
    assert_eq!(versions["openai"].as_str().unwrap().split('.').next(), Some("3"), "{versions}");
    assert_eq!(versions["anthropic"].as_str().unwrap().split('.').next(), Some("2"), "{versions}");
    let exported = node("versions", &json!({"of": ["ai", "@ai-sdk/openai-compatible"]}));
    assert!(exported["ai"].as_array().unwrap().contains(&json!("streamText")), "{exported}");
}

//! The client against real servers: programs and loopback listeners, well-behaved and not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod calls;
mod hostile;
mod http;
mod lives;
mod sdk;
mod stage;
mod stdio;
mod web;
mod web_calls;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_mcp::{Definition, Error, Headers, Options, Server, list_tools};
use weir_types::Explain;

/// Longer than any well-behaved server of these tests needs, even on a busy machine.
const PLENTY: Duration = Duration::from_secs(60);

fn options(directory: &Path, timeout: Duration) -> Options {
    let path = std::env::var("PATH").unwrap();
    let environment = BTreeMap::from([("PATH".to_owned(), path)]);
    Options {
        directory: directory.to_owned(),
        environment,
        headers: Headers::default(),
        launcher: Vec::new(),
        timeout,
    }
}

/// Asks a program of the directory, or a URL.
async fn list(server: &str, options: &Options) -> Result<Vec<Definition>, Error> {
    let server = match server.starts_with("./") {
        true => Server::Stdio { argv: vec![server.to_owned()] },
        false => Server::Http { url: server.to_owned() },
    };
    list_tools(&server, options).await
}

/// What a list shows: each definition, or the code and the words of the error.
fn shown(listed: Result<Vec<Definition>, Error>) -> String {
    match listed {
        Ok(tools) => tools.iter().map(|tool| tool.json.as_str()).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("{}: {error}", error.code()),
    }
}

/// Writes a program from another process. A process that is started by another test at the same moment would inherit our
/// open file, and nobody can start a program that somebody may still be writing.
fn write_program(place: &Path, content: &str) {
    let script = "cat > \"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh");
    let mut shell = shell.arg("-c").arg(script).arg(place).stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

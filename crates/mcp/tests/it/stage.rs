//! A directory with a server in it, and calls to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use weir_mcp::{Answered, Call, CallError, Connections, Headers, Server, Target};
use weir_types::{Block, Explain, Json};

use crate::{PLENTY, write_program};

/// A server of its own, and the connections to it.
pub(crate) struct Stage {
    pub(crate) directory: TempDir,
    pub(crate) connections: Connections,
    pub(crate) target: Target,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("#!/usr/bin/env python3\n{}", include_str!("server.py"));
        write_program(&directory.path().join("server"), &script);
        let target = target(Server::Stdio { argv: vec!["./server".to_owned()] }, directory.path());
        Self { directory, connections: Connections::new(), target }
    }

    /// The lines of a file that the server writes; none if it has not.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        lines(&self.directory.path().join(file))
    }

    /// Puts a file where the server looks for it.
    pub(crate) fn put(&self, file: &str) {
        std::fs::write(self.directory.path().join(file), "").unwrap();
    }

    /// Waits until the server has written so many lines.
    pub(crate) async fn until(&self, file: &str, count: usize) {
        until(|| self.lines(file).len() >= count).await;
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Result<Answered, CallError> {
        self.connections.call(&self.target, call(tool, arguments)).await
    }

    pub(crate) async fn shown(&self, tool: &str, arguments: &str) -> String {
        shown(&self.call(tool, arguments).await)
    }
}

pub(crate) fn target(server: Server, directory: &Path) -> Target {
    Target {
        server,
        identity: "user:ada".to_owned(),
        directory: directory.to_owned(),
        environment: crate::options(directory, PLENTY).environment,
        headers: Headers::default(),
        launcher: vec![],
    }
}

pub(crate) fn call(tool: &str, arguments: &str) -> Call {
    Call {
        tool: tool.to_owned(),
        arguments: Json::parse(arguments).unwrap(),
        deadline: PLENTY,
        cancelled: CancellationToken::new(),
        key: None,
        accepts: Arc::new(|_| Ok(())),
    }
}

/// The words of a result, or the code, the words and the fate of an error.
pub(crate) fn shown(answered: &Result<Answered, CallError>) -> String {
    match answered {
        Ok(Answered { content, failed }) => {
            let words: Vec<&str> = content.iter().map(|block| Block::as_text(block).unwrap_or("?")).collect();
            format!("{}{}", if *failed { "failed: " } else { "" }, words.join("|"))
        }
        Err(error) => {
            let fate = if error.may_have_happened() { "may have happened" } else { "did not happen" };
            format!("{} ({fate}): {error}", error.code())
        }
    }
}

pub(crate) fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Waits for something that another process does.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PLENTY, wait).await.expect("it becomes so");
}

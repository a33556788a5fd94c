//! The server as a process, over a project of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use weir_bench::Error;

use crate::engine::{ANSWER, PROMPT};

/// How long a server may take to stop.
const FAREWELL: Duration = Duration::from_secs(30);

/// Makes a project with one agent, and builds it.
pub(crate) fn project(weir: &Path, directory: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(directory.join("agents/bench"))?;
    std::fs::create_dir_all(directory.join("models"))?;
    std::fs::write(directory.join("weir.yaml"), "project: bench\n")?;
    let spec = format!("name: bench\nmodel: scripted/bench\ndescription: {PROMPT}\n");
    std::fs::write(directory.join("agents/bench/spec.yaml"), spec)?;
    std::fs::write(directory.join("models/bench.yaml"), format!("replies:\n  - say: \"{ANSWER}\"\n"))?;
    let mut build = std::process::Command::new(weir);
    let output = build.arg("build").current_dir(directory).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts it, and waits until it says where it listens.
    pub(crate) async fn start(weir: &Path, project: &Path) -> Result<Self, Error> {
        let mut command = Command::new(weir);
        command.args(["serve", "--port", "0", "--manifest", "latest", "--json"]).current_dir(project);
        command.env_remove("LOG_LEVEL").env_remove("WEIR_DATA_DIR").kill_on_drop(true);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let pipe = child.stderr.take().ok_or("a server without standard error")?;
        let mut lines = BufReader::new(pipe).lines();
        let mut said = String::new();
        while let Some(line) = lines.next_line().await? {
            let told: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(url) = told["url"].as_str().filter(|_| told["message"] == "listening") {
                let address = url.trim_start_matches("http://").parse()?;
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { address, child });
            }
            said += &line;
        }
        Err(said.into())
    }

    /// Its memory.
    pub(crate) fn resident_mb(&self) -> Result<f64, Error> {
        let id = self.child.id().ok_or("the server is gone")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes * 1_024.0 / 1e6)
    }

    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        let id = self.child.id().ok_or("the server is gone")?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(id)?).ok_or("no such process")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        match tokio::time::timeout(FAREWELL, self.child.wait()).await??.success() {
            true => Ok(()),
            false => Err("the server did not stop well".into()),
        }
    }
}

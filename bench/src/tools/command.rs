//! A command that does nothing: confined, unconfined, and as the `bash` tool on a session without files.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use weir_bench::Error;
use weir_bench::findings::Round;
use weir_tools::{End, Job};
use weir_types::Json;

use crate::project::Project;
use crate::times::{Times, Until};

pub(crate) async fn measure(project: &Project, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let bash = ["/usr/bin/bash", "/bin/bash"].into_iter().find(|path| std::path::Path::new(path).is_file());
    let bash = bash.ok_or("there is no bash to measure")?;
    let [mut unconfined, mut confined, mut alone, mut tool] = [const { Times::new() }; 4];
    let until = Until::after(duration);
    while !until.is_over(&unconfined) {
        unconfined.push(plain(bash).await?);
        let (with_room, without) = sandboxed(project, bash).await?;
        confined.push(with_room);
        alone.push(without);
        tool.push(whole(project).await?);
    }
    found.insert("command_unconfined_ms", unconfined.p50() * 1e3);
    found.insert("command_unconfined_p99_ms", unconfined.p99() * 1e3);
    found.insert("command_confined_ms", confined.p50() * 1e3);
    found.insert("command_confined_p99_ms", confined.p99() * 1e3);
    found.insert("command_beyond_ms", (confined.p50() - unconfined.p50()) * 1e3);
    found.insert("command_beyond_without_room_ms", (alone.p50() - unconfined.p50()) * 1e3);
    found.insert("command_bash_tool_ms", tool.p50() * 1e3);
    found.insert("command_bash_tool_beyond_ms", (tool.p50() - unconfined.p50()) * 1e3);
    Ok(())
}

/// As anybody would start it who wants to know what it says.
async fn plain(bash: &str) -> Result<Duration, Error> {
    let began = Instant::now();
    let output = Command::new(bash)
        .args(["-c", "true"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .await?;
    let took = began.elapsed();
    if output.status.success() { Ok(took) } else { Err(format!("bash ended with {}", output.status).into()) }
}

/// With the room that is made for it and removed after it, and without.
async fn sandboxed(project: &Project, bash: &str) -> Result<(Duration, Duration), Error> {
    let began = Instant::now();
    let room = Arc::new(project.sandbox.room().await?);
    let argv = [bash, "-c", "true"].map(str::to_owned).to_vec();
    let job = Job { argv, room: Arc::clone(&room), deadline: Duration::from_secs(60) };
    let started = Instant::now();
    let ran = project.sandbox.run(job, &CancellationToken::new()).await?;
    let alone = started.elapsed();
    if let Some(room) = Arc::into_inner(room) {
        room.remove().await;
    }
    let took = began.elapsed();
    if ran.end == End::Exited(0) {
        Ok((took, alone))
    } else {
        Err(format!("bash ended with {:?}", ran.end).into())
    }
}

async fn whole(project: &Project) -> Result<Duration, Error> {
    let input = Json::parse(r#"{"command":"true"}"#)?;
    let began = Instant::now();
    let done = project.call("bash", &input).await?;
    let took = began.elapsed();
    match done.words() == "exit status 0, no output" {
        true => Ok(took),
        false => Err(format!("`bash` answered {}", done.words()).into()),
    }
}

//! Scripts as the compiler makes them: a small one, one with a hundred kilobytes of a library, and the first call of a process.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::process::Command;
use weir_bench::Error;
use weir_bench::findings::Round;
use weir_types::Json;

use crate::project::Project;
use crate::times::{Times, Until};

pub(crate) async fn measure(project: &Project, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let (mut small, mut large) = (Times::new(), Times::new());
    let until = Until::after(duration);
    while !until.is_over(&small) {
        small.push(call(project, "measure").await?);
        large.push(call(project, "large").await?);
    }
    found.insert("script_p50_ms", small.p50() * 1e3);
    found.insert("script_p99_ms", small.p99() * 1e3);
    found.insert("script_large_p50_ms", large.p50() * 1e3);
    found.insert("script_large_p99_ms", large.p99() * 1e3);
    let own = std::env::current_exe()?;
    let first = Command::new(own).arg("--first").arg(&project.directory).output().await?;
    if !first.status.success() {
        return Err(String::from_utf8_lossy(&first.stderr).into());
    }
    let seconds: f64 = String::from_utf8(first.stdout)?.trim().parse()?;
    found.insert("script_first_ms", seconds * 1e3);
    Ok(())
}

/// In a process of its own: how long its first script takes.
pub(crate) async fn first(directory: &Path) -> Result<(), Error> {
    let project = Project::open(directory.to_owned(), Path::new("weir")).await?;
    println!("{}", call(&project, "measure").await?.as_secs_f64());
    Ok(())
}

async fn call(project: &Project, tool: &str) -> Result<Duration, Error> {
    let input = Json::parse(r#"{"part":"the north wing"}"#)?;
    let began = Instant::now();
    let done = project.call(tool, &input).await?;
    let took = began.elapsed();
    match done.words() == r#"{"part":"the north wing","size":380}"# {
        true => Ok(took),
        false => Err(format!("`{tool}` answered {}", done.words()).into()),
    }
}

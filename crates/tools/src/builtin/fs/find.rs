//! Files by name.

use serde::Deserialize;

use super::glob::Glob;
use super::list::shown;
use super::off_the_runtime;
use crate::builtin::Running;
use crate::call::{Done, Failed};

/// How many files are shown if nobody says.
pub(super) const LIMIT: usize = 200;

/// Most files at once. The bytes of an answer are bounded as well.
pub(super) const LIMIT_MAX: usize = 2_000;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    limit: Option<usize>,
}

pub(in crate::builtin) async fn glob(running: &Running) -> Result<Done, Failed> {
    let input: Input = running.input()?;
    let glob = Glob::new(&input.pattern)?;
    let files = running.started.world.files.list().await?;
    let total = files.len();
    let found = off_the_runtime(move || {
        files.iter().filter(|file| glob.matches(&file.path)).map(|file| file.path.clone()).collect::<Vec<_>>()
    });
    let found = found.await?;
    if found.is_empty() {
        let pattern = input.pattern.escape_debug();
        return Ok(Done::text(format!("[none of {total} files is called `{pattern}`]")));
    }
    Ok(Done::text(shown(found, input.limit.unwrap_or(LIMIT))))
}

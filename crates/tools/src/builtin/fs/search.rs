//! Lines of files by what they say.
//!
//! Files are read a few at a time and searched off the runtime, batch by batch, so that memory stays flat, a call that is
//! dropped stops, and one that takes too long still says what it found.

mod lines;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use tokio::time::Instant;

use self::lines::{Found, Wanted};
use super::content::counted;
use super::glob::Glob;
use super::{SHOWN_BYTES_MAX, off_the_runtime};
use crate::builtin::Running;
use crate::call::{Done, Failed};
use crate::files::{FileInfo, Files, FilesError};

/// How many matching lines are shown if nobody says.
pub(super) const LIMIT: usize = 100;

/// Most matching lines at once. The bytes of an answer are bounded as well.
pub(super) const LIMIT_MAX: usize = 1_000;

/// Most lines of context on each side.
pub(super) const CONTEXT_MAX: usize = 10;

/// The largest file that is searched. Larger ones are data.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Most bytes that one call reads.
const READ_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What is searched at one go: enough to be worth the way to another thread, little enough to be dropped soon.
const BATCH_BYTES: u64 = 4 * 1024 * 1024;

/// Files that are read ahead, so that the store's latency is paid once for all of them.
const READ_AHEAD: usize = 8;

/// The longest expression, and what it may need once it is compiled.
const PATTERN_BYTES_MAX: usize = 4_000;
const COMPILED_BYTES_MAX: usize = 2 * 1024 * 1024;

#[derive(Deserialize)]
struct Input {
    text: Option<String>,
    pattern: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    glob: Option<String>,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
}

pub(in crate::builtin) async fn search(running: &Running) -> Result<Done, Failed> {
    let input: Input = running.input()?;
    let wanted = Wanted {
        regex: expression(&input)?,
        context: input.context,
        limit: input.limit.unwrap_or(LIMIT),
        bytes_max: SHOWN_BYTES_MAX,
    };
    let glob = input.glob.as_deref().map(Glob::new).transpose()?;
    let files = Arc::clone(&running.started.world.files);
    let listed = files.list().await?;
    let fits = |file: &&FileInfo| glob.as_ref().is_none_or(|glob| glob.matches(&file.path));
    let candidates: Vec<FileInfo> = listed.iter().filter(fits).cloned().collect();
    // Half of what the call may take: what was found by then is worth more than nothing at the deadline.
    let until = Instant::now() + running.setup.deadline / 2;
    let found = searched(&*files, candidates, wanted, until).await?;
    Ok(Done::text(found.told(input.glob.is_some())))
}

fn expression(input: &Input) -> Result<Regex, Failed> {
    let (pattern, is_text) = match (&input.text, &input.pattern) {
        (Some(text), None) => (regex::escape(text), true),
        (None, Some(pattern)) => (pattern.clone(), false),
        _ => return Err(Failed::new("invalid", "give either `text` or `pattern`, one of them")),
    };
    if is_text && pattern.contains('\n') {
        return Err(Failed::new(
            "invalid",
            "`text` is looked for line by line and can have no line break; take one line of it",
        ));
    }
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Failed::new("invalid", format!("what to find has more than {PATTERN_BYTES_MAX} bytes")));
    }
    let built = RegexBuilder::new(&pattern)
        .case_insensitive(input.ignore_case)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(2 * COMPILED_BYTES_MAX)
        .build();
    built.map_err(|error| {
        let why: String = error.to_string().chars().take(500).collect();
        let message = format!(
            "`pattern` is no regular expression: {why}\nTo find a text as it is, give `text` instead."
        );
        Failed::new("invalid", message)
    })
}

/// What came of a search.
#[derive(Debug, Default)]
struct Searched {
    found: Found,
    too_large: usize,
    vanished: usize,
    stopped: Option<String>,
}

async fn searched(
    files: &dyn Files,
    candidates: Vec<FileInfo>,
    wanted: Wanted,
    until: Instant,
) -> Result<Searched, Failed> {
    let mut result = Searched::default();
    let (small, large): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|file| file.size <= FILE_BYTES_MAX);
    result.too_large = large.len();
    let total = small.len();
    let wanted = Arc::new(wanted);
    let read = |file: FileInfo| async move { (files.read(&file.path).await, file) };
    let mut contents = stream::iter(small).map(read).buffered(READ_AHEAD);
    let (mut batch, mut batched, mut bytes_read) = (Vec::new(), 0, 0);
    loop {
        let next = contents.next().await;
        let is_last = next.is_none();
        match next {
            Some((Ok(content), file)) => {
                batched += file.size;
                bytes_read += file.size;
                batch.push((file.path, content));
            }
            // It went since the files were listed: another call deleted it.
            Some((Err(FilesError::Missing(_)), _)) => result.vanished += 1,
            Some((Err(error), _)) => return Err(error.into()),
            None => {}
        }
        if !is_last && batched < BATCH_BYTES {
            continue;
        }
        result.found =
            in_batch(std::mem::take(&mut batch), std::mem::take(&mut result.found), &wanted).await?;
        batched = 0;
        let full = result.found.is_full();
        let stopped = if is_last { full } else { full.or_else(|| spent(bytes_read, until)) };
        result.stopped = stopped.map(|why| match total - result.found.searched - result.vanished {
            0 => why,
            left => format!("{why}, with {} not searched", counted(left, "file")),
        });
        if is_last || result.stopped.is_some() {
            break;
        }
    }
    Ok(result)
}

async fn in_batch(
    batch: Vec<(String, Bytes)>,
    mut found: Found,
    wanted: &Arc<Wanted>,
) -> Result<Found, Failed> {
    let wanted = Arc::clone(wanted);
    off_the_runtime(move || {
        for (path, content) in &batch {
            if found.is_full().is_some() {
                break;
            }
            found.search(path, content, &wanted);
        }
        found
    })
    .await
}

fn spent(bytes_read: u64, until: Instant) -> Option<String> {
    if bytes_read >= READ_BYTES_MAX {
        return Some(format!("stopped after {READ_BYTES_MAX} bytes"));
    }
    let late = until.saturating_duration_since(Instant::now()) == Duration::ZERO;
    late.then(|| "stopped because it took too long".to_owned())
}

impl Searched {
    fn told(self, has_glob: bool) -> String {
        let Self { found, too_large, vanished: _, stopped } = self;
        let mut notes = vec![match found.matches {
            0 => format!("no match in {}", counted(found.searched - found.binary, "file")),
            matches => format!("{} in {}", counted(matches, "match"), counted(found.files, "file")),
        }];
        if found.searched == 0 && too_large == 0 {
            notes =
                vec![if has_glob { "no file fits `glob`".into() } else { "there are no files yet".into() }];
        }
        if let Some(stopped) = stopped {
            notes.push(format!("{stopped}; narrow it down with `glob` or a longer text"));
        }
        if found.binary > 0 {
            notes.push(format!("{} left out", counted(found.binary, "binary file")));
        }
        if too_large > 0 {
            notes
                .push(format!("{} of more than {FILE_BYTES_MAX} bytes left out", counted(too_large, "file")));
        }
        format!("{}[{}]", found.text, notes.join("; "))
    }
}

//! What is in a directory.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::Deserialize;

use super::content::counted;
use super::place::{at, below, from_top, missing};
use super::{SHOWN_BYTES_MAX, off_the_runtime};
use crate::builtin::Running;
use crate::call::{Done, Failed};
use crate::files::FileInfo;

/// How many entries are shown if nobody says.
pub(super) const LIMIT: usize = 200;

/// Most entries at once. The bytes of an answer are bounded as well.
pub(super) const LIMIT_MAX: usize = 2_000;

#[derive(Deserialize)]
struct Input {
    path: Option<String>,
    #[serde(default)]
    recursive: bool,
    limit: Option<usize>,
}

pub(in crate::builtin) async fn list(running: &Running) -> Result<Done, Failed> {
    let input: Input = running.input()?;
    let path = from_top(input.path.as_deref().unwrap_or_default())?;
    let files = running.started.world.files.list().await?;
    if files.is_empty() && path.is_empty() {
        return Ok(Done::text("[there are no files yet; edit_write makes one]"));
    }
    if let Some(file) = at(&files, &path) {
        return Ok(Done::text(of_file(file, &file.path)));
    }
    if below(&files, &path).is_empty() {
        return Err(missing_directory(files, &path).await);
    }
    let limit = input.limit.unwrap_or(LIMIT);
    let entries = off_the_runtime(move || {
        let files = below(&files, &path);
        if input.recursive { deep(files) } else { flat(files, &path) }
    });
    Ok(Done::text(shown(entries.await?, limit)))
}

/// The directories right in a directory, then its files. Each with its whole path: so it can be passed on.
fn flat(files: &[FileInfo], directory: &str) -> Vec<String> {
    let skipped = if directory.is_empty() { 0 } else { directory.len() + 1 };
    // INVARIANT: files are sorted, so those of one directory are neighbours.
    let (mut directories, mut plain) = (Vec::<(&str, usize, u64)>::new(), Vec::new());
    for file in files {
        match file.path[skipped..].find('/') {
            None => plain.push(of_file(file, &file.path)),
            Some(end) => {
                let name = &file.path[..skipped + end];
                match directories.last_mut() {
                    Some((last, count, bytes)) if *last == name => {
                        *count += 1;
                        *bytes += file.size;
                    }
                    _ => directories.push((name, 1, file.size)),
                }
            }
        }
    }
    let directories = directories
        .into_iter()
        .map(|(name, count, bytes)| format!("{name}/ ({}, {bytes} bytes)", counted(count, "file")));
    directories.chain(plain).collect()
}

/// All files, those of inner directories before those beside them.
fn deep(files: &[FileInfo]) -> Vec<String> {
    let mut files: Vec<&FileInfo> = files.iter().collect();
    files.sort_by(|a, b| directories_first(&a.path, &b.path));
    files.into_iter().map(|file| of_file(file, &file.path)).collect()
}

fn directories_first(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('/').peekable(), b.split('/').peekable());
    loop {
        let (Some(left), Some(right)) = (a.next(), b.next()) else { return Ordering::Equal };
        let is_file = (a.peek().is_none(), b.peek().is_none());
        let order = is_file.0.cmp(&is_file.1).then_with(|| left.cmp(right));
        if order.is_ne() || is_file.0 {
            return order;
        }
    }
}

fn of_file(file: &FileInfo, shown_as: &str) -> String {
    let program = if file.executable { ", executable" } else { "" };
    format!("{shown_as} ({} bytes{program})", file.size)
}

/// As many lines as fit, and what became of the others.
pub(super) fn shown(entries: Vec<String>, limit: usize) -> String {
    let total = entries.len();
    let (mut page, mut count) = (String::new(), 0);
    for entry in entries.into_iter().take(limit) {
        if page.len() + entry.len() >= SHOWN_BYTES_MAX {
            break;
        }
        page.push_str(&entry);
        page.push('\n');
        count += 1;
    }
    let note = match total - count {
        0 => counted(total, "entry").replace("entrys", "entries"),
        left => format!("the first {count} of {total}; {left} more: narrow it down, or raise `limit`"),
    };
    format!("{page}[{note}]")
}

async fn missing_directory(files: Arc<[FileInfo]>, path: &str) -> Failed {
    let failed = missing(files, path).await;
    Failed { message: failed.message.replacen("there is no file", "there is no directory", 1), ..failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<FileInfo> {
        let file = |path: &&str| FileInfo {
            path: (*path).to_owned(),
            size: path.len() as u64,
            executable: path.ends_with(".sh"),
        };
        paths.iter().map(file).collect()
    }

    #[test]
    fn directories_come_first_with_what_they_hold() {
        let files = files(&["a.txt", "b/c", "b/d/e", "go.sh", "z/y"]);
        assert_eq!(
            flat(&files, ""),
            [
                "b/ (2 files, 8 bytes)",
                "z/ (1 file, 3 bytes)",
                "a.txt (5 bytes)",
                "go.sh (5 bytes, executable)"
            ]
        );
        assert_eq!(flat(below(&files, "b"), "b"), ["b/d/ (1 file, 5 bytes)", "b/c (3 bytes)"]);
        let paths: Vec<String> =
            deep(&files).iter().map(|line| line.split(' ').next().unwrap().into()).collect();
        assert_eq!(paths, ["b/d/e", "b/c", "z/y", "a.txt", "go.sh"]);
    }

    #[test]
    fn a_listing_is_bounded() {
        let many: Vec<String> = (0..5_000).map(|n| format!("file-{n:05}-{}", "x".repeat(80))).collect();
        let page = shown(many.clone(), LIMIT_MAX);
        assert!(page.len() < SHOWN_BYTES_MAX + 200 && page.contains(" of 5000; "), "{}", page.len());
        assert!(
            shown(many, 2).ends_with("[the first 2 of 5000; 4998 more: narrow it down, or raise `limit`]")
        );
        assert_eq!(shown(vec!["a".into()], 5), "a\n[1 entry]");
        assert_eq!(shown(vec!["a".into(), "b".into()], 5), "a\nb\n[2 entries]");
    }
}

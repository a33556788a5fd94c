//! Paths as models write them, and what to say when nothing is there.

use std::sync::Arc;

use super::off_the_runtime;
use crate::call::Failed;
use crate::files::FileInfo;

/// How many names are told that resemble one that is not there.
const SIMILAR_MAX: usize = 3;

/// How many files are compared with a name that is not there. Comparing is slow, and a guess is enough.
const COMPARED_MAX: usize = 20_000;

/// How much two names must have in common for one to be offered for the other.
const SIMILARITY_MIN: f64 = 0.6;

/// The path from the top of the workspace: `./a//b/../c` is `a/c`, and the top itself is empty. Whether a file can be called
/// that, the files decide.
pub(in crate::builtin) fn from_top(path: &str) -> Result<String, Failed> {
    if path.starts_with('/') {
        let message = format!(
            "`{}` is absolute, and paths here begin at the top of the workspace: write `{}`",
            path.escape_debug(),
            path.trim_start_matches('/').escape_debug()
        );
        return Err(Failed::new("path", message));
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                let message = format!(
                    "`{}` leads out of the workspace; only its own files can be reached",
                    path.escape_debug()
                );
                return Err(Failed::new("path", message));
            }
            ".." => {}
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// The file at a path. Files are sorted by path.
pub(in crate::builtin) fn at<'f>(files: &'f [FileInfo], path: &str) -> Option<&'f FileInfo> {
    files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|found| &files[found])
}

/// All files below a directory; the top is the empty path.
pub(in crate::builtin) fn below<'f>(files: &'f [FileInfo], directory: &str) -> &'f [FileInfo] {
    if directory.is_empty() {
        return files;
    }
    let prefix = format!("{directory}/");
    let files = &files[files.partition_point(|file| file.path < prefix)..];
    &files[..files.partition_point(|file| file.path.starts_with(&prefix))]
}

/// What to say about a path at which there is no file.
pub(in crate::builtin) async fn missing(files: Arc<[FileInfo]>, path: &str) -> Failed {
    if path.is_empty() {
        return Failed::new(
            "path",
            "that is the top of the workspace, not a file; fs_list shows what is in it",
        );
    }
    if !below(&files, path).is_empty() {
        let message = format!("`{path}` is a directory, not a file; fs_list shows what is in it");
        return Failed::new("path", message);
    }
    let wanted = path.to_owned();
    let similar = off_the_runtime(move || similar(files.iter().map(|file| file.path.as_str()), &wanted));
    let hint = match similar.await.unwrap_or_default().as_slice() {
        [] => "fs_list and fs_glob show what there is".to_owned(),
        names => format!("did you mean `{}`?", names.join("`, `")),
    };
    Failed::new("missing", format!("there is no file `{}`; {hint}", path.escape_debug()))
}

/// The names that most resemble another one, the most similar first. What a file is called counts more than where it is.
pub(in crate::builtin) fn similar<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> Vec<String> {
    let stem = |path: &str| path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let sought = stem(wanted);
    let mut found: Vec<(f64, &str)> = names
        .take(COMPARED_MAX)
        .map(|name| (strsim::normalized_levenshtein(&stem(name), &sought), name))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .collect();
    let whole = |name: &str| strsim::normalized_levenshtein(name, wanted);
    found.sort_by(|(one, a), (other, b)| {
        other.total_cmp(one).then_with(|| whole(b).total_cmp(&whole(a))).then_with(|| a.cmp(b))
    });
    found.into_iter().take(SIMILAR_MAX).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Arc<[FileInfo]> {
        let file = |path: &&str| FileInfo { path: (*path).to_owned(), size: 1, executable: false };
        paths.iter().map(file).collect()
    }

    #[test]
    fn paths_are_taken_as_models_write_them() {
        for (given, expected) in
            [("a/b", "a/b"), ("./a//b/", "a/b"), ("a/../b", "b"), ("", ""), (".", ""), ("a b", "a b")]
        {
            assert_eq!(from_top(given), Ok(expected.to_owned()), "{given}");
        }
        assert!(from_top("/a/b").unwrap_err().message.ends_with("write `a/b`"));
        for outside in ["..", "a/../../b", "../a"] {
            assert!(
                from_top(outside).unwrap_err().message.contains("leads out of the workspace"),
                "{outside}"
            );
        }
    }

    #[test]
    fn directories_are_what_paths_have_in_common() {
        let files = files(&["a", "b-1", "b/c", "b/d/e", "b0"]);
        let paths = |directory| below(&files, directory).iter().map(|file| &*file.path).collect::<Vec<_>>();
        assert_eq!(paths("b"), ["b/c", "b/d/e"]);
        assert_eq!(paths("").len(), 5);
        assert!(paths("a").is_empty() && paths("x").is_empty());
        assert!(at(&files, "b/c").is_some() && at(&files, "b").is_none());
    }

    #[tokio::test]
    async fn what_is_missing_is_answered_with_what_is_there() {
        let files = files(&["docs/readme.txt", "src/lib.rs", "src/main.rs", "tests/main.rs"]);
        let words = async |path| missing(Arc::clone(&files), path).await.message;
        assert_eq!(
            words("src/mian.rs").await,
            "there is no file `src/mian.rs`; did you mean `src/main.rs`, `tests/main.rs`?"
        );
        assert_eq!(
            words("main.rs").await,
            "there is no file `main.rs`; did you mean `src/main.rs`, `tests/main.rs`?"
        );
        assert_eq!(words("src").await, "`src` is a directory, not a file; fs_list shows what is in it");
        assert_eq!(words("zzz").await, "there is no file `zzz`; fs_list and fs_glob show what there is");
    }
}

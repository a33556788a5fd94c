//! What is left out of a directory: a table of paths, ignore files and patterns, and what is taken.

use std::fs;
use std::sync::Arc;

use tempfile::tempdir;
use weir_blobs::MemoryBlobs;
use weir_workspace::{Change, Files, Found, LeaveOut, LeftOut, Scan, Why, changes_in};

use crate::support::{apply, deleted, write, written};

fn owned(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
}

async fn look(directory: &std::path::Path, base: &Files, exclude: &[&str], include: &[&str]) -> Found {
    let leave_out = LeaveOut::new(&owned(exclude), &owned(include)).unwrap();
    let scan = Scan { leave_out: Some(Arc::new(leave_out)), ..Scan::default() };
    changes_in(directory, base, &scan, &MemoryBlobs::new()).await.unwrap()
}

fn taken(found: &Found) -> Vec<&str> {
    let paths = found.changes.iter().filter_map(|change| match change {
        Change::Written { path, .. } => Some(path.as_str()),
        Change::Deleted { .. } => None,
    });
    paths.filter(|path| !path.ends_with("ignore")).collect()
}

fn left(left_out: &LeftOut, why: Why) -> Vec<&str> {
    left_out.get(&why).map_or(Vec::new(), |group| group.first.iter().map(String::as_str).collect())
}

/// Writes the files (`path=content`, or empty), looks with the patterns (`-exclude`, `+include`), and compares what is taken.
async fn check(files: &[&str], patterns: &[&str], expected: &[&str]) {
    let directory = tempdir().unwrap();
    for file in files {
        let (path, content) = file.split_once('=').unwrap_or((file, "x"));
        write(directory.path(), path, content);
    }
    let of = |sign| patterns.iter().filter_map(|pattern| pattern.strip_prefix(sign)).collect::<Vec<_>>();
    let found = look(directory.path(), &Files::new(), &of('-'), &of('+')).await;
    assert_eq!(taken(&found), expected, "{files:?} {patterns:?}");
}

#[tokio::test]
async fn ignore_files_mean_what_git_says() {
    check(&[".gitignore=*.log\n", "a.log", "b/c.log", "d.txt"], &[], &["d.txt"]).await;
    check(&[".gitignore=/a\n", "a", "b/a"], &[], &["b/a"]).await;
    check(&[".gitignore=a/\n", "a/x", "b/a"], &[], &["b/a"]).await;
    check(&[".gitignore=*.log\n!keep.log\n", "a.log", "keep.log"], &[], &["keep.log"]).await;
    // Nothing below a directory that is left out comes back.
    check(&[".gitignore=a/\n!a/x\n", "a/x", "b"], &[], &["b"]).await;
    // Nested: the nearest file decides.
    check(
        &[".gitignore=*.o\n", "a/.gitignore=!*.o\n", "x.o", "a/y.o", "a/b/z.o"],
        &[],
        &["a/b/z.o", "a/y.o"],
    )
    .await;
    check(&["a/.gitignore=/x\n", "a/x", "a/b/x", "x"], &[], &["a/b/x", "x"]).await;
    check(&[".gitignore=a/**/z\n", "a/b/c/z", "a/z", "z"], &[], &["z"]).await;
    // `.weirignore` is the later one.
    check(&[".gitignore=*.gen\n", ".weirignore=!*.gen\ndata/\n", "a.gen", "data/x"], &[], &["a.gen"]).await;
    // A line that is no pattern costs itself alone; a byte order mark costs nothing.
    check(&[".gitignore=\u{feff}a\n[\nb\n", "a", "b", "c"], &[], &["c"]).await;
}

#[tokio::test]
async fn what_usually_holds_secrets_is_left_out_whatever_ignore_files_say() {
    let secrets = [
        ".env",
        ".env.local",
        "deep/er/.ENV.production",
        ".envrc",
        "tls.pem",
        "server.KEY",
        "id_rsa",
        "id_rsa.bak",
        "id_ed25519",
        ".npmrc",
        ".netrc",
        ".pypirc",
        ".pgpass",
        ".git-credentials",
        "credentials",
        "credentials.json",
        ".aws/config",
        ".ssh/known_hosts",
        "a/.kube/config",
        "service-account-1.json",
        "terraform.tfstate",
        "prod.tfvars",
        "k.p12",
        "store.jks",
        "p.kdbx",
        ".docker/config.json",
    ];
    for secret in secrets {
        check(&[secret, ".gitignore=!.env*\n!*.pem\n", "src/a.rs"], &[], &["src/a.rs"]).await;
    }
    let harmless = [
        ".env.example",
        ".envs/a",
        "credentials.rs",
        "environment",
        "id_rsa.pub",
        "keys.rs",
        "monkey",
        "pem",
    ];
    for file in harmless {
        check(&[file], &[], &[file]).await;
    }
}

#[tokio::test]
async fn callers_exclude_and_include_deliberately() {
    check(&["a.txt", "b/c.txt", "d.md"], &["-*.txt"], &["d.md"]).await;
    check(&["a.txt", "b/c.txt"], &["-/b"], &["a.txt"]).await;
    check(&[".env", "b/.env"], &["+/.env"], &[".env"]).await;
    check(&[".env", "b/.env"], &["+.env"], &[".env", "b/.env"]).await;
    check(&[".gitignore=dist/\n", "dist/a", "dist/b/c", "dist/.env"], &["+dist"], &["dist/a", "dist/b/c"])
        .await;
    check(&[".gitignore=dist/\n", "dist/a", "dist/b/c", "dist/b/d"], &["+dist/b/c"], &["dist/b/c"]).await;
    // What is asked for by its name alone is not looked for where nothing is looked for.
    check(&[".gitignore=node_modules/\n", "node_modules/m/.env", ".env"], &["+.env"], &[".env"]).await;
    // History and data are nobody's to include.
    check(
        &[".git/config", "a/.git", ".weir/journal.db", "a/b"],
        &["+.git", "+.weir", "+.git/config"],
        &["a/b"],
    )
    .await;
    assert!(LeaveOut::new(&owned(&["[z-a]"]), &[]).unwrap_err().to_string().contains("[z-a]"));
}

#[tokio::test]
async fn what_is_left_out_is_counted_and_named() {
    let directory = tempdir().unwrap();
    write(directory.path(), ".gitignore", "*.o\nbuild/\n");
    for n in 0..9 {
        write(directory.path(), &format!("{n}.o"), "x");
    }
    for path in ["build/a", "build/b", ".env", "a/k.pem", ".git/HEAD", "skip", "main.rs"] {
        write(directory.path(), path, "x");
    }
    let found = look(directory.path(), &Files::new(), &["skip"], &[]).await;
    assert_eq!(found.left_out[&Why::Ignored].count, 10, "{:?}", found.left_out);
    assert_eq!(found.left_out[&Why::Ignored].first.len(), 5);
    assert_eq!(left(&found.left_out, Why::Secret), [".env", "a/k.pem"]);
    assert_eq!(left(&found.left_out, Why::Never), [".git/"]);
    assert_eq!(left(&found.left_out, Why::Excluded), ["skip"]);
}

#[tokio::test]
async fn the_repository_around_a_directory_counts_and_nothing_beyond_it() {
    let outer = tempdir().unwrap();
    for (path, content) in [
        (".gitignore", "beyond\n"),
        ("repo/.git/info/exclude", "private\n"),
        ("repo/.gitignore", "*.log\n/sub/given/only\n"),
        ("repo/sub/.gitignore", "!keep.log\n"),
        ("repo/sub/given/a.log", "x"),
        ("repo/sub/given/keep.log", "x"),
        ("repo/sub/given/only", "x"),
        ("repo/sub/given/private", "x"),
        ("repo/sub/given/beyond", "x"),
    ] {
        write(outer.path(), path, content);
    }
    let found = look(&outer.path().join("repo/sub/given"), &Files::new(), &[], &[]).await;
    assert_eq!(taken(&found), ["beyond", "keep.log"]);
    fs::write(outer.path().join("repo/private"), "x").unwrap();
    let found = look(&outer.path().join("repo"), &Files::new(), &[], &[]).await;
    assert_eq!(taken(&found), ["sub/given/beyond", "sub/given/keep.log"]);
}

/// Files that an agent made stay in its session, although they would not be taken from a directory.
#[tokio::test]
async fn what_a_session_has_is_not_lost_by_a_rule() {
    let directory = tempdir().unwrap();
    write(directory.path(), ".gitignore", "out/\n");
    let base = [written(".env", "known"), written("out/x", "known"), written("gone.rs", "known")];
    let base = apply(&Files::new(), &base);
    let found = look(directory.path(), &base, &[], &[]).await;
    assert_eq!(found.changes, [deleted("gone.rs"), written(".gitignore", "out/\n")]);
    // What is asked for is looked for.
    let found = look(directory.path(), &base, &[], &["/.env"]).await;
    assert!(found.changes.contains(&deleted(".env")), "{:?}", found.changes);
}

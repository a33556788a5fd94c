//! Broken projects, one file each in `tests/broken`, with the problems that are told about them.
//!
//! A file begins with a sentence about what it shows. Then come the files of the project, each after a line `=== PATH`, and
//! last, after `=== problems`, what is expected. Lines of a section `=== setup` say what a file cannot: `online` (servers are
//! asked), `no` (nobody approves), `link PATH TARGET`, `odd PATH` (a name that is no text), `deep PATH`. `KEY` in a file
//! stands for something that looks like a key. `WEIR_BLESS=1` writes the expectations down.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weir_compiler::{CODES, Compiled, Mode};
use weir_spec::{Severity, Span};

use crate::project::Project;

const PROBLEMS: &str = "=== problems\n";

/// Looks like a key, but only once it is put together.
fn key() -> String {
    format!("{}-ant-{}", "sk", "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8")
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken")
}

/// All broken projects: the name and content of each file.
fn projects() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    });
    texts.collect()
}

async fn build(text: &str) -> Compiled {
    let (sections, _) = text.split_once(PROBLEMS).unwrap_or((text, ""));
    let mut project = Project::new(&[]);
    let mut mode = Mode::Offline;
    for section in sections.split("=== ").skip(1) {
        let (path, content) = section.split_once('\n').expect("a path, and then the file");
        if path != "setup" {
            project.write(path, content.replace("KEY", &key()));
            continue;
        }
        for line in content.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["online"] => mode = Mode::Online,
                ["no"] => project.says_yes = false,
                ["link", path, target] => {
                    std::fs::create_dir_all(project.file(path).parent().unwrap()).unwrap();
                    std::os::unix::fs::symlink(target, project.file(path)).unwrap();
                }
                ["odd", path] => {
                    let name = [path.as_bytes(), b"\xff.yaml"].concat();
                    std::fs::create_dir_all(project.file(path).parent().unwrap()).unwrap();
                    std::fs::write(project.path().join(OsStr::from_bytes(&name)), "").unwrap();
                }
                ["deep", path] => {
                    let deep: PathBuf = std::iter::repeat_n("d", 20).collect();
                    std::fs::create_dir_all(project.file(path).join(deep)).unwrap();
                }
                other => panic!("no such setup: {other:?}"),
            }
        }
    }
    project.build(mode).await
}

/// The problems as plain text, with the text that is marked.
fn shown(compiled: &Compiled) -> String {
    let mut out = String::new();
    for problem in &compiled.diagnostics {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let content = |file: &str| compiled.files.get(file).map(Vec::as_slice).unwrap_or_default();
        let place = place(content(&problem.file), &problem.file, problem.span);
        let _ = writeln!(out, "{severity}[{}] {place}", problem.code);
        let _ = writeln!(out, "    {}", problem.message);
        let _ = writeln!(out, "  help: {}", problem.help);
        for related in &problem.related {
            let place = self::place(content(&related.file), &related.file, related.span);
            let _ = writeln!(out, "  related: {place} {}", related.message);
        }
        let marked = &content(&problem.file)[problem.span.start..problem.span.end];
        let marked = String::from_utf8_lossy(marked).lines().next().unwrap_or_default().to_owned();
        let short: String = marked.chars().take(60).collect();
        match problem.hide {
            true => out.push_str("  at: hidden\n"),
            false if short.is_empty() => {}
            false => drop(writeln!(out, "  at: {}", short.escape_debug())),
        }
    }
    out
}

/// `file:line:column..column`, or `..line:column` where it ends on another line.
fn place(content: &[u8], file: &str, span: Span) -> String {
    let marked = String::from_utf8_lossy(&content[span.start..span.end]);
    let breaks = marked.matches('\n').count();
    let last = marked.rsplit('\n').next().unwrap_or_default().chars().count();
    match breaks {
        0 => format!("{file}:{}:{}..{}", span.line, span.column, span.column + last),
        _ => format!("{file}:{}:{}..{}:{}", span.line, span.column, span.line + breaks, last + 1),
    }
}

#[tokio::test]
async fn every_broken_project_is_told_what_is_wrong() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut wrong = Vec::new();
    for (name, text) in projects() {
        let (sections, expected) = text.split_once(PROBLEMS).unwrap_or((&text, ""));
        let compiled = build(&text).await;
        let actual = shown(&compiled);
        assert!(!actual.contains(&key()), "{name} repeats the key");
        assert_eq!(compiled.built.is_some(), !actual.contains("error["), "{name}");
        if bless {
            std::fs::write(directory().join(format!("{name}.txt")), format!("{sections}{PROBLEMS}{actual}"))
                .unwrap();
        } else if actual != expected {
            wrong.push(format!("{name}: expected\n{expected}\nbut was\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "run with WEIR_BLESS=1 after looking at:\n{}", wrong.join("\n"));
}

#[test]
fn there_is_a_broken_project_for_every_code() {
    let told: BTreeSet<String> = projects()
        .values()
        .flat_map(|text| text.split_once(PROBLEMS).unwrap().1.split(['[', ']']))
        .filter(|part| part.starts_with("build::") && !part.contains(' '))
        .map(str::to_owned)
        .collect();
    // It takes a hundred thousand files, and is shown beside the code.
    let listed: BTreeSet<String> = CODES.iter().map(|(code, _)| (*code).to_owned()).collect();
    let missing: Vec<&String> = listed.difference(&told).filter(|code| *code != "build::too-much").collect();
    assert_eq!((missing, told.difference(&listed).collect::<Vec<_>>()), (vec![], vec![]));
}

#[test]
fn the_table_of_codes_is_what_the_sources_name() {
    let mut named = BTreeSet::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                directories.push(entry);
            } else if !entry.ends_with("codes.rs") && !entry.ends_with("save.rs") {
                let text = std::fs::read_to_string(entry).unwrap();
                let codes = text.split('"').filter(|part| part.starts_with("build::") && !part.contains(' '));
                named.extend(codes.map(str::to_owned));
            }
        }
    }
    let listed: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(named.iter().map(String::as_str).collect::<Vec<_>>(), listed);
}

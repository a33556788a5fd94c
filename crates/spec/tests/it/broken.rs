//! Broken projects, one file each in `tests/broken`, with the problems that are told about them.
//!
//! A file begins with a sentence about what it shows. Then come the files of the project, each after a line `=== PATH`, and
//! last, after `=== problems`, what is expected. With `=== PATH escaped` a file can hold what no text file should: `\xff`,
//! `\t`, `\r`, `\n` at the end of a line to have none there, `\k{PREFIX,LENGTH}` for something that looks like a key, and
//! `\r{TEXT,TIMES}` for repeated text. `WEIR_BLESS=1` writes the expectations down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_spec::{CODES, Diagnostic, Lock, Severity, Span, find_secrets, mask, sort};

use crate::catalog;

const PROBLEMS: &str = "=== problems\n";

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

/// The files of a project, and what is expected of them.
fn parse(text: &str) -> (BTreeMap<String, Vec<u8>>, &str) {
    let (project, expected) = text.split_once(PROBLEMS).unwrap_or((text, ""));
    let mut files = BTreeMap::new();
    for section in project.split("=== ").skip(1) {
        let (path, content) = section.split_once('\n').expect("a path, and then the file");
        let content = match path.strip_suffix(" escaped") {
            Some(path) => (path, unescape(content)),
            None => (path, content.as_bytes().to_vec()),
        };
        files.insert(content.0.to_owned(), content.1);
    }
    (files, expected)
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend(before.as_bytes());
        let argument = || {
            let inner = after[1..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let (inner, after) = inner.expect("an argument in braces");
            let (text, number) = inner.rsplit_once(',').expect("two arguments");
            (text, number.parse::<usize>().expect("a number"), after)
        };
        rest = match after.as_bytes()[0] {
            b'x' => {
                bytes.push(u8::from_str_radix(&after[1..3], 16).expect("two digits"));
                &after[3..]
            }
            b't' => {
                bytes.push(b'\t');
                &after[1..]
            }
            b'k' => {
                let (prefix, length, after) = argument();
                let key = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8".bytes().cycle().take(length);
                bytes.extend(prefix.bytes().chain(key));
                after
            }
            b'r' if after[1..].starts_with('{') => {
                let (text, times, after) = argument();
                bytes.extend(text.repeat(times).bytes());
                after
            }
            b'r' => {
                bytes.push(b'\r');
                &after[1..]
            }
            b'\n' => &after[1..],
            other => panic!("unknown escape \\{}", char::from(other)),
        };
    }
    bytes.extend(rest.as_bytes());
    bytes
}

/// Every problem of a project, the lock's included.
fn problems(files: &BTreeMap<String, Vec<u8>>) -> Vec<Diagnostic> {
    let mut found = weir_spec::read(files, &catalog()).diagnostics;
    if let Some(lock) = files.get("weir.lock") {
        found.extend(Lock::read("weir.lock", lock).diagnostics);
    }
    sort(&mut found);
    found
}

/// The problems as plain text, with the text that is marked.
fn shown(files: &BTreeMap<String, Vec<u8>>, problems: &[Diagnostic]) -> String {
    let mut out = String::new();
    let mut alike = 0;
    for (n, problem) in problems.iter().enumerate() {
        let same = |other: usize| problems.get(other).is_some_and(|other| other.message == problem.message);
        alike = if n > 0 && same(n - 1) { alike + 1 } else { 0 };
        if alike > 1 {
            // Whoever reads the file has understood by now.
            if !same(n + 1) {
                let _ = writeln!(out, "(and {} more like it)", alike - 1);
            }
            continue;
        }
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let place = place(files.get(&problem.file), &problem.file, problem.span);
        let _ = writeln!(out, "{severity}[{}] {place}", problem.code);
        let _ = writeln!(out, "    {}", problem.message);
        let _ = writeln!(out, "  help: {}", problem.help);
        for related in &problem.related {
            let place = self::place(files.get(&related.file), &related.file, related.span);
            let _ = writeln!(out, "  related: {place} {}", related.message);
        }
        let content = files.get(&problem.file).map(Vec::as_slice).unwrap_or_default();
        let marked = &content[problem.span.start..problem.span.end];
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
fn place(content: Option<&Vec<u8>>, file: &str, span: Span) -> String {
    let content = content.map(Vec::as_slice).unwrap_or_default();
    let marked = String::from_utf8_lossy(&content[span.start..span.end]);
    let breaks = marked.matches('\n').count();
    let last = marked.rsplit('\n').next().unwrap_or_default().chars().count();
    match breaks {
        0 => format!("{file}:{}:{}..{}", span.line, span.column, span.column + last),
        _ => format!("{file}:{}:{}..{}:{}", span.line, span.column, span.line + breaks, last + 1),
    }
}

#[test]
fn every_broken_project_is_told_what_is_wrong() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut wrong = Vec::new();
    for (name, text) in projects() {
        let (files, expected) = parse(&text);
        let actual = shown(&files, &problems(&files));
        if bless {
            let project = text.split_once(PROBLEMS).map_or(text.as_str(), |(project, _)| project);
            std::fs::write(directory().join(format!("{name}.txt")), format!("{project}{PROBLEMS}{actual}"))
                .unwrap();
        } else if actual != expected {
            wrong.push(format!("{name}: expected\n{expected}\nbut was\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "run with WEIR_BLESS=1 after looking at:\n{}", wrong.join("\n"));
}

#[test]
fn there_is_a_broken_project_for_every_code() {
    let mut told = BTreeSet::new();
    let projects = projects();
    for text in projects.values() {
        let (files, _) = parse(text);
        told.extend(problems(&files).into_iter().map(|problem| problem.code));
    }
    let listed: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(told, listed);
    assert!(projects.len() > 65, "{} projects", projects.len());
}

#[test]
fn the_table_of_codes_is_what_the_sources_name() {
    let mut named = BTreeSet::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                directories.push(entry);
            } else if !entry.ends_with("codes.rs") {
                let text = std::fs::read_to_string(entry).unwrap();
                let codes = text.split('"').filter(|part| part.starts_with("spec::") && !part.contains(' '));
                named.extend(codes.map(str::to_owned));
            }
        }
    }
    // These two come from the catalog.
    named.extend(["spec::unknown-model", "spec::ambiguous-model"].map(str::to_owned));
    let listed: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(named.iter().map(String::as_str).collect::<Vec<_>>(), listed);
}

#[test]
fn nothing_that_is_told_repeats_a_secret() {
    let mut seen = 0;
    for (name, text) in projects() {
        let (files, _) = parse(&text);
        let problems = problems(&files);
        for (path, content) in &files {
            let hidden = problems.iter().filter(|problem| problem.hide && problem.file == *path);
            let hidden: Vec<_> = hidden.map(|problem| problem.span.start..problem.span.end).collect();
            let secrets = std::str::from_utf8(content).map(find_secrets).unwrap_or_default();
            for secret in hidden.iter().cloned().chain(secrets).map(|range| &content[range]) {
                let secret = String::from_utf8_lossy(secret).into_owned();
                seen += 1;
                for problem in &problems {
                    assert!(!format!("{problem:?}").contains(&secret), "{name}: {problem:?}");
                }
                let masked = String::from_utf8_lossy(&mask(content, hidden.iter().cloned())).into_owned();
                assert!(!masked.contains(&secret), "{name}: {path}");
            }
        }
    }
    assert!(seen > 10, "{seen} secrets");
}

#[test]
fn twenty_mistakes_in_ten_files_are_told_in_the_order_of_the_files() {
    let (files, _) = parse(&projects()["twenty"]);
    let problems: Vec<Diagnostic> = problems(&files).into_iter().filter(Diagnostic::is_error).collect();
    let with_mistakes: BTreeSet<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
    assert_eq!((problems.len(), with_mistakes.len()), (20, 10));
    let places: Vec<(&str, usize)> =
        problems.iter().map(|problem| (problem.file.as_str(), problem.span.start)).collect();
    assert!(places.is_sorted(), "{places:?}");
}

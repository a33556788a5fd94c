//! Checks the sources for what no compiler sees: a kind of event is named by its payload in `weir-events`, never as text, and
//! Markdown is wrapped.
//!
//! A kind as text compiles with any typing mistake, and a search for the payload's type does not find it. Tests may name
//! kinds as text: they check what is stored.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Outcome, markdown};

/// The file with the table of all kinds.
const TABLE: &str = "crates/events/src/table.rs";

pub(crate) fn run(root: &Path, wrap: bool) -> Outcome {
    let differing = markdown::check(root, wrap)?;
    for page in &differing {
        eprintln!("tidy: {page}: {}", if wrap { "wrapped" } else { "its prose is not wrapped" });
    }
    if !wrap && !differing.is_empty() {
        return Err("wrap the Markdown with `cargo xtask tidy --wrap`".into());
    }
    let table = fs::read_to_string(root.join(TABLE))?;
    let kinds = kinds(&table);
    if kinds.is_empty() {
        return Err(format!("`{TABLE}` has no table of kinds").into());
    }
    let sources = sources(root)?;
    let mut found = 0;
    for (path, text) in &sources {
        for (line, kind) in named_as_text(text, &kinds) {
            let place = path.strip_prefix(root).unwrap_or(path).display();
            eprintln!(
                "tidy: {place}:{line}: `\"{kind}\"` is a kind as text; use `KIND` or `kind()` of its payload"
            );
            found += 1;
        }
    }
    match found {
        0 => println!("tidy: {} kinds, named as text in none of {} files", kinds.len(), sources.len()),
        1 => return Err("one kind is named as text".into()),
        many => return Err(format!("{many} kinds are named as text").into()),
    }
    Ok(())
}

/// The names in the table: the first word of each row, in quotes.
fn kinds(table: &str) -> BTreeSet<&str> {
    let rows = table.lines().map(str::trim_start).filter_map(|line| line.strip_prefix('"'));
    rows.filter_map(|row| row.split_once('"')).map(|(name, _)| name).collect()
}

/// The files of all crates that are neither the vocabulary itself nor tests.
fn sources(root: &Path) -> Outcome<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let directory = entry?.path();
        if directory.file_name() != Some(OsStr::new("events")) && directory.join("src").is_dir() {
            collect(&directory.join("src"), &mut files)?;
        }
    }
    files.sort();
    let tests: Vec<PathBuf> = files.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_test =
        |path: &Path| tests.iter().any(|test| path == test.with_extension("rs") || path.starts_with(test));
    files.retain(|(path, _)| !is_test(path));
    Ok(files)
}

fn collect(directory: &Path, files: &mut Vec<(PathBuf, String)>) -> Outcome {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension() == Some(OsStr::new("rs")) {
            let text = fs::read_to_string(&path)?;
            files.push((path, text));
        }
    }
    Ok(())
}

/// The modules in files of their own that a file declares for tests, as paths without `.rs`.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let is_root = matches!(path.file_name().and_then(OsStr::to_str), Some("lib.rs" | "main.rs" | "mod.rs"));
    let directory = if is_root { path.with_file_name("") } else { path.with_extension("") };
    let mut modules = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if !is_for_tests(line) {
            continue;
        }
        let item = lines.next().and_then(|item| item.strip_suffix(';'));
        if let Some((_, name)) = item.and_then(|item| item.rsplit_once("mod ")) {
            modules.push(directory.join(name));
        }
    }
    modules
}

fn is_for_tests(attribute: &str) -> bool {
    attribute.starts_with("#[cfg(test)]") || attribute.starts_with("#[cfg(all(test,")
}

/// The lines of a source that name a kind as text, outside of comments and of what is there for tests.
fn named_as_text<'t>(text: &'t str, kinds: &BTreeSet<&str>) -> Vec<(usize, &'t str)> {
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let code = line.trim_start();
        if is_for_tests(code) {
            let indent = line.len() - code.len();
            // What rustfmt writes ends at the place where it begins.
            let _ = lines.by_ref().find(|(line, _)| ends_item(line, indent));
        } else if !code.starts_with("//") {
            found.extend(code.split('"').filter(|word| kinds.contains(word)).map(|kind| (number, kind)));
        }
    }
    found
}

/// Whether a line is the last one of an item that begins at that place.
fn ends_item(line: &str, indent: usize) -> bool {
    let code = line.trim_start();
    let is_outside = code.is_empty() || line.len() - code.len() != indent;
    !is_outside && !code.starts_with(['#', '/']) && code.ends_with([';', '}', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 2] = ["run.started", "user.message"];

    fn lines(text: &str) -> Vec<usize> {
        named_as_text(text, &KINDS.into()).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn the_table_is_read() {
        let table = "kinds! {\nbodies {\n    \"run.started\"  RunStarted  Runtime NotAsked;\n}\nothers {\n    \"user.message\" \
                     UserMessage Anyone MayRefuse;\n}\n}\n";
        assert_eq!(kinds(table), KINDS.into());
    }

    #[test]
    fn a_kind_as_text_is_found_wherever_it_is_code() {
        assert_eq!(lines("match kind {\n    \"run.started\" => 1,\n}\n"), [2]);
        assert_eq!(lines("f(\"run.started\", \"user.message\");"), [1, 1]);
        assert_eq!(lines("let json = r#\"{\"kind\":\"user.message\"}\"#;"), [1]);
    }

    #[test]
    fn other_text_comments_and_tests_are_left_alone() {
        assert!(lines("f(\"run.started.now\"); // `run.started`\n/// \"run.started\"\n").is_empty());
        assert!(lines("#[cfg(test)]\nmod tests {\n    f(\"run.started\");\n}\n").is_empty());
        assert!(lines("#[cfg(test)]\n#[path = \"x\"]\nfn f() {\n    g(\"run.started\");\n}\n").is_empty());
        assert!(lines("#[cfg(test)]\nconst X: [&str; 1] = [\n    \"run.started\",\n];\n").is_empty());
    }

    #[test]
    fn what_comes_after_a_test_is_code_again() {
        let text = "#[cfg(test)]\nuse a::b;\nf(\"run.started\");\nimpl X {\n    #[cfg(test)]\n    fn t() {\n        f(\"user.message\");\n    \
                    }\n    fn u() {\n        f(\"user.message\");\n    }\n}\n";
        assert_eq!(lines(text), [3, 10]);
    }

    #[test]
    fn modules_for_tests_are_found_where_they_are() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(all(test, target_os = \"linux\"))]\npub(crate) mod kit;\n";
        let found = |path: &str| test_modules(Path::new(path), text);
        assert_eq!(found("x/src/lib.rs"), [PathBuf::from("x/src/tests"), PathBuf::from("x/src/kit")]);
        assert_eq!(found("x/src/b.rs"), [PathBuf::from("x/src/b/tests"), PathBuf::from("x/src/b/kit")]);
    }
}

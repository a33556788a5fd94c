//! Checks on the pages that people read: the README stays short, links lead somewhere, and every test that
//! `docs/guarantees.md` names exists.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

const README_LINES_MAX: usize = 120;
const README_COLUMNS_MAX: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_is_short_and_narrow() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= README_LINES_MAX, "README.md has more than {README_LINES_MAX} lines");
    for (number, line) in readme.lines().enumerate() {
        let columns = line.chars().count();
        assert!(columns <= README_COLUMNS_MAX, "README.md:{}: {columns} columns", number + 1);
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for folder in ["docs", "docs/adr"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    let mut broken = Vec::new();
    for page in pages {
        let text = read(&page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_elsewhere = target.contains("://") || target.starts_with('#') || target.contains(' ');
            let file = target.split('#').next().unwrap_or_default();
            let folder = Path::new(&page).parent().unwrap();
            if !is_elsewhere && !root().join(folder).join(file).exists() {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// A test is named as `` `path/to/file.rs::name` ``.
#[test]
fn every_test_that_shows_a_guarantee_exists() {
    let page = read("docs/guarantees.md");
    let mut files: HashMap<String, String> = HashMap::new();
    let mut named = 0;
    let mut missing = Vec::new();
    for code in page.split('`').skip(1).step_by(2) {
        let Some((path, name)) = code.split_once(".rs::") else { continue };
        let path = format!("{path}.rs");
        let text = files.entry(path.clone()).or_insert_with(|| {
            std::fs::read_to_string(root().join("crates").join(&path)).unwrap_or_default()
        });
        named += 1;
        if !text.contains(&format!("fn {name}(")) {
            missing.push(code.to_owned());
        }
    }
    assert!(named > 30, "docs/guarantees.md names only {named} tests");
    assert!(missing.is_empty(), "tests that are named and do not exist:\n{}", missing.join("\n"));
}

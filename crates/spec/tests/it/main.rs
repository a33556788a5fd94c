//! The files of a project, through the public API.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod broken;
mod defaults;
mod hostile;
mod properties;
mod script;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;

use weir_spec::Reading;
use weir_types::Catalog;

/// A project of one file.
fn read_one(path: &str, content: impl Into<Vec<u8>>) -> Reading {
    weir_spec::read(&[(path.to_owned(), content.into())].into(), &catalog())
}

/// A small catalog: two priced models of one name, of which one is in the EU, and one that nobody knows anything about.
fn catalog() -> Catalog {
    const MODELS: &str = r#"{
        "acme/fast": {"wire": "openai-chat", "context_window": 8000, "output_max": 1000,
                      "price": {"input": "0.10", "output": "0.40"}, "regions": ["eu"]},
        "acme/smart": {"wire": "anthropic", "context_window": 200000, "output_max": 64000},
        "other/fast": {"wire": "gemini", "context_window": 1000000, "output_max": 64000,
                       "price": {"input": "0.20", "output": "0.80"}, "regions": ["us"]}
    }"#;
    Catalog::parse(MODELS).unwrap()
}

/// The files of a project in `tests/whole`, which uses every field of every file.
fn whole() -> BTreeMap<String, Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/whole");
    let mut files = BTreeMap::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
            files.insert(name, std::fs::read(path).unwrap());
        }
    }
    files
}

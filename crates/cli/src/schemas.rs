//! JSON Schemas of a project's files, where editors find them: `.weir/schema/`.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use weir_spec::{Document, schema};

/// The kinds of files that have a schema, by the names that people use for them.
pub(crate) const DOCUMENTS: [(&str, Document); 5] = [
    ("project", Document::Project),
    ("agent", Document::Agent),
    ("loop", Document::Loop),
    ("script", Document::Script),
    ("tests", Document::Tests),
];

/// What TypeScript tools have, as declarations.
pub(crate) const TYPES: &str = include_str!("../templates/weir.d.ts");

/// A schema, as it is printed and written.
pub(crate) fn text(document: Document) -> String {
    // A value of ours always has a text.
    serde_json::to_string_pretty(&schema(document)).unwrap_or_default() + "\n"
}

/// Writes those that are not there yet, or are another version's. Blocks.
pub(crate) fn write(data_dir: &Path) -> io::Result<()> {
    let directory = data_dir.join("schema");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let schemas = DOCUMENTS.map(|(name, document)| (format!("{name}.json"), text(document)));
    for (name, text) in schemas.into_iter().chain([("weir.d.ts".to_owned(), TYPES.to_owned())]) {
        let path = directory.join(name);
        if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            std::fs::write(path, text)?;
        }
    }
    Ok(())
}

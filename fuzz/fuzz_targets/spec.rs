//! Any bytes are a project that reads, or problems with places in its files; never a panic.
//!
//! An input is a project in the form of the broken ones in `crates/spec/tests/broken`: files after lines `=== PATH`.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use weir_spec::{Diagnostic, Lock, find_secrets, mask};
use weir_types::Catalog;

fuzz_target!(|input: &[u8]| {
    let files = project(input);
    let reading = weir_spec::read(&files, &Catalog::default());
    check(&files, &reading.diagnostics);
    for (path, content) in &files {
        let locked = Lock::read(path, content);
        check(&files, &locked.diagnostics);
        let text = locked.lock.to_text().expect("what was read is not too deep to be written");
        assert_eq!(Lock::read(path, text.as_bytes()).lock, locked.lock);
        assert_eq!(mask(content, []).len(), content.len());
        find_secrets(&String::from_utf8_lossy(content));
    }
});

/// The files of a project. What stands before the first line with a path is an agent.
fn project(input: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut path = "agents/a/spec.yaml".to_owned();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"=== ") {
            Some(rest) => path = String::from_utf8_lossy(rest).trim_end().to_owned(),
            None => files.entry(path.clone()).or_default().extend(line),
        }
    }
    files
}

/// Every place is a place of its file.
fn check(files: &BTreeMap<String, Vec<u8>>, problems: &[Diagnostic]) {
    for problem in problems {
        let related = problem.related.iter().map(|related| (&related.file, related.span));
        for (file, span) in related.chain([(&problem.file, problem.span)]) {
            let content = files.get(file).map(Vec::as_slice).unwrap_or_default();
            assert!(span.start <= span.end && span.end <= content.len(), "{problem:?}");
            if let Ok(text) = std::str::from_utf8(content) {
                assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{problem:?}");
            }
        }
        assert!(!problem.message.is_empty() && !problem.help.is_empty(), "{problem:?}");
    }
}

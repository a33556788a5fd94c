//! Bytes nobody would write on purpose, and bytes somebody would.

use weir_spec::{FILE_BYTES_MAX, Lock};

use crate::read_one;

const FILE: &str = "agents/a/spec.yaml";

fn problem(bytes: &[u8]) -> String {
    let problems = read_one(FILE, bytes).diagnostics;
    let first = &problems[0];
    format!(
        "{} problem(s), {}:{} {}: {}",
        problems.len(),
        first.span.line,
        first.span.column,
        first.code,
        first.message
    )
}

#[test]
fn bytes_that_are_no_text() {
    insta::assert_snapshot!(problem(b"name: a\0b"), @"1 problem(s), 1:8 spec::not-text: control character U+0000 in a text file");
    insta::assert_snapshot!(problem("name: a\n\u{feff}model: b".as_bytes()), @"1 problem(s), 2:1 spec::syntax: a byte order mark must not appear inside a document");
    insta::assert_snapshot!(problem(&vec![b' '; FILE_BYTES_MAX + 1]), @"1 problem(s), 1:1 spec::too-large: the file has 1048577 bytes; 1048576 are the most");
}

#[test]
fn deep_nesting_ends_early() {
    insta::assert_snapshot!(problem("[".repeat(FILE_BYTES_MAX).as_bytes()), @"1 problem(s), 1:256 spec::syntax: lists and mappings are nested too deep");
    insta::assert_snapshot!(problem("{a: ".repeat(200).as_bytes()), @"1 problem(s), 1:257 spec::syntax: lists and mappings are nested more than 64 deep");
    insta::assert_snapshot!(problem("- ".repeat(FILE_BYTES_MAX / 2).as_bytes()), @"1 problem(s), 1:129 spec::syntax: lists and mappings are nested more than 64 deep");
    insta::assert_snapshot!(problem("? ".repeat(FILE_BYTES_MAX / 2).as_bytes()), @"1 problem(s), 1:129 spec::syntax: lists and mappings are nested more than 64 deep");
    // Each alias alone is shallow.
    let nested =
        |name: &str, inner: &str| format!("{name}: &{name} {}{inner}{}\n", "[".repeat(40), "]".repeat(40));
    insta::assert_snapshot!(problem((nested("a", "") + &nested("b", "*a")).as_bytes()), @"1 problem(s), 2:47 spec::syntax: lists and mappings are nested more than 64 deep");
}

#[test]
fn aliases_cannot_unfold_into_text_without_end() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1_000].join(", "));
    insta::assert_snapshot!(problem(text.as_bytes()), @"1 problem(s), 2:81 spec::too-large: the document unfolds into more than 100000 values or 4 MiB of text");
}

#[test]
fn a_lock_cannot_unfold_at_all() {
    let problems = Lock::read("weir.lock", b"version: &one 1\nskills: *one\n").diagnostics;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].to_string(), "weir.lock:2:9: an alias has no meaning here");
    assert!(problems[0].help.contains("weir lock --update"), "{}", problems[0].help);
    let many = format!("{{\"version\": 1, \"skills\": [{}1]}}", "1,".repeat(1_000_000));
    let problems = Lock::read("weir.lock", many.as_bytes()).diagnostics;
    assert_eq!(problems[0].code, "spec::too-large");
}

#[test]
fn many_problems_are_not_all_told() {
    let yaml: String = (0..20_000).map(|n| format!("k{n}: 1\n")).collect();
    insta::assert_snapshot!(problem(yaml.as_bytes()), @"101 problem(s), 1:1 spec::unknown-key: an agent has no field `k0`");
    let last = read_one(FILE, yaml).diagnostics.pop().unwrap();
    assert_eq!(last.to_string(), "agents/a/spec.yaml:100:1: 19902 more problems are not shown");
}

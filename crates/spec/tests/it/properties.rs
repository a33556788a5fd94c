//! No bytes make the readers panic, and every place they name is a place of the file.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;
use weir_spec::lock::Pin;
use weir_spec::{Diagnostic, Lock, Manifest, canonical, find_secrets, mask};
use weir_types::{Hash, Json};

use crate::{catalog, whole};

/// One file of each kind.
const KINDS: &[&str] = &[
    "agents/a/SOUL.md",
    "agents/a/spec.yaml",
    "loops/a.yaml",
    "models/a.yaml",
    "policies/a.cedar",
    "tests/a.yaml",
    "weir.yaml",
];

/// Pieces that YAML gives a meaning to.
const PIECES: &[&str] = &[
    ": ",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "#",
    "&a ",
    "*a",
    "!",
    "!!str ",
    "!<",
    "|",
    ">",
    "|2-",
    "'",
    "\"",
    "\\",
    "%",
    "%YAML 1.2",
    "%TAG ! x",
    "---",
    "...",
    "@",
    "`",
    "<<",
    "~",
    "\u{feff}",
    "é",
    "\u{85}",
    "\u{2028}",
    "0",
    "{{1}}",
    "name",
    "x",
];

/// Reads bytes as whatever they may be, and checks what is said about them.
fn read_all(bytes: &[u8]) {
    for kind in KINDS {
        check(&BTreeMap::from([((*kind).to_owned(), bytes.to_vec())]));
    }
    check_places(
        &BTreeMap::from([("weir.lock".to_owned(), bytes.to_vec())]),
        &Lock::read("weir.lock", bytes).diagnostics,
    );
    check_manifest(bytes);
    assert_eq!(mask(bytes, []).len(), bytes.len());
    find_secrets(&String::from_utf8_lossy(bytes));
}

/// What reads as a manifest can be written, and is then the same.
fn check_manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::from_bytes(bytes) {
        let once = manifest.to_bytes().unwrap();
        assert_eq!(Manifest::from_bytes(&once).unwrap().to_bytes().unwrap(), once);
    }
}

fn check(files: &BTreeMap<String, Vec<u8>>) {
    let reading = weir_spec::read(files, &catalog());
    check_places(files, &reading.diagnostics);
    assert_eq!(weir_spec::read(files, &catalog()), reading);
}

fn check_places(files: &BTreeMap<String, Vec<u8>>, problems: &[Diagnostic]) {
    for problem in problems {
        let related = problem.related.iter().map(|related| (&related.file, related.span));
        for (file, span) in related.chain([(&problem.file, problem.span)]) {
            let bytes = files.get(file).map(Vec::as_slice).unwrap_or_default();
            assert!(span.start <= span.end && span.end <= bytes.len(), "{problem:?}");
            assert!(span.line >= 1 && span.column >= 1, "{problem:?}");
            if let Ok(text) = std::str::from_utf8(bytes) {
                assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{problem:?}");
            }
        }
        assert!(!problem.message.is_empty() && !problem.help.is_empty(), "{problem:?}");
        assert!(!problem.message.contains('\n') && !problem.help.contains('\n'), "{problem:?}");
    }
}

/// A whole project, with a few pieces put in, taken out or cut off in one of its files.
fn mutated() -> impl Strategy<Value = (BTreeMap<String, Vec<u8>>, String)> {
    let edit = (any::<prop::sample::Index>(), 0_usize..4, prop::sample::select(PIECES));
    let files = whole();
    let names: Vec<String> = files.keys().cloned().collect();
    (prop::sample::select(names), prop::collection::vec(edit, 1..6)).prop_map(move |(name, edits)| {
        let mut files = files.clone();
        if let Some(bytes) = files.get_mut(&name) {
            for (at, removed, piece) in edits {
                let start = at.index(bytes.len() + 1);
                let end = (start + removed).min(bytes.len());
                bytes.splice(start..end, piece.bytes());
            }
        }
        (files, name)
    })
}

/// A manifest with a few bytes changed.
fn mutated_manifest() -> impl Strategy<Value = Vec<u8>> {
    let text = include_str!("../../src/manifest/snapshots/weir_spec__manifest__tests__the_format_stays.snap");
    let manifest = text.lines().last().unwrap_or_default().as_bytes().to_vec();
    let edit = (
        any::<prop::sample::Index>(),
        0_usize..3,
        prop::sample::select(&["", "0", "{", "\"", "null", ","][..]),
    );
    prop::collection::vec(edit, 0..3).prop_map(move |edits| {
        let mut bytes = manifest.clone();
        for (at, removed, piece) in edits {
            let start = at.index(bytes.len() + 1);
            let end = (start + removed).min(bytes.len());
            bytes.splice(start..end, piece.bytes());
        }
        bytes
    })
}

/// Any JSON object, with every kind of character and number.
fn definition() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(PIECES).prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map(any::<String>(), value, 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn pieces_of_yaml_never_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        read_all(pieces.concat().as_bytes());
    }

    #[test]
    fn mutated_projects_never_panic((files, name) in mutated()) {
        check(&files);
        let reading = Lock::read("weir.lock", &files["weir.lock"]);
        check_places(&files, &reading.diagnostics);
        // What is read can be written and read again.
        let text = reading.lock.to_text().unwrap();
        prop_assert_eq!(Lock::read("weir.lock", text.as_bytes()).lock, reading.lock, "{}", name);
    }

    #[test]
    fn every_definition_survives_the_lock(definition in definition(), server in any::<String>()) {
        let definition = canonical::json(&Json::of(&definition));
        let pin = Pin { hash: Hash::of(definition.as_str().as_bytes()), definition };
        let lock = Lock {
            skills: BTreeMap::from([(server.clone(), pin.hash)]),
            mcp: BTreeMap::from([(server.clone(), BTreeMap::from([(server, pin)]))]),
        };
        let reading = Lock::read("weir.lock", lock.to_text().unwrap().as_bytes());
        prop_assert_eq!(reading.diagnostics, vec![]);
        prop_assert_eq!(reading.lock, lock);
    }

    #[test]
    fn mutated_manifests_are_read_or_refused(bytes in mutated_manifest()) {
        check_manifest(&bytes);
    }
}

#[test]
fn the_manifest_that_is_mutated_is_one() {
    let text = include_str!("../../src/manifest/snapshots/weir_spec__manifest__tests__the_format_stays.snap");
    Manifest::from_bytes(text.lines().last().unwrap().as_bytes()).unwrap();
}

//! The check can fail: each way to break the map, and the map as it is meant.

use super::*;

/// `from → to` is a dependency, `from ⇢ to` one for tests, `from ⇒ to` a package somewhere below.
fn problems(edges: &[&str]) -> Vec<String> {
    let mut graph = Graph::default();
    for edge in edges {
        let words: Vec<&str> = edge.split(' ').collect();
        let [from, arrow, to] = words[..] else { panic!("`{edge}` is not an edge") };
        match arrow {
            "→" | "⇢" => {
                let kind = if arrow == "→" { Kind::Normal } else { Kind::Dev };
                graph.crates.entry(from.into()).or_default().insert((to.into(), kind));
                graph.crates.entry(to.into()).or_default();
            }
            _ => drop(graph.compiled.entry(from.into()).or_default().insert(to.into())),
        }
    }
    check(&graph).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check_one(edges: &[&str], expected: &str) {
    assert_eq!(problems(edges), [expected]);
}

#[test]
fn the_map_as_it_is_meant() {
    let all_down = [
        "blobs → types",
        "journal → types",
        "journal → blobs",
        "journal ⇢ journal",
        "journal-sqlite → journal",
        "journal-sqlite ⇢ powercut",
        "events → types",
        "kernel → events",
        "kernel → types",
        "tools → journal",
        "observe ⇢ journal-sqlite",
        "engine → kernel",
        "engine → tools",
        "engine ⇢ journal-sqlite",
        "compiler → spec",
        "server → engine",
        "server → compiler",
        "cli → server",
        "cli → journal-sqlite",
        "cli → journal-postgres",
        "cli → types",
        "journal ⇒ tokio",
        "types ⇒ serde",
        "kernel ⇒ types",
    ];
    assert_eq!(problems(&all_down), [""; 0]);
}

#[test]
fn the_vocabulary_uses_the_types_and_they_do_not_use_it() {
    check_one(
        &["types → events"],
        "`types` → `events` (dependency): crates of one layer are unaware of one another",
    );
    check_one(&["events → support"], "`events` → `support` (dependency): dependencies point down, never up");
}

#[test]
fn up_is_refused() {
    check_one(&["types → journal"], "`types` → `journal` (dependency): dependencies point down, never up");
    check_one(
        &["journal → journal-sqlite"],
        "`journal` → `journal-sqlite` (dependency): dependencies point down, never up",
    );
    check_one(&["kernel → engine"], "`kernel` → `engine` (dependency): dependencies point down, never up");
    check_one(
        &["blobs → journal"],
        "`blobs` → `journal` (dependency): crates of one layer are unaware of one another",
    );
}

#[test]
fn sideways_is_refused_in_tests_too() {
    check_one(
        &["tools → policy"],
        "`tools` → `policy` (dependency): crates of one layer are unaware of one another",
    );
    check_one(
        &["tools ⇢ workspace"],
        "`tools` → `workspace` (dev-dependency): crates of one layer are unaware of one another",
    );
    check_one(
        &["engine → compiler"],
        "`engine` → `compiler` (dependency): crates of one layer are unaware of one another",
    );
}

#[test]
fn an_adapter_is_named_by_cli_alone() {
    for from in ["server", "engine", "knowledge"] {
        check_one(
            &[&format!("{from} → journal-sqlite")],
            &format!("`{from}` → `journal-sqlite` (dependency): only `cli` names adapters"),
        );
    }
    check_one(
        &["journal-postgres → journal-sqlite"],
        "`journal-postgres` → `journal-sqlite` (dependency): only `cli` names adapters",
    );
}

#[test]
fn the_test_only_crate_and_the_tools_stay_outside() {
    check_one(
        &["journal-sqlite → powercut"],
        "`journal-sqlite` → `powercut` (dependency): a test-only crate is for dev-dependencies",
    );
    check_one(&["cli ⇢ xtask"], "`cli` → `xtask` (dev-dependency): the tools are not part of the product");
    check_one(
        &["xtask ⇢ powercut"],
        "`xtask` → `powercut` (dev-dependency): the tools build before everything else and use none of it",
    );
}

#[test]
fn a_crate_that_is_not_on_the_map_is_told_where_to_go() {
    check_one(&["cli → helpers"], "`helpers` is not on the map: give it a layer in MAP, xtask/src/layers.rs");
}

#[test]
fn a_pure_crate_compiles_no_runtime_however_far_down() {
    check_one(
        &["types ⇒ ids", "ids ⇒ clock", "clock ⇒ tokio", "clock ⇒ ids"],
        "`types` does no I/O, yet compiles ids → clock → tokio",
    );
    check_one(&["spec ⇒ reqwest", "models ⇒ reqwest"], "`spec` does no I/O, yet compiles reqwest");
}

#[test]
fn cargo_metadata_is_read() {
    let metadata = br#"{
        "packages": [
            {"id": "a#1", "name": "weir-types", "dependencies": [{"name": "serde", "kind": null}]},
            {"id": "b#1", "name": "weir-blobs", "dependencies": [
                {"name": "weir-types", "kind": null}, {"name": "weir-powercut", "kind": "dev"}, {"name": "cc", "kind": "build"}]},
            {"id": "c#1", "name": "weir-powercut", "dependencies": []},
            {"id": "d#1", "name": "weir-thing-of-others", "dependencies": []}
        ],
        "workspace_members": ["a#1", "b#1", "c#1"],
        "resolve": {"nodes": [
            {"id": "a#1", "deps": [{"pkg": "d#1", "dep_kinds": [{"kind": null}]}]},
            {"id": "b#1", "deps": [{"pkg": "a#1", "dep_kinds": [{"kind": "dev"}, {"kind": "build"}]}, {"pkg": "c#1", "dep_kinds": [{"kind": "dev"}]}]}
        ]}
    }"#;
    let edges = |edges: &[(&str, Kind)]| edges.iter().map(|&(to, kind)| (to.to_owned(), kind)).collect();
    let expected = Graph {
        crates: [
            ("blobs".to_owned(), edges(&[("types", Kind::Normal), ("powercut", Kind::Dev)])),
            ("powercut".to_owned(), edges(&[])),
            ("types".to_owned(), edges(&[])),
        ]
        .into(),
        compiled: [
            ("blobs".to_owned(), ["types".to_owned()].into()),
            ("types".to_owned(), ["weir-thing-of-others".to_owned()].into()),
        ]
        .into(),
    };
    assert_eq!(Graph::parse(metadata).unwrap(), expected);
}

//! `weir export` and `weir import`.

use insta::assert_snapshot;

use crate::weir::Weir;

/// Notes with a key, a binary payload and a payload that lives in the blob store.
fn rich() -> Weir {
    let weir = Weir::with_notes();
    weir.ok(&["append", "--stream", "notes", "--kind", "note.added", "--key", "k", "--payload", "4"]);
    weir.run_with(&["append", "--stream", "raw", "--kind", "a.b", "--payload", "-"], &[0xff; 9]);
    weir.run_with(&["append", "--stream", "raw", "--kind", "a.b", "--payload", "-"], &vec![b'x'; 100_000]);
    weir
}

#[test]
fn an_import_of_an_export_is_identical() {
    let (from, to) = (rich(), Weir::new());
    let exported = from.ok(&["export"]);
    let file = to.path().join("export.jsonl");
    std::fs::write(&file, &exported).unwrap();
    assert_snapshot!(to.show(&["import", "export.jsonl"]), @"
    exit 0
    -- stdout
    imported 7 events, 1 fork and 0 blobs
    ");
    assert_eq!(to.ok(&["export"]), exported);
    assert_eq!(to.ok(&["verify", "--print-anchor"]), from.ok(&["verify", "--print-anchor"]));
    let again =
        to.json(&["append", "--stream", "notes", "--kind", "note.added", "--key", "k", "--payload", "4"]);
    assert_eq!(again["replayed"], true);

    assert_snapshot!(to.show(&["import", "export.jsonl"]), @"
    exit 0
    -- stdout
    imported 0 events, 0 forks and 0 blobs; 7 events already there
    ");
    assert_snapshot!(to.show(&["import", "export.jsonl", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"events":0,"skipped":7,"forks":0,"blobs":0,"dropped_tail":null,"left_out":0}
    "#);
    assert_eq!(to.ok(&["export"]), exported);
}

#[test]
fn one_stream_goes_through_a_pipe() {
    let (from, to) = (rich(), Weir::new());
    let exported = from.ok(&["export", "--stream", "notes"]);
    assert_eq!(to.run_with(&["import", "-"], exported.as_bytes()).code, 0);
    assert_eq!(
        to.ok(&["cat", "--stream", "notes", "--branch", "draft"]),
        from.ok(&["cat", "--stream", "notes", "--branch", "draft"])
    );
    assert_eq!(to.error(&["count", "--stream", "raw"]), (1, "journal::no-stream".to_owned()));
    assert_eq!(from.error(&["export", "--stream", "nowhere"]), (1, "journal::no-stream".to_owned()));
}

#[test]
fn an_export_to_a_file_is_the_same_and_replaces_what_was_there() {
    let weir = rich();
    std::fs::write(weir.path().join("out"), "old").unwrap();
    assert_snapshot!(weir.show(&["export", "--output", "out"]), @"
    exit 0
    -- stdout
    wrote 7 events, 1 fork and 0 blobs to `out`
    ");
    assert_snapshot!(weir.show(&["export", "--output", "out", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"events":7,"forks":1,"blobs":0,"output":"out","left_out":{"streams":0,"events":0}}
    "#);
    assert_eq!(std::fs::read_to_string(weir.path().join("out")).unwrap(), weir.ok(&["export"]));
    assert_snapshot!(weir.show(&["export", "--output", "nowhere/out"]), @"
    exit 1
    -- stderr
    error: cannot write `nowhere/out`
      caused by: No such file or directory (os error 2)
    help: check free space and permissions there; no partial file was left behind
    ");
    let left: Vec<_> =
        std::fs::read_dir(weir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "temporary files were left: {left:?}");
}

#[test]
fn a_file_that_was_cut_imports_its_whole_lines() {
    let from = Weir::with_notes();
    let exported = from.ok(&["export"]);
    let lines = exported.lines().count();
    for (missing, whole) in
        [(1, lines), (10, lines - 1), (exported.lines().last().unwrap().len() + 5, lines - 2)]
    {
        let to = Weir::new();
        let cut = &exported.as_bytes()[..exported.len() - missing];
        let ran = to.run_with(&["import", "-", "--json"], cut);
        assert_eq!(ran.code, 0, "{ran}");
        let again = to.ok(&["export"]);
        assert_eq!(again, exported.lines().take(whole).fold(String::new(), |text, line| text + line + "\n"));
        // The next append starts a line of its own, whatever was at the end of the file.
        to.ok(&["append", "--stream", "notes", "--kind", "note.added"]);
        to.ok(&["verify"]);
    }
    let to = Weir::new();
    let cut = exported.len() - 10;
    let ran = to.run_with(&["import", "-"], &exported.as_bytes()[..cut]);
    let half_line = cut - exported.trim_end().rfind('\n').unwrap() - 1;
    assert_snapshot!(ran.to_string().replace(&half_line.to_string(), "[half a line]"), @"
    exit 0
    -- stdout
    imported 3 events, 1 fork and 0 blobs
    -- stderr
    warning: the end of the export is cut: its last [half a line] bytes were dropped; import the whole file to get the rest
    ");
}

#[test]
fn what_is_no_export_or_was_altered_is_refused() {
    let from = Weir::with_notes();
    let exported = from.ok(&["export"]);
    let import = |content: &[u8]| {
        let weir = Weir::new();
        weir.mask(&weir.run_with(&["import", "-"], content).to_string())
    };
    assert_snapshot!(import(b"hello\n"), @r#"
    exit 2
    -- stderr
    error: this is not an export: its first line is not {"weir_export":1}
    help: pass a file that `weir export` wrote
    "#);
    assert_snapshot!(import(&exported.replace("{\"n\":2}", "{\"n\":7}").into_bytes()), @"
    exit 1
    -- stderr
    error: line 3 of the export was altered: event 2 of notes@main: its payload does not match its hash
    help: make the file again with `weir export`; what is before that line is imported
    ");
    assert_snapshot!(import(&exported.replace("{\"weir_export\":1}", "{\"weir_export\":9}").into_bytes()), @"
    exit 2
    -- stderr
    error: line 1 of the export is wrong
      caused by: the export has format 9; this version reads formats up to 1
    help: import it with the version of weir that wrote it, or a newer one
    ");
    let other = Weir::with_notes();
    let ran = other.run_with(&["import", "-"], exported.as_bytes());
    assert_snapshot!(other.mask(&ran.to_string()), @"
    exit 1
    -- stderr
    error: line 2 of the export: event 1 of notes@main already exists here and is another one
    help: import into another data directory with `--data-dir DIR`: the two have gone different ways
    ");
    let weir = Weir::new();
    assert_eq!(weir.run_with(&["import", "-"], b"hello\n").code, 2);
    assert_snapshot!(weir.show(&["import", "nowhere"]), @"
    exit 2
    -- stderr
    error: cannot read `nowhere`
      caused by: No such file or directory (os error 2)
    help: check the path and its permissions; `-` reads standard input
    ");
    assert!(!weir.data().exists(), "a refused import made a data directory");
}

/// A journal in which the runtime has written, too: tokens, and what a chat leaves.
fn with_runtime_streams() -> Weir {
    let weir = Weir::with_notes();
    weir.ok(&["token", "issue", "--principal", "user:eve", "--groups", "group:admin"]);
    weir
}

/// The export that everybody makes is one that everybody can import, and it says what it lacks.
#[test]
fn a_full_export_is_imported_without_a_word_about_the_runtime() {
    let (from, to) = (with_runtime_streams(), Weir::new());
    let file = to.path().join("export.jsonl").display().to_string();
    assert_snapshot!(to.mask(&from.run(&["export", "--output", &file]).to_string().replace(&file, "FILE")), @"
    exit 0
    -- stdout
    wrote 4 events, 1 fork and 0 blobs to `FILE`
    -- stderr
    note: left out 1 stream of the runtime itself (1 event); `--all` exports it too, for `weir import --as-restore`
    ");
    assert_snapshot!(to.show(&["import", "export.jsonl"]), @"
    exit 0
    -- stdout
    imported 4 events, 1 fork and 0 blobs
    ");
    assert_eq!(to.ok(&["export"]), from.ok(&["export"]));
    assert_eq!(to.ok(&["token", "list", "--json"]), Weir::with_notes().ok(&["token", "list", "--json"]));
    let written = from.json(&["export", "--output", &file]);
    assert_eq!(written["left_out"], serde_json::json!({"streams": 1, "events": 1}));
    let written = from.json(&["export", "--all", "--output", &file]);
    assert_eq!(written["left_out"], serde_json::json!({"streams": 0, "events": 0}));
    assert_eq!(from.run(&["export", "--all", "--stream", "notes"]).code, 2);
}

/// An export with tokens would make its author an admin here: it is refused as a whole, imported without them, and only one's own
/// is restored.
#[test]
fn an_export_with_tokens_is_refused_left_out_or_restored_into_an_empty_directory() {
    let from = with_runtime_streams();
    let exported = from.ok(&["export", "--all"]);
    let to = Weir::new();
    let file = to.path().join("export.jsonl");
    std::fs::write(&file, &exported).unwrap();
    let refused = "
    exit 3
    -- stderr
    error: line 7 of the export is of stream `engine:tokens`, which only the runtime of this data directory writes
    help: nothing was imported: tokens, deployments, budgets and agents' memory do not travel. Import the rest with `weir import --without-runtime-streams FILE`; if the export is your own backup, restore all of it with `weir import --as-restore --data-dir NEW_DIR FILE`
    ";
    let dedented: String = refused.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
    for shown in [to.run(&["import", "export.jsonl"]), to.run_with(&["import", "-"], exported.as_bytes())] {
        assert_eq!(shown.to_string().trim(), dedented.trim());
        assert!(!to.data().exists(), "a refused import wrote something");
    }
    let both = ["import", "export.jsonl", "--as-restore", "--without-runtime-streams"];
    assert_eq!(to.run(&both).code, 2);
    let without = Weir::new();
    let ran = without.run_with(&["import", "-", "--without-runtime-streams"], exported.as_bytes());
    assert_snapshot!(ran, @"
    exit 0
    -- stdout
    imported 4 events, 1 fork and 0 blobs
    -- stderr
    note: left out 1 event of streams of the runtime itself
    ");
    assert_eq!(without.ok(&["export", "--all"]), from.ok(&["export"]));
    let again =
        without.run_with(&["import", "-", "--without-runtime-streams", "--json"], exported.as_bytes());
    assert_snapshot!(again, @r#"
    exit 0
    -- stdout
    {"version":1,"events":0,"skipped":4,"forks":0,"blobs":0,"dropped_tail":null,"left_out":1}
    "#);
    to.ok(&["import", "export.jsonl", "--as-restore"]);
    assert_eq!(to.ok(&["export", "--all"]), exported);
    assert_eq!(to.ok(&["token", "list"]), from.ok(&["token", "list"]));
    assert_eq!(
        to.error(&["import", "export.jsonl", "--as-restore"]),
        (1, "journal::restore-not-empty".to_owned())
    );
}

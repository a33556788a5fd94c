//! The tools that come with the program, over a session in memory.

use serde_json::json;
use weir_tools::{Asked, Builtin, Live, Trace};
use weir_types::{Hash, Json, Verdict};

use crate::grants::Grants;
use crate::support::{Session, builtin};

#[test]
fn every_definition_can_be_sent_to_every_provider() {
    for tool in Builtin::ALL {
        let definition = tool.definition();
        let name = &definition.name;
        assert!((1..=64).contains(&name.len()), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
        assert_eq!(Builtin::named(name), Some(tool));
        let schema = definition.schema.to_value();
        assert_eq!(schema["type"], "object", "{name}");
        // Providers refuse a choice at the top.
        assert!(["oneOf", "anyOf", "allOf"].iter().all(|word| schema.get(word).is_none()), "{name}");
        assert!(jsonschema::validator_for(&schema).is_ok(), "{name}");
    }
}

/// `bash` and `http` are written elsewhere and checked there.
fn ours() -> impl Iterator<Item = Builtin> {
    Builtin::ALL.into_iter().filter(|tool| !matches!(tool, Builtin::Bash | Builtin::Http))
}

#[test]
fn every_schema_is_strict_and_described() {
    fn check(name: &str, schema: &serde_json::Value) {
        assert_eq!(schema["additionalProperties"], false, "{name}");
        for (argument, schema) in schema["properties"].as_object().unwrap() {
            let described = schema["description"].as_str().is_some_and(|words| words.len() > 10);
            assert!(described, "{name}.{argument}");
            if schema["items"]["type"] == "object" {
                check(name, &schema["items"]);
            }
        }
    }
    for tool in ours() {
        let definition = tool.definition();
        let words = definition.description.len();
        assert!((40..500).contains(&words), "{} {words}", definition.name);
        check(&definition.name, &definition.schema.to_value());
    }
}

#[test]
fn required_arguments_are_enforced_and_others_refused() {
    let session = Session::new();
    let admin = Grants { admins: ["user:ada".to_owned()].into(), ..Grants::default() };
    let toolbox = session.toolbox(admin, Live::Nothing, ours().map(builtin));
    let verdict = |tool: &str, input: &serde_json::Value| {
        let input = Json::of(input);
        let asked = Asked {
            call: weir_journal::mint_call(),
            tool,
            input: &input,
            session: weir_journal::mint_session(),
            depth: 0,
            agent: "a",
            principal: "user:ada",
            groups: &[],
            approved_by: None,
        };
        let decision = toolbox.authorize(&asked);
        (decision.verdict, decision.because)
    };
    for (tool, whole) in [
        ("fs_read", json!({"path": "a"})),
        ("fs_list", json!({})),
        ("fs_glob", json!({"pattern": "*"})),
        ("fs_search", json!({})),
        ("edit_write", json!({"path": "a", "content": ""})),
        ("edit_replace", json!({"path": "a", "old": "x", "new": ""})),
        ("edit_multi", json!({"path": "a", "edits": [{"old": "x", "new": ""}]})),
        ("memory_store", json!({"title": "a", "text": "b"})),
        ("memory_search", json!({"query": "a"})),
        ("memory_related", json!({"doc": "a"})),
        ("get_time", json!({})),
        ("result_read", json!({"result": "a"})),
    ] {
        assert_eq!(verdict(tool, &whole).0, Verdict::Allow, "{tool} {}", verdict(tool, &whole).1);
        for argument in whole.as_object().unwrap().keys() {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(argument);
            let (verdict, because) = verdict(tool, &less);
            assert_eq!(verdict, Verdict::Deny, "{tool} without {argument}");
            assert!(because.contains(&format!("\"{argument}\" is a required property")), "{because}");
        }
        let mut more = whole.clone();
        more["surprise"] = json!(1);
        assert!(verdict(tool, &more).1.contains("'surprise'"), "{tool}");
    }
}

#[tokio::test]
async fn files_are_read_listed_found_and_searched() {
    let session = Session::with(&[
        ("README.md", "# Lake\n\nA weir keeps the water.\n"),
        ("src/lib.rs", "pub mod gate;\n// the weir\n"),
        ("src/gate.rs", "pub fn open() {}\n"),
    ]);
    session.files.put("logo.png", &b"\x89PNG\r\n\x1a\n\0weir"[..]);
    for (tool, input, expected) in [
        ("fs_read", json!({"path": "./src/lib.rs"}), "1\tpub mod gate;\n2\t// the weir\n[all 2 lines]"),
        (
            "fs_read",
            json!({"path": "README.md", "offset": 2, "limit": 1}),
            "2\t\n[lines 2 to 2 of 3; read on with offset 3]",
        ),
        ("fs_read", json!({"path": "logo.png"}), "`logo.png` is not text: PNG image, 13 bytes"),
        (
            "fs_read",
            json!({"path": "lib.rs"}),
            "error (missing): there is no file `lib.rs`; did you mean `src/lib.rs`?",
        ),
        (
            "fs_read",
            json!({"path": "../x"}),
            "error (path): `../x` leads out of the workspace; only its own files can be reached",
        ),
        (
            "fs_list",
            json!({}),
            "src/ (2 files, 43 bytes)\nREADME.md (32 bytes)\nlogo.png (13 bytes)\n[3 entries]",
        ),
        ("fs_list", json!({"path": "src/"}), "src/gate.rs (17 bytes)\nsrc/lib.rs (26 bytes)\n[2 entries]"),
        ("fs_list", json!({"path": "README.md"}), "README.md (32 bytes)"),
        (
            "fs_list",
            json!({"path": "scr"}),
            "error (missing): there is no directory `scr`; fs_list and fs_glob show what there is",
        ),
        (
            "fs_list",
            json!({"recursive": true, "limit": 2}),
            "src/gate.rs (17 bytes)\nsrc/lib.rs (26 bytes)\n[the first 2 of 4; 2 more: narrow it down, or raise `limit`]",
        ),
        ("fs_glob", json!({"pattern": "*.rs"}), "src/gate.rs\nsrc/lib.rs\n[2 entries]"),
        ("fs_glob", json!({"pattern": "*.py"}), "[none of 4 files is called `*.py`]"),
        (
            "fs_search",
            json!({"text": "weir"}),
            "README.md:3: A weir keeps the water.\nsrc/lib.rs:2: // the weir\n[2 matches in 2 files; 1 binary file left out]",
        ),
        (
            "fs_search",
            json!({"pattern": r"^pub (mod|fn)", "glob": "src/**", "context": 1}),
            "src/gate.rs:1: pub fn open() {}\n--\nsrc/lib.rs:1: pub mod gate;\nsrc/lib.rs-2- // the weir\n[2 matches in 2 files]",
        ),
        (
            "fs_search",
            json!({"text": "WEIR", "ignore_case": true, "limit": 1}),
            "README.md:3: A weir keeps the water.\n[1 match in 1 file; stopped at `limit`: 1, with 3 files not searched; narrow it down with `glob` or a longer text]",
        ),
        ("fs_search", json!({"text": "flood"}), "[no match in 3 files; 1 binary file left out]"),
        ("fs_search", json!({"text": "x", "glob": "*.py"}), "[no file fits `glob`]"),
        ("fs_search", json!({}), "error (invalid): give either `text` or `pattern`, one of them"),
        (
            "fs_search",
            json!({"text": "a\nb"}),
            "error (invalid): `text` is looked for line by line and can have no line break; take one line of it",
        ),
    ] {
        assert_eq!(session.words(tool, input.clone()).await, expected, "{tool} {input}");
    }
    let words = session.words("fs_search", json!({"pattern": "(a"})).await;
    assert!(words.contains("unclosed group") && words.contains("give `text` instead"), "{words}");
    let words = session.words("fs_search", json!({"pattern": r"(\w{1000}){1000}"})).await;
    assert!(words.starts_with("error (invalid)"), "{words}");
    let empty = Session::new();
    assert_eq!(empty.words("fs_list", json!({})).await, "[there are no files yet; edit_write makes one]");
    assert_eq!(empty.words("fs_search", json!({"text": "x"})).await, "[there are no files yet]");
}

#[tokio::test]
async fn a_search_is_bounded_and_says_where_it_stopped() {
    let session = Session::new();
    let filler = "nothing to see\n".repeat(70_000);
    for n in 0..9 {
        session.files.put(&format!("{n}.txt"), format!("{filler}needle {n}\n"));
    }
    session.files.put("big.bin.txt", vec![b'x'; 8 * 1024 * 1024 + 1]);
    let words = session.words("fs_search", json!({"text": "needle"})).await;
    let expected: String = (0..9).map(|n| format!("{n}.txt:70001: needle {n}\n")).collect();
    assert_eq!(
        words,
        format!("{expected}[9 matches in 9 files; 1 file of more than 8388608 bytes left out]")
    );
    let words = session.words("fs_search", json!({"text": "nothing", "limit": 1000})).await;
    assert!(words.len() < 32 * 1024 && words.contains("stopped"), "{}", words.len());
}

#[tokio::test]
async fn files_are_written_and_edited() {
    let session = Session::with(&[("a.txt", "one\ntwo\nthree\n"), ("win.txt", "one\r\ntwo\r\n")]);
    session.files.put("latin.txt", &b"caf\xe9\n"[..]);
    for (tool, input, expected) in [
        (
            "edit_write",
            json!({"path": "new/b.txt", "content": "hello\n"}),
            "created `new/b.txt`: 1 line, 6 bytes",
        ),
        (
            "edit_write",
            json!({"path": "new/b.txt", "content": "hello\n"}),
            "`new/b.txt` already has exactly this content; nothing changed",
        ),
        (
            "edit_write",
            json!({"path": "new/b.txt", "content": "bye\n"}),
            "replaced `new/b.txt`: 1 line, 4 bytes (it had 1 line, 6 bytes)\n@@ -1,1 +1,1 @@\n-hello\n+bye",
        ),
        (
            "edit_replace",
            json!({"path": "a.txt", "old": "two", "new": "2"}),
            "edited `a.txt`: 1 replacement\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
        ),
        (
            "edit_replace",
            json!({"path": "a.txt", "old": "e", "new": "E"}),
            "error (ambiguous): `old` is in the file 3 times, at lines 1, 3. Take more of the text around the one you mean, or give `all`: true.\n`a.txt` was not changed.",
        ),
        (
            "edit_replace",
            json!({"path": "a.txt", "old": "e", "new": "E", "all": true}),
            "edited `a.txt`: 3 replacements\n@@ -1,3 +1,3 @@\n-one\n+onE\n 2\n-three\n+thrEE",
        ),
        (
            "edit_replace",
            json!({"path": "a.txt", "old": "thrEe", "new": "3"}),
            "error (not_found): `old` is not in the file. The nearest lines are:\n3\tthrEE\n`a.txt` was not changed.",
        ),
        (
            "edit_replace",
            json!({"path": "win.txt", "old": "one\ntwo\n", "new": "1\n2\n"}),
            "edited `win.txt`: 1 replacement\n@@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2",
        ),
        (
            "edit_write",
            json!({"path": "win.txt", "content": "1\n2\n"}),
            "replaced `win.txt`: 2 lines, 4 bytes (it had 2 lines, 6 bytes); its line ends were CRLF and are LF now\n@@ -1,2 +1,2 @@\n-1\n-2\n+1\n+2",
        ),
        (
            "edit_replace",
            json!({"path": "latin.txt", "old": "caf", "new": "x"}),
            "error (binary): `latin.txt` is not text in UTF-8, so it is not edited as text; change it with bash, or replace it with edit_write",
        ),
        (
            "edit_replace",
            json!({"path": "b.txt", "old": "x", "new": "y"}),
            "error (missing): there is no file `b.txt`; did you mean `new/b.txt`, `a.txt`?",
        ),
        ("edit_write", json!({"path": "", "content": "x"}), "error (path): `` cannot be a file"),
    ] {
        assert_eq!(session.words(tool, input.clone()).await, expected, "{tool} {input}");
        if tool == "edit_replace" && input["path"] == "win.txt" {
            assert_eq!(session.files.text("win.txt"), "1\r\n2\r\n");
        }
    }
    assert_eq!(session.files.text("a.txt"), "onE\n2\nthrEE\n");
}

#[tokio::test]
async fn several_edits_happen_together_or_not_at_all() {
    let session = Session::with(&[("a.txt", "one two three\n")]);
    let edits = json!({"path": "a.txt", "edits": [
        {"old": "one", "new": "two"}, {"old": "two", "new": "2", "all": true}, {"old": "2 2", "new": "x"},
    ]});
    let done = session.call("edit_multi", edits.clone()).await.unwrap();
    assert_eq!(done.words(), "edited `a.txt`: 4 replacements\n@@ -1,1 +1,1 @@\n-one two three\n+x three");
    let hash = Hash::of(b"x three\n");
    assert_eq!(done.traces, [Trace::FileWritten { path: "a.txt".into(), hash, mode: 0o644, size: 8 }]);
    let failed = session.call("edit_multi", edits).await.unwrap_err();
    assert!(failed.message.starts_with("edit 1 of 3: `old` is not in the file."), "{}", failed.message);
    let half = json!({"path": "a.txt", "edits": [{"old": "x", "new": "y"}, {"old": "gone", "new": "z"}]});
    let failed = session.call("edit_multi", half).await.unwrap_err();
    assert!(failed.message.contains("edit 2 of 2") && failed.message.ends_with("`a.txt` was not changed."));
    assert_eq!(session.files.text("a.txt"), "x three\n");
    let nothing = json!({"path": "a.txt", "edits": [{"old": "x", "new": "y"}, {"old": "y", "new": "x"}]});
    assert!(session.call("edit_multi", nothing).await.unwrap_err().message.contains("cancel each other out"));
}

#[tokio::test]
async fn edits_are_bounded() {
    let session = Session::with(&[("a.txt", &"ab".repeat(3 * 1024 * 1024))]);
    let grown = json!({"path": "a.txt", "old": "a", "new": "aaaa", "all": true});
    assert_eq!(session.call("edit_replace", grown).await.unwrap_err().class, "too_much");
    let large = json!({"path": "b.txt", "content": "x".repeat(8 * 1024 * 1024 + 1)});
    assert_eq!(session.call("edit_write", large).await.unwrap_err().class, "too_much");
    session.files.put("huge.txt", vec![b'x'; 9 * 1024 * 1024]);
    let words = session.words("edit_write", json!({"path": "huge.txt", "content": "small"})).await;
    assert_eq!(words, "replaced `huge.txt`: 1 line, 5 bytes (it had 9437184 bytes)");
}

/// Two edits of one file at the same time: each sees what the other did.
#[tokio::test]
async fn edits_go_one_after_another() {
    let session = Session::with(&[("n.txt", "a b c d e f g h")]);
    let edits = "abcdefgh".chars().map(|c| {
        let input = json!({"path": "n.txt", "old": c.to_string(), "new": c.to_uppercase().to_string()});
        session.call("edit_replace", input)
    });
    for done in futures_util::future::join_all(edits).await {
        done.unwrap();
    }
    assert_eq!(session.files.text("n.txt"), "A B C D E F G H");
}

#[tokio::test]
async fn notes_are_kept_found_and_followed() {
    let session = Session::new();
    let store = |title: &str, text: &str, tags: &[&str]| {
        session.call("memory_store", json!({"title": title, "text": text, "tags": tags}))
    };
    let done =
        store("Deploy steps", "Run [[Smoke tests]] first.", &["Ops", "#ops", "release"]).await.unwrap();
    assert_eq!(done.words(), "stored as `deploy-steps`");
    let trace = |text: &str| Trace::MemoryStored {
        doc: "deploy-steps".into(),
        title: "Deploy steps".into(),
        tags: vec!["ops".into(), "release".into()],
        hash: Hash::of(text.as_bytes()),
    };
    assert_eq!(done.traces, [trace("Run [[Smoke tests]] first.")]);
    store("Smoke tests", "curl the health page", &["ops"]).await.unwrap();
    store("Lunch", "Ada likes soup; the deploy can wait.", &[]).await.unwrap();
    assert_eq!(store("deploy  STEPS", "x", &[]).await.unwrap().words(), "replaced the note `deploy-steps`");
    store("Deploy steps", "Run [[Smoke tests]] first.", &["ops", "release"]).await.unwrap();

    let done = session.call("memory_search", json!({"query": "deploy"})).await.unwrap();
    let docs = vec!["deploy-steps".to_owned(), "lunch".to_owned()];
    assert_eq!(done.traces, [Trace::MemoryRetrieved { query: "deploy".into(), docs }]);
    insta::assert_snapshot!(done.words(), @"
    ## Deploy steps (doc: deploy-steps, tags: ops, release, stored: 1970-01-01T00:00:00.000003Z)
    Run [[Smoke tests]] first.

    ## Lunch (doc: lunch, stored: 1970-01-01T00:00:00.000002Z)
    Ada likes soup; the deploy can wait.

    [2 notes]
    ");
    let done = session.call("memory_search", json!({"query": "tag:ops nothing"})).await.unwrap();
    assert_eq!(done.words(), "[no note fits; there are 3 in all]");
    assert_eq!(done.traces, [Trace::MemoryRetrieved { query: "tag:ops nothing".into(), docs: Vec::new() }]);

    let done = session.call("memory_related", json!({"doc": "Deploy steps"})).await.unwrap();
    assert_eq!(
        done.words(),
        "Smoke tests (doc: smoke-tests): deploy-steps → links to → smoke-tests\n[1 note]"
    );
    let docs = vec!["smoke-tests".to_owned()];
    assert_eq!(done.traces, [Trace::MemoryRetrieved { query: "related to deploy-steps".into(), docs }]);
    for (tool, input, expected) in [
        (
            "memory_related",
            json!({"doc": "lunch", "depth": 3}),
            "[no other note shares a tag or a link with it]",
        ),
        (
            "memory_related",
            json!({"doc": "lanch"}),
            "error (missing): there is no note `lanch`; did you mean `lunch`?",
        ),
        ("memory_search", json!({"query": "?!"}), "error (invalid): `query` has no word to look for"),
        (
            "memory_store",
            json!({"title": " ", "text": "x"}),
            "error (invalid): a note needs a title and a text",
        ),
    ] {
        assert_eq!(session.words(tool, input.clone()).await, expected, "{tool} {input}");
    }
    let long = json!({"title": "long", "text": "x".repeat(64 * 1024 + 1)});
    assert_eq!(session.call("memory_store", long).await.unwrap_err().class, "too_much");
}

#[tokio::test]
async fn a_long_note_is_shown_around_what_was_looked_for() {
    let session = Session::new();
    let text = format!("{}the needle is here\n{}", "hay\n".repeat(1_000), "straw\n".repeat(1_000));
    for title in ["one", "two"] {
        session.call("memory_store", json!({"title": title, "text": text})).await.unwrap();
    }
    let words = session.words("memory_search", json!({"query": "needle"})).await;
    assert!(
        words.contains("\n[after 4000 bytes] the needle is here\nstraw") && words.len() < 4_000,
        "{words}"
    );
    assert!(words.contains("more bytes; search for its title with `limit` 1 to see all]"), "{words}");
    let whole = session.words("memory_search", json!({"query": "needle", "limit": 1})).await;
    assert!(
        whole.contains(text.trim_end()) && whole.contains("the best 1 of 2 notes that fit"),
        "{}",
        whole.len()
    );
}

#[tokio::test]
async fn the_time_is_told() {
    let words = Session::new().words("get_time", json!({})).await;
    assert!(words.parse::<weir_types::Timestamp>().is_ok(), "{words}");
}

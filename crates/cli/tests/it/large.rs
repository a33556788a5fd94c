//! A result that is too long for a request: the model is shown its beginning and how to read on, and only its own session can.

use serde_json::{Value, json};

use crate::outside::{Project, field, script, tool};

/// A line of 13 bytes, so many times.
const LINES: u64 = 400_000;
const BYTES: u64 = LINES * 13;

fn reader() -> Project {
    let project = Project::new();
    project.server("book", &[tool("large")]);
    let read = |offset: u64| json!([{"tool": "result_read", "input": {"result": "{{1}}", "offset": offset, "bytes": 1300}}]);
    let turns = [
        ("^fetch", json!([{"tool": "large", "input": {"lines": LINES}}])),
        ("^middle (\\w+)", read(13 * 200_000)),
        ("^end (\\w+)", read(BYTES - 1300)),
        ("^past (\\w+)", read(BYTES)),
    ];
    project.agent(
        "reader",
        "tools:\n  - { server: \"mcp://./servers/book.py\", access: read }\n",
        &script(&turns),
    );
    project.build();
    project
}

#[test]
fn a_long_result_is_shown_in_part_and_read_on_in_its_session_alone() {
    let project = reader();
    let session = project.chat("reader", "fetch", &[]);
    let done = &project.payloads(&session, "tool.completed")[0];
    let hash = field(done, "whole");
    // What the model was sent: the beginning, the size, and the way to the rest.
    let request = project.ok(&["session", "show", &session, "--request", "2"]);
    for words in ["line 0000000", &format!("of {BYTES} bytes"), "read on with result_read", &hash] {
        assert!(request.contains(words), "{words}");
    }
    assert!(request.len() < 64 * 1024, "{} bytes", request.len());
    assert!(!request.contains("line 0001000"));
    let whole = project.ok(&["blob", "get", &hash]);
    assert_eq!(whole.len() as u64, BYTES);

    let say = |words: &str, session: &str| {
        project.chat("reader", words, &["--session", session]);
        project.results(session.split('@').next().unwrap()).pop().unwrap()
    };
    let middle = say(&format!("middle {hash}"), &session);
    assert!(middle.contains("line 0200000") && middle.contains("line 0200099"), "{middle}");
    assert!(!middle.contains("line 0199999") && !middle.contains("line 0200100"), "{middle}");
    let end = say(&format!("end {hash}"), &session);
    assert!(end.contains("line 0399999") && end.contains(": the end]"), "{end}");
    let past = say(&format!("past {hash}"), &session);
    assert!(past.contains("there is nothing at offset"), "{past}");

    // Nobody reads it who was not given it, although it is in the same store.
    let other = project.chat("reader", &format!("middle {hash}"), &[]);
    let failed: Vec<Value> = project.payloads(&other, "tool.failed");
    assert_eq!(failed.len(), 1);
    assert!(
        field(&failed[0], "message").contains("only long results of this session can be read"),
        "{failed:?}"
    );
}

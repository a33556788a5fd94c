//! An example for each operation, by its id. `docs/api.md` shows them, and the tests run every one of them against a real
//! server, with `$WEIR` for its address. The other variables name what must be there before: a session, one that waits for an
//! approval and its call, one that was halted, a run, a stream and a blob.

/// The example for an operation.
pub(super) fn example(operation: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(id, _)| *id == operation).map(|(_, example)| *example)
}

/// Operations and their examples.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    ("health", r#"curl "$WEIR/health""#),
    ("ready", r#"curl "$WEIR/ready""#),
    ("metrics", r#"curl "$WEIR/metrics""#),
    ("openapi", r#"curl "$WEIR/openapi.json""#),
    ("list_agents", r#"curl "$WEIR/agents""#),
    ("agent_status", r#"curl "$WEIR/agents/helper/status""#),
    ("chat", r#"curl "$WEIR/agents/helper/chat" --json '{"message": "weather in Lisbon"}'"#),
    ("list_sessions", r#"curl "$WEIR/sessions?status=idle&agent=helper&limit=10""#),
    ("session", r#"curl "$WEIR/sessions/$SESSION""#),
    ("session_messages", r#"curl "$WEIR/sessions/$SESSION/messages""#),
    ("post_message", r#"curl "$WEIR/sessions/$SESSION/messages" --json '{"message": "and in Porto?"}'"#),
    ("session_state", r#"curl "$WEIR/sessions/$SESSION/state?at=3""#),
    ("session_events", r#"curl "$WEIR/sessions/$SESSION/events?after=0&kind=user.message""#),
    ("session_files", r#"curl "$WEIR/sessions/$SESSION/files""#),
    ("session_file", r#"curl "$WEIR/sessions/$WRITTEN/files/notes/today.md""#),
    ("fork_session", r#"curl "$WEIR/sessions/$SESSION/fork" --json '{"at": 2, "name": "another-way"}'"#),
    ("cancel_session", r#"curl -X POST "$WEIR/sessions/$SESSION/cancel""#),
    ("halt_session", r#"curl "$WEIR/sessions/$SESSION/halt" --json '{"reason": "lunch"}'"#),
    ("resume_session", r#"curl -X POST "$WEIR/sessions/$HALTED/resume""#),
    ("close_session", r#"curl "$WEIR/sessions/$SESSION/close" --json '{"reason": "done"}'"#),
    (
        "signal_session",
        r#"curl "$WEIR/sessions/$SESSION/signals" --json '{"name": "paid", "data": {"invoice": 7}}'"#,
    ),
    ("list_approvals", r#"curl "$WEIR/approvals?agent=careful""#),
    (
        "decide",
        r#"curl "$WEIR/sessions/$ASKING/approvals/$CALL" --json '{"decision": "allow", "input": {"amount": "5"}}'"#,
    ),
    (
        "gate",
        r#"curl "$WEIR/sessions/$ASKING/gate" --json '{"decision": "deny", "deny_message": "not today"}'"#,
    ),
    ("gate_alias", r#"curl "$WEIR/api/sessions/$ASKING/gate" --json '{"decision": "allow"}'"#),
    ("list_streams", r#"curl "$WEIR/streams?limit=10""#),
    ("stream", r#"curl "$WEIR/streams/$STREAM""#),
    ("stream_events", r#"curl "$WEIR/streams/$STREAM/events?after=0&limit=10""#),
    (
        "append_events",
        r#"curl "$WEIR/streams/notes/events" --json '{"events": [{"kind": "note.added", "payload": {"text": "hello"}}]}'"#,
    ),
    ("fork_stream", r#"curl "$WEIR/streams/$STREAM/fork" --json '{"at": 1, "name": "draft"}'"#),
    (
        "put_blob",
        r#"printf 'a low dam' | curl -X PUT --data-binary @- -H 'Content-Type: application/octet-stream' "$WEIR/blobs""#,
    ),
    (
        "put_named_blob",
        r#"printf 'a low dam' | curl -X PUT --data-binary @- -H 'Content-Type: application/octet-stream' "$WEIR/blobs/$HASH""#,
    ),
    ("get_blob", r#"curl "$WEIR/blobs/$HASH""#),
    ("head_blob", r#"curl --head "$WEIR/blobs/$HASH""#),
];

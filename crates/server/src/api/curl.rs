//! An example for each operation. `docs/api.md` shows them, and the tests run every one of them against a real
//! server, with `$WEIR` for its address. The other variables name what must be there before: a session, one that waits for an
//! approval and its call, one that was halted, a run, a stream and a blob.

/// The example for an operation.
pub(super) fn example(method: &str, path: &str) -> Option<&'static str> {
    let is_it = |name: &str| name.split_once(' ') == Some((method, path));
    EXAMPLES.iter().find(|(name, _)| is_it(name)).map(|(_, example)| *example)
}

/// Operations and their examples.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    ("get /health", r#"curl "$WEIR/health""#),
    ("get /ready", r#"curl "$WEIR/ready""#),
    ("get /metrics", r#"curl "$WEIR/metrics""#),
    ("get /openapi.json", r#"curl "$WEIR/openapi.json""#),
    ("get /agents", r#"curl "$WEIR/agents""#),
    ("get /agents/{name}/status", r#"curl "$WEIR/agents/helper/status""#),
    (
        "post /agents/{name}/chat",
        r#"curl "$WEIR/agents/helper/chat" --json '{"message": "weather in Lisbon"}'"#,
    ),
    ("get /sessions", r#"curl "$WEIR/sessions?status=idle&agent=helper&limit=10""#),
    ("get /sessions/{id}", r#"curl "$WEIR/sessions/$SESSION""#),
    ("get /sessions/{id}/messages", r#"curl "$WEIR/sessions/$SESSION/messages""#),
    (
        "post /sessions/{id}/messages",
        r#"curl "$WEIR/sessions/$SESSION/messages" --json '{"message": "and in Porto?"}'"#,
    ),
    ("get /sessions/{id}/state", r#"curl "$WEIR/sessions/$SESSION/state?at=3""#),
    ("get /sessions/{id}/events", r#"curl "$WEIR/sessions/$SESSION/events?after=0&kind=user.message""#),
    ("get /sessions/{id}/files", r#"curl "$WEIR/sessions/$SESSION/files""#),
    ("get /sessions/{id}/files/{path}", r#"curl "$WEIR/sessions/$WRITTEN/files/notes/today.md""#),
    (
        "post /sessions/{id}/fork",
        r#"curl "$WEIR/sessions/$SESSION/fork" --json '{"at": 2, "name": "another-way"}'"#,
    ),
    ("post /sessions/{id}/cancel", r#"curl -X POST "$WEIR/sessions/$SESSION/cancel""#),
    ("post /sessions/{id}/halt", r#"curl "$WEIR/sessions/$SESSION/halt" --json '{"reason": "lunch"}'"#),
    ("post /sessions/{id}/resume", r#"curl -X POST "$WEIR/sessions/$HALTED/resume""#),
    ("post /sessions/{id}/close", r#"curl "$WEIR/sessions/$SESSION/close" --json '{"reason": "done"}'"#),
    (
        "post /sessions/{id}/signals",
        r#"curl "$WEIR/sessions/$SESSION/signals" --json '{"name": "paid", "data": {"invoice": 7}}'"#,
    ),
    ("get /approvals", r#"curl "$WEIR/approvals?agent=careful""#),
    (
        "post /sessions/{id}/approvals/{call}",
        r#"curl "$WEIR/sessions/$ASKING/approvals/$CALL" --json '{"decision": "allow", "input": {"amount": "5"}}'"#,
    ),
    (
        "post /sessions/{id}/gate",
        r#"curl "$WEIR/sessions/$ASKING/gate" --json '{"decision": "deny", "deny_message": "not today"}'"#,
    ),
    (
        "post /api/sessions/{id}/gate",
        r#"curl "$WEIR/api/sessions/$ASKING/gate" --json '{"decision": "allow"}'"#,
    ),
    ("get /streams", r#"curl "$WEIR/streams?limit=10""#),
    ("get /streams/{stream}", r#"curl "$WEIR/streams/$STREAM""#),
    (
        "get /streams/{stream}/events",
        r#"curl "$WEIR/streams/$STREAM/events?after=0&limit=10"
curl -N --max-time 1 "$WEIR/streams/$STREAM/events?after=1" -H 'Accept: text/event-stream'"#,
    ),
    (
        "post /streams/{stream}/events",
        r#"curl "$WEIR/streams/notes/events" --json '{"events": [{"kind": "note.added", "payload": {"text": "hello"}}]}'"#,
    ),
    (
        "post /ingest/{stream}",
        r#"printf 'data: {"type":"text-delta","id":"1","delta":"hello"}\n\ndata: [DONE]\n\n' | curl --data-binary @- -H 'Content-Type: text/event-stream' "$WEIR/ingest/recordings?format=vercel""#,
    ),
    (
        "post /streams/{stream}/fork",
        r#"curl "$WEIR/streams/$STREAM/fork" --json '{"at": 1, "name": "draft"}'"#,
    ),
    (
        "put /blobs",
        r#"printf 'a low dam' | curl -X PUT --data-binary @- -H 'Content-Type: application/octet-stream' "$WEIR/blobs""#,
    ),
    (
        "put /blobs/{hash}",
        r#"printf 'a low dam' | curl -X PUT --data-binary @- -H 'Content-Type: application/octet-stream' "$WEIR/blobs/$HASH""#,
    ),
    ("get /blobs/{hash}", r#"curl "$WEIR/blobs/$HASH""#),
    ("head /blobs/{hash}", r#"curl --head "$WEIR/blobs/$HASH""#),
    (
        "post /agents/{name}/chat/stream",
        r#"curl -N "$WEIR/agents/helper/chat/stream?format=native" --json '{"message": "weather in Lisbon"}'"#,
    ),
    (
        "get /sessions/{id}/runs/{run}/stream",
        r#"curl -N "$WEIR/sessions/$SESSION/runs/$RUN/stream?format=openai""#,
    ),
    ("get /sessions/{id}/events/stream", r#"curl -N --max-time 1 "$WEIR/sessions/$SESSION/events/stream""#),
    ("get /v1/models", r#"curl "$WEIR/v1/models""#),
    ("get /v1/models/{model}", r#"curl "$WEIR/v1/models/helper""#),
    (
        "post /v1/chat/completions",
        r#"curl "$WEIR/v1/chat/completions" --json '{"model": "helper", "messages": [{"role": "user", "content": "weather in Lisbon"}]}'"#,
    ),
    (
        "post /v1/responses",
        r#"curl "$WEIR/v1/responses" --json '{"model": "helper", "input": "weather in Lisbon"}'"#,
    ),
    (
        "post /v1/messages",
        r#"curl "$WEIR/v1/messages" --json '{"model": "helper", "max_tokens": 1000, "messages": [{"role": "user", "content": "weather in Lisbon"}]}'"#,
    ),
    (
        "post /agents/{name}/ui",
        r#"curl -N "$WEIR/agents/helper/ui" --json '{"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "weather in Lisbon"}]}], "trigger": "submit-message"}'"#,
    ),
    (
        "get /agents/{name}/ui/{chat}/stream",
        r#"curl -N -w '%{http_code}' "$WEIR/agents/helper/ui/chat-1/stream""#,
    ),
    (
        "post /agents/{name}/mcp",
        r#"curl "$WEIR/agents/helper/mcp" -H 'Accept: application/json, text/event-stream' -H 'Content-Type: application/json' -d '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}}'"#,
    ),
    (
        "get /agents/{name}/mcp",
        r#"curl -N --max-time 1 -w '%{http_code}' "$WEIR/agents/helper/mcp" -H 'Accept: text/event-stream' -H "Mcp-Session-Id: $MCP""#,
    ),
    (
        "delete /agents/{name}/mcp",
        r#"curl -X DELETE -w '%{http_code}' "$WEIR/agents/helper/mcp" -H "Mcp-Session-Id: $MCP""#,
    ),
    (
        "post /bridge/mcp",
        r#"curl "$WEIR/bridge/mcp" -H "Authorization: Bearer $BRIDGE" -H 'Accept: application/json, text/event-stream' -H 'Content-Type: application/json' -d '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}}'"#,
    ),
];

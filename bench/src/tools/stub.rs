//! An MCP server over standard streams, with a tool that answers at once and one that takes a second. It is written by hand, so that
//! what is measured is our side.

use std::io::{BufRead, Write};
use std::time::Duration;

use serde_json::{Value, json};
use weir_bench::Error;

/// How long the slow tool takes.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// Answers until nobody asks any more.
pub(crate) fn serve() -> Result<(), Error> {
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let Some(id) = asked.get("id").cloned() else { continue };
        let params = &asked["params"];
        let result = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stub", "version": "1"},
            }),
            "tools/list" => json!({"tools": [tool("quick"), tool("slow")]}),
            "tools/call" if params["name"] == "slow" => {
                std::thread::spawn(move || {
                    std::thread::sleep(SLOW);
                    answer(&id, said("slow"))
                });
                continue;
            }
            "tools/call" => said("quick"),
            _ => json!({}),
        };
        answer(&id, result)?;
    }
    Ok(())
}

fn tool(name: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    json!({"name": name, "description": "Answers.", "inputSchema": schema})
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answer(id: &Value, result: Value) -> Result<(), Error> {
    let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string() + "\n";
    // In one piece: two threads write.
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}

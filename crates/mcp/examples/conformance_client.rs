//! The client that the official conformance suite puts to the test: lists a server's tools and calls each of them once,
//! with arguments that fit its schema. The server's address is the last argument.
//!
//! ```text
//! npx @modelcontextprotocol/conformance client --command target/debug/examples/conformance_client --scenario tools_call
//! ```

#![allow(clippy::print_stdout, reason = "an example says what it sees")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use weir_mcp::{Call, Connections, Definition, Headers, Options, Server, Target, list_tools};
use weir_types::Json;

/// Scenarios make a client wait, but not long.
const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back().filter(|url| url.starts_with("http")) else {
        println!("usage: conformance_client URL");
        return ExitCode::from(2);
    };
    match run(url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: String) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::Http { url };
    let (environment, headers) = (BTreeMap::new(), Headers::default());
    let options =
        Options { directory: ".".into(), environment, headers, launcher: Vec::new(), timeout: DEADLINE };
    let definitions = list_tools(&server, &options).await?;
    let target = Target {
        server,
        identity: "conformance".to_owned(),
        directory: ".".into(),
        environment: BTreeMap::new(),
        headers: Headers::default(),
        launcher: vec![],
    };
    let connections = Connections::new();
    for pinned in definitions {
        let tool = pinned.name.clone();
        let call = Call {
            tool: tool.clone(),
            arguments: arguments(&pinned),
            deadline: DEADLINE,
            cancelled: CancellationToken::new(),
            key: None,
            accepts: Arc::new(move |offered| match *offered == pinned {
                true => Ok(()),
                false => Err("it differs from the list".to_owned()),
            }),
        };
        println!("{tool}: {:?}", connections.call(&target, call).await?.content);
    }
    connections.close().await;
    Ok(())
}

/// Something that fits for each required argument.
fn arguments(definition: &Definition) -> Json {
    let schema = &definition.json.to_value()["inputSchema"];
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields: Map<String, Value> =
        required.map(|name| (name.to_owned(), fitting(&schema["properties"][name]))).collect();
    Json::of(&Value::Object(fields))
}

fn fitting(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    }
}

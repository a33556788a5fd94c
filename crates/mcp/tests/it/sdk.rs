//! A server made with the SDK, so that not only our own idea of the protocol is tested.

use std::collections::BTreeMap;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};

use crate::{PLENTY, list, options, shown, write_program};

/// Set in the environment of the process that plays the server.
const PLAYS: &str = "WEIR_TEST_PLAYS_THE_SERVER";

struct Notes;

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let tool = Tool::new("add_note", "Adds a note", schema.as_object().unwrap().clone())
            .with_annotations(ToolAnnotations::new().destructive(false));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }
}

/// Not a test of its own: the process that the next test starts. The harness writes to standard output, so the
/// protocol goes through descriptor 3.
#[tokio::test]
async fn plays_the_server() {
    if std::env::var_os(PLAYS).is_none() {
        return;
    }
    let output = tokio::fs::File::options().write(true).open("/dev/fd/3").await.unwrap();
    let running = Notes.serve((tokio::io::stdin(), output)).await.unwrap();
    running.waiting().await.unwrap();
}

#[tokio::test]
async fn a_server_of_the_sdk_lists_its_tools() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("server");
    let this = std::env::current_exe().unwrap();
    let script =
        format!("#!/bin/sh\nexec '{}' --exact sdk::plays_the_server --nocapture 3>&1 1>&2\n", this.display());
    write_program(&program, &script);
    let mut options = options(directory.path(), PLENTY);
    options.environment.extend(BTreeMap::from([(PLAYS.to_owned(), "1".to_owned())]));

    assert_eq!(
        shown(list("./server", &options).await),
        r#"{"name":"add_note","description":"Adds a note","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"destructiveHint":false}}"#
    );
}

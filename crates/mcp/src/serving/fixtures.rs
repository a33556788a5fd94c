//! What the official conformance suite expects a server to offer: tools, resources and prompts with fixed answers. Served only
//! where a test asks for it, through the same door as everything else.

#![expect(
    deprecated,
    reason = "the suite still tests logging and sampling, which later versions of the protocol drop"
)]

mod answers;
mod tools;

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt,
    PromptArgument, ReadResourceRequestParams, ReadResourceResponse, Reference, Resource, ResourceTemplate,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    UnsubscribeRequestParams,
};
use rmcp::service::RequestContext;

/// The fixtures of the conformance suite.
#[derive(Clone, Debug)]
pub struct Fixtures(());

/// The fixtures of the conformance suite.
pub fn conformance_fixtures() -> Fixtures {
    Fixtures(())
}

/// Between two notifications, so that a client sees them one by one.
const BEAT: Duration = Duration::from_millis(50);

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("weir-conformance", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: tools::all(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(request, &context).await.map(Into::into)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let text = Resource::new("test://static-text", "Static text").with_mime_type("text/plain");
        let binary = Resource::new("test://static-binary", "Static bytes").with_mime_type("image/png");
        Ok(ListResourcesResult { resources: vec![text, binary], ..ListResourcesResult::default() })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("test://template/{id}/data", "By its id")
            .with_mime_type("application/json");
        let resource_templates = vec![template];
        Ok(ListResourceTemplatesResult { resource_templates, ..ListResourceTemplatesResult::default() })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        answers::resource(&request.uri).map(Into::into)
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let arguments = ["arg1", "arg2"].map(|name| {
            PromptArgument::new(name).with_description("An argument of the test").with_required(true)
        });
        let with = |name, arguments| Prompt::new(name, Some("A prompt of the test"), arguments);
        let prompts = vec![
            with("test_simple_prompt", None),
            with("test_prompt_with_arguments", Some(arguments.to_vec())),
            with(
                "test_prompt_with_embedded_resource",
                Some(vec![PromptArgument::new("resourceUri").with_required(true)]),
            ),
            with("test_prompt_with_image", None),
        ];
        Ok(ListPromptsResult { prompts, ..ListPromptsResult::default() })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        answers::prompt(&request).map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = match &request.r#ref {
            Reference::Prompt(_) => ["paris", "park", "party"].map(str::to_owned).to_vec(),
            _ => Vec::new(),
        };
        let completion = CompletionInfo::new(values).map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}

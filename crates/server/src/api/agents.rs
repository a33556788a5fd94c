//! `/agents`: which there are, for whoever asks.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_spec::manifest;
use weir_tools::Builtin;

use crate::access;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, ErrorBody};
use crate::extract::{Json, Path};

/// The agents that whoever asks may talk to.
#[derive(Serialize, ToSchema)]
struct Agents {
    agents: Vec<Agent>,
}

/// An agent.
#[derive(Serialize, ToSchema)]
struct Agent {
    name: String,
    /// What it is for.
    #[schema(required = true)]
    description: Option<String>,
    model: String,
}

/// An agent, in more detail.
#[derive(Serialize, ToSchema)]
struct AgentStatus {
    name: String,
    #[schema(required = true)]
    description: Option<String>,
    model: String,
    /// The build that new sessions begin with.
    manifest: String,
    /// What it may call, by the names its model knows.
    tools: Vec<String>,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_agents)).routes(routes!(agent_status))
}

/// The agents you may talk to.
#[utoipa::path(get, path = "/agents", tag = "agents", responses((status = 200, body = Agents)))]
async fn list_agents(State(app): State<App>, caller: Caller) -> Json<Agents> {
    let build = app.builds.current();
    let all = build.iter().flat_map(|build| &build.manifest.agents);
    let agents = all.filter(|(name, _)| access::agent(&app, &caller, name).is_ok());
    Json(Agents { agents: agents.map(|(name, agent)| view(name, agent)).collect() })
}

fn view(name: &str, agent: &manifest::Agent) -> Agent {
    Agent { name: name.to_owned(), description: description(agent), model: agent.model.clone() }
}

/// The first line of it: the rest is between the agent and its model.
fn description(agent: &manifest::Agent) -> Option<String> {
    agent.description.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// One of them, as new sessions get it.
#[utoipa::path(
    get, path = "/agents/{name}/status", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, body = AgentStatus), (status = 404, body = ErrorBody))
)]
async fn agent_status(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<AgentStatus>, Error> {
    let build = access::agent(&app, &caller, &name)?;
    let Some(agent) = build.manifest.agents.get(&name) else { return Err(Error::missing("agent")) };
    let tools = agent.tools.iter().map(|tool| tool.name.clone());
    // Every agent may read on in its long results.
    let tools = tools.chain([Builtin::ResultRead.name().to_owned()]);
    Ok(Json(AgentStatus {
        description: description(agent),
        model: agent.model.clone(),
        manifest: build.hash.to_string(),
        tools: tools.collect(),
        name,
    }))
}

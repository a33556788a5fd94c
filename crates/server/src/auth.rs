//! Who asks: a JWT, a static token, a trusted proxy's word, or nobody in particular on loopback.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::App;
use crate::error::Error;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `user:…` or `serviceaccount:…`.
    pub principal: String,
    /// `group:…`, as their token says; the build may know of more.
    pub groups: Vec<String>,
}

/// How callers are recognised.
#[derive(Clone, Debug)]
pub struct Auth {
    /// Who asks where nobody has to prove anything: the local user, on loopback.
    pub local: Option<Caller>,
    /// Who holds every role and grant: the owner of the data directory, and `group:admin`.
    pub admins: Vec<String>,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        // The guard has put it there; what comes here without it is nobody.
        let known = parts.extensions.get::<Self>().cloned().or_else(|| app.auth.local.clone());
        known.ok_or_else(|| {
            Error::new(
                axum::http::StatusCode::UNAUTHORIZED,
                "server::unauthorized",
                "who asks is not known",
                "send a token",
            )
        })
    }
}

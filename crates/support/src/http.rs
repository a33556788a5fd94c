//! The policy of every HTTP client of the product.
//!
//! - No redirect is followed, because a credential belongs to one place.
//! - No proxy is taken from the environment, because nothing else in the product takes one.
//! - Nothing is retried, because retries are journaled or decided by the caller.
//! - Certificates are checked against the machine's own store, with ring as the cryptography.

/// A builder with the policy. Callers add time limits, resolvers and pools.
#[expect(clippy::disallowed_methods, reason = "the one place that makes clients")]
pub fn client() -> reqwest::ClientBuilder {
    install_cryptography();
    reqwest::Client::builder()
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
}

/// Installs ring as the process's provider for TLS.
fn install_cryptography() {
    // An error means that a provider is installed already, and then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

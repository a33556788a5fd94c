//! Who is let in to a server, and how much at once: flags and variables, checked before anything is opened. Secrets come from
//! the environment or from files, never from flags, which every process can read.

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use weir_server::auth::{Auth, Caller, Jwt, JwtError, JwtSettings, Keys, KeysError, Place, Proxy};
use weir_server::{Settings, is_host, is_origin};
use weir_types::{Explain, Fault, Secret};

use crate::identity::{ADMINS, Identity};

/// The variable that has the secret which signs tokens.
pub(crate) const SECRET: &str = "WEIR_AUTH_JWT_SECRET";

/// The longest secret.
const SECRET_BYTES_MAX: u64 = 4 * 1024;

/// Who is let in.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Who is let in")]
pub(crate) struct AuthArgs {
    /// Ask everyone for a token of `weir token issue`; without any of these, loopback is open to the local user.
    #[arg(long, env = "WEIR_AUTH_TOKENS")]
    auth_tokens: bool,
    /// Take JWTs signed with HS256 and the secret in this file; or put the secret into $WEIR_AUTH_JWT_SECRET.
    #[arg(long, env = "WEIR_AUTH_JWT_SECRET_FILE", value_name = "FILE", conflicts_with = "auth_jwks")]
    auth_jwt_secret_file: Option<PathBuf>,
    /// Take JWTs signed with RS256 or ES256 and a key of this JWKS: a file, an https address, or an http one on loopback.
    #[arg(long, env = "WEIR_AUTH_JWKS", value_name = "FILE|URL")]
    auth_jwks: Option<String>,
    /// How long keys are not asked for again, in seconds.
    #[arg(long, env = "WEIR_AUTH_JWKS_REFRESH", value_name = "SECONDS", default_value_t = 30)]
    auth_jwks_refresh: u64,
    /// Who must have issued a JWT.
    #[arg(long, env = "WEIR_AUTH_ISSUER", value_name = "ISS")]
    auth_issuer: Option<String>,
    /// Whom a JWT must be meant for, one of these; needed with `--auth-jwks`.
    #[arg(long, env = "WEIR_AUTH_AUDIENCE", value_name = "AUD", value_delimiter = ',')]
    auth_audience: Vec<String>,
    /// How far clocks may be apart, in seconds.
    #[arg(long, env = "WEIR_AUTH_CLOCK_SKEW", value_name = "SECONDS", default_value_t = 60)]
    auth_clock_skew: u64,
    /// The claim that names whoever asks, as `user:NAME`.
    #[arg(long, env = "WEIR_AUTH_PRINCIPAL_CLAIM", value_name = "CLAIM", default_value = "sub")]
    auth_principal_claim: String,
    /// The claim that has their groups; they count like those in weir.yaml, `admin` included. Without it, JWTs have none.
    #[arg(long, env = "WEIR_AUTH_GROUPS_CLAIM", value_name = "CLAIM")]
    auth_groups_claim: Option<String>,
    /// Names that begin like this are service accounts: the rest of `PREFIXbot` is `serviceaccount:bot`.
    #[arg(long, env = "WEIR_AUTH_SERVICEACCOUNT_PREFIX", value_name = "PREFIX")]
    auth_serviceaccount_prefix: Option<String>,
    /// A JWT or a proxy that names the owner of the data directory means that one; else such a name is refused.
    #[arg(long, env = "WEIR_AUTH_OWNER_BY_NAME")]
    auth_owner_by_name: bool,
    /// Take the word of a proxy: this header has the name of whoever asks.
    #[arg(long, env = "WEIR_TRUST_PROXY_HEADER", value_name = "HEADER", requires = "trust_proxy_from")]
    trust_proxy_header: Option<String>,
    /// This header has their groups, with commas between them.
    #[arg(
        long,
        env = "WEIR_TRUST_PROXY_GROUPS_HEADER",
        value_name = "HEADER",
        requires = "trust_proxy_header"
    )]
    trust_proxy_groups_header: Option<String>,
    /// The addresses that the proxy connects from.
    #[arg(
        long,
        env = "WEIR_TRUST_PROXY_FROM",
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires = "trust_proxy_header"
    )]
    trust_proxy_from: Vec<IpAddr>,
    /// A name that this server is called by, besides those of this machine; with a port, only with that.
    #[arg(long, env = "WEIR_ALLOW_HOST", value_name = "HOST[:PORT]", value_delimiter = ',')]
    allow_host: Vec<String>,
    /// An origin whose pages may ask, besides its own.
    #[arg(long, env = "WEIR_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    allow_origin: Vec<String>,
}

/// How much there may be at once.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// The longest body of a request, in bytes; blobs have a limit of their own.
    #[arg(long, env = "WEIR_MAX_BODY", value_name = "BYTES", default_value_t = Settings::default().body_bytes_max)]
    max_body: usize,
    /// The longest blob, in bytes.
    #[arg(long, env = "WEIR_MAX_BLOB", value_name = "BYTES", default_value_t = Settings::default().blob_bytes_max)]
    max_blob: usize,
    /// Most connections at once; further ones wait.
    #[arg(long, env = "WEIR_MAX_CONNECTIONS", value_name = "N", default_value_t = Settings::default().connections_max)]
    max_connections: usize,
    /// Most connections of one address at once (of one /64 network with IPv6); further ones are closed. Loopback addresses and
    /// those of `--trust-proxy-from` have no such limit.
    #[arg(
        long,
        env = "WEIR_MAX_CONNECTIONS_PER_ADDRESS",
        value_name = "N",
        default_value_t = Settings::default().address_connections_max
    )]
    max_connections_per_address: usize,
    /// Most requests under way at once; further ones are told to come back.
    #[arg(long, env = "WEIR_MAX_REQUESTS", value_name = "N", default_value_t = Settings::default().requests_max)]
    max_requests: usize,
    /// How long a request may take to arrive, in seconds; a long body has longer.
    #[arg(long, env = "WEIR_ARRIVAL", value_name = "SECONDS", default_value_t = Settings::default().arrival.as_secs())]
    arrival: u64,
    /// How long a client may take nothing of what is sent to it, in seconds.
    #[arg(long, env = "WEIR_STALL", value_name = "SECONDS", default_value_t = Settings::default().stall.as_secs())]
    stall: u64,
    /// How long a chat that is not streamed waits for its answer, in seconds; the run goes on after that.
    #[arg(long, env = "WEIR_PATIENCE", value_name = "SECONDS", default_value_t = Settings::default().chat_patience.as_secs())]
    patience: u64,
    /// How often a stream that has nothing to say says so, in seconds.
    #[arg(long, env = "WEIR_KEEP_ALIVE", value_name = "SECONDS", default_value_t = Settings::default().keep_alive.as_secs())]
    keep_alive: u64,
}

/// Why nobody can be let in like this.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdmissionError {
    /// Tokens cannot be checked.
    #[error(transparent)]
    Jwt(#[from] JwtError),
    /// Their keys cannot be had.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The secret cannot be read.
    #[error("cannot read the secret that signs tokens")]
    Secret(#[source] io::Error),
    /// It is set to what can be no secret.
    #[error("${0} is set, and {1}")]
    NoSecret(&'static str, &'static str),
    /// Two ways that exclude one another.
    #[error("tokens are signed with a secret or with the keys of a JWKS, and both are given")]
    Both,
    /// Something is given that has no effect.
    #[error("`{0}` is about JWTs, and nothing says how they are signed")]
    NoJwt(&'static str),
    /// A header that cannot be.
    #[error("`{0}` cannot be the name of a header")]
    Header(String),
    /// A header that everybody sends.
    #[error("`{0}` means something else, and cannot say who asks")]
    Taken(String),
    /// A host or an origin that cannot be.
    #[error("`{0}` is not {1}")]
    Name(String, &'static str),
    /// Nothing would ever be answered.
    #[error("`--{0} 0` lets nothing through")]
    Zero(&'static str),
}

impl Explain for AdmissionError {
    fn code(&self) -> &'static str {
        match self {
            Self::Jwt(JwtError::ShortSecret(_)) => "cli::short-secret",
            Self::Jwt(JwtError::NoAudience) => "cli::no-audience",
            Self::Keys(_) => "cli::jwks",
            Self::Secret(_) | Self::NoSecret(..) => "cli::secret",
            Self::Both | Self::NoJwt(_) => "cli::jwt",
            Self::Header(_) | Self::Taken(_) => "cli::proxy-header",
            Self::Name(..) => "cli::allow",
            Self::Zero(_) => "cli::limit",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Jwt(JwtError::ShortSecret(_)) => "make one with `openssl rand -base64 48`",
            Self::Jwt(JwtError::NoAudience) => "say whom tokens must be meant for with `--auth-audience AUD`",
            Self::Keys(KeysError::Address(_)) => "use https; http is only for loopback",
            Self::Keys(_) => {
                "give a JSON document with `keys` as in RFC 7517, RSA with at least 2048 bits or EC P-256"
            }
            Self::Secret(_) => "check the path and its permissions",
            Self::NoSecret(..) => "set it to what `openssl rand -hex 32` prints, or unset it",
            Self::Both => "leave one of `--auth-jwks` and the secret out",
            Self::NoJwt(_) => "give `--auth-jwks` or a secret as well, or leave it out",
            Self::Header(_) | Self::Taken(_) => "choose one that only the proxy sets, like `X-Auth-User`",
            Self::Name(..) => {
                "write it like `weir.example.com`, `weir.example.com:8080` or `https://app.example.com`"
            }
            Self::Zero(_) => "leave it out, or give it a number above 0",
        }
        .into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

impl AuthArgs {
    /// Who is let in, and whether everybody has to say who they are.
    pub(crate) async fn auth(&self, identity: &Identity) -> Result<Auth, AdmissionError> {
        let jwt = self.jwt().await?;
        let proxy = self.proxy()?;
        let is_asked = self.auth_tokens || jwt.is_some() || proxy.is_some();
        let local = (!is_asked).then(|| Caller {
            principal: identity.principal().to_owned(),
            groups: if identity.is_owner() { vec![ADMINS.to_owned()] } else { Vec::new() },
        });
        let (admins, owner_by_name) = (identity.admins(), self.auth_owner_by_name);
        Ok(Auth { local, admins, owner_by_name, jwt, proxy, ..Auth::default() })
    }

    async fn jwt(&self) -> Result<Option<Jwt>, AdmissionError> {
        let secret = match &self.auth_jwt_secret_file {
            Some(file) => Some(read(file.clone()).await?),
            None => in_environment(SECRET)?,
        };
        let settings = JwtSettings {
            issuer: self.auth_issuer.clone(),
            audiences: self.auth_audience.clone(),
            skew: Duration::from_secs(self.auth_clock_skew),
            principal_claim: self.auth_principal_claim.clone(),
            groups_claim: self.auth_groups_claim.clone(),
            account_prefix: self.auth_serviceaccount_prefix.clone(),
        };
        match (secret, &self.auth_jwks) {
            (Some(_), Some(_)) => Err(AdmissionError::Both),
            (Some(secret), None) => Ok(Some(Jwt::shared(&secret, settings)?)),
            (None, Some(place)) => {
                let place = Place::parse(place)?;
                // Said before anything is fetched.
                if settings.audiences.is_empty() {
                    return Err(JwtError::NoAudience.into());
                }
                let pause = Duration::from_secs(self.auth_jwks_refresh.max(1));
                Ok(Some(Jwt::public(Keys::open(place, pause).await?, settings)?))
            }
            (None, None) => match self.about_jwts() {
                Some(flag) => Err(AdmissionError::NoJwt(flag)),
                None => Ok(None),
            },
        }
    }

    /// A flag that means nothing without JWTs. Whoever gives it believes that they are checked.
    fn about_jwts(&self) -> Option<&'static str> {
        [
            (self.auth_issuer.is_some(), "--auth-issuer"),
            (!self.auth_audience.is_empty(), "--auth-audience"),
            (self.auth_groups_claim.is_some(), "--auth-groups-claim"),
            (self.auth_serviceaccount_prefix.is_some(), "--auth-serviceaccount-prefix"),
        ]
        .into_iter()
        .find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    fn proxy(&self) -> Result<Option<Proxy>, AdmissionError> {
        let Some(header) = &self.trust_proxy_header else { return Ok(None) };
        let named = |name: &String| {
            let header = name.parse().map_err(|_| AdmissionError::Header(name.clone()))?;
            match Proxy::may_be(&header) {
                true => Ok(header),
                false => Err(AdmissionError::Taken(name.clone())),
            }
        };
        let groups = self.trust_proxy_groups_header.as_ref().map(named).transpose()?;
        let peers = self.trust_proxy_from.iter().map(IpAddr::to_canonical).collect();
        Ok(Some(Proxy { header: named(header)?, groups, peers }))
    }

    /// How the server behaves, with these names and limits.
    pub(crate) fn settings(&self, limits: &LimitArgs) -> Result<Settings, AdmissionError> {
        for host in &self.allow_host {
            if !is_host(host) {
                return Err(AdmissionError::Name(host.clone(), "a host"));
            }
        }
        for origin in &self.allow_origin {
            if !is_origin(origin) {
                return Err(AdmissionError::Name(origin.clone(), "an origin"));
            }
        }
        let LimitArgs {
            max_body,
            max_blob,
            max_connections,
            max_connections_per_address,
            max_requests,
            arrival,
            stall,
            patience,
            keep_alive,
        } = *limits;
        for (is_zero, flag) in [
            (max_connections == 0, "max-connections"),
            (max_connections_per_address == 0, "max-connections-per-address"),
            (max_requests == 0, "max-requests"),
            (arrival == 0, "arrival"),
            (stall == 0, "stall"),
            (patience == 0, "patience"),
            (keep_alive == 0, "keep-alive"),
        ] {
            if is_zero {
                return Err(AdmissionError::Zero(flag));
            }
        }
        Ok(Settings {
            hosts: self.allow_host.clone(),
            origins: self.allow_origin.clone(),
            body_bytes_max: max_body,
            blob_bytes_max: max_blob,
            connections_max: max_connections,
            address_connections_max: max_connections_per_address,
            requests_max: max_requests,
            arrival: Duration::from_secs(arrival),
            stall: Duration::from_secs(stall),
            chat_patience: Duration::from_secs(patience),
            keep_alive: Duration::from_secs(keep_alive),
            ..Settings::default()
        })
    }
}

/// A secret in the environment. One that is set to nothing, or to what is no text, is a mistake, and not as if there were none: whoever sets it
/// believes that something is closed.
///
/// # Errors
/// When it is set like that.
pub(crate) fn in_environment(variable: &'static str) -> Result<Option<Secret>, AdmissionError> {
    let Some(secret) = std::env::var_os(variable) else { return Ok(None) };
    match secret.into_string() {
        Ok(text) if text.is_empty() => Err(AdmissionError::NoSecret(variable, "empty")),
        Ok(text) => Ok(Some(Secret::new(text))),
        Err(_) => Err(AdmissionError::NoSecret(variable, "not UTF-8")),
    }
}

/// A secret in a file. The line that it ends with is not part of it.
async fn read(file: PathBuf) -> Result<Secret, AdmissionError> {
    let file = tokio::fs::File::open(file).await.map_err(AdmissionError::Secret)?;
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).await.map_err(AdmissionError::Secret)?;
    Ok(Secret::new(text.trim_end_matches(['\n', '\r'])))
}

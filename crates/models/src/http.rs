//! The one HTTP client, and where a model is reached.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_types::{FailureClass, ModelCard, Secret, Wire};

use crate::ModelError;

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP client that all models share: connections are kept and used again. Cheap to clone; made on first use.
///
/// It has the policy of [`weir_support::http`]; retries are the engine's.
#[derive(Clone, Debug, Default)]
pub struct HttpClient(Arc<OnceLock<Result<reqwest::Client, String>>>);

impl HttpClient {
    /// A client with no connections yet.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn get(&self) -> Result<reqwest::Client, ModelError> {
        let made = self.0.get_or_init(|| build().map_err(|error| weir_support::causes(&error)));
        made.clone().map_err(|why| {
            ModelError::new(FailureClass::Transport, format!("the HTTP client cannot be set up: {why}"))
        })
    }
}

fn build() -> reqwest::Result<reqwest::Client> {
    weir_support::http::client().connect_timeout(CONNECT_TIMEOUT).build()
}

/// Where a model is reached, and with what.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where the provider is: for OpenAI's wires up to and with the version, such as `http://localhost:11434/v1`; for
    /// Anthropic and Gemini the version may be left out.
    pub base_url: String,
    /// The key, if it wants one.
    pub key: Option<Secret>,
    /// What an answer may not exceed.
    pub limits: Limits,
}

/// What an answer may not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest silence: until the answer begins, and between two of its bytes. A model on a small machine may
    /// read a long prompt for minutes before it says a word.
    pub idle: Duration,
    /// One event of the stream.
    pub frame_bytes_max: usize,
    /// All bytes of the answer. A server may wrap each token into hundreds of them.
    pub answer_bytes_max: usize,
    /// How much of an error is read.
    pub error_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            frame_bytes_max: 4 << 20,
            answer_bytes_max: 64 << 20,
            error_bytes_max: 64 << 10,
        }
    }
}

impl Endpoint {
    /// The usual place of a model: what its card says, or else its provider's or its wire's.
    pub fn of(card: &ModelCard, full_name: &str, key: Option<Secret>) -> Self {
        let usual = || usual_base_url(provider_of(full_name), card.wire).to_owned();
        Self { base_url: card.base_url.clone().unwrap_or_else(usual), key, limits: Limits::default() }
    }
}

/// The provider in `provider/name`.
pub(crate) fn provider_of(full_name: &str) -> &str {
    full_name.split_once('/').map_or(full_name, |(provider, _)| provider)
}

/// Providers, and the environment variable that the key of each usually is in.
pub const USUAL_KEY_ENVS: [(&str, &str); 8] = [
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("google", "GOOGLE_API_KEY"),
    ("mistral", "MISTRAL_API_KEY"),
    ("deepseek", "DEEPSEEK_API_KEY"),
    ("groq", "GROQ_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
    ("xai", "XAI_API_KEY"),
];

/// The environment variable that a provider's key usually is in.
pub fn usual_key_env(provider: &str) -> Option<&'static str> {
    let provider = if provider == "gemini" { "google" } else { provider };
    USUAL_KEY_ENVS.iter().find(|(name, _)| *name == provider).map(|(_, variable)| *variable)
}

fn usual_base_url(provider: &str, wire: Wire) -> &'static str {
    match (provider, wire) {
        ("mistral", Wire::OpenaiChat) => "https://api.mistral.ai/v1",
        ("ollama", Wire::OpenaiChat | Wire::OpenaiResponses) => "http://localhost:11434/v1",
        ("deepseek", Wire::OpenaiChat) => "https://api.deepseek.com/v1",
        ("groq", Wire::OpenaiChat) => "https://api.groq.com/openai/v1",
        ("openrouter", Wire::OpenaiChat) => "https://openrouter.ai/api/v1",
        ("xai", Wire::OpenaiChat | Wire::OpenaiResponses) => "https://api.x.ai/v1",
        (_, Wire::Anthropic) => "https://api.anthropic.com",
        (_, Wire::OpenaiChat | Wire::OpenaiResponses) => "https://api.openai.com/v1",
        (_, Wire::Gemini) => "https://generativelanguage.googleapis.com/v1beta",
        (_, Wire::Scripted | Wire::Echo | Wire::Replay) => "",
    }
}

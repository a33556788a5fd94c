//! The model catalog: context windows, output limits, prices, regions. A data file, to which a project can add.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Explain, Fault, Price};

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, which most others speak too.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Gemini `generateContent`.
    Gemini,
    /// A script in the project; no network.
    Scripted,
    /// Repeats the user; no network.
    Echo,
    /// Answers from a recorded session; no network.
    Replay,
}

impl Wire {
    /// The word for it, as in the catalog and in [`crate::Sent::wire`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Scripted => "scripted",
            Self::Echo => "echo",
            Self::Replay => "replay",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is known about one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCard {
    /// How its provider is spoken to.
    pub wire: Wire,
    /// The provider's own name of it; the catalog's, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_name: Option<String>,
    /// Where the provider is; the wire's usual place, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable with the key; the provider's usual one, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Tokens of input and output together.
    pub context_window: u64,
    /// Most tokens of one answer.
    pub output_max: u64,
    /// What it costs; unknown, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Where it runs, such as `us` and `eu`; unknown, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
}

/// All models that can be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog(BTreeMap<String, ModelCard>);

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// No such model.
    #[error("unknown model `{name}`")]
    Unknown {
        /// As given.
        name: String,
        /// What it may have been meant to be.
        similar: Option<String>,
    },
    /// Several providers have one of that name.
    #[error("model `{name}` exists at several providers")]
    Ambiguous {
        /// As given.
        name: String,
        /// The full names.
        candidates: Vec<String>,
    },
    /// The data is not a catalog.
    #[error("the model catalog cannot be read")]
    Data(#[source] serde_json::Error),
}

impl Catalog {
    /// The models we know of.
    ///
    /// # Errors
    /// Never, as a test shows; a catalog is not worth a panic.
    pub fn builtin() -> Result<Self, CatalogError> {
        Self::parse(include_str!("../data/models.json"))
    }

    /// A catalog from its data file: an object from `provider/name` to [`ModelCard`].
    ///
    /// # Errors
    /// When it is not one.
    pub fn parse(json: &str) -> Result<Self, CatalogError> {
        serde_json::from_str(json).map(Self).map_err(CatalogError::Data)
    }

    /// Adds a model, or replaces what is known about it.
    pub fn insert(&mut self, name: String, card: ModelCard) {
        self.0.insert(name, card);
    }

    /// All models, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ModelCard)> {
        self.0.iter().map(|(name, card)| (name.as_str(), card))
    }

    /// The full name and card of a model: `provider/name`, or a bare name that only one provider has.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self, name: &str) -> Result<(String, ModelCard), CatalogError> {
        if let Some(card) = self.0.get(name).cloned().or_else(|| offline(name)) {
            return Ok((name.to_owned(), card));
        }
        let bare = |full: &str| full.split_once('/').is_some_and(|(_, bare)| bare == name);
        let candidates: Vec<&String> = self.0.keys().filter(|full| bare(full)).collect();
        match candidates.as_slice() {
            [] => Err(CatalogError::Unknown { name: name.to_owned(), similar: self.similar(name) }),
            [only] => Ok(((*only).clone(), self.0[*only].clone())),
            several => {
                let candidates = several.iter().map(|full| (*full).clone()).collect();
                Err(CatalogError::Ambiguous { name: name.to_owned(), candidates })
            }
        }
    }

    fn similar(&self, name: &str) -> Option<String> {
        let bare = |full: &'_ str| full.split_once('/').map_or(full, |(_, bare)| bare).to_owned();
        let scored = self.0.keys().map(|full| {
            let known = if name.contains('/') { full.clone() } else { bare(full) };
            (strsim::jaro_winkler(&known, name), full)
        });
        let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
        best.filter(|(score, _)| *score > 0.85).map(|(_, full)| full.clone())
    }
}

impl Explain for CatalogError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "spec::unknown-model",
            Self::Ambiguous { .. } => "spec::ambiguous-model",
            Self::Data(_) => "spec::model-catalog",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unknown { similar: Some(similar), .. } => format!("did you mean `{similar}`?").into(),
            Self::Unknown { .. } => {
                "write `provider/name`; add a model the catalog lacks under `models:` in weir.yaml; \
                 `offline/echo` needs no network"
                    .into()
            }
            Self::Ambiguous { candidates, .. } => format!("write one of: {}", candidates.join(", ")).into(),
            Self::Data(_) => "see the fields of `models:` in the documentation".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Models that need no network need no entry either; one in the project's catalog can give them a price or a window.
fn offline(name: &str) -> Option<ModelCard> {
    let (provider, rest) = name.split_once('/')?;
    let wire = match provider {
        "scripted" if !rest.is_empty() => Wire::Scripted,
        "offline" if rest == "echo" => Wire::Echo,
        "replay" if !rest.is_empty() => Wire::Replay,
        _ => return None,
    };
    Some(ModelCard {
        wire,
        api_name: Some(rest.to_owned()),
        base_url: None,
        key_env: None,
        context_window: 200_000,
        output_max: 8_192,
        price: None,
        regions: vec!["local".to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{
        "acme/fast": {"wire": "openai-chat", "context_window": 8000, "output_max": 1000,
                      "price": {"input": "0.075", "output": "0.3"}, "regions": ["eu"]},
        "acme/smart": {"wire": "anthropic", "context_window": 200000, "output_max": 64000},
        "other/fast": {"wire": "gemini", "context_window": 1000000, "output_max": 64000}
    }"#;

    #[test]
    fn the_builtin_catalog_reads() {
        assert!(Catalog::builtin().unwrap().iter().count() > 0);
    }

    #[test]
    fn models_are_found_by_full_or_unique_name() {
        let catalog = Catalog::parse(DATA).unwrap();
        assert_eq!(catalog.find("smart").unwrap().0, "acme/smart");
        let (_, card) = catalog.find("acme/fast").unwrap();
        let price = card.price.unwrap();
        assert_eq!((price.input.0, price.cache_read.0), (75_000_000, 75_000_000));
        let help = |name: &str| catalog.find(name).unwrap_err().help().into_owned();
        assert_eq!(help("fast"), "write one of: acme/fast, other/fast");
        assert_eq!(help("acme/smrat"), "did you mean `acme/smart`?");
        assert_eq!(help("smrt"), "did you mean `acme/smart`?");
        assert!(help("zzz").contains("weir.yaml"));
    }

    #[test]
    fn models_without_a_network_need_no_entry() {
        let catalog = Catalog::default();
        assert_eq!(catalog.find("offline/echo").unwrap().1.wire, Wire::Echo);
        assert_eq!(catalog.find("scripted/demo").unwrap().1.api_name.as_deref(), Some("demo"));
        assert!(catalog.find("scripted/").is_err());
    }
}

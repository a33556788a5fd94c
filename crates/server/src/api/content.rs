//! What someone says: a text, or blocks of text, pictures and documents. Nothing that only a model says, and nothing that
//! claims to be from a provider: what a client sends is input, never a decision.

use serde::Deserialize;
use serde_json::json;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use weir_types::Block;

use crate::error::Error;
use crate::media::{self, Sent, Unfit};

/// What is said.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a message is a text, or a list of blocks of text, images and documents")]
pub(crate) enum Content {
    /// In words.
    Text(String),
    /// In blocks.
    Blocks(Vec<Part>),
}

/// A block of what is said: `text`, or a medium as `base64` or `url`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    r#type: PartType,
    /// The words of a `text`.
    text: Option<String>,
    /// What an `image` or `document` is, like `image/png`.
    media_type: Option<String>,
    /// What a `document` is called.
    title: Option<String>,
    /// Its content.
    base64: Option<String>,
    /// Where its content is, for the model's provider to fetch.
    url: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartType {
    Text,
    Image,
    Document,
}

impl ToSchema for Content {
    fn name() -> std::borrow::Cow<'static, str> {
        "Message".into()
    }
}

impl PartialSchema for Content {
    fn schema() -> RefOr<Schema> {
        let medium = |kind: &str, more: serde_json::Value| {
            let from = |source: &str| {
                let mut properties = json!({
                    "type": { "type": "string", "enum": [kind] },
                    "media_type": { "type": "string", "examples": ["image/png"] },
                    source: { "type": "string" },
                });
                if let (Some(properties), Some(more)) = (properties.as_object_mut(), more.as_object()) {
                    properties.extend(more.clone());
                }
                let required = ["type", "media_type", source];
                json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
            };
            [from("base64"), from("url")]
        };
        let text = json!({
            "type": "object", "required": ["type", "text"], "additionalProperties": false,
            "properties": {
                "type": { "type": "string", "enum": ["text"] },
                "text": { "type": "string", "minLength": 1, "pattern": "\\S" },
            },
        });
        let title = json!({ "title": { "type": "string" } });
        let blocks: Vec<_> =
            [text].into_iter().chain(medium("image", json!({}))).chain(medium("document", title)).collect();
        let schema = json!({
            "description": "What is said: a text, or blocks of text, images and documents.",
            "oneOf": [
                { "type": "string", "minLength": 1, "pattern": "\\S" },
                { "type": "array", "minItems": 1, "items": { "oneOf": blocks } },
            ],
        });
        // INVARIANT: it is a schema, as a test of the document sees.
        serde_json::from_value(schema).map_or_else(|_| Schema::default().into(), RefOr::T)
    }
}

impl Content {
    /// As the engine takes it.
    ///
    /// # Errors
    /// When nothing is said, or a block makes no sense.
    pub(crate) fn blocks(self) -> Result<Vec<Block>, Error> {
        let blocks = match self {
            Self::Text(text) => vec![Block::text(text)],
            Self::Blocks(parts) => parts.into_iter().map(Part::block).collect::<Result<_, _>>()?,
        };
        let is_silent = blocks.iter().all(|block| block.as_text().is_some_and(|text| text.trim().is_empty()));
        match is_silent {
            true => Err(Error::bad("the message says nothing", "write something into `message`")),
            false => Ok(blocks),
        }
    }
}

impl Part {
    fn block(self) -> Result<Block, Error> {
        let wrong = |what: &str| {
            Error::bad(
                format!("a block of the message {what}"),
                "a text has `text`; an image or document has `media_type`, and `base64` or `url`",
            )
        };
        let Self { r#type, text, media_type, title, base64, url } = self;
        let is_medium = [&media_type, &title, &base64, &url].iter().any(|it| it.is_some());
        let kind = match (r#type, text) {
            (PartType::Text, Some(text)) if !is_medium => return Ok(Block::text(text)),
            (PartType::Text, _) => return Err(wrong("of type `text` has `text` and nothing else")),
            (_, Some(_)) => return Err(wrong("is not a text and has `text`")),
            (PartType::Image, None) if title.is_some() => {
                return Err(wrong("of type `image` has no `title`"));
            }
            (kind, None) => kind,
        };
        let (name, sent) = match (&base64, &url) {
            (Some(base64), None) => ("base64", Sent::Base64(base64)),
            (None, Some(url)) => ("url", Sent::Link(url)),
            _ => return Err(wrong("needs `base64` or `url`")),
        };
        let media_type = media_type.ok_or_else(|| wrong("needs `media_type`"))?;
        let block = match kind {
            PartType::Document => media::document(&media_type, title.as_deref(), sent),
            PartType::Image | PartType::Text => media::image(&media_type, sent),
        };
        block.map_err(|unfit| {
            let name = if matches!(unfit, Unfit::Image | Unfit::Document) { "media_type" } else { name };
            Error::bad(
                format!("`{name}` of a block of the message {unfit}"),
                "send what models take: `media_type` says what it is, `base64` has it or `url` is where it is",
            )
        })
    }
}

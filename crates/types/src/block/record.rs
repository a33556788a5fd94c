//! Blocks as they are stored. One flat record instead of a tagged enum: serde buffers tagged enums, which would
//! reorder the keys of what must stay verbatim.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Block, Sent, Source, View};
use crate::Json;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BlockRecord {
    r#type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Vec<BlockRecord>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent: Option<Sent>,
}

/// Some servers send `null` for arguments: that is a value, and only a field that is absent is none.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A stored block that makes no sense.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockError {
    #[error("a block of type `{kind}` needs `{field}`")]
    Missing { kind: String, field: &'static str },
}

impl From<Block> for BlockRecord {
    fn from(block: Block) -> Self {
        let record = match block.view {
            View::Text { text } => Self { r#type: "text".into(), text: Some(text), ..Self::default() },
            View::Thinking { text, signature } => {
                Self { r#type: "thinking".into(), text: Some(text), signature, ..Self::default() }
            }
            View::ToolUse { id, name, input } => Self {
                r#type: "tool_use".into(),
                id: Some(id),
                name: Some(name),
                input: Some(input),
                ..Self::default()
            },
            View::ToolResult { id, name, content, failed } => Self {
                r#type: "tool_result".into(),
                id: Some(id),
                name: Some(name),
                content: Some(content.into_iter().map(Self::from).collect()),
                failed,
                ..Self::default()
            },
            View::Image { media_type, source } => {
                Self { r#type: "image".into(), media_type: Some(media_type), ..Self::default() }
                    .with_source(source)
            }
            View::Document { media_type, title, source } => {
                Self { r#type: "document".into(), media_type: Some(media_type), title, ..Self::default() }
                    .with_source(source)
            }
            View::Unknown => Self { r#type: "unknown".into(), ..Self::default() },
        };
        Self { sent: block.sent, ..record }
    }
}

impl BlockRecord {
    fn with_source(self, source: Source) -> Self {
        match source {
            Source::Base64(base64) => Self { base64: Some(base64), ..self },
            Source::Url(url) => Self { url: Some(url), ..self },
        }
    }

    fn source(base64: Option<String>, url: Option<String>) -> Option<Source> {
        base64.map(Source::Base64).or(url.map(Source::Url))
    }
}

impl TryFrom<BlockRecord> for Block {
    type Error = BlockError;

    fn try_from(record: BlockRecord) -> Result<Self, BlockError> {
        let missing = |field| BlockError::Missing { kind: record.r#type.clone(), field };
        let view = match record.r#type.as_str() {
            "text" => View::Text { text: record.text.ok_or_else(|| missing("text"))? },
            "thinking" => View::Thinking {
                text: record.text.ok_or_else(|| missing("text"))?,
                signature: record.signature,
            },
            "tool_use" => View::ToolUse {
                id: record.id.ok_or_else(|| missing("id"))?,
                name: record.name.ok_or_else(|| missing("name"))?,
                input: record.input.ok_or_else(|| missing("input"))?,
            },
            "tool_result" => View::ToolResult {
                id: record.id.ok_or_else(|| missing("id"))?,
                name: record.name.ok_or_else(|| missing("name"))?,
                content: (record.content.ok_or_else(|| missing("content"))?.into_iter())
                    .map(Self::try_from)
                    .collect::<Result<_, _>>()?,
                failed: record.failed,
            },
            "image" => View::Image {
                media_type: record.media_type.ok_or_else(|| missing("media_type"))?,
                source: BlockRecord::source(record.base64, record.url).ok_or_else(|| missing("base64"))?,
            },
            "document" => View::Document {
                media_type: record.media_type.ok_or_else(|| missing("media_type"))?,
                title: record.title,
                source: BlockRecord::source(record.base64, record.url).ok_or_else(|| missing("base64"))?,
            },
            // A type that a later version knows is kept as what it was sent as.
            _ => View::Unknown,
        };
        Ok(Self { view, sent: record.sent })
    }
}

//! A tool's result, as blocks.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use weir_types::{Block, Json, Source, View};

/// Most pieces of one result.
const PIECES_MAX: usize = 1000;

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Text, images and documents, in the server's order.
    pub content: Vec<Block>,
    /// Whether the tool says that it failed.
    pub failed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    content: Option<Vec<Json>>,
    structured_content: Option<Json>,
    is_error: Option<bool>,
    result_type: Option<String>,
}

/// One piece of the content, read as far as its type says.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    Text { text: String },
    Image(Media),
    Audio(Media),
    Resource { resource: Resource },
    ResourceLink(Link),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Media {
    data: String,
    mime_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    uri: String,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    mime_type: Option<String>,
}

/// The result, or what is wrong with it.
pub(crate) fn read(result: &str) -> Result<Answered, String> {
    let result: CallResult =
        serde_json::from_str(result).map_err(|_| "its answer is no result of a tool".to_owned())?;
    if result.result_type.is_some_and(|kind| kind != "complete") {
        return Err("it wants to be told more first, and nobody is asked".to_owned());
    }
    let pieces = result.content.unwrap_or_default();
    if pieces.len() > PIECES_MAX {
        return Err(format!("its answer has more than {PIECES_MAX} pieces"));
    }
    let mut content: Vec<Block> = pieces.iter().filter_map(block).collect();
    let has_text = content.iter().any(|block| block.as_text().is_some());
    if let Some(structured) = result.structured_content.filter(|_| !has_text) {
        content.insert(0, Block::text(structured.as_str()));
    }
    Ok(Answered { content, failed: result.is_error.unwrap_or(false) })
}

fn block(piece: &Json) -> Option<Block> {
    // What is of no known type is shown as it is: a newer server may say more than we know.
    let Ok(read) = serde_json::from_str(piece.as_str()) else { return Some(Block::text(piece.as_str())) };
    match read {
        Piece::Text { text } if text.is_empty() => None,
        Piece::Text { text } => Some(Block::text(text)),
        Piece::Image(Media { data, mime_type }) => Some(media(data, Some(mime_type), None)),
        Piece::Audio(Media { data, mime_type }) => {
            Some(media(data, Some(mime_type), Some("audio".to_owned())))
        }
        Piece::Resource { resource } => Some(embedded(resource)),
        Piece::ResourceLink(link) => Some(Block::text(shown(link))),
    }
}

fn embedded(resource: Resource) -> Block {
    let Resource { uri, mime_type, text, blob } = resource;
    match (text, blob) {
        (Some(text), _) => Block::text(format!("{uri}\n\n{text}")),
        (None, Some(blob)) => media(blob, mime_type, Some(uri)),
        (None, None) => Block::text(format!("{uri} (empty)")),
    }
}

fn shown(link: Link) -> String {
    let Link { uri, name, title, description, mime_type } = link;
    let mut text = format!("[{}]({uri})", title.or(name).unwrap_or_else(|| "resource".to_owned()));
    if let Some(mime_type) = mime_type {
        text += &format!(" ({mime_type})");
    }
    if let Some(description) = description {
        text += &format!(": {description}");
    }
    text
}

/// Bytes, as an image or a document. Providers refuse a whole conversation for bytes that are none, so they are looked
/// at here.
fn media(data: String, media_type: Option<String>, title: Option<String>) -> Block {
    let media_type = media_type
        .filter(|media_type| is_media_type(media_type))
        .unwrap_or("application/octet-stream".to_owned());
    if BASE64_STANDARD.decode(&data).is_err() {
        return Block::text(format!("[{media_type} is left out: its data is not base64]"));
    }
    let source = Source::Base64(data);
    match media_type.starts_with("image/") {
        true => View::Image { media_type, source }.into(),
        false => View::Document { media_type, title, source }.into(),
    }
}

fn is_media_type(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
    };
    text.len() <= 127 && text.split_once('/').is_some_and(|(kind, rest)| is_word(kind) && is_word(rest))
}

/// Whether these are arguments: MCP knows none but objects.
pub(crate) fn is_object(json: &Json) -> bool {
    serde_json::from_str::<std::collections::HashMap<String, &RawValue>>(json.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str, expected: &[Block]) {
        assert_eq!(read(result).unwrap(), Answered { content: expected.to_vec(), failed: false }, "{result}");
    }

    fn of(piece: &str, expected: Block) {
        check(&format!(r#"{{"content":[{piece}]}}"#), &[expected]);
    }

    fn base64() -> Source {
        Source::Base64("AAEC".to_owned())
    }

    #[test]
    fn every_kind_of_content_becomes_a_block() {
        of(r#"{"type":"text","text":"hello","annotations":{"priority":1}}"#, Block::text("hello"));
        of(
            r#"{"type":"image","data":"AAEC","mimeType":"image/png"}"#,
            View::Image { media_type: "image/png".to_owned(), source: base64() }.into(),
        );
        of(
            r#"{"type":"audio","data":"AAEC","mimeType":"audio/wav"}"#,
            View::Document {
                media_type: "audio/wav".to_owned(),
                title: Some("audio".to_owned()),
                source: base64(),
            }
            .into(),
        );
        of(
            r#"{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"words"}}"#,
            Block::text("file:///a\n\nwords"),
        );
        of(
            r#"{"type":"resource","resource":{"uri":"file:///a.pdf","mimeType":"application/pdf","blob":"AAEC"}}"#,
            View::Document {
                media_type: "application/pdf".to_owned(),
                title: Some("file:///a.pdf".to_owned()),
                source: base64(),
            }
            .into(),
        );
        of(
            r#"{"type":"resource","resource":{"uri":"x:1","mimeType":"image/png","blob":"AAEC"}}"#,
            View::Image { media_type: "image/png".to_owned(), source: base64() }.into(),
        );
        of(
            r#"{"type":"resource_link","uri":"file:///a","name":"a","description":"the first","mimeType":"text/plain"}"#,
            Block::text("[a](file:///a) (text/plain): the first"),
        );
    }

    #[test]
    fn what_is_not_understood_is_shown_as_it_is() {
        for piece in [r#"{"type":"hologram","x":1.50}"#, r#"{"type":"text"}"#, "7"] {
            of(piece, Block::text(piece));
        }
    }

    #[test]
    fn bytes_that_are_none_are_left_out() {
        of(
            r#"{"type":"image","data":"?","mimeType":"image/png"}"#,
            Block::text("[image/png is left out: its data is not base64]"),
        );
        of(
            r#"{"type":"image","data":"AAEC","mimeType":"image/png\nx"}"#,
            View::Document {
                media_type: "application/octet-stream".to_owned(),
                title: None,
                source: base64(),
            }
            .into(),
        );
    }

    #[test]
    fn structured_content_stands_in_for_words() {
        let structured = r#"{"x":1.50}"#;
        check(&format!(r#"{{"structuredContent":{structured}}}"#), &[Block::text(structured)]);
        check(&format!(r#"{{"content":[],"structuredContent":{structured}}}"#), &[Block::text(structured)]);
        check(
            &format!(r#"{{"content":[{{"type":"text","text":"x"}}],"structuredContent":{structured}}}"#),
            &[Block::text("x")],
        );
        check(r#"{"content":[{"type":"text","text":""}]}"#, &[]);
        check("{}", &[]);
    }

    #[test]
    fn a_result_that_is_none_is_refused() {
        for result in ["[]", "1", r#"{"content":"x"}"#, r#"{"isError":"no"}"#] {
            assert_eq!(read(result).unwrap_err(), "its answer is no result of a tool", "{result}");
        }
        assert!(read(r#"{"resultType":"input_required"}"#).unwrap_err().contains("nobody is asked"));
        let many = vec!["1"; PIECES_MAX + 1].join(",");
        assert!(read(&format!(r#"{{"content":[{many}]}}"#)).unwrap_err().contains("more than 1000 pieces"));
        assert!(read(r#"{"content":[],"isError":true,"resultType":"complete"}"#).unwrap().failed);
    }
}

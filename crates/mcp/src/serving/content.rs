//! Blocks as content of a result.

use rmcp::model::{ContentBlock, Resource, ResourceContents};
use weir_types::{Block, Source, View};

/// What a client can be shown of these blocks. Reasoning, and what only a provider understands, is not for clients.
pub(crate) fn of(blocks: &[Block]) -> Vec<ContentBlock> {
    blocks.iter().filter_map(piece).collect()
}

fn piece(block: &Block) -> Option<ContentBlock> {
    match &block.view {
        View::Text { text } => Some(ContentBlock::text(text.clone())),
        View::Image { media_type, source: Source::Base64(data) } => {
            Some(ContentBlock::image(data.clone(), media_type.clone()))
        }
        View::Document { media_type, title, source: Source::Base64(data) } => {
            Some(ContentBlock::resource(ResourceContents::BlobResourceContents {
                uri: named(title.as_deref()),
                mime_type: Some(media_type.clone()),
                blob: data.clone(),
                meta: None,
            }))
        }
        View::Image { media_type, source: Source::Url(url) } => Some(link(url, "image", media_type)),
        View::Document { media_type, title, source: Source::Url(url) } => {
            Some(link(url, title.as_deref().unwrap_or("document"), media_type))
        }
        View::Thinking { .. } | View::ToolUse { .. } | View::ToolResult { .. } | View::Unknown => None,
    }
}

fn link(url: &str, name: &str, media_type: &str) -> ContentBlock {
    ContentBlock::ResourceLink(Resource::new(url, name).with_mime_type(media_type))
}

/// A document's title may be an address already; if not, it gets one that leads nowhere.
fn named(title: Option<&str>) -> String {
    match title {
        Some(title) if title.contains("://") => title.to_owned(),
        Some(title) => format!("document:{}", title.replace(' ', "%20")),
        None => "document:untitled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(view: View) -> Value {
        serde_json::to_value(of(&[view.into()])).unwrap()
    }

    #[test]
    fn every_block_is_shown_as_what_it_is() {
        assert_eq!(shown(View::Text { text: "hello".into() }), json!([{"type": "text", "text": "hello"}]));
        let (media_type, source) = ("image/png".to_owned(), Source::Base64("AAEC".into()));
        assert_eq!(
            shown(View::Image { media_type, source }),
            json!([{"type": "image", "data": "AAEC", "mimeType": "image/png"}])
        );
        let document = |title: Option<&str>| View::Document {
            media_type: "application/pdf".into(),
            title: title.map(str::to_owned),
            source: Source::Base64("AAEC".into()),
        };
        for (title, uri) in
            [(Some("a b"), "document:a%20b"), (Some("file:///a"), "file:///a"), (None, "document:untitled")]
        {
            let resource = json!({"uri": uri, "mimeType": "application/pdf", "blob": "AAEC"});
            assert_eq!(shown(document(title)), json!([{"type": "resource", "resource": resource}]));
        }
        let (media_type, source) = ("image/png".to_owned(), Source::Url("https://a.test/x".into()));
        assert_eq!(
            shown(View::Image { media_type, source }),
            json!([{"type": "resource_link", "uri": "https://a.test/x", "name": "image", "mimeType": "image/png"}])
        );
    }

    #[test]
    fn what_a_model_thinks_is_not_for_clients() {
        assert_eq!(shown(View::Thinking { text: "hm".into(), signature: None }), json!([]));
        assert_eq!(shown(View::Unknown), json!([]));
    }
}

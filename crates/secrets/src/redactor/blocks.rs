//! Blocks and JSON without the secrets.

use serde_json::Value;
use weir_types::{Block, Json, Sent, Source, View};

use super::{REDACTED, Redactor};

impl Redactor {
    /// Takes the secrets out of blocks. A picture or document whose bytes have one is left out: without it, it would be
    /// damaged.
    pub fn redact_blocks(&self, blocks: &mut [Block]) {
        for block in blocks {
            self.redact_block(block);
        }
    }

    fn redact_block(&self, block: &mut Block) {
        if let Some(Sent { json, .. }) = &mut block.sent {
            *json = self.redact_json(json);
        }
        match &mut block.view {
            View::Text { text } => self.clean(text),
            View::Thinking { text, signature } => {
                self.clean(text);
                signature.iter_mut().for_each(|signature| self.clean(signature));
            }
            View::ToolUse { id, name, input } => {
                self.clean(id);
                self.clean(name);
                *input = self.redact_json(input);
            }
            View::ToolResult { id, name, content, failed: _ } => {
                self.clean(id);
                self.clean(name);
                self.redact_blocks(content);
            }
            View::Image { media_type, source } => {
                self.clean(media_type);
                if self.clean_source(source) {
                    *block = Block::text("[a picture that has a secret in it was left out]");
                }
            }
            View::Document { media_type, title, source } => {
                self.clean(media_type);
                title.iter_mut().for_each(|title| self.clean(title));
                if self.clean_source(source) {
                    *block = Block::text("[a document that has a secret in it was left out]");
                }
            }
            View::Unknown => {}
        }
    }

    fn clean(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }

    /// Says whether it has to be left out.
    fn clean_source(&self, source: &mut Source) -> bool {
        match source {
            Source::Base64(data) => self.finds(data),
            Source::Url(url) => {
                self.clean(url);
                false
            }
        }
    }

    /// JSON without the secrets. It stays JSON, and the very text it was if there is none in it.
    pub fn redact_json(&self, json: &Json) -> Json {
        if !self.finds(json.as_str()) {
            return json.clone();
        }
        let mut value = json.to_value();
        self.clean_value(&mut value);
        let clean = Json::of(&value);
        // What is neither in a string nor in a number is spread over several of them.
        if self.finds(clean.as_str()) { Json::of(&Value::String(REDACTED.to_owned())) } else { clean }
    }

    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if self.finds(&number.to_string()) {
                    *value = Value::String(REDACTED.to_owned());
                }
            }
            Value::String(text) => self.clean(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(fields) => {
                let taken = std::mem::take(fields);
                for (mut name, mut value) in taken {
                    self.clean(&mut name);
                    self.clean_value(&mut value);
                    fields.insert(name, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use weir_types::Secret;

    const SECRET: &str = "planted-\"key\"";

    fn redactor() -> Redactor {
        let redactor = Redactor::default();
        assert!(redactor.learn(&Secret::new(SECRET)) && redactor.learn(&Secret::new("12345678")));
        redactor
    }

    #[test]
    fn json_stays_json() {
        let redactor = redactor();
        let check = |json: &str, expected: &str| {
            assert_eq!(redactor.redact_json(&Json::parse(json).unwrap()).as_str(), expected, "{json}");
        };
        check(r#"{"b": 1.50,  "a": "x"}"#, r#"{"b": 1.50,  "a": "x"}"#);
        check(r#"{"a":["say planted-\"key\" now"]}"#, r#"{"a":["say [secret] now"]}"#);
        check(r#"{"planted-\"key\"":1}"#, r#"{"[secret]":1}"#);
        check(r#"{"pin":12345678}"#, r#"{"pin":"[secret]"}"#);
        check(r#""12345678""#, r#""[secret]""#);
    }

    #[test]
    fn every_part_of_every_block_is_looked_at() {
        let redactor = redactor();
        let text = || format!("a {SECRET}");
        let json = || Json::of(&Value::String(text()));
        let inner = || Block { view: View::Text { text: text() }, sent: None };
        let picture = |data: &str| View::Image {
            media_type: "image/png".into(),
            source: Source::Base64(STANDARD.encode(data)),
        };
        let mut blocks = vec![
            Block { view: View::Unknown, sent: Some(Sent { wire: "x".into(), json: json() }) },
            inner(),
            View::Thinking { text: text(), signature: Some(text()) }.into(),
            View::ToolUse { id: text(), name: text(), input: json() }.into(),
            View::ToolResult { id: text(), name: text(), content: vec![inner()], failed: true }.into(),
            picture(&text()).into(),
            picture("harmless").into(),
            View::Document { media_type: text(), title: Some(text()), source: Source::Url(text()) }.into(),
            View::Document {
                media_type: text(),
                title: None,
                source: Source::Base64(STANDARD.encode(text())),
            }
            .into(),
        ];
        redactor.redact_blocks(&mut blocks);
        let told = serde_json::to_string(&blocks).unwrap();
        assert!(!redactor.finds(&told) && !told.contains("planted"), "{told}");
        assert_eq!(told.matches("[secret]").count(), 13, "{told}");
        assert!(
            told.contains("a picture that has a secret") && told.contains("a document that has a secret")
        );
        assert_eq!(blocks[6], picture("harmless").into());
    }
}

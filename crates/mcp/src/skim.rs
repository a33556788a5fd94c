//! A message that is too long to be kept: read past, and only its id is remembered, so that it costs the one call it
//! answers and not the connection.

/// Most bytes of an id. Ours are numbers.
const ID_BYTES_MAX: usize = 20;

/// Reads JSON byte by byte and keeps the `id` of the outermost object.
#[derive(Debug, Default)]
pub(crate) struct Skim {
    depth: u32,
    is_in_text: bool,
    is_escaped: bool,
    /// The text that began last at the outermost level, as far as it matters.
    key: Vec<u8>,
    /// Whether what follows is the value of `id`.
    is_id: bool,
    id: Vec<u8>,
}

impl Skim {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.is_in_text {
                self.in_text(byte);
            } else {
                self.between(byte);
            }
        }
    }

    /// The id, if it is one of ours.
    pub(crate) fn id(&self) -> Option<i64> {
        std::str::from_utf8(&self.id).ok()?.trim().parse().ok()
    }

    fn in_text(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.is_in_text = false,
            _ if self.depth == 1 => {
                if self.key.len() < ID_BYTES_MAX {
                    self.key.push(byte);
                }
                self.keep(byte);
            }
            _ => {}
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.is_in_text = true;
                if self.depth == 1 {
                    self.key.clear();
                }
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => {
                self.is_id = self.key == b"id";
                if self.is_id {
                    self.id.clear();
                }
            }
            b',' if self.depth == 1 => self.is_id = false,
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.is_id && self.depth == 1 && self.id.len() < ID_BYTES_MAX {
            self.id.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(message: &str) -> Option<i64> {
        let mut whole = Skim::default();
        whole.read(message.as_bytes());
        // The pieces in which it comes make no difference.
        let mut pieces = Skim::default();
        message.as_bytes().chunks(1).for_each(|piece| pieces.read(piece));
        assert_eq!(pieces.id(), whole.id(), "{message}");
        whole.id()
    }

    #[test]
    fn the_id_is_found_wherever_it_is() {
        for message in [
            r#"{"jsonrpc":"2.0","id":42,"result":{"id":7}}"#,
            r#"{"result":{"id":7,"x":["}",{"id":8}]},"jsonrpc":"2.0","id": 42 }"#,
            r#"{"result":"\"id\":7,","id":"42"}"#,
            r#"{"a":"id","id":42,"b":"id"}"#,
        ] {
            assert_eq!(id(message), Some(42), "{message}");
        }
        for message in
            [r#"{"result":{"id":7}}"#, r#"{"id":null}"#, "\0\0\0", r#"{"a":"id:7"}"#, r#"["id",7]"#]
        {
            assert_eq!(id(message), None, "{message}");
        }
    }
}

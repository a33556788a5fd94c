//! Lists of tools, kept whole.
//!
//! `rmcp` reads a tool into a type that drops the fields it does not know, and a newer version of it would know more:
//! hashes would change with our dependencies. So a list of tools travels through it as text, inside a result of no
//! known kind.

use std::borrow::Cow;

use rmcp::model::ServerResult;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The field that carries the text.
const FIELD: &str = "weir/tools";

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Listing<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// The message, with a list of tools wrapped as text.
pub(crate) fn wrap(message: &str) -> Cow<'_, str> {
    let Ok(Message { id: Some(id), result: Some(result) }) = serde_json::from_str(message) else {
        return Cow::Borrowed(message);
    };
    if !matches!(serde_json::from_str(result.get()), Ok(Listing { tools: Some(_) })) {
        return Cow::Borrowed(message);
    }
    let text = serde_json::Value::from(result.get());
    Cow::Owned(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{FIELD}":{text}}}}}"#))
}

/// The text of a list of tools, if that is what the result is.
pub(crate) fn unwrap(result: &ServerResult) -> Option<&str> {
    match result {
        ServerResult::CustomResult(custom) => custom.0.get(FIELD)?.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through_rmcp(message: &str) -> Option<String> {
        use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
        let JsonRpcMessage::Response(response) =
            serde_json::from_str::<ServerJsonRpcMessage>(&wrap(message)).ok()?
        else {
            return None;
        };
        unwrap(&response.result).map(str::to_owned)
    }

    #[test]
    fn a_list_arrives_as_the_text_it_was() {
        let list = r#"{"tools":[{"name":"a","inputSchema":{"x":1.50},"unknown":"é\n"}],"nextCursor":"2"}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{list}}}"#);
        assert_eq!(through_rmcp(&message).as_deref(), Some(list));
        let broken = r#"{"tools":"none"}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","id":"x","result":{broken}}}"#);
        assert_eq!(through_rmcp(&message).as_deref(), Some(broken));
    }

    #[test]
    fn everything_else_is_left_alone() {
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
            "nonsense",
        ] {
            assert_eq!(wrap(message), message);
        }
    }
}

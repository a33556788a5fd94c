//! Arguments that are sent as they were approved.
//!
//! `rmcp` would read them into its own values and write them again, with numbers rounded to what those can hold. So the
//! text goes along beside the request and takes its place when the message is written.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde::Serialize;
use weir_types::Json;

/// The arguments of a call, in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Arguments(Json);

impl Arguments {
    /// The arguments, on one line: a message of a program ends with its line. JSON has line breaks only between its
    /// words, where a space means the same.
    pub(crate) fn new(json: &Json) -> Self {
        let text = json.as_str();
        if !text.contains(['\n', '\r']) {
            return Self(json.clone());
        }
        Self(Json::parse(&text.replace(['\n', '\r'], " ")).unwrap_or_else(|_| json.clone()))
    }
}

#[derive(Serialize)]
struct Message<'m, I, M> {
    jsonrpc: &'static str,
    id: &'m I,
    method: &'static str,
    params: Params<'m, M>,
}

#[derive(Serialize)]
struct Params<'m, M> {
    name: &'m str,
    arguments: &'m Json,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'m M>,
}

/// The message as it goes over the wire.
pub(crate) fn encode(message: &ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &request.request
        && let Some(Arguments(arguments)) = call.extensions.get::<Arguments>()
    {
        let meta = call.extensions.get::<rmcp::model::RequestMetaObject>().or(call.params.meta.as_ref());
        let params = Params { name: &call.params.name, arguments, meta };
        return serde_json::to_vec(&Message {
            jsonrpc: "2.0",
            id: &request.id,
            method: "tools/call",
            params,
        });
    }
    serde_json::to_vec(message)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams, GetMeta, RequestId};

    use super::*;

    #[test]
    fn arguments_keep_their_spelling_and_the_rest_is_what_the_library_writes() {
        let arguments = r#"{"z":123456789012345678901234567890,"a":1.50}"#;
        let mut call = CallToolRequest::new(CallToolRequestParams::new("add"));
        call.extensions.insert(Arguments::new(&Json::parse(arguments).unwrap()));
        let mut request = ClientRequest::CallToolRequest(call);
        request.get_meta_mut().insert("weir/idempotency-key".to_owned(), "k".into());
        let message = ClientJsonRpcMessage::request(request, RequestId::Number(3));

        let written = String::from_utf8(encode(&message).unwrap()).unwrap();
        assert!(written.contains(&format!(r#""arguments":{arguments}"#)), "{written}");
        let mut ours: serde_json::Value = serde_json::from_str(&written).unwrap();
        ours["params"].as_object_mut().unwrap().remove("arguments");
        assert_eq!(ours, serde_json::to_value(&message).unwrap());
    }

    #[test]
    fn arguments_are_one_line() {
        let arguments = Arguments::new(&Json::parse("{\n\t\"a\": \"x\\ny\",\r\n \"b\": 1\n}").unwrap());
        assert_eq!(arguments.0.as_str(), "{ \t\"a\": \"x\\ny\",   \"b\": 1 }");
    }
}

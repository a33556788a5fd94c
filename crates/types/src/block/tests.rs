use super::*;

fn check(block: &Block, json: &str) {
    assert_eq!(serde_json::to_string(block).unwrap(), json);
    assert_eq!(&serde_json::from_str::<Block>(json).unwrap(), block);
}

#[test]
fn blocks_keep_their_order_and_spelling() {
    check(&Block::text("hi"), r#"{"type":"text","text":"hi"}"#);
    let thinking = View::Thinking { text: "hm".into(), signature: Some("c2ln".into()) };
    check(&thinking.into(), r#"{"type":"thinking","text":"hm","signature":"c2ln"}"#);
    let input = Json::parse(r#"{"z":1.50,"a":[1e2]}"#).unwrap();
    let sent =
        Json::parse(r#"{"type":"tool_use","id":"t1","name":"f","input":{"z":1.50,"a":[1e2]}}"#).unwrap();
    let call = Block {
        view: View::ToolUse { id: "t1".into(), name: "f".into(), input },
        sent: Some(Sent { wire: "anthropic".into(), json: sent }),
    };
    check(
        &call,
        r#"{"type":"tool_use","id":"t1","name":"f","input":{"z":1.50,"a":[1e2]},"sent":{"wire":"anthropic","json":{"type":"tool_use","id":"t1","name":"f","input":{"z":1.50,"a":[1e2]}}}}"#,
    );
    let image = View::Image { media_type: "image/png".into(), source: Source::Base64("AAAA".into()) };
    let result =
        View::ToolResult { id: "t1".into(), name: "f".into(), content: vec![image.into()], failed: true };
    check(
        &result.into(),
        r#"{"type":"tool_result","id":"t1","name":"f","content":[{"type":"image","media_type":"image/png","base64":"AAAA"}],"failed":true}"#,
    );
    let source = Source::Url("https://example.com/a.pdf".into());
    let document = View::Document { media_type: "application/pdf".into(), title: None, source };
    check(
        &document.into(),
        r#"{"type":"document","media_type":"application/pdf","url":"https://example.com/a.pdf"}"#,
    );
    let sent = Json::parse(r#"{"type":"redacted_thinking","data":"x"}"#).unwrap();
    let unknown = Block { view: View::Unknown, sent: Some(Sent { wire: "anthropic".into(), json: sent }) };
    check(
        &unknown,
        r#"{"type":"unknown","sent":{"wire":"anthropic","json":{"type":"redacted_thinking","data":"x"}}}"#,
    );
}

#[test]
fn arguments_may_be_null() {
    let call = View::ToolUse { id: "t1".into(), name: "f".into(), input: Json::null() };
    check(&call.into(), r#"{"type":"tool_use","id":"t1","name":"f","input":null}"#);
}

#[test]
fn a_block_without_what_it_needs_is_refused() {
    let refused = |json: &str| serde_json::from_str::<Block>(json).unwrap_err().to_string();
    assert_eq!(refused(r#"{"type":"text"}"#), "a block of type `text` needs `text`");
    assert_eq!(
        refused(r#"{"type":"image","media_type":"image/png"}"#),
        "a block of type `image` needs `base64`"
    );
}

#[test]
fn a_block_of_a_later_version_is_kept_as_sent() {
    let later = r#"{"type":"hologram","depth":3,"sent":{"wire":"gemini","json":{"b":1,"a":2}}}"#;
    let block: Block = serde_json::from_str(later).unwrap();
    assert_eq!(
        (&block.view, block.sent_as("gemini").unwrap().as_str()),
        (&View::Unknown, r#"{"b":1,"a":2}"#)
    );
}

use weir_types::{Message, Purpose, Role};

use super::*;

#[test]
fn four_characters_are_a_token() {
    for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語です", 2)] {
        assert_eq!(of_text(text), tokens, "{text}");
    }
}

#[test]
fn every_sort_of_block_counts() {
    let sent = |json: &str| Some(Sent { wire: "w".into(), json: Json::parse(json).unwrap() });
    let check = |view: View, sent: Option<Sent>, tokens: u64| {
        assert_eq!(of_blocks(&[Block { view, sent }]), OVERHEAD_TOKENS + tokens);
    };
    check(View::Text { text: "abcdefgh".into() }, None, 2);
    check(View::Text { text: "ab".into() }, sent(r#""twelve char""#), 4);
    check(View::Thinking { text: "abcd".into(), signature: Some("abcdefgh".into()) }, None, 3);
    let input = Json::parse(r#"{"a":1}"#).unwrap();
    check(View::ToolUse { id: "t1".into(), name: "read".into(), input }, None, 1 + 1 + 2);
    let content = vec![Block::text("abcd")];
    check(
        View::ToolResult { id: "t1".into(), name: "read".into(), content, failed: false },
        None,
        1 + 1 + OVERHEAD_TOKENS + 1,
    );
    let image = |source| View::Image { media_type: "image/png".into(), source };
    check(image(Source::Base64("A".repeat(100_000))), None, MEDIA_TOKENS);
    check(image(Source::Url("abcdefgh".into())), None, MEDIA_TOKENS + 2);
    let source = Source::Base64(String::new());
    check(
        View::Document { media_type: "x".into(), title: Some("abcd".into()), source },
        None,
        MEDIA_TOKENS + 1,
    );
    check(View::Unknown, sent("[1,2,3,4]"), 3);
}

#[test]
fn a_request_counts_with_everything_in_it() {
    let tool = ToolDefinition {
        name: "read".into(),
        description: "abcdefgh".into(),
        schema: Json::parse("{}").unwrap(),
    };
    assert_eq!(of_tools(std::slice::from_ref(&tool)), OVERHEAD_TOKENS + 1 + 2 + 1);
    let request = Request {
        model: "m".into(),
        system: "abcd".into(),
        tools: vec![tool],
        messages: vec![Message { role: Role::User, content: vec![Block::text("abcd")] }],
        output_tokens_max: 1,
        purpose: Purpose::Turn,
    };
    assert_eq!(of_request(&request), 1 + (OVERHEAD_TOKENS + 4) + (OVERHEAD_TOKENS + OVERHEAD_TOKENS + 1));
}

#[test]
fn estimates_follow_what_the_provider_counts() {
    let mut gauge = Gauge::default();
    assert_eq!((gauge.corrected(1_000), gauge.estimated(1_000)), (1_000, 1_000));
    gauge.learn(1_000, 1_300);
    assert_eq!((gauge.corrected(1_000), gauge.estimated(1_300)), (1_300, 1_000));
    // The newest counts.
    gauge.learn(1_000, 800);
    assert_eq!((gauge.corrected(1_000), gauge.estimated(800)), (800, 1_000));
    // Nothing can be learnt from nothing, and nonsense has bounds.
    gauge.learn(0, 500);
    gauge.learn(500, 0);
    assert_eq!(gauge.corrected(1_000), 800);
    gauge.learn(1, u64::MAX);
    assert_eq!(gauge.corrected(1_000), 4_000);
    gauge.learn(u64::MAX, 1);
    assert_eq!(gauge.corrected(1_000), 500);
    assert_eq!(gauge.estimated(u64::MAX), u64::MAX);
}

//! Requests as the server sees them.

use weir_types::{Block, Request, Source, ToolDefinition, View, Wire};

use crate::fixture::{
    ANTHROPIC, CHAT, GEMINI, RESPONSES, Wired, assistant, json, request, result, sent, tool_use, user,
};
use crate::stub::Seen;

/// A conversation with everything in it, in which every provider has taken part.
fn conversation(model: &str) -> Request {
    let picture =
        || View::Image { media_type: "image/png".into(), source: Source::Base64("iVBORw0=".into()) };
    let document = |media_type: &str, title: &str, data: &str| View::Document {
        media_type: media_type.into(),
        title: Some(title.into()),
        source: Source::Base64(data.into()),
    };
    let unknown = |wire: Wire, text: &str| sent(wire, View::Unknown, text);
    let failed = View::ToolResult {
        id: "id that does not fit".into(),
        name: "clock".into(),
        content: vec![Block::text("no clock here"), picture().into()],
        failed: true,
    };
    let question = vec![
        Block::text("What is this?"),
        picture().into(),
        View::Image {
            media_type: "image/webp".into(),
            source: Source::Url("https://example.com/a.webp".into()),
        }
        .into(),
        document("application/pdf", "report.pdf", "JVBERi0=").into(),
        document("text/plain", "notes.txt", "aGVsbG8=").into(),
        document("application/zip", "all.zip", "UEs=").into(),
        Block::text("<runtime>monday</runtime>"),
    ];
    let said = vec![
        View::Thinking { text: "signed by Anthropic".into(), signature: Some("c2ln".into()) }.into(),
        View::Thinking { text: "unsigned".into(), signature: None }.into(),
        sent(
            Wire::Gemini,
            View::Thinking { text: "signed by Google".into(), signature: Some("Z29vZ2xl".into()) },
            r#"{"text":"signed by Google","thought":true,"thoughtSignature":"Z29vZ2xl"}"#,
        ),
        unknown(Wire::Anthropic, r#"{"type":"redacted_thinking","data":"x"}"#),
        unknown(Wire::OpenaiChat, r#"{"reasoning_details":[{"z":1,"a":2}]}"#),
        unknown(Wire::OpenaiResponses, r#"{"type":"web_search_call","id":"ws_1"}"#),
        unknown(Wire::Gemini, r#"{"executableCode":{"code":"1"}}"#),
        Block::text("Let me look."),
        Block::text(""),
        tool_use("call_a", "weather", r#"{"city":"Oslo","days":1.50}"#).into(),
        tool_use("id that does not fit", "clock", r#""{oops""#).into(),
    ];
    let weather =
        || json(r#"{"type":"object","properties":{"city":{"type":"string"}},"additionalProperties":false}"#);
    Request {
        system: "Be brief.".into(),
        tools: vec![
            ToolDefinition { name: "weather".into(), description: "The weather.".into(), schema: weather() },
            ToolDefinition {
                name: "clock".into(),
                description: String::new(),
                schema: json(r#"{"type":"object"}"#),
            },
        ],
        ..request(
            model,
            vec![
                user(question),
                assistant(said),
                // Words before results, and in between a message of which nothing can be sent.
                user(vec![Block::text("And now?"), result("call_a", "weather", "21"), failed.into()]),
                assistant(vec![View::Thinking { text: "nothing".into(), signature: None }.into()]),
                user(vec![Block::text("Well?")]),
            ],
        )
    }
}

async fn check(wired: &Wired, name: &str) {
    let (_, model) = wired.name.split_once('/').unwrap();
    let full = wired.seen(&conversation(model)).await;
    let bare = wired.seen(&wired.request()).await;
    insta::assert_snapshot!(name, format!("{}\n\n{}", shown(&full), shown(&bare)));
}

/// The request with its body broken into lines, and without what changes from run to run.
fn shown(seen: &Seen) -> String {
    let header = |(name, value): &(String, String)| match name.as_str() {
        "host" => format!("{name}: [address]\n"),
        "user-agent" => format!("{name}: weir/[version]\n"),
        "content-length" => String::new(),
        _ => format!("{name}: {value}\n"),
    };
    let headers: String = seen.headers.iter().map(header).collect();
    format!("{}\n{headers}\n{}", seen.line, lines(&seen.body))
}

/// JSON, indented, with every key where it was.
fn lines(json: &str) -> String {
    let mut shown = String::new();
    let mut depth = 0;
    let mut in_text = false;
    let mut escaped = false;
    for c in json.chars() {
        let structural = !in_text;
        in_text ^= c == '"' && !escaped;
        escaped = in_text && c == '\\' && !escaped;
        let indent = |depth: usize| format!("\n{}", "  ".repeat(depth));
        match c {
            '{' | '[' if structural => {
                depth += 1;
                shown.push(c);
                shown.push_str(&indent(depth));
            }
            '}' | ']' if structural => {
                depth -= 1;
                shown.push_str(&indent(depth));
                shown.push(c);
            }
            ',' if structural => {
                shown.push(c);
                shown.push_str(&indent(depth));
            }
            c => shown.push(c),
        }
    }
    shown
}

#[tokio::test]
async fn anthropic_sees() {
    check(&ANTHROPIC, "anthropic").await;
}

#[tokio::test]
async fn openai_chat_sees() {
    check(&CHAT, "openai_chat").await;
}

#[tokio::test]
async fn openai_responses_sees() {
    check(&RESPONSES, "openai_responses").await;
}

#[tokio::test]
async fn gemini_sees() {
    check(&GEMINI, "gemini").await;
}

#[tokio::test]
async fn nothing_to_say_is_refused_before_a_server_does() {
    for wired in [ANTHROPIC, CHAT, RESPONSES, GEMINI] {
        let empty = request("m", vec![user(vec![Block::text("")])]);
        let endpoint = weir_models::Endpoint::of(&wired.card(), wired.name, None);
        let error = wired.model(endpoint).encode(&empty).unwrap_err();
        let expected = "the conversation has nothing that can be sent to this model";
        assert_eq!(error.message, expected, "{}", wired.wire);
    }
}

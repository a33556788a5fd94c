//! Messages as the providers send them: each block verbatim, with the neutral view beside it.

use super::events::tool_call;
use super::json::{Json, object};
use super::random::Random;
use super::words::{sentence, text};

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The models a message may come from, with the function that makes its blocks.
#[derive(Clone, Copy)]
pub(super) enum Wire {
    Anthropic,
    OpenAiChat,
    OpenAiResponses,
    Gemini,
}

impl Wire {
    pub(super) fn any(random: &mut Random) -> Self {
        match random.below(8) {
            0..4 => Self::Anthropic,
            4 | 5 => Self::OpenAiChat,
            6 => Self::OpenAiResponses,
            _ => Self::Gemini,
        }
    }

    pub(super) fn model(self, random: &mut Random) -> &'static str {
        match self {
            Self::Anthropic => random.pick(&[
                "anthropic/claude-sonnet-4-5",
                "anthropic/claude-haiku-4-5",
                "anthropic/claude-opus-4-1",
            ]),
            Self::OpenAiChat => {
                random.pick(&["openai/gpt-4.1-mini", "mistral/mistral-large", "ollama/llama3.3"])
            }
            Self::OpenAiResponses => random.pick(&["openai/gpt-5", "openai/gpt-5-mini", "openai/o4-mini"]),
            Self::Gemini => random.pick(&["google/gemini-2.5-pro", "google/gemini-2.5-flash"]),
        }
    }

    pub(super) fn message_id(self, random: &mut Random) -> String {
        match self {
            Self::Anthropic => format!("msg_01{}", random.text(ALNUM, 22)),
            Self::OpenAiChat => format!("chatcmpl-{}", random.text(ALNUM, 29)),
            Self::OpenAiResponses => format!("resp_{}", random.hex(48)),
            Self::Gemini => random.text(ALNUM, 22),
        }
    }

    /// The blocks of one assistant message and why it stopped.
    pub(super) fn message(self, random: &mut Random) -> (Vec<Json>, &'static str) {
        let mut blocks = Vec::new();
        if random.one_in(3) {
            blocks.push(self.thinking(random));
        }
        let calls = if random.one_in(2) { 1 + random.below(2) } else { 0 };
        if calls == 0 || !random.one_in(3) {
            let sentences = 1 + random.below(if calls == 0 { 9 } else { 2 });
            blocks.push(self.text(text(random, sentences)));
        }
        blocks.extend((0..calls).map(|_| self.call(random)));
        (blocks, if calls > 0 { "tool_use" } else { "end" })
    }

    fn text(self, text: String) -> Json {
        let raw = match self {
            Self::Anthropic => object! { r#type: "text", text: text.clone() },
            Self::OpenAiChat => object! { role: "assistant", content: text.clone(), refusal: Json::null() },
            Self::OpenAiResponses => object! {
                r#type: "message", role: "assistant", status: "completed",
                content: vec![object! { r#type: "output_text", text: text.clone(), annotations: Vec::<Json>::new() }],
            },
            Self::Gemini => object! { text: text.clone() },
        };
        object! { r#type: "text", text: text, raw: raw }
    }

    fn thinking(self, random: &mut Random) -> Json {
        let sentences = 1 + random.below(4);
        let thought = text(random, sentences);
        let raw = match self {
            Self::Anthropic => object! {
                r#type: "thinking", thinking: thought.clone(),
                signature: format!("EqQBCgIYAhIM{}", random.text(ALNUM, 60)),
            },
            Self::OpenAiChat => object! { role: "assistant", reasoning_content: thought.clone() },
            Self::OpenAiResponses => object! {
                r#type: "reasoning", id: format!("rs_{}", random.hex(48)),
                summary: vec![object! { r#type: "summary_text", text: thought.clone() }],
            },
            Self::Gemini => object! { thought: true, text: thought.clone() },
        };
        object! { r#type: "thinking", text: thought, raw: raw }
    }

    fn call(self, random: &mut Random) -> Json {
        let (tool, input) = tool_call(random);
        let arguments = input.to_string();
        let raw = match self {
            Self::Anthropic => object! {
                r#type: "tool_use", id: format!("toolu_01{}", random.text(ALNUM, 22)), name: tool.clone(),
                input: Json::Raw(arguments),
            },
            Self::OpenAiChat => object! {
                id: format!("call_{}", random.text(ALNUM, 24)), r#type: "function",
                function: object! { name: tool.clone(), arguments: arguments },
            },
            Self::OpenAiResponses => object! {
                r#type: "function_call", id: format!("fc_{}", random.hex(48)),
                call_id: format!("call_{}", random.text(ALNUM, 24)), name: tool.clone(), arguments: arguments,
                status: "completed",
            },
            Self::Gemini => {
                object! { functionCall: object! { name: tool.clone(), args: Json::Raw(arguments) } }
            }
        };
        object! { r#type: "tool_use", call: random.ulid(), tool: tool, input: input, raw: raw }
    }
}

/// What a person sends.
pub(super) fn user_content(random: &mut Random) -> Vec<Json> {
    let sentences = 1 + random.below(5);
    let mut content = vec![object! { r#type: "text", text: text(random, sentences) }];
    if random.one_in(10) {
        content.push(object! {
            r#type: "image", media_type: "image/png", blob: random.hex(64), size: 10_000 + random.below(500_000),
        });
    }
    if random.one_in(10) {
        content.push(object! {
            r#type: "document", media_type: "application/pdf", title: sentence(random), blob: random.hex(64),
        });
    }
    content
}

/// Token counts as every provider's are kept.
pub(super) fn usage(random: &mut Random) -> Json {
    object! {
        input_tokens: 200 + random.below(60_000),
        output_tokens: 5 + random.below(3_000),
        cache_read_tokens: if random.one_in(3) { 0 } else { random.below(50_000) },
        cache_write_tokens: if random.one_in(2) { 0 } else { random.below(8_000) },
    }
}

//! From a stream of `generateContent` chunks to an answer.

use serde::Deserialize;
use serde_json::Value;
use weir_types::{Answer, Block, FailureClass, Json, Stop, Usage, View};

use super::{WIRE, encode};
use crate::fields::Fields;
use crate::remote::{BodyEnd, Decoder, Step};
use crate::wires::neutral::{self, agreeing, without_cut_call};
use crate::{Channel, Delta, ModelError, failure};

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    id: Option<String>,
    usage: Option<Counts>,
    parts: Vec<Part>,
    finish: Option<String>,
    blocked: Option<String>,
}

/// A part as it came, and the words that later ones added.
#[derive(Debug)]
struct Part {
    fields: Fields,
    more: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    usage_metadata: Option<Counts>,
    response_id: Option<String>,
    prompt_feedback: Option<Feedback>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Fields>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Counts {
    prompt_token_count: u64,
    tool_use_prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
}

impl Decoder for Chunks {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &str,
        deltas: &mut Vec<Delta>,
    ) -> Result<Step, ModelError> {
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| neutral::unreadable(data))?;
        if let Some(error) = chunk.error {
            let error = serde_json::json!({ "error": error });
            return Err(failure::of_event(&error).unwrap_or_else(|| neutral::unreadable(data)));
        }
        self.id = self.id.take().or(chunk.response_id);
        self.usage = chunk.usage_metadata.or(self.usage);
        self.blocked =
            chunk.prompt_feedback.and_then(|feedback| feedback.block_reason).or(self.blocked.take());
        for candidate in chunk.candidates.unwrap_or_default().into_iter().take(1) {
            let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
            deltas.extend(parts.into_iter().filter_map(|part| self.add(part)));
            self.finish = candidate.finish_reason.or(self.finish.take());
        }
        Ok(Step::More)
    }

    fn is_whole(&self, _end: BodyEnd) -> bool {
        // This wire has no end event: the chunk with a reason is the last.
        self.finish.is_some() || self.blocked.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        let counts = self.usage?;
        Some(Usage {
            input_tokens: counts.prompt_token_count.saturating_add(counts.tool_use_prompt_token_count),
            output_tokens: counts.candidates_token_count.saturating_add(counts.thoughts_token_count),
            cache_read_tokens: counts.cached_content_token_count,
            cache_write_tokens: 0,
        })
    }

    fn answer(&mut self) -> Result<Answer, ModelError> {
        let provider_id = self.id.take();
        let prefix = provider_id.as_deref().unwrap_or("call");
        let parts = std::mem::take(&mut self.parts);
        let content: Vec<Block> =
            parts.into_iter().enumerate().map(|(at, part)| part.close(format!("{prefix}_{at}"))).collect();
        let failed = |class, reason: &str| {
            Err(ModelError::said(class, format!("the server breaks off its answer: {reason}")))
        };
        let stop = match self.finish.as_deref() {
            Some("MAX_TOKENS" | "CONTINUATION") => Stop::MaxTokens,
            Some("SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
                Stop::Refused
            }
            // Asked again, the model usually does better.
            Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE")) => {
                return failed(FailureClass::Truncated, reason);
            }
            Some(reason @ ("MISSING_THOUGHT_SIGNATURE" | "TOO_MANY_TOOL_CALLS")) => {
                return failed(FailureClass::Invalid, reason);
            }
            Some(_) => agreeing(Stop::End, &content),
            None => {
                let reason = self.blocked.as_deref().unwrap_or_default();
                let message = format!("the server declines the conversation: {reason}");
                return Err(ModelError::said(FailureClass::Refused, message));
            }
        };
        Ok(without_cut_call(Answer { content, stop, usage: Usage::default(), provider_id }))
    }
}

impl Chunks {
    /// Takes a part. Plain words, and plain thoughts, go on with the next part of the same kind; one that carries a
    /// signature or anything else stays by itself, as Google asks.
    fn add(&mut self, fields: Fields) -> Option<Delta> {
        if let Some(call) = fields.get("functionCall").and_then(|call| Fields::parse(call.as_str())) {
            let text = call.get("args").map_or_else(|| "{}".to_owned(), |args| args.as_str().to_owned());
            return Some(Delta { channel: Channel::ToolInput, block: self.push(fields), text });
        }
        let Some(text) = fields.text("text") else {
            self.push(fields);
            return None;
        };
        let thought = is_thought(&fields);
        let channel = if thought { Channel::Thinking } else { Channel::Text };
        if !is_plain(&fields) {
            return Some(Delta { channel, block: self.push(fields), text });
        }
        match self.parts.last_mut() {
            _ if text.is_empty() => return None,
            Some(last) if is_plain(&last.fields) && is_thought(&last.fields) == thought => {
                last.more.push_str(&text);
            }
            _ => {
                self.push(fields);
            }
        }
        Some(Delta { channel, block: neutral::index(self.parts.len() - 1), text })
    }

    fn push(&mut self, fields: Fields) -> u32 {
        self.parts.push(Part { fields, more: String::new() });
        neutral::index(self.parts.len() - 1)
    }
}

fn is_thought(part: &Fields) -> bool {
    part.get("thought").is_some_and(|thought| thought.as_str() == "true")
}

/// Whether a part has words, or a thought, and nothing else.
fn is_plain(part: &Fields) -> bool {
    part.get("text").is_some() && part.iter().all(|(key, _)| matches!(key, "text" | "thought"))
}

impl Part {
    fn close(mut self, made_id: String) -> Block {
        if !self.more.is_empty() {
            let text = self.fields.text("text").unwrap_or_default() + &self.more;
            self.fields.set_text("text", &text);
        }
        let view = self.view(made_id);
        // A call is kept even if it looks like ours: how it is sent back depends on whose it was.
        let own = encode::own(&view, None).filter(|_| !matches!(view, View::ToolUse { .. }));
        neutral::block(WIRE, view, self.fields.to_json(), own.as_ref())
    }

    fn view(&self, made_id: String) -> View {
        let call = self.fields.get("functionCall").and_then(|call| Fields::parse(call.as_str()));
        if let Some(call) = call {
            return View::ToolUse {
                // Many models name no id; their results are matched by the tool's name.
                id: call.text("id").filter(|id| !id.is_empty()).unwrap_or(made_id),
                name: call.text("name").unwrap_or_default(),
                input: call.get("args").map_or_else(Json::empty_object, Json::on_one_line),
            };
        }
        let signature = self.fields.text("thoughtSignature");
        match self.fields.text("text") {
            Some(text) if is_thought(&self.fields) => View::Thinking { text, signature },
            // Without words it only carries the signature.
            Some(text) if !text.is_empty() => View::Text { text },
            _ => View::Unknown,
        }
    }
}

//! Parts of UI messages of the AI SDK.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use weir_types::Json;

use super::Heard;
use super::left_out::{Counts, Out};

/// What is known of parts. Who runs a call (`providerExecuted`) and whether its tool was known before (`dynamic`) is about the
/// recorded client, and does not change what was said.
const KNOWN: [&str; 15] = [
    "type",
    "id",
    "messageId",
    "delta",
    "toolCallId",
    "toolName",
    "input",
    "output",
    "errorText",
    "approvalId",
    "reason",
    "finishReason",
    "preliminary",
    "providerExecuted",
    "dynamic",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    r#type: String,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    input: Option<Json>,
    #[serde(default)]
    output: Option<Json>,
    #[serde(default)]
    error_text: Option<String>,
    #[serde(default)]
    approval_id: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    preliminary: Option<bool>,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Calls whose arguments are not complete, and the frames they began in.
    open: BTreeMap<String, usize>,
}

impl Reader {
    /// Calls whose arguments never were complete.
    pub(super) fn finish(&self, left_out: &mut Counts) {
        for frame in self.open.values() {
            left_out.add("tool-input-start without its end", *frame);
        }
    }

    pub(super) fn read(&mut self, data: &str, heard: &mut Out<'_>) -> Result<(), String> {
        if data.trim() == "[DONE]" {
            heard.push(Heard::Done);
            return Ok(());
        }
        let part: Part = serde_json::from_str(data).map_err(|error| error.to_string())?;
        let whole: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        if let Some(id) = &part.tool_call_id {
            match part.r#type.as_str() {
                "tool-input-start" => {
                    self.open.insert(id.clone(), heard.frame);
                }
                "tool-input-available" | "tool-input-error" => {
                    self.open.remove(id);
                }
                _ => {}
            }
        }
        read(part, &whole, heard)
    }
}

fn read(part: Part, whole: &Value, heard: &mut Out<'_>) -> Result<(), String> {
    let kind = part.r#type.clone();
    let call = |id: Option<String>| id.ok_or("a tool's part without `toolCallId`");
    let delta = part.delta.filter(|delta| !delta.is_empty());
    match part.r#type.as_str() {
        "start" => heard.push(Heard::Begun { id: part.message_id, model: None }),
        "start-step" => heard.push(Heard::Step),
        "reset-step" => heard.push(Heard::Reset),
        "text-delta" => heard.extend(delta.map(Heard::Text)),
        "reasoning-delta" => heard.extend(delta.map(Heard::Reasoning)),
        "tool-input-available" | "tool-input-error" => {
            let (id, input) = (call(part.tool_call_id)?, part.input.unwrap_or_else(Json::null));
            let tool = part.tool_name.unwrap_or_default();
            heard.push(Heard::Called { id: id.clone(), tool, input });
            if part.r#type == "tool-input-error" {
                heard.push(Heard::Failed { id, message: part.error_text, denied: false });
            }
        }
        "tool-output-available" if part.preliminary != Some(true) => {
            let (id, output) = (call(part.tool_call_id)?, part.output.unwrap_or_else(Json::null));
            heard.push(Heard::Answered { id, output });
        }
        "tool-output-error" => {
            heard.push(Heard::Failed {
                id: call(part.tool_call_id)?,
                message: part.error_text,
                denied: false,
            });
        }
        "tool-output-denied" => {
            heard.push(Heard::Failed { id: call(part.tool_call_id)?, message: None, denied: true });
        }
        "tool-approval-request" => {
            let id = part.approval_id.ok_or("an approval without `approvalId`")?;
            heard.push(Heard::Asked { id, call: call(part.tool_call_id)?, why: part.reason });
        }
        "error" => heard.push(Heard::Broken(part.error_text.ok_or("an error without `errorText`")?)),
        "abort" => heard.push(Heard::Broken(part.reason.unwrap_or_else(|| "aborted".to_owned()))),
        "finish" => heard.push(Heard::Finished { reason: part.finish_reason }),
        // What they say comes again with the part that is complete.
        "text-start" | "text-end" | "reasoning-start" | "reasoning-end" | "tool-input-start"
        | "tool-input-delta" | "finish-step" => {}
        "tool-output-available"
        | "tool-approval-response"
        | "source-url"
        | "source-document"
        | "file"
        | "reasoning-file"
        | "custom"
        | "steering-message"
        | "message-metadata" => {
            heard.part(&kind, whole);
            return Ok(());
        }
        data if data.starts_with("data-") => {
            heard.part(&kind, whole);
            return Ok(());
        }
        // The SDK does not take it either.
        other => return Err(format!("there is no part `{}`", other.chars().take(40).collect::<String>())),
    }
    // What the provider adds, such as the signature of reasoning; a title; what an application says about a message.
    let more = if kind == "tool-input-delta" { &["inputTextDelta"][..] } else { &["toolName"] };
    heard.other_parts(&format!("{kind}."), whole, &[&KNOWN[..], more].concat());
    Ok(())
}

//! Parts of UI messages of the AI SDK.

use serde::Deserialize;
use weir_types::Json;

use super::Heard;

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

pub(super) fn read(data: &str, heard: &mut Vec<Heard>) -> Result<(), String> {
    if data.trim() == "[DONE]" {
        heard.push(Heard::Done);
        return Ok(());
    }
    let part: Part = serde_json::from_str(data).map_err(|error| error.to_string())?;
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
        "tool-output-available"
        | "text-start"
        | "text-end"
        | "reasoning-start"
        | "reasoning-end"
        | "tool-input-start"
        | "tool-input-delta"
        | "tool-approval-response"
        | "source-url"
        | "source-document"
        | "file"
        | "reasoning-file"
        | "custom"
        | "steering-message"
        | "message-metadata"
        | "finish-step" => {}
        data if data.starts_with("data-") => {}
        // The SDK does not take it either.
        other => return Err(format!("there is no part `{}`", other.chars().take(40).collect::<String>())),
    }
    Ok(())
}

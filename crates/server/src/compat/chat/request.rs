//! What a client of chat completions sends.

use weir_types::Block;

use super::super::content;
use super::super::conversation::{self, Conversation, Speaker};
use super::super::fields::Field;
use super::super::refused::Refused;
use super::super::turn::{Asked, NO_TOOLS, agent};

/// Where the messages are.
const MESSAGES: &str = "messages";

/// What is asked for, and whether a stream is to end with what was used.
pub(super) fn read(body: &Field<'_>) -> Result<(Asked, bool), Refused> {
    body.object()?;
    let agent = agent(body)?;
    let stream = body.flag("stream")?;
    let with_usage = match body.get("stream_options") {
        Some(options) => {
            options.object()?;
            options.flag("include_usage")?
        }
        None => false,
    };
    check(body)?;
    let mut conversation = Conversation::default();
    for message in Conversation::messages(&body.need(MESSAGES)?)? {
        read_message(&message, &mut conversation)?;
    }
    Ok((Asked { agent, stream, conversation, list: MESSAGES, previous: None }, with_usage))
}

/// What nobody here does is refused, where leaving it out would be taken for having done it.
fn check(body: &Field<'_>) -> Result<(), Refused> {
    body.none_of(&["tools", "functions"], NO_TOOLS)?;
    for choice in ["tool_choice", "function_call"].iter().filter_map(|name| body.get(name)) {
        if !matches!(choice.as_text(), Some("none" | "auto")) {
            return Err(choice.refuse(NO_TOOLS));
        }
    }
    if let Some(n) = body.get("n").filter(|n| n.json() != "1") {
        return Err(n.refuse("must be 1: an agent gives one answer"));
    }
    if body.flag("logprobs")? {
        return Err(Refused::field("logprobs", "cannot be had from agents"));
    }
    body.none_of(&["top_logprobs", "logit_bias", "audio"], "cannot be had from agents")?;
    body.none_of(&["stop"], "is not supported: an agent says when its answer ends")?;
    if let Some(format) = body.get("response_format")
        && format.need("type")?.text()? != "text"
    {
        return Err(format.refuse("must be `text`: an agent answers in its own words"));
    }
    if let Some(modalities) = body.get("modalities") {
        for modality in modalities.list()? {
            if modality.text()? != "text" {
                return Err(modality.refuse("must be `text`: an agent answers in words"));
            }
        }
    }
    body.numbers(&["temperature", "top_p", "frequency_penalty", "presence_penalty", "seed"])?;
    body.counts(&["max_tokens", "max_completion_tokens"])
}

fn read_message(message: &Field<'_>, conversation: &mut Conversation) -> Result<(), Refused> {
    message.object()?;
    let role = message.need("role")?;
    match role.text()? {
        "system" | "developer" => {
            let text = words(&message.need("content")?)?;
            conversation.add(Speaker::Instructions, vec![conversation::instructions(&text)]);
        }
        "user" => conversation.add(Speaker::User, user_content(&message.need("content")?)?),
        "assistant" => conversation.add(Speaker::Assistant, assistant_content(message)?),
        "tool" | "function" => {
            let id = message.get("tool_call_id").or_else(|| message.get("name"));
            let id = id.map(|id| id.text()).transpose()?.unwrap_or_default();
            let text = message.get("content").map(|content| words(&content)).transpose()?;
            let result = conversation::answered(id, &text.unwrap_or_default());
            conversation.add(Speaker::Result, vec![result]);
        }
        _ => return Err(role.refuse("must be system, developer, user, assistant or tool")),
    }
    Ok(())
}

fn user_content(content: &Field<'_>) -> Result<Vec<Block>, Refused> {
    if let Some(text) = content.as_text() {
        return Ok(vec![Block::text(text)]);
    }
    let parts = content.as_list().ok_or_else(|| content.refuse("must be text or a list of parts"))?;
    parts.iter().map(user_part).collect()
}

fn user_part(part: &Field<'_>) -> Result<Block, Refused> {
    let kind = part.need("type")?;
    match kind.text()? {
        "text" => Ok(Block::text(part.need("text")?.text()?)),
        "image_url" => content::image_at(&part.need("image_url")?.need("url")?),
        "file" => {
            let file = part.need("file")?;
            if let Some(id) = file.get("file_id") {
                return Err(id.refuse("cannot be used: there are no files here, send `file_data`"));
            }
            let title = file.get("filename").map(|name| name.text()).transpose()?;
            content::document_in(&file.need("file_data")?, title)
        }
        _ => Err(kind.refuse("must be text, image_url or file")),
    }
}

/// An answer that is said to have been given: its words, and its calls as words.
fn assistant_content(message: &Field<'_>) -> Result<Vec<Block>, Refused> {
    let mut blocks = Vec::new();
    if let Some(content) = message.get("content") {
        blocks.push(Block::text(words(&content)?));
    }
    if let Some(refusal) = message.get("refusal") {
        blocks.push(Block::text(refusal.text()?));
    }
    let calls = message.get("tool_calls").map(|calls| calls.list()).transpose()?.unwrap_or_default();
    for function in calls.iter().filter_map(|call| call.get("function")).chain(message.get("function_call")) {
        let (name, input) = (function.need("name")?, function.get("arguments"));
        let input = input.map(|input| input.text()).transpose()?.unwrap_or("{}");
        blocks.push(conversation::called(name.text()?, input));
    }
    Ok(blocks)
}

/// Content that may only be words.
fn words(content: &Field<'_>) -> Result<String, Refused> {
    if let Some(text) = content.as_text() {
        return Ok(text.to_owned());
    }
    let parts = content.as_list().ok_or_else(|| content.refuse("must be text or a list of parts"))?;
    parts.iter().map(word).collect()
}

fn word<'a>(part: &Field<'a>) -> Result<&'a str, Refused> {
    let kind = part.need("type")?;
    match kind.text()? {
        "text" => part.need("text")?.text(),
        "refusal" => part.need("refusal")?.text(),
        _ => Err(kind.refuse("must be text")),
    }
}

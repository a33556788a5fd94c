//! What a client of messages sends.

use weir_types::Block;

use super::super::content;
use super::super::conversation::{self, Conversation, Speaker};
use super::super::fields::Field;
use super::super::refused::Refused;
use super::super::turn::{Asked, NO_TOOLS, agent};

/// Where the messages are.
const MESSAGES: &str = "messages";

pub(super) fn read(body: &Field<'_>) -> Result<Asked, Refused> {
    body.object()?;
    let agent = agent(body)?;
    let stream = body.flag("stream")?;
    check(body)?;
    let mut conversation = Conversation::default();
    if let Some(system) = body.get("system") {
        let text = words(&system)?;
        conversation.add(Speaker::Instructions, vec![conversation::instructions(&text)]);
    }
    for message in Conversation::messages(&body.need(MESSAGES)?)? {
        read_message(&message, &mut conversation)?;
    }
    Ok(Asked { agent, stream, conversation, list: MESSAGES, previous: None })
}

/// What nobody here does is refused, where leaving it out would be taken for having done it.
fn check(body: &Field<'_>) -> Result<(), Refused> {
    body.none_of(&["tools", "mcp_servers"], NO_TOOLS)?;
    if let Some(choice) = body.get("tool_choice")
        && !matches!(choice.need("type")?.text()?, "none" | "auto")
    {
        return Err(choice.refuse(NO_TOOLS));
    }
    body.none_of(&["stop_sequences"], "is not supported: an agent says when its answer ends")?;
    let format = body.get("output_config").and_then(|config| config.get("format"));
    if let Some(format) = format.or_else(|| body.get("output_format")) {
        return Err(format.refuse("is not supported: an agent answers in its own words"));
    }
    body.none_of(&["container"], "cannot be had from agents")?;
    body.numbers(&["temperature", "top_p", "top_k"])?;
    body.counts(&["max_tokens"])
}

fn read_message(message: &Field<'_>, conversation: &mut Conversation) -> Result<(), Refused> {
    message.object()?;
    let role = message.need("role")?;
    let content = message.need("content")?;
    match role.text()? {
        "user" => read_user(&content, conversation),
        "assistant" => {
            conversation.add(Speaker::Assistant, assistant_content(&content)?);
            Ok(())
        }
        "system" => {
            let text = words(&content)?;
            conversation.add(Speaker::Instructions, vec![conversation::instructions(&text)]);
            Ok(())
        }
        _ => Err(role.refuse("must be user or assistant")),
    }
}

/// Results of tools come in messages of the user; they are not the user's words.
fn read_user(content: &Field<'_>, conversation: &mut Conversation) -> Result<(), Refused> {
    if let Some(text) = content.as_text() {
        conversation.add(Speaker::User, vec![Block::text(text)]);
        return Ok(());
    }
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for block in blocks(content)? {
        match block.need("type")?.text()? {
            "tool_result" => results.push(tool_result(&block)?),
            _ => said.push(user_block(&block)?),
        }
    }
    let only_results = !results.is_empty() && said.is_empty();
    if !results.is_empty() {
        conversation.add(Speaker::Result, results);
    }
    if !only_results {
        conversation.add(Speaker::User, said);
    }
    Ok(())
}

fn user_block(block: &Field<'_>) -> Result<Block, Refused> {
    let kind = block.need("type")?;
    match kind.text()? {
        "text" => Ok(Block::text(block.need("text")?.text()?)),
        "image" => {
            let source = block.need("source")?;
            let of = source.need("type")?;
            match of.text()? {
                "base64" => {
                    content::image(&source, source.need("media_type")?.text()?, source.need("data")?.text()?)
                }
                "url" => content::image_at(&source.need("url")?),
                _ => Err(of.refuse("must be base64 or url: there are no files here")),
            }
        }
        "document" => document(block),
        _ => Err(kind.refuse("must be text, image, document or tool_result")),
    }
}

fn document(block: &Field<'_>) -> Result<Block, Refused> {
    let title = block.get("title").map(|title| title.text()).transpose()?;
    let source = block.need("source")?;
    let of = source.need("type")?;
    match of.text()? {
        "base64" => {
            let (media_type, data) = (source.need("media_type")?, source.need("data")?);
            content::document(&source, media_type.text()?, data.text()?, title)
        }
        "text" => Ok(content::text_document(source.need("data")?.text()?, title)),
        "url" => content::document_at(&source.need("url")?, title),
        "content" => Ok(content::text_document(&words(&source.need("content")?)?, title)),
        _ => Err(of.refuse("must be base64, text, url or content: there are no files here")),
    }
}

fn tool_result(block: &Field<'_>) -> Result<Block, Refused> {
    let id = block.need("tool_use_id")?.text()?;
    let text = match block.get("content") {
        // Pictures that some tool made are not shown again.
        Some(content) if content.as_list().is_some() => {
            let texts = blocks(&content)?;
            texts.iter().filter_map(|block| block.get("text")).filter_map(|text| text.as_text()).collect()
        }
        Some(content) => content.text()?.to_owned(),
        None => String::new(),
    };
    Ok(conversation::answered(id, &text))
}

/// An answer that is said to have been given: its words, and its calls as words. Reasoning is left out.
fn assistant_content(content: &Field<'_>) -> Result<Vec<Block>, Refused> {
    if let Some(text) = content.as_text() {
        return Ok(vec![Block::text(text)]);
    }
    let mut said = Vec::new();
    for block in blocks(content)? {
        match block.need("type")?.text()? {
            "text" => said.push(Block::text(block.need("text")?.text()?)),
            "tool_use" => {
                let input = block.get("input").map_or_else(|| "{}".to_owned(), |input| input.json());
                said.push(conversation::called(block.need("name")?.text()?, &input));
            }
            _ => {}
        }
    }
    Ok(said)
}

/// Content that may only be words.
fn words(content: &Field<'_>) -> Result<String, Refused> {
    if let Some(text) = content.as_text() {
        return Ok(text.to_owned());
    }
    blocks(content)?.iter().map(word).collect()
}

fn word<'a>(block: &Field<'a>) -> Result<&'a str, Refused> {
    let kind = block.need("type")?;
    match kind.text()? {
        "text" => block.need("text")?.text(),
        _ => Err(kind.refuse("must be text")),
    }
}

fn blocks<'a>(content: &Field<'a>) -> Result<Vec<Field<'a>>, Refused> {
    content.as_list().ok_or_else(|| content.refuse("must be text or a list of blocks"))
}

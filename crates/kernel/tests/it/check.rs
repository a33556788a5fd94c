//! What a provider demands of a request, whoever it is.

use std::collections::HashSet;

use weir_types::{Block, Message, Request, Role, View};

/// Panics, with the request, if a provider could reject it.
pub(crate) fn assert_valid(request: &Request) {
    if let Err(flaw) = flaw(&request.messages) {
        panic!("{flaw}\n{}", serde_json::to_string_pretty(&request.messages).unwrap());
    }
}

fn flaw(messages: &[Message]) -> Result<(), String> {
    let ends = [messages.first(), messages.last()];
    if ends.iter().any(|message| message.is_none_or(|message| message.role != Role::User)) {
        return Err("it does not begin and end with the user".into());
    }
    let mut ids = HashSet::new();
    let mut asked: Vec<(&str, &str)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let expected = if index % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != expected {
            return Err(format!("message {index}: roles do not alternate"));
        }
        if message.content.is_empty() {
            return Err(format!("message {index} is empty"));
        }
        message.content.iter().try_for_each(sound).map_err(|flaw| format!("message {index}: {flaw}"))?;
        match message.role {
            Role::User => user(message, &asked).map_err(|flaw| format!("message {index}: {flaw}"))?,
            Role::Assistant => {
                asked = assistant(message).map_err(|flaw| format!("message {index}: {flaw}"))?;
                if !asked.iter().all(|(id, _)| !id.is_empty() && ids.insert(*id)) {
                    return Err(format!("message {index}: an id is empty or not unique"));
                }
            }
        }
    }
    Ok(())
}

/// Texts say something.
fn sound(block: &Block) -> Result<(), &'static str> {
    match &block.view {
        View::Text { text } if text.trim().is_empty() => Err("a text says nothing"),
        View::ToolResult { content, .. } if content.is_empty() => Err("a result is empty"),
        View::ToolResult { content, .. } => content.iter().try_for_each(|block| match &block.view {
            View::Text { .. } | View::Image { .. } | View::Document { .. } => sound(block),
            _ => Err("a result holds what is no result"),
        }),
        _ => Ok(()),
    }
}

/// First the results of everything that was asked, in order; then words and attachments. Nothing is verbatim.
fn user(message: &Message, asked: &[(&str, &str)]) -> Result<(), &'static str> {
    let (results, rest) = message.content.split_at_checked(asked.len()).ok_or("a result is missing")?;
    for (block, (id, name)) in results.iter().zip(asked) {
        match &block.view {
            View::ToolResult { id: of, name: called, .. } if of == id && called == name => {}
            _ => return Err("results do not follow their calls in order"),
        }
    }
    if message.content.iter().any(|block| block.sent.is_some()) {
        return Err("the user speaks in a provider's words");
    }
    let plain =
        |block: &Block| matches!(block.view, View::Text { .. } | View::Image { .. } | View::Document { .. });
    if rest.iter().all(plain) { Ok(()) } else { Err("a result without its call, or worse") }
}

/// The calls it asks for, by id and name.
fn assistant(message: &Message) -> Result<Vec<(&str, &str)>, &'static str> {
    let mut asked = Vec::new();
    for block in &message.content {
        match &block.view {
            View::ToolUse { id, name, input } => {
                let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if name.is_empty() || name.len() > 64 || !name.chars().all(valid) {
                    return Err("a tool has no valid name");
                }
                if !input.to_value().is_object() {
                    return Err("arguments are no object");
                }
                asked.push((id.as_str(), name.as_str()));
            }
            View::ToolResult { .. } => return Err("the model gives a result"),
            _ => {}
        }
    }
    match message.content.last().map(|block| &block.view) {
        Some(View::Thinking { .. }) => Err("it ends in reasoning"),
        _ if !message.content.iter().any(speaks) => Err("it says nothing that everyone understands"),
        _ => Ok(asked),
    }
}

fn speaks(block: &Block) -> bool {
    !matches!(block.view, View::Thinking { .. } | View::Unknown)
}

/// The blocks of all messages in a row, each with its speaker, as bytes.
pub(crate) fn blocks(request: &Request) -> Vec<String> {
    let say = |message: &Message, block: &Block| {
        format!("{:?} {}", message.role, serde_json::to_string(block).unwrap())
    };
    let messages = request.messages.iter();
    messages.flat_map(|message| message.content.iter().map(move |block| say(message, block))).collect()
}

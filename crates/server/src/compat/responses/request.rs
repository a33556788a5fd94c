//! What a client of responses sends.

use weir_types::Block;

use super::super::content;
use super::super::conversation::{self, Conversation, Speaker};
use super::super::fields::Field;
use super::super::refused::Refused;
use super::super::turn::{Asked, NO_TOOLS, agent};

/// Where the messages are.
const INPUT: &str = "input";

pub(super) fn read(body: &Field<'_>) -> Result<Asked, Refused> {
    body.object()?;
    let agent = agent(body)?;
    let stream = body.flag("stream")?;
    check(body)?;
    let mut conversation = Conversation::default();
    if let Some(text) = body.get("instructions") {
        conversation.add(Speaker::Instructions, vec![conversation::instructions(text.text()?)]);
    }
    let input = body.need(INPUT)?;
    match input.as_text() {
        Some(text) => conversation.add(Speaker::User, vec![Block::text(text)]),
        None => {
            for item in Conversation::messages(&input)? {
                read_item(&item, &mut conversation)?;
            }
        }
    }
    let previous = body.get("previous_response_id").map(|id| id.text().map(str::to_owned)).transpose()?;
    Ok(Asked { agent, stream, conversation, list: INPUT, previous })
}

/// What nobody here does is refused, where leaving it out would be taken for having done it.
fn check(body: &Field<'_>) -> Result<(), Refused> {
    body.none_of(&["tools"], NO_TOOLS)?;
    if let Some(choice) = body.get("tool_choice")
        && !matches!(choice.as_text(), Some("none" | "auto"))
    {
        return Err(choice.refuse(NO_TOOLS));
    }
    if body.flag("background")? {
        let why = "is not supported: a run goes on without its client, and `GET /sessions/{id}/runs/{run}/stream` finds it again";
        return Err(Refused::field("background", why));
    }
    body.none_of(
        &["conversation"],
        "is not supported: go on with `previous_response_id` or `X-Weir-Session`",
    )?;
    body.none_of(&["prompt"], "is not supported: an agent has its own prompt")?;
    body.none_of(&["top_logprobs"], "cannot be had from agents")?;
    for wanted in body.get("include").map(|include| include.list()).transpose()?.unwrap_or_default() {
        if wanted.text()?.contains("logprobs") {
            return Err(wanted.refuse("cannot be had from agents"));
        }
    }
    if let Some(format) = body.get("text").and_then(|text| text.get("format"))
        && format.need("type")?.text()? != "text"
    {
        return Err(format.refuse("must be `text`: an agent answers in its own words"));
    }
    body.numbers(&["temperature", "top_p"])?;
    body.counts(&["max_output_tokens", "max_tool_calls"])
}

fn read_item(item: &Field<'_>, conversation: &mut Conversation) -> Result<(), Refused> {
    item.object()?;
    let kind = item.get("type");
    match kind.as_ref().map(|kind| kind.text()).transpose()? {
        None | Some("message") => read_message(item, conversation),
        // What the model thought is its own business, and the provider's.
        Some("reasoning") => Ok(()),
        Some("function_call" | "custom_tool_call") => {
            let input = item.get("arguments").or_else(|| item.get("input"));
            let input = input.map(|input| input.text()).transpose()?.unwrap_or("{}");
            conversation
                .add(Speaker::Assistant, vec![conversation::called(item.need("name")?.text()?, input)]);
            Ok(())
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let output = item.need("output")?;
            let text = output.as_text().map_or_else(|| output.json(), str::to_owned);
            conversation
                .add(Speaker::Result, vec![conversation::answered(item.need("call_id")?.text()?, &text)]);
            Ok(())
        }
        Some(_) => {
            let why = "must be message, reasoning, function_call or function_call_output";
            Err(kind.unwrap_or_else(|| item.clone()).refuse(why))
        }
    }
}

fn read_message(message: &Field<'_>, conversation: &mut Conversation) -> Result<(), Refused> {
    let role = message.need("role")?;
    let content = message.need("content")?;
    let said = match content.as_text() {
        Some(text) => vec![Block::text(text)],
        None => {
            let parts = content.as_list().ok_or_else(|| content.refuse("must be text or a list of parts"))?;
            parts.iter().map(part).collect::<Result<_, _>>()?
        }
    };
    match role.text()? {
        "user" => conversation.add(Speaker::User, said),
        "assistant" => conversation.add(Speaker::Assistant, said),
        "system" | "developer" => {
            let text = weir_types::text_of(&said);
            conversation.add(Speaker::Instructions, vec![conversation::instructions(&text)]);
        }
        _ => return Err(role.refuse("must be system, developer, user or assistant")),
    }
    Ok(())
}

fn part(part: &Field<'_>) -> Result<Block, Refused> {
    let kind = part.need("type")?;
    match kind.text()? {
        "input_text" | "output_text" | "text" => Ok(Block::text(part.need("text")?.text()?)),
        "refusal" => Ok(Block::text(part.need("refusal")?.text()?)),
        "input_image" => {
            no_file(part)?;
            content::image_at(&part.need("image_url")?)
        }
        "input_file" => {
            no_file(part)?;
            let title = part.get("filename").map(|name| name.text()).transpose()?;
            match part.get("file_url") {
                Some(url) => content::document_at(&url, title),
                None => content::document_in(&part.need("file_data")?, title),
            }
        }
        _ => Err(kind.refuse("must be input_text, input_image, input_file or output_text")),
    }
}

fn no_file(part: &Field<'_>) -> Result<(), Refused> {
    let why = "cannot be used: there are no files here, send the content";
    part.get("file_id").map_or(Ok(()), |id| Err(id.refuse(why)))
}

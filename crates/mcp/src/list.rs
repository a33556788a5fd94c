//! Which tools a server offers.

use std::collections::BTreeMap;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde::Deserialize;
use weir_types::Json;

use crate::ask::{Asker, Unanswered};
use crate::connect::{Options, list_once};
use crate::error::Error;
use crate::server::Server;

/// Most tools of one server. Models lose their way long before.
pub const TOOLS_MAX: usize = 1000;

/// Most bytes of one definition.
const DEFINITION_BYTES_MAX: usize = 256 * 1024;

/// Most pages of one list.
const PAGES_MAX: usize = 200;

/// A tool, as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// What the server calls it.
    pub name: String,
    /// Everything the server says of it, as it says it.
    pub json: Json,
}

/// The tools of a server, sorted by their names. The server is started and ended, or reached, for this alone.
///
/// # Errors
/// When it cannot be started or reached, does not answer in time, or answers with something else than tools.
///
/// # Cancel safety
/// A command that was started is killed.
pub async fn list_tools(server: &Server, options: &Options) -> Result<Vec<Definition>, Error> {
    list_once(server, options).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Json>,
    next_cursor: Option<String>,
}

/// What a definition must have.
#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(rename = "inputSchema")]
    _schema: serde_json::Map<String, serde_json::Value>,
}

/// Why there is no list.
pub(crate) enum NotListed {
    /// There is no answer.
    Unanswered(Unanswered),
    /// The answer is no list.
    Error(Error),
}

/// All tools that the server offers now, sorted by their names.
pub(crate) async fn pages(asker: &Asker) -> Result<Vec<Definition>, NotListed> {
    let mut tools = BTreeMap::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let page = page(asker, cursor.clone()).await?;
        for json in page.tools {
            let Definition { name, json } = definition(json).map_err(NotListed::Error)?;
            if tools.insert(name.clone(), json).is_some() {
                let why = format!("`{}` is there twice", name.escape_debug());
                return Err(NotListed::Error(Error::Definition { why }));
            }
        }
        if tools.len() > TOOLS_MAX {
            return Err(endless(format!("more than {TOOLS_MAX} tools")));
        }
        // Some servers send an empty cursor for "no more".
        let next = page.next_cursor.filter(|next| !next.is_empty());
        if next.is_none() {
            return Ok(tools.into_iter().map(|(name, json)| Definition { name, json }).collect());
        }
        if next == cursor {
            return Err(endless("the next page is the same page again".to_owned()));
        }
        cursor = next;
    }
    Err(endless(format!("more than {PAGES_MAX} pages")))
}

fn endless(what: String) -> NotListed {
    NotListed::Error(Error::Endless { what })
}

async fn page(asker: &Asker, cursor: Option<String>) -> Result<Page, NotListed> {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
    let answer = asker.ask(request, None).await.map_err(NotListed::Unanswered)?;
    serde_json::from_str(&answer)
        .map_err(|_| NotListed::Error(Error::Definition { why: "its answer is no list of tools".to_owned() }))
}

fn definition(json: Json) -> Result<Definition, Error> {
    if json.as_str().len() > DEFINITION_BYTES_MAX {
        let why = format!("one definition has more than {DEFINITION_BYTES_MAX} bytes");
        return Err(Error::Definition { why });
    }
    let Tool { name, .. } = serde_json::from_str(json.as_str()).map_err(|error| {
        // The place within one definition helps nobody; its field does.
        let why = error.to_string();
        Error::Definition { why: why.split(" at line ").next().unwrap_or_default().to_owned() }
    })?;
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        return Err(Error::Definition { why: format!("`{}` is no name", name.escape_debug()) });
    }
    Ok(Definition { name, json })
}

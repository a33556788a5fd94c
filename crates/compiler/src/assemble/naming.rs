//! Names the model sees: of the letters that every provider takes, and each only once for an agent.

use std::collections::BTreeMap;

use weir_spec::manifest::Tool;
use weir_spec::{Diagnostic, Span, ToolEntry};

/// The longest name that every provider takes.
const CHARACTERS_MAX: usize = 64;

/// A tool on its way to an agent.
pub(super) struct Offer {
    tool: Tool,
    /// Where the agent lists it.
    span: Span,
    /// What the model would see instead, if the name is taken; only tools of servers can be called something else.
    longer: Option<String>,
}

impl Offer {
    /// A tool whose name is in the author's hand.
    pub(super) fn own(entry: &ToolEntry, tool: Tool) -> Self {
        Self { tool, span: entry.name.span, longer: None }
    }

    /// A tool of a server, with a name for the model.
    pub(super) fn of_server(entry: &ToolEntry, mut tool: Tool) -> Self {
        let remote = tool.name;
        tool.name = fitting(&remote);
        let longer = format!("{}__{}", short_name(&entry.name.value), tool.name);
        tool.remote_name = Some(remote).filter(|remote| *remote != tool.name);
        Self { tool, span: entry.name.span, longer: Some(longer) }
    }
}

/// The tools with names of their own. Two that cannot be told apart are a problem.
pub(super) fn settle(file: &str, mut offers: Vec<Offer>, problems: &mut Vec<Diagnostic>) -> Vec<Tool> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for offer in &offers {
        *uses.entry(offer.tool.name.clone()).or_default() += 1;
    }
    for offer in &mut offers {
        if uses.get(&offer.tool.name).is_some_and(|uses| *uses > 1)
            && let Some(longer) = offer.longer.take()
        {
            let own = std::mem::replace(&mut offer.tool.name, longer);
            offer.tool.remote_name.get_or_insert(own);
        }
    }
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    let mut tools = Vec::with_capacity(offers.len());
    for Offer { tool, span, .. } in offers {
        let help = "leave one of them out with `only`, or rename it";
        if let Some(first) = seen.insert(tool.name.clone(), span) {
            // The spec has told already what it could see without asking anybody.
            if problems
                .iter()
                .any(|told| told.code == "spec::tool-name" && (told.file == file && told.span == span))
            {
                continue;
            }
            let message = format!("the model would see two tools called `{}`", tool.name);
            let problem = Diagnostic::error("build::same-name", file, span, message, help);
            problems.push(if first == span {
                problem
            } else {
                problem.related(file, first, "the other one")
            });
        } else if tool.name.len() > CHARACTERS_MAX {
            let message = format!("`{}` is too long for the name of a tool", tool.name);
            problems.push(Diagnostic::error("build::same-name", file, span, message, help));
        } else {
            tools.push(tool);
        }
    }
    tools
}

/// A name with `_` for what providers do not take.
fn fitting(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// What a server is called for short: the last part of its package or path, without a version.
fn short_name(address: &str) -> String {
    let place = address.strip_prefix("mcp://").unwrap_or(address);
    let place = place.split('?').next().unwrap_or(place).trim_end_matches('/');
    let last = place.rsplit('/').next().unwrap_or(place);
    let bare = last.split('@').find(|part| !part.is_empty()).unwrap_or(last);
    let stem = bare.rsplit_once('.').filter(|_| place.contains('/')).map_or(bare, |(stem, _)| stem);
    fitting(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_short_names() {
        for (address, expected) in [
            ("mcp://npx/@scope/server-files@1.2?arg=./docs", "server-files"),
            ("mcp://uvx/mcp-server-git", "mcp-server-git"),
            ("mcp://./servers/notes.sh?arg=-v", "notes"),
            ("mcp://integrations.example.com/slack", "slack"),
            ("mcp://example.com", "example_com"),
            ("mcp://localhost:3000/mcp/", "mcp"),
        ] {
            assert_eq!(short_name(address), expected, "{address}");
        }
    }
}

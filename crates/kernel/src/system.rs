//! The system prompt: nothing in it changes from turn to turn, so that a provider's cache keeps hitting.

#[cfg(test)]
mod tests;

use weir_types::IDENTITY_FILES;

use crate::tokens;

/// A part of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Where it comes from.
    pub name: String,
    /// What it says.
    pub text: String,
    /// What it takes, as estimated.
    pub tokens: u64,
}

/// What a system prompt is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Identity files that exist, by name.
    pub identity: Vec<(String, String)>,
    /// What the spec says the agent is.
    pub description: String,
    /// What the skills say.
    pub skills: Vec<(String, String)>,
    /// What is said about tools beside their definitions.
    pub tools: String,
}

/// The sections, in order: identity files, description, skills, tools. Empty ones are left out.
pub fn sections(sources: &Sources) -> Vec<Section> {
    let identity = IDENTITY_FILES.iter().filter_map(|file| {
        let found = sources.identity.iter().find(|(name, _)| name == file)?;
        Some((found.0.clone(), found.1.as_str()))
    });
    let description = std::iter::once(("description".to_owned(), sources.description.as_str()));
    let skills = sources.skills.iter().map(|(name, text)| (format!("skill {name}"), text.as_str()));
    let tools = std::iter::once(("tools".to_owned(), sources.tools.as_str()));
    let all = identity.chain(description).chain(skills).chain(tools);
    let section = |(name, text): (String, &str)| {
        let text = normal(text);
        let tokens = tokens::of_text(&text);
        Section { name, text, tokens }
    };
    all.map(section).filter(|section| !section.text.is_empty()).collect()
}

/// Line ends are made the same and the mark that some editors put first is dropped, so that a checkout on another
/// system gives the same prompt.
fn normal(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n").trim().to_owned()
}

/// The system prompt.
pub fn prompt(sources: &Sources) -> String {
    let texts: Vec<String> = sections(sources).into_iter().map(|section| section.text).collect();
    texts.join("\n\n")
}

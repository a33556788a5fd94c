//! Skills: directories with a `SKILL.md` that add to what an agent knows.
//!
//! The format is the one skills are shared in: a YAML head with `name` and `description`, then instructions. Two fields
//! are ours: `prompt`, further files that belong to the instructions, and `tools`, what the skill needs. A skill gives an
//! agent no tool; it can only ask for what the agent's own list has.

mod package;
mod registry;

use serde::Deserialize;
use weir_spec::{Diagnostic, Span, manifest};

pub(crate) use self::package::Package;
pub(crate) use self::registry::{Registry, RegistryError};
use crate::place;

/// The file that makes a directory a skill.
pub(crate) const FILE: &str = "SKILL.md";

/// Most characters of a description; it is in every prompt.
const DESCRIPTION_CHARACTERS_MAX: usize = 2048;

/// The fields of the head that have a meaning here. Others are somebody else's.
#[derive(Deserialize)]
struct Head {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    prompt: OneOrMany,
    #[serde(default)]
    tools: Vec<ToolName>,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

/// A tool by its name, or an entry as a spec would have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToolName {
    Name(String),
    Entry {
        #[serde(alias = "server")]
        name: String,
    },
}

/// A skill that can be used, or what is wrong with it. `file` is where its `SKILL.md` is said to be.
pub(crate) fn read(
    file: &str,
    package: &Package,
) -> Result<(manifest::Skill, Vec<Diagnostic>), Vec<Diagnostic>> {
    let refuse = |span, message: &str, help: &str| {
        Err(vec![Diagnostic::error("build::skill-head", file, span, message, help)])
    };
    const EXAMPLE: &str =
        "begin it with `---`, `name: …`, `description: …` and `---`, each on a line of its own";
    let Some(bytes) = package.files.get(FILE) else {
        return refuse(Span::START, "the skill has no `SKILL.md`", "every skill has one");
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refuse(Span::START, "`SKILL.md` is not UTF-8 text", "save the file as UTF-8");
    };
    let Some((head, body)) = split(text) else {
        return refuse(Span::START, "`SKILL.md` has no head", EXAMPLE);
    };
    let json = weir_spec::read_yaml(file, &head)?;
    let head: Head = match serde_json::from_str(json.as_str()) {
        Ok(head) => head,
        Err(error) => {
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            return refuse(Span::START, &format!("the head of `SKILL.md` is not understood: {why}"), EXAMPLE);
        }
    };
    let name = head.name.filter(|name| is_name(name));
    let description = head.description.filter(|text| !text.trim().is_empty());
    let (Some(name), Some(description)) = (name, description) else {
        return refuse(Span::START, "the head of `SKILL.md` needs a `name` and a `description`", EXAMPLE);
    };
    if description.chars().count() > DESCRIPTION_CHARACTERS_MAX {
        let message = format!("the description has more than {DESCRIPTION_CHARACTERS_MAX} characters");
        return refuse(
            key(text, "description"),
            &message,
            "say in two sentences what it is for; the rest goes below",
        );
    }
    let fragments = fragments(file, text, body, head.prompt, package)?;
    let tools = head.tools.into_iter().map(|tool| {
        let (ToolName::Name(name) | ToolName::Entry { name }) = tool;
        manifest::SkillTool { name }
    });
    let skill =
        manifest::Skill { digest: package.digest(), name, description, fragments, tools: tools.collect() };
    let warnings = misnamed(file, text, &skill.name);
    Ok((skill, warnings))
}

/// The instructions and the files that `prompt` adds to them.
fn fragments(
    file: &str,
    text: &str,
    body: &str,
    prompt: OneOrMany,
    package: &Package,
) -> Result<Vec<String>, Vec<Diagnostic>> {
    let paths = match prompt {
        OneOrMany::None => Vec::new(),
        OneOrMany::One(path) => vec![path],
        OneOrMany::Many(paths) => paths,
    };
    let mut fragments: Vec<String> =
        Some(body.trim().to_owned()).filter(|body| !body.is_empty()).into_iter().collect();
    let mut problems = Vec::new();
    for path in paths {
        let bytes = package.files.get(path.trim_start_matches("./"));
        match bytes.map(|bytes| std::str::from_utf8(bytes)) {
            Some(Ok(fragment)) => fragments.push(fragment.trim().to_owned()),
            found => {
                let why =
                    if found.is_some() { "is not UTF-8 text" } else { "is not among the files of the skill" };
                let help = "name a text file beside `SKILL.md`, such as `style.md`";
                let span = key(text, "prompt");
                let message = format!("`{path}` {why}");
                problems.push(Diagnostic::error("build::skill-head", file, span, message, help));
            }
        }
    }
    if problems.is_empty() { Ok(fragments) } else { Err(problems) }
}

/// A skill is looked for by its directory, so that is what it should call itself.
fn misnamed(file: &str, text: &str, name: &str) -> Vec<Diagnostic> {
    let directory = file.rsplit('/').nth(1).unwrap_or(name);
    if directory == name {
        return Vec::new();
    }
    let message = format!("the skill calls itself `{name}`, but its directory is called `{directory}`");
    let problem =
        Diagnostic::error("build::skill-name", file, key(text, "name"), message, "give both the same name");
    vec![problem.warning()]
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(fits)
}

/// The head and the rest. The head's lines are where they are in the file.
fn split(text: &str) -> Option<(String, &str)> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = bare.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let head = format!("{}\n{}", " ".repeat(text.len() - rest.len() - 1), &rest[..at]);
            return Some((head, &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// Where a field of the head is.
fn key(text: &str, name: &str) -> Span {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(name) && line[name.len()..].trim_start().starts_with(':') {
            return place::span(text, at, at + line.trim_end().len());
        }
        at += line.len();
    }
    Span::START
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn package(files: &[(&str, &str)]) -> Package {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        Package { files: files.collect::<BTreeMap<_, _>>() }
    }

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let found = match read("skills/cite/SKILL.md", &package(files)) {
            Ok((_, warnings)) => warnings,
            Err(problems) => problems,
        };
        found.iter().map(|each| format!("{each}")).collect()
    }

    #[test]
    fn a_skill_is_its_head_its_text_and_its_prompts() {
        let text = "---\r\nname: cite\ndescription: Cites.\nlicense: MIT\nallowed-tools: Bash(git:*) Read\n\
                    tools: [bash, {server: mcp://npx/x}]\nprompt: ./style.md\n---\n\n# Cite\nDo.\n";
        let package = package(&[(FILE, text), ("style.md", "Short.\n"), ("logo.png", "…")]);
        let (skill, warnings) = read("skills/cite/SKILL.md", &package).unwrap();
        assert_eq!(warnings, []);
        let names = ["bash", "mcp://npx/x"].map(|name| manifest::SkillTool { name: name.to_owned() });
        assert_eq!(
            skill,
            manifest::Skill {
                digest: package.digest(),
                name: "cite".to_owned(),
                description: "Cites.".to_owned(),
                fragments: vec!["# Cite\nDo.".to_owned(), "Short.".to_owned()],
                tools: names.to_vec(),
            }
        );
    }

    #[test]
    fn what_is_no_skill_is_told_with_its_line() {
        let head = |lines: &str| format!("---\n{lines}---\nbody\n");
        for (text, expected) in [
            ("# Cite", "1:1: `SKILL.md` has no head"),
            ("---\nname: cite\n", "1:1: `SKILL.md` has no head"),
            (&head("name: cite\n"), "1:1: the head of `SKILL.md` needs a `name` and a `description`"),
            (
                &head("name: a b\ndescription: d\n"),
                "1:1: the head of `SKILL.md` needs a `name` and a `description`",
            ),
            (&head("name: cite\ndescription: 'd\n"), "3:14: a quote is opened and never closed"),
            (
                &head("name: cite\ndescription: d\nprompt: [../x.md]\n"),
                "4:1: `../x.md` is not among the files of the skill",
            ),
            (
                &head("name: other\ndescription: d\n"),
                "2:1: the skill calls itself `other`, but its directory is called `cite`",
            ),
        ] {
            assert_eq!(problems(&[(FILE, text)]), [format!("skills/cite/SKILL.md:{expected}")], "{text}");
        }
        assert_eq!(problems(&[]), ["skills/cite/SKILL.md:1:1: the skill has no `SKILL.md`"]);
    }
}

//! Where tools and skills come from, with everything that was found there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Hash, Json};

/// Where tools come from. Which kind it is stands around the value: what is within a definition is kept word for word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `mcp://…`.
    Mcp(McpSource),
    /// `tools/…`.
    Script(ScriptTool),
}

/// A server and the tools that were pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSource {
    /// How it is spoken to.
    pub transport: Transport,
    /// Its tools, by their names there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Definition>,
}

/// How a server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// It is started here: the program and its arguments.
    Stdio(Vec<String>),
    /// Streamable HTTP at this address.
    Http(String),
}

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The whole of it, in canonical form.
    pub definition: Json,
    /// What identifies that.
    pub hash: Hash,
}

/// A tool of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptTool {
    /// The name the model sees.
    pub name: String,
    /// What it does and when to use it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Json,
    /// The module that is run.
    pub entry: String,
    /// That module and all that it imports, by path.
    pub modules: BTreeMap<String, Module>,
}

/// One module of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// JavaScript.
    pub code: String,
    /// Its source map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
}

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    /// What identifies its content.
    pub digest: Hash,
    /// What it calls itself.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it adds to the prompt, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<String>,
    /// The tools it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<SkillTool>,
}

/// A tool that a skill asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillTool {
    /// As the skill names it.
    pub name: String,
}

//! Everything the files of a project say, typed.

use std::collections::BTreeMap;

use weir_types::{Catalog, ModelCard};

use crate::agent::AgentSpec;
use crate::diagnostic::Diagnostic;
use crate::loops::LoopSpec;
use crate::project::Project;
use crate::scenario::TestSpec;
use crate::script::Script;

/// What was read, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What could be read. With an error among the problems, parts of it are missing.
    pub sources: Sources,
    /// Every problem of every file, by file and place.
    pub diagnostics: Vec<Diagnostic>,
}

/// Everything the files of a project say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// `weir.yaml`, or what stands for it when there is none.
    pub project: Project,
    /// `agents/<name>/`, by directory.
    pub agents: BTreeMap<String, AgentSource>,
    /// `loops/<name>.yaml`, by file.
    pub loops: BTreeMap<String, LoopSpec>,
    /// `models/<name>.yaml`, by file.
    pub scripts: BTreeMap<String, Script>,
    /// `tests/<name>.yaml`, by file.
    pub tests: BTreeMap<String, TestSpec>,
    /// `policies/<name>.cedar`, by path.
    pub policies: BTreeMap<String, String>,
    /// Every model that can be named here: the ones we know of, and the project's own.
    pub catalog: Catalog,
}

/// One agent: its spec, and what is beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSource {
    /// `spec.yaml`.
    pub spec: AgentSpec,
    /// Its model; absent when there is no such model.
    pub model: Option<Model>,
    /// The identity files that are there, in the order of [`weir_types::IDENTITY_FILES`].
    pub identity: Vec<Identity>,
}

/// A model that was found in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// `provider/name`.
    pub name: String,
    /// What is known about it.
    pub card: ModelCard,
}

/// One identity file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// One of [`weir_types::IDENTITY_FILES`].
    pub name: &'static str,
    /// What it says.
    pub text: String,
}

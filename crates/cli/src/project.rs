//! A project, built in memory for a command: from its files and its lock, starting nothing and fetching nothing.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_spec::manifest;
use weir_types::{CatalogError, Explain, Fault};

use crate::builds::Build;
use crate::compiling;
use crate::problems::Problems;
use crate::report::{Failure, Outcome};

/// Where the project is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProjectArgs {
    /// The project's directory, with `weir.yaml` and `agents/` in it.
    #[arg(long = "project", value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
}

/// Why an agent cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    /// No spec of that name.
    #[error("there is no agent `{name}` in `{}`", within(.directory, "agents").display())]
    NoAgent {
        /// As asked for.
        name: String,
        /// The project.
        directory: PathBuf,
        /// The agents that are there.
        agents: Vec<String>,
    },
    /// The catalog of models cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The files have problems.
    #[error("{0}")]
    Problems(Problems),
}

impl Explain for ProjectError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoAgent { .. } => "cli::no-agent",
            Self::Catalog(error) => error.code(),
            Self::Problems(problems) => problems.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoAgent { agents, .. } if agents.is_empty() => {
                "begin a project with `weir init DIR`, or name it with `--project DIR`".into()
            }
            Self::NoAgent { agents, .. } => format!("the agents here are: {}", agents.join(", ")).into(),
            Self::Catalog(error) => error.help(),
            Self::Problems(problems) => problems.help().into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoAgent { .. } => Fault::Missing,
            Self::Catalog(error) => error.fault(),
            Self::Problems(_) => Fault::Input,
        }
    }
}

impl ProjectArgs {
    /// Builds the project; what is wrong with its files is shown with their lines.
    pub(crate) async fn build(&self) -> Outcome<Build> {
        match build(&self.directory).await {
            Ok(build) => Ok(build),
            Err(ProjectError::Problems(problems)) => Err(Failure::Problems(Box::new(problems))),
            Err(other) => Err(other.into()),
        }
    }
}

/// Builds a project in memory.
pub(crate) async fn build(directory: &Path) -> Result<Build, ProjectError> {
    let compiled = compiling::quietly(directory).await?;
    let problems = Problems::of(&compiled);
    match compiled.manifest {
        Some(built) if !problems.has_errors() => Ok(Build { hash: built.hash, manifest: Arc::new(built.manifest) }),
        _ => Err(ProjectError::Problems(problems)),
    }
}

impl Build {
    /// An agent of the project.
    pub(crate) fn agent(&self, name: &str, directory: &Path) -> Result<&manifest::Agent, ProjectError> {
        let missing = || ProjectError::NoAgent {
            name: name.to_owned(),
            directory: directory.to_owned(),
            agents: self.manifest.agents.keys().cloned().collect(),
        };
        self.manifest.agents.get(name).ok_or_else(missing)
    }
}

/// The path of a file as people would write it.
fn within(directory: &Path, name: &str) -> PathBuf {
    if directory == Path::new(".") { PathBuf::from(name) } else { directory.join(name) }
}

/// A project with its tests.
pub(crate) struct Tested {
    pub(crate) build: Build,
    pub(crate) tests: BTreeMap<String, TestSpec>,
    /// Every script, also those that only tests name.
    pub(crate) scripts: BTreeMap<String, Script>,
    contents: BTreeMap<String, Vec<u8>>,
}

impl Tested {
    /// The content of a file, to show its lines.
    pub(crate) fn content(&self, file: &str) -> &[u8] {
        self.contents.get(file).map_or(&[], Vec::as_slice)
    }
}

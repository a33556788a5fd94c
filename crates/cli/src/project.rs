//! A project, built in memory for a command: from its files and its lock, starting nothing and fetching nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_compiler::{Built, Compiled};
use weir_spec::{Manifest, Sources, manifest};
use weir_types::{CatalogError, Explain, Fault};

use crate::compiling;
use crate::place::{self, Discovery, Found, Surroundings};
use crate::problems::Problems;
use crate::report::{Failure, Outcome};
use crate::show::printable;

/// Where the project is.
#[derive(Clone, Debug)]
pub(crate) struct ProjectArgs {
    /// The project's directory, as a path from the current one.
    pub(crate) directory: PathBuf,
    /// How it was found.
    pub(crate) found: Found,
    /// A project on the way up that belongs to another user and is not used.
    pub(crate) foreign: Option<PathBuf>,
}

/// `--project` is an option of every command: it also says where the data is.
impl clap::Args for ProjectArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

impl clap::FromArgMatches for ProjectArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::find(matches.get_one::<PathBuf>("project").cloned()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
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
    /// Nothing there is a project.
    #[error("there is no project in `{}`", std::path::absolute(.0).unwrap_or_else(|_| .0.clone()).display())]
    NoProject(PathBuf),
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
            Self::NoProject(_) => "cli::no-project",
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
            Self::NoProject(_) => {
                "a project has a `weir.yaml`: go to its directory or one below it, name it with `--project DIR` or \
                 WEIR_PROJECT, or begin one with `weir init DIR`"
                    .into()
            }
            Self::Catalog(error) => error.help(),
            Self::Problems(problems) => problems.help().into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoAgent { .. } => Fault::Missing,
            Self::NoProject(_) => Fault::Input,
            Self::Catalog(error) => error.fault(),
            Self::Problems(_) => Fault::Input,
        }
    }
}

impl Default for ProjectArgs {
    fn default() -> Self {
        Self { directory: PathBuf::from("."), found: Found::Here, foreign: None }
    }
}

impl ProjectArgs {
    /// The project that was named, or the one that is found from the current directory upwards.
    pub(crate) fn find(named: Option<PathBuf>) -> Self {
        if let Some(directory) = named {
            return Self { directory, found: Found::Named, foreign: None };
        }
        let Discovery { directory, found, foreign } = Surroundings::of_process().discover();
        Self { directory, found, foreign }
    }

    /// ` in DIR`, if that is not the current directory.
    pub(crate) fn elsewhere(&self) -> String {
        if self.directory == Path::new(".") {
            return String::new();
        }
        format!(" in {}", printable(&self.directory.to_string_lossy()))
    }

    /// Builds the project; what is wrong with its files is shown with their lines.
    pub(crate) async fn build(&self) -> Outcome<Built> {
        build(&self.directory).await.map_err(failure)
    }

    /// The same, with its tests.
    pub(crate) async fn build_tested(&self) -> Outcome<Tested> {
        must_be_there(&self.directory)?;
        let compiled = compiling::quietly(&self.directory).await?;
        let (built, compiled) = check(compiled).map_err(failure)?;
        Ok(Tested { built, sources: compiled.sources, files: compiled.files })
    }
}

/// What is wrong with its files is shown with their lines.
pub(crate) fn failure(error: ProjectError) -> Failure {
    match error {
        ProjectError::Problems(problems) => Failure::Problems(Box::new(problems)),
        other => other.into(),
    }
}

/// Builds a project in memory.
pub(crate) async fn build(directory: &Path) -> Result<Built, ProjectError> {
    must_be_there(directory)?;
    check(compiling::quietly(directory).await?).map(|(built, _)| built)
}

/// A directory without any project is a wrong path, not a project without mistakes.
pub(crate) fn must_be_there(directory: &Path) -> Result<(), ProjectError> {
    if place::has_project(directory) { Ok(()) } else { Err(ProjectError::NoProject(directory.to_owned())) }
}

/// What was built, unless something stands in the way.
fn check(mut compiled: Compiled) -> Result<(Built, Compiled), ProjectError> {
    match compiled.built.take() {
        Some(built) => Ok((built, compiled)),
        None => Err(ProjectError::Problems(Problems::of(&compiled))),
    }
}

/// An agent of a project.
pub(crate) fn agent<'m>(
    manifest: &'m Manifest,
    name: &str,
    directory: &Path,
) -> Result<&'m manifest::Agent, ProjectError> {
    manifest.agents.get(name).ok_or_else(|| ProjectError::NoAgent {
        name: name.to_owned(),
        directory: directory.to_owned(),
        agents: manifest.agents.keys().cloned().collect(),
    })
}

/// The agents of a project, as far as they can be seen without reading them. Blocks.
pub(crate) fn agents(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory.join("agents")).into_iter().flatten().flatten();
    let with_spec = entries.filter(|entry| entry.path().join("spec.yaml").is_file());
    let mut names: Vec<String> = with_spec.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The path of a file as people would write it.
pub(crate) fn within(directory: &Path, name: &str) -> PathBuf {
    if directory == Path::new(".") { PathBuf::from(name) } else { directory.join(name) }
}

/// A project with its tests.
pub(crate) struct Tested {
    pub(crate) built: Built,
    /// What its files say: its tests, and scripts that only they name.
    pub(crate) sources: Sources,
    files: BTreeMap<String, Vec<u8>>,
}

impl Tested {
    /// The content of a file, to show its lines.
    pub(crate) fn content(&self, file: &str) -> &[u8] {
        self.files.get(file).map_or(&[], Vec::as_slice)
    }
}

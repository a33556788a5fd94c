//! The files of a project, read for a command: `weir.yaml`, an agent's spec with its identity files, a model's script.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use weir_kernel::system::{IDENTITY_FILES, Sources};
use weir_spec::{AgentSpec, FILE_BYTES_MAX, Project, Script};
use weir_types::{Catalog, CatalogError, Explain, Fault, Hash, Hasher, ModelCard, Wire};

use crate::problems::Problems;
use crate::report::{Failure, Outcome};
use crate::show::size;
use crate::store::blocking;

/// Where the project is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProjectArgs {
    /// The project's directory, with `agents/` in it.
    #[arg(long = "project", value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
}

/// An agent with everything its files say.
#[derive(Debug)]
pub(crate) struct LoadedAgent {
    /// Its spec.
    pub(crate) spec: AgentSpec,
    /// Its model, by its full name.
    pub(crate) model: String,
    /// What is known about that.
    pub(crate) card: ModelCard,
    /// What its system prompt is made of.
    pub(crate) sources: Sources,
    /// What its model answers from, if that is a script.
    pub(crate) script: Option<Script>,
    /// What identifies the content of all files that were read.
    pub(crate) manifest: Hash,
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
    /// No script of that name.
    #[error("the model `scripted/{name}` needs the script `{}`", .path.display())]
    NoScript {
        /// As asked for.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An identity file is too large.
    #[error("`{}` has more than {}", .path.display(), size(FILE_BYTES_MAX as u64))]
    TooLarge {
        /// The file.
        path: PathBuf,
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
            Self::NoScript { .. } => "cli::no-script",
            Self::Unreadable { .. } => "cli::unreadable",
            Self::TooLarge { .. } => "cli::too-long",
            Self::Catalog(error) => error.code(),
            Self::Problems(problems) => problems.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoAgent { agents, .. } if agents.is_empty() => {
                "an agent is a file `agents/NAME/spec.yaml`; name the project with `--project DIR`".into()
            }
            Self::NoAgent { agents, .. } => format!("the agents here are: {}", agents.join(", ")).into(),
            Self::NoScript { .. } => "write it, for example `replies: [{ say: \"Hello.\" }]`".into(),
            Self::Unreadable { .. } => "check the path and its permissions".into(),
            Self::TooLarge { .. } => "identity files go into every request; keep them short".into(),
            Self::Catalog(error) => error.help(),
            Self::Problems(problems) => problems.help().into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoAgent { .. } | Self::NoScript { .. } => Fault::Missing,
            Self::Unreadable { .. } => Fault::Storage,
            Self::TooLarge { .. } | Self::Problems(_) => Fault::Input,
            Self::Catalog(error) => error.fault(),
        }
    }
}

impl Default for ProjectArgs {
    fn default() -> Self {
        Self { directory: PathBuf::from(".") }
    }
}

impl ProjectArgs {
    /// Reads an agent; what is wrong with its files is shown with their lines.
    pub(crate) async fn load(&self, name: &str) -> Outcome<LoadedAgent> {
        let (directory, name) = (self.directory.clone(), name.to_owned());
        match blocking(move || load(&directory, &name)).await? {
            Ok(agent) => Ok(agent),
            Err(ProjectError::Problems(problems)) => Err(Failure::Problems(Box::new(problems))),
            Err(other) => Err(other.into()),
        }
    }
}

/// Reads an agent and what it needs. Blocks while it reads files.
pub(crate) fn load(directory: &Path, name: &str) -> Result<LoadedAgent, ProjectError> {
    let mut reader = Reader { directory, problems: Problems::default(), read: Hasher::default() };
    let catalog = reader.catalog()?;
    let home = format!("agents/{name}");
    let content = if is_name(name) { reader.read(&format!("{home}/spec.yaml"))? } else { None };
    let Some((file, content)) = content else {
        let (name, agents) = (name.to_owned(), agents(directory));
        return Err(ProjectError::NoAgent { name, directory: directory.to_owned(), agents });
    };
    let found = AgentSpec::read(&file, &content).and_then(|spec| Ok((spec.find_model(&catalog)?, spec)));
    let ((model, card), spec) = match found {
        Ok(found) => found,
        Err(found) => {
            reader.problems.add(found, &content);
            return Err(ProjectError::Problems(reader.problems));
        }
    };
    let script = match card.wire {
        Wire::Scripted => {
            let name = card.api_name.as_deref().unwrap_or_else(|| model.trim_start_matches("scripted/"));
            reader.script(name)?
        }
        _ => None,
    };
    let mut sources = Sources { description: spec.description.clone(), ..Sources::default() };
    for file in IDENTITY_FILES {
        if let Some(text) = reader.identity(&format!("{home}/{file}"))? {
            sources.identity.push((file.to_owned(), text));
        }
    }
    reader.problems.check().map_err(ProjectError::Problems)?;
    Ok(LoadedAgent { spec, model, card, sources, script, manifest: reader.read.finish() })
}

/// Reads the files of a project, and remembers what it has read.
struct Reader<'a> {
    directory: &'a Path,
    problems: Problems,
    read: Hasher,
}

impl Reader<'_> {
    /// All models that can be named here.
    fn catalog(&mut self) -> Result<Catalog, ProjectError> {
        let mut catalog = Catalog::builtin()?;
        if let Some((file, content)) = self.read("weir.yaml")? {
            match Project::read(&file, &content) {
                Ok(project) => project.models.into_iter().for_each(|(name, card)| catalog.insert(name, card)),
                Err(found) => self.problems.add(found, &content),
            }
        }
        Ok(catalog)
    }

    fn script(&mut self, name: &str) -> Result<Option<Script>, ProjectError> {
        let path = format!("models/{name}.yaml");
        let content = if is_name(name) { self.read(&path)? } else { None };
        let Some((file, content)) = content else {
            return Err(ProjectError::NoScript {
                name: name.to_owned(),
                path: within(self.directory, &path),
            });
        };
        let script = Script::read(&file, &content);
        Ok(script.map_err(|found| self.problems.add(found, &content)).ok())
    }

    /// An identity file as text. Bytes that are no text are replaced: they are words for a model, not syntax.
    fn identity(&mut self, name: &str) -> Result<Option<String>, ProjectError> {
        let Some((_, content)) = self.read(name)? else { return Ok(None) };
        if content.len() > FILE_BYTES_MAX {
            return Err(ProjectError::TooLarge { path: within(self.directory, name) });
        }
        Ok(Some(String::from_utf8_lossy(&content).into_owned()))
    }

    /// A file and its path as people would write it, if it is there. Reads at most one byte more than is allowed.
    fn read(&mut self, name: &str) -> Result<Option<(String, Vec<u8>)>, ProjectError> {
        let path = within(self.directory, name);
        let mut content = Vec::new();
        let opened =
            File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut content));
        match opened {
            Ok(_) => {
                for part in [name.as_bytes(), &content] {
                    self.read.update(&(part.len() as u64).to_be_bytes());
                    self.read.update(part);
                }
                Ok(Some((path.to_string_lossy().into_owned(), content)))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(source) => Err(ProjectError::Unreadable { path, source }),
        }
    }
}

/// The path of a file as people would write it.
fn within(directory: &Path, name: &str) -> PathBuf {
    if directory == Path::new(".") { PathBuf::from(name) } else { directory.join(name) }
}

/// The agents of a project, as far as they can be seen.
fn agents(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory.join("agents")).into_iter().flatten().flatten();
    let with_spec = entries.filter(|entry| entry.path().join("spec.yaml").is_file());
    let mut names: Vec<String> = with_spec.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Names stay inside their directory.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(fits)
}

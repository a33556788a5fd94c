//! The tools that come with the program.

mod bash;
mod clock;
mod edit;
mod fs;
mod http;
mod memory;
mod result;

use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_types::{Effect, Json, ToolDefinition};

use crate::call::{Done, Failed, Started};
use crate::offer::Offer;
use crate::toolbox::Setup;

/// A tool that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// Reads a file, or a part of it.
    FsRead,
    /// Lists files.
    FsList,
    /// Finds files by name.
    FsGlob,
    /// Finds files by content.
    FsSearch,
    /// Writes a file.
    EditWrite,
    /// Replaces a text in a file.
    EditReplace,
    /// Replaces several texts in a file.
    EditMulti,
    /// Runs a command over the files, confined.
    Bash,
    /// Makes a request.
    Http,
    /// Remembers something.
    MemoryStore,
    /// Finds what was remembered.
    MemorySearch,
    /// Finds what is remembered near something.
    MemoryRelated,
    /// Tells the time.
    GetTime,
    /// Reads on in a result that was too long to be shown.
    ResultRead,
}

/// A call of one of them.
pub(crate) struct Running {
    pub(crate) started: Started,
    pub(crate) offer: Offer,
    pub(crate) setup: Setup,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::FsRead,
        Self::FsList,
        Self::FsGlob,
        Self::FsSearch,
        Self::EditWrite,
        Self::EditReplace,
        Self::EditMulti,
        Self::Bash,
        Self::Http,
        Self::MemoryStore,
        Self::MemorySearch,
        Self::MemoryRelated,
        Self::GetTime,
        Self::ResultRead,
    ];

    /// The name the model sees.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FsRead => "fs_read",
            Self::FsList => "fs_list",
            Self::FsGlob => "fs_glob",
            Self::FsSearch => "fs_search",
            Self::EditWrite => "edit_write",
            Self::EditReplace => "edit_replace",
            Self::EditMulti => "edit_multi",
            Self::Bash => "bash",
            Self::Http => "http",
            Self::MemoryStore => "memory_store",
            Self::MemorySearch => "memory_search",
            Self::MemoryRelated => "memory_related",
            Self::GetTime => "get_time",
            Self::ResultRead => "result_read",
        }
    }

    /// The tool of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// What the model sees.
    pub fn definition(self) -> ToolDefinition {
        let (description, schema) = match self {
            Self::FsRead | Self::FsList | Self::FsGlob | Self::FsSearch => fs::says(self),
            Self::EditWrite | Self::EditReplace | Self::EditMulti => edit::says(self),
            Self::Bash => bash::says(),
            Self::Http => http::says(),
            Self::MemoryStore | Self::MemorySearch | Self::MemoryRelated => memory::says(self),
            Self::GetTime => clock::says(),
            Self::ResultRead => result::says(),
        };
        ToolDefinition {
            name: self.name().to_owned(),
            description: description.to_owned(),
            schema: Json::of(&schema),
        }
    }

    /// What repeating this very call does, where the arguments say; what its entry says decides otherwise.
    pub fn effect_of(self, input: &Json) -> Option<Effect> {
        match self {
            Self::Http => http::reads(input).then_some(Effect::Read),
            _ => None,
        }
    }

    /// Whether it changes files: such calls take turns, in the order in which the model made them.
    pub const fn changes_files(self) -> bool {
        matches!(self, Self::EditWrite | Self::EditReplace | Self::EditMulti | Self::Bash)
    }

    /// Whether it can change anything but its own session. Commands have no network.
    pub const fn is_contained(self) -> bool {
        !matches!(self, Self::Http)
    }

    pub(crate) async fn run(self, running: Running) -> Result<Done, Failed> {
        match self {
            Self::FsRead => fs::read(&running).await,
            Self::FsList => fs::list(&running).await,
            Self::FsGlob => fs::glob(&running).await,
            Self::FsSearch => fs::search(&running).await,
            Self::EditWrite => edit::write(&running).await,
            Self::EditReplace => edit::replace(&running).await,
            Self::EditMulti => edit::multi(&running).await,
            Self::Bash => bash::run(&running).await,
            Self::Http => http::run(&running).await,
            Self::MemoryStore => memory::store(&running).await,
            Self::MemorySearch => memory::search(&running).await,
            Self::MemoryRelated => memory::related(&running).await,
            Self::GetTime => clock::run(),
            Self::ResultRead => result::read(&running).await,
        }
    }
}

impl Running {
    /// The arguments. They fit the schema, so this fails only where a schema says less than its tool needs.
    pub(crate) fn input<T: DeserializeOwned>(&self) -> Result<T, Failed> {
        let text = self.started.input.as_str();
        serde_json::from_str(text)
            .map_err(|error| Failed::new("invalid", format!("the arguments do not fit: {error}")))
    }
}

/// A tool's description, and the schema of its arguments.
type Says = (&'static str, Value);

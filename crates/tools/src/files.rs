//! The files of a session, as tools see them. The engine implements it on the workspace.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::call::Trace;

/// The files of the session a call is made in.
pub trait Files: Send + Sync {
    /// All files, sorted by path, with what the calls before this one changed.
    fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>>;

    /// The content of a file.
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>>;

    /// Waits until the calls before this one have changed what they change, so that [`Files::edit`] need not: how long
    /// they take is not part of the time that this one has.
    ///
    /// # Cancel safety
    /// Dropping it gives the turn to the next one.
    fn turn(&self) -> BoxFuture<'_, ()>;

    /// Waits for its turn to change files, and holds it until the edit is finished or dropped: calls that change files
    /// go one after another, so that each sees what the others did.
    ///
    /// # Cancel safety
    /// Dropping it, or the edit, changes nothing.
    fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>>;
}

/// A turn to change files. Nothing of it is seen by others before it is finished.
pub trait Edit: Send {
    /// All files as this edit has them, sorted by path.
    fn list(&self) -> Arc<[FileInfo]>;

    /// The content of a file as this edit has it.
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>>;

    /// Gives a file this content, keeping its mode if it was there.
    fn write<'a>(&'a mut self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), FilesError>>;

    /// Puts all files into an empty directory.
    fn checkout<'a>(&'a mut self, directory: &'a Path) -> BoxFuture<'a, Result<(), FilesError>>;

    /// Takes over what is different in a directory that files were put into. The answer names what could not be taken
    /// and why, such as links and sockets.
    fn take_in<'a>(&'a mut self, directory: &'a Path) -> BoxFuture<'a, Result<Vec<String>, FilesError>>;

    /// What changed, in order. Later calls see it once it is journaled with the call's result.
    fn finish(self: Box<Self>) -> Vec<Trace>;
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Where: relative, `/` between its parts.
    pub path: String,
    /// How many bytes.
    pub size: u64,
    /// Whether it can be run.
    pub executable: bool,
}

/// Why files cannot be read or changed. The model is told; none of it is about other sessions or the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// There is no such file.
    #[error("there is no file `{0}`")]
    Missing(String),
    /// That cannot be the path of a file.
    #[error("{0}")]
    Path(String),
    /// More, or longer, than allowed.
    #[error("{0}")]
    TooMuch(String),
    /// The files cannot be had right now.
    #[error("the files of this session cannot be reached: {0}")]
    Unavailable(String),
}

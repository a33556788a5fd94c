//! The files of a session that has none, on a workspace, as the engine has them: a command over them is checked out and
//! looked through like any other.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_blobs::Blobs;
use weir_tools::{
    Agents, Done, Edit, Failed, FileInfo, Files, FilesError, Memory, MemoryError, Note, Remembered, Results,
    Trace, World,
};
use weir_types::{Hash, SessionId};
use weir_workspace::{Scan, changes_in, checkout};

/// What a call can reach: no files, no notes, no earlier results, no other agents.
pub(crate) fn nothing(blobs: Arc<dyn Blobs>) -> World {
    let nothing = Arc::new(Nothing(blobs));
    World {
        files: Arc::clone(&nothing) as _,
        memory: Arc::clone(&nothing) as _,
        results: Arc::clone(&nothing) as _,
        agents: nothing,
    }
}

struct Nothing(Arc<dyn Blobs>);

impl Files for Nothing {
    fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>> {
        async { Ok(Arc::default()) }.boxed()
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        async { Err(FilesError::Missing(path.to_owned())) }.boxed()
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>> {
        async { Ok(Box::new(Turn(weir_workspace::Files::new(), Arc::clone(&self.0))) as Box<dyn Edit>) }
            .boxed()
    }
}

struct Turn(weir_workspace::Files, Arc<dyn Blobs>);

impl Edit for Turn {
    fn list(&self) -> Arc<[FileInfo]> {
        Arc::default()
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        async { Err(FilesError::Missing(path.to_owned())) }.boxed()
    }

    fn write<'a>(&'a mut self, _path: &'a str, _content: Bytes) -> BoxFuture<'a, Result<(), FilesError>> {
        async { Err(unavailable("nothing is written here")) }.boxed()
    }

    fn checkout<'a>(&'a mut self, directory: &'a Path) -> BoxFuture<'a, Result<(), FilesError>> {
        async { checkout(&self.0, directory, &*self.1).await.map(drop).map_err(unavailable) }.boxed()
    }

    fn take_in<'a>(&'a mut self, directory: &'a Path) -> BoxFuture<'a, Result<Vec<String>, FilesError>> {
        async {
            let found = changes_in(directory, &self.0, &Scan::default(), &*self.1).await;
            Ok(found.map_err(unavailable)?.skipped.iter().map(ToString::to_string).collect())
        }
        .boxed()
    }

    fn finish(self: Box<Self>) -> Vec<Trace> {
        Vec::new()
    }
}

fn unavailable(why: impl ToString) -> FilesError {
    FilesError::Unavailable(why.to_string())
}

impl Memory for Nothing {
    fn store(&self, _note: Note) -> BoxFuture<'_, Result<Trace, MemoryError>> {
        async { Err(MemoryError("nothing is kept here".to_owned())) }.boxed()
    }

    fn notes(&self) -> BoxFuture<'_, Result<Arc<[Remembered]>, MemoryError>> {
        async { Ok(Arc::default()) }.boxed()
    }
}

impl Results for Nothing {
    fn whole(&self, _hash: Hash) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        async { Ok(None) }.boxed()
    }
}

impl Agents for Nothing {
    fn attend(&self, _child: SessionId) -> BoxFuture<'static, Result<Done, Failed>> {
        async { Err(Failed::new("child", "there is no other agent")) }.boxed()
    }
}

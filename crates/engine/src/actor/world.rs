//! What of a session its calls may reach.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_blobs::Blobs;
use weir_kernel::Call;
use weir_tools::{Results, World};
use weir_types::Hash;

use super::Actor;
use super::children::Children;
use crate::files::{self, SessionFiles};
use crate::memory::AgentMemory;
use crate::setup::Runnable;

impl Actor {
    /// What of this session its calls may reach.
    pub(super) fn world(&mut self, runnable: &Runnable, call: &Call) -> World {
        let (journal, blobs) = (&self.shared.setup.journal, &self.shared.setup.blobs);
        let seal = &self.shared.setup.seal;
        let new =
            || SessionFiles::new(Arc::clone(journal), seal.clone(), Arc::clone(blobs), self.branch.clone());
        let files = self.files.get_or_insert_with(new);
        World {
            files: Arc::new(match runnable.tools.changes_files(&call.tool) {
                true => files::Handle::in_turn(files, call.id),
                false => files::Handle::new(files, call.id),
            }),
            memory: AgentMemory::new(
                Arc::clone(journal),
                Arc::clone(blobs),
                &runnable.agent.name,
                self.session.created.as_ref().map_or("", |created| &created.principal),
            ),
            results: Arc::new(LongResults {
                known: self.session.long_results.clone(),
                blobs: Arc::clone(blobs),
            }),
            agents: Arc::new(Children {
                shared: Arc::clone(&self.shared),
                parent: self.address.session,
                call: call.id,
            }),
        }
    }
}

/// The long results of a session, as it knew them when a call began.
struct LongResults {
    known: Vec<Hash>,
    blobs: Arc<dyn Blobs>,
}

/// The longest result that was kept.
const RESULT_BYTES_MAX: u64 = 64 * 1024 * 1024;

impl Results for LongResults {
    fn whole(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        async move {
            if !self.known.contains(&hash) {
                return Ok(None);
            }
            let whole = self.blobs.get_bytes(hash, RESULT_BYTES_MAX).await;
            whole.map(Some).map_err(|error| error.to_string())
        }
        .boxed()
    }
}

//! Making a past request again, byte for byte, and checking it against the hash that was written down.

use std::sync::Arc;

use bytes::Bytes;
use weir_events::{Body, ModelRequested, Payload};
use weir_journal::OfKind;
use weir_kernel::compact;
use weir_kernel::render::{self, Cut, Frame};
use weir_types::{Event, Hash, Purpose, Request, Seq, ToolDefinition};

use crate::address::Address;
use crate::error::EngineError;
use crate::shared::Shared;
use crate::store;

/// Longest system prompt or list of tool definitions that is read back.
const FRAME_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A request that was made.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Its event.
    pub event: Arc<Event>,
    /// What that says.
    pub requested: ModelRequested,
    /// The request in no provider's language.
    pub request: Request,
    /// The bytes that were sent.
    pub bytes: Bytes,
    /// Their hash; equal to `requested.request_hash`, unless the way requests are written has changed.
    pub hash: Hash,
}

/// The `n`th request of a session, from 1.
pub(crate) async fn rebuild(shared: &Shared, address: &Address, n: usize) -> Result<Rebuilt, EngineError> {
    let (event, requested) = find(shared, address, n).await?;
    let before = Seq(event.seq.0 - 1);
    let loaded = store::load_until(shared.journal(), address, Some(before)).await?;
    let Some(loaded) = loaded else { return Err(EngineError::NoSession(address.clone())) };
    let session = &loaded.session;
    let cut = Cut { share_tokens: requested.params.share_tokens };
    let request = match requested.params.purpose {
        Purpose::Turn => {
            let frame = frame(shared, &requested).await?;
            render::request(session, frame, &requested.window, cut)
        }
        Purpose::Summary => {
            let [from, through] = requested.window.first().copied().unwrap_or_default();
            let output_tokens_max = requested.params.output_tokens_max;
            let plan = compact::Plan { from, through, tokens: 0, cut, output_tokens_max };
            compact::request(session, &requested.params.api_name, &plan)
        }
    };
    let Some(created) = &session.created else { return Err(EngineError::NoSession(address.clone())) };
    let runnable = shared.agent_of(created).await?;
    let bytes = runnable.model.encode(&request)?;
    let hash = Hash::of(&bytes);
    Ok(Rebuilt { event: Arc::new(event), requested, request, bytes, hash })
}

async fn find(shared: &Shared, address: &Address, n: usize) -> Result<(Event, ModelRequested), EngineError> {
    let branch = address.branch_id();
    let mut pages = OfKind::new(&*shared.setup.journal, &branch, ModelRequested::kind());
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        for event in page {
            count += 1;
            if count == n {
                let body = Body::decode(&event.kind, &event.payload);
                return match body {
                    Ok(Some(Body::ModelRequested(requested))) => Ok((event, requested)),
                    _ => Err(EngineError::NoRequest { address: address.clone(), n, count }),
                };
            }
        }
    }
    Err(EngineError::NoRequest { address: address.clone(), n, count })
}

async fn frame(shared: &Shared, requested: &ModelRequested) -> Result<Frame, EngineError> {
    let blobs = &shared.setup.blobs;
    let system = blobs.get_bytes(requested.prompt, FRAME_BYTES_MAX).await?;
    let tools = blobs.get_bytes(requested.tools, FRAME_BYTES_MAX).await?;
    // INVARIANT: the blobs' hashes say that these are the bytes we wrote.
    let tools: Vec<ToolDefinition> = serde_json::from_slice(&tools).unwrap_or_default();
    Ok(Frame {
        api_name: requested.params.api_name.clone(),
        system: String::from_utf8_lossy(&system).into_owned(),
        tools,
        output_tokens_max: requested.params.output_tokens_max,
    })
}

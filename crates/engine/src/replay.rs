//! What a recorded session's model answered, for a model that answers the same again.

use weir_events::{Body, ContextCompacted, ModelRequested};
use weir_journal::{Journal, PAGE_MAX};
use weir_models::Recorded;
use weir_types::{Answer, Block, Hash, Seq, Stop};

use crate::address::Address;
use crate::error::EngineError;

/// Every answer of a session's model, summaries included, with the hash of the request it answered.
///
/// # Errors
/// When there is no such session, or it cannot be read.
pub async fn recorded(journal: &dyn Journal, address: &Address) -> Result<Vec<Recorded>, EngineError> {
    let branch = address.branch_id();
    if journal.head(&branch).await?.is_none() {
        return Err(EngineError::NoSession(address.clone()));
    }
    let (mut answers, mut request_hash, mut after) = (Vec::new(), Hash::ZERO, Seq(0));
    loop {
        let page = journal.read(&branch, after, PAGE_MAX).await?;
        for event in &page {
            after = event.seq;
            // What cannot be read was answered by a later version; a replay goes as far as it can.
            let Ok(Some(body)) = Body::decode(&event.kind, &event.payload) else { continue };
            if let Body::ModelRequested(ModelRequested { request_hash: hash, .. }) = &body {
                request_hash = *hash;
            }
            answers.extend(answer(body).map(|answer| Recorded { request_hash, answer }));
        }
        if page.len() < PAGE_MAX {
            return Ok(answers);
        }
    }
}

fn answer(body: Body) -> Option<Answer> {
    match body {
        Body::AssistantMessage(message) => Some(Answer {
            content: message.content,
            stop: message.stop,
            usage: message.usage,
            provider_id: message.provider_id,
        }),
        Body::ContextCompacted(ContextCompacted { summary, usage, .. }) => {
            let content = vec![Block::text(summary)];
            Some(Answer { content, stop: Stop::End, usage, provider_id: None })
        }
        _ => None,
    }
}

//! A run to its end, for clients that want the answer in one piece: the same that a stream would have told.

use axum::http::StatusCode;
use weir_types::{Seq, StopReason, Usage};

use super::refused::Refused;
use crate::app::App;
use crate::error::Error;
use crate::formats::{Joiner, Part, Viewer};
use crate::saying;
use crate::stream::{Begun, Feed, Item, Source};

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered {
    /// When it began, in seconds.
    pub(super) created: i64,
    pub(super) said: Vec<Said>,
    pub(super) stop: Option<StopReason>,
    pub(super) usage: Usage,
}

/// A block of what the model said, or a remark of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The request that it answers; none for a remark.
    request: Option<Seq>,
    block: u32,
    pub(super) reasoning: bool,
    pub(super) text: String,
}

impl Answered {
    /// All that was said, or thought, in one text.
    pub(super) fn text(&self, reasoning: bool) -> Option<String> {
        let texts = self.said.iter().filter(|said| said.reasoning == reasoning);
        let text: String = texts.map(|said| said.text.as_str()).collect();
        (!text.is_empty()).then_some(text)
    }

    fn say(&mut self, said: Said) {
        match self.said.last_mut() {
            Some(last) if said.request.is_some() && last.is_same(&said) => last.text.push_str(&said.text),
            _ => self.said.push(said),
        }
    }

    /// Keeps answers apart that are read as one, as streams do.
    fn join(&mut self) {
        let (mut text, mut thought) = (Joiner::default(), Joiner::default());
        for said in &mut self.said {
            let joiner = if said.reasoning { &mut thought } else { &mut text };
            let gap = match said.request {
                Some(request) => joiner.gap(request.0, &said.text),
                None => joiner.gap_before_remark(&said.text),
            };
            said.text.insert_str(0, gap.unwrap_or_default());
        }
    }
}

impl Said {
    fn is_same(&self, other: &Self) -> bool {
        (self.request, self.block, self.reasoning) == (other.request, other.block, other.reasoning)
    }
}

/// Follows a run to its end, for as long as the server lets clients wait.
///
/// # Errors
/// When it ends without an answer. It is over then, or goes on without whoever waited.
pub(super) async fn collect(app: &App, begun: &Begun) -> Result<Answered, Refused> {
    let patience = app.settings.chat_patience;
    let followed = tokio::time::timeout(patience, follow(app, begun)).await;
    followed.unwrap_or_else(|_| {
        let (address, run) = (&begun.address, begun.run);
        let message = format!(
            "there is no answer yet; the run goes on: `GET /sessions/{address}/runs/{run}/stream` follows it"
        );
        Err(Refused::interrupted(StatusCode::GATEWAY_TIMEOUT, "timeout", message))
    })
}

async fn follow(app: &App, begun: &Begun) -> Result<Answered, Refused> {
    let feed = Feed::new(&app.engine, &app.journal, &Source::run(begun)).await;
    let mut feed = feed.map_err(Error::from)?;
    let (mut viewer, mut answered) = (Viewer::default(), Answered::default());
    let about_to_stop = saying::about_to_stop(app);
    tokio::pin!(about_to_stop);
    loop {
        let item = tokio::select! {
            item = feed.next() => item.map_err(Error::from)?,
            () = &mut about_to_stop => None,
        };
        let Some(item) = item else { return Err(leaving()) };
        // Nobody has seen anything of an attempt that is gone.
        if let Item::Reset(reset) = &item {
            answered.said.retain(|said| said.request != Some(reset.request));
        }
        for part in viewer.view(&item) {
            match part {
                Part::Begin(at) => answered.created = at.as_micros().div_euclid(1_000_000),
                Part::Said { request, block, reasoning, text } => {
                    answered.say(Said { request: Some(request), block, reasoning, text });
                }
                Part::Ask(asked) => {
                    answered.say(Said { request: None, block: 0, reasoning: false, text: asked.in_words() });
                }
                Part::Finish { stop, usage } => {
                    (answered.stop, answered.usage) = (Some(stop), usage);
                    answered.join();
                    return Ok(answered);
                }
                Part::Broken(problem) => return Err(Refused::run(problem)),
                Part::Reset
                | Part::Step
                | Part::Answered
                | Part::Call { .. }
                | Part::Output { .. }
                | Part::Failed { .. } => {}
            }
        }
    }
}

fn leaving() -> Refused {
    let message = "the server is shutting down; the run goes on when it is up again";
    Refused::interrupted(StatusCode::SERVICE_UNAVAILABLE, "server::stopping", message)
}

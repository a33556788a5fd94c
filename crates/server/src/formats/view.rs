//! What vendors' formats can say of a run: the items of a stream as neutral parts.

use std::collections::HashMap;

use weir_events::{AskedBecause, Body};
use weir_models::Channel;
use weir_types::{Block, CallId, FailureClass, Json, Outcome, Seq, StopReason, Timestamp, Usage};

use super::Problem;
use crate::stream::{Asked, End, Item, Piece};

/// One thing that a format may say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// The run begins.
    Begin(Timestamp),
    /// The model is asked for more.
    Step,
    /// A piece of its text or reasoning.
    Said {
        /// Which request it answers.
        request: Seq,
        /// Which block of the answer it is part of.
        block: u32,
        /// Whether it is reasoning.
        reasoning: bool,
        /// The piece.
        text: String,
    },
    /// The answer is complete.
    Answered,
    /// A tool is called.
    Call {
        /// The call.
        id: CallId,
        /// The tool.
        tool: String,
        /// The arguments.
        input: Json,
    },
    /// It answered.
    Output {
        /// The call.
        id: CallId,
        /// The answer.
        content: Vec<Block>,
    },
    /// It did not.
    Failed {
        /// The call.
        id: CallId,
        /// What the model is told.
        message: String,
        /// Whether somebody said no.
        denied: bool,
    },
    /// Someone has to decide.
    Ask(Asked),
    /// What was said of the answer is not part of it.
    Reset,
    /// The run ends with an answer, or with as much of one as there will be.
    Finish {
        /// Why.
        stop: StopReason,
        /// What it used.
        usage: Usage,
    },
    /// It ends, or pauses, without one.
    Broken(Problem),
}

/// Reads items.
#[derive(Debug, Default)]
pub(crate) struct Viewer {
    /// The tool of each call of the newest answer, and why someone is asked about it.
    calls: HashMap<CallId, (String, String)>,
    usage: Usage,
    is_over: bool,
}

impl Viewer {
    /// What an item means.
    pub(crate) fn view(&mut self, item: &Item) -> Vec<Part> {
        match item {
            Item::Piece(Piece { request, block, channel, text, .. }) => vec![Part::Said {
                request: *request,
                block: *block,
                reasoning: *channel == Channel::Thinking,
                text: text.clone(),
            }],
            Item::Reset(_) => vec![Part::Reset],
            Item::End(end) => self.end(end),
            Item::Event(told) => match &told.body {
                Some(body) => self.event(told.event.ts, body),
                None => Vec::new(),
            },
        }
    }

    fn event(&mut self, ts: Timestamp, body: &Body) -> Vec<Part> {
        let part = match body {
            Body::RunStarted(_) => Part::Begin(ts),
            Body::IterationStarted(_) => Part::Step,
            Body::AssistantMessage(message) => {
                self.usage += message.usage;
                self.calls.clear();
                Part::Answered
            }
            // What brought no answer was paid for as well.
            Body::ModelFailed(failed) => {
                self.usage += failed.usage;
                return Vec::new();
            }
            Body::ContextCompacted(compacted) => {
                self.usage += compacted.usage;
                return Vec::new();
            }
            // What someone outside asked for is not the agent's.
            Body::ToolRequested(call) if call.key.is_some() => return Vec::new(),
            Body::ToolRequested(call) => {
                self.calls.insert(call.call, (call.tool.clone(), String::new()));
                Part::Call { id: call.call, tool: call.tool.clone(), input: call.input.clone() }
            }
            Body::ToolDecided(decided) => {
                if let Some((_, because)) = self.calls.get_mut(&decided.call) {
                    because.clone_from(&decided.because);
                }
                return Vec::new();
            }
            // What another session asks is told where the stream ends, with what it asks.
            Body::ApprovalRequested(asked) if asked.asked_because() == AskedBecause::Child => {
                return Vec::new();
            }
            Body::ApprovalRequested(asked) => {
                let Some((tool, because)) = self.calls.get(&asked.call) else { return Vec::new() };
                let why = weir_engine::why_asked(tool, asked.asked_because(), because);
                Part::Ask(Asked { id: asked.call, call: asked.call, why })
            }
            Body::ToolCompleted(done) if !self.calls.contains_key(&done.call) => return Vec::new(),
            Body::ToolFailed(failed) if !self.calls.contains_key(&failed.call) => return Vec::new(),
            Body::ToolCompleted(done) => Part::Output { id: done.call, content: done.content.clone() },
            Body::ToolFailed(failed) => Part::Failed {
                id: failed.call,
                message: failed.message.clone(),
                denied: failed.outcome == Outcome::Denied,
            },
            Body::RunFinished(finished) => {
                self.is_over = true;
                Part::Finish { stop: finished.stop.into(), usage: finished.usage }
            }
            Body::RunErrored(errored) => {
                self.broken(StopReason::Failed, Some(errored.class), errored.message.clone())
            }
            Body::RunCancelled(_) => {
                self.broken(StopReason::Cancelled, None, "the run was cancelled".to_owned())
            }
            _ => return Vec::new(),
        };
        vec![part]
    }

    fn broken(&mut self, stop: StopReason, class: Option<FailureClass>, message: String) -> Part {
        self.is_over = true;
        Part::Broken(Problem { stop, class, message })
    }

    fn end(&mut self, end: &End) -> Vec<Part> {
        let usage = self.usage;
        match end {
            End::Over if self.is_over => Vec::new(),
            End::Over => {
                vec![self.broken(StopReason::Cancelled, None, "the run was given up for another".to_owned())]
            }
            End::Parked(why) => vec![match weir_engine::parked_words(why) {
                (StopReason::Iterations, _) => Part::Finish { stop: StopReason::Iterations, usage },
                (stop, message) => Part::Broken(Problem { stop, class: None, message }),
            }],
            End::Waiting(asked) => {
                // What the session asks itself was told when it did.
                let behind = asked.iter().filter(|asked| asked.id != asked.call).cloned().map(Part::Ask);
                behind.chain([Part::Finish { stop: StopReason::Approval, usage }]).collect()
            }
        }
    }
}

impl Asked {
    /// For formats that have nothing but text.
    pub(crate) fn in_words(&self) -> String {
        format!("{} (approval {})", self.why, self.id)
    }
}

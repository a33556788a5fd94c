//! `scripted/…`: rules tried from the top against the request; the first that matches answers.
//!
//! It streams like a real model and keeps no state: the same body and attempt always give the same pieces, so that a
//! restart changes nothing.

mod matching;
mod template;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use regex::Regex;
use weir_types::{Answer, Block, Explain, FailureClass, Fault, Json, Request, Stop, Usage, View, Wire};

use self::matching::{Match, Newest};
use super::{decode, deltas_of, encode, estimate, ready};
use crate::{Model, ModelError, Piece};

/// Characters per delta, unless a rule says otherwise.
const CHUNK: usize = 20;

/// The rules of a scripted model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Tried from the top.
    pub replies: Vec<Reply>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What it answers; everything, if absent.
    pub when: Option<When>,
    /// The reasoning.
    pub think: Option<String>,
    /// The words.
    pub say: Option<String>,
    /// Tools to call, all at once.
    pub call: Vec<Call>,
    /// Fails with this class, after whatever it thinks and says.
    pub error: Option<FailureClass>,
    /// How many attempts fail; later ones fall through to the next rule. All of them, if absent.
    pub times: Option<u32>,
    /// What the answer reports; an estimate, if absent.
    pub usage: Option<Usage>,
    /// The pause before each delta, or before the end if there is none.
    pub delay: Option<Duration>,
    /// Characters per delta.
    pub chunk: Option<usize>,
    /// Why the answer ends; for tools, if it calls any, else because it is done.
    pub stop: Option<Stop>,
}

/// What a rule answers. All conditions that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// A regular expression on the latest user message. Without `tool` or `failed`, only when no tool result is newer.
    pub user: Option<String>,
    /// The newest message is this tool's result, failed or not.
    pub tool: Option<String>,
    /// The newest message is the result of a tool that failed, or that did not.
    pub failed: Option<bool>,
    /// The request is for a summary.
    pub summarize: bool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments; text in them may have placeholders.
    pub input: Json,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("reply {} of the script: `{pattern}` is not a regular expression", .index + 1)]
pub struct ScriptError {
    /// The rule, from 0.
    pub index: usize,
    /// The expression.
    pub pattern: String,
    /// What is wrong with it.
    #[source]
    pub source: regex::Error,
}

impl Explain for ScriptError {
    fn code(&self) -> &'static str {
        "models::script-pattern"
    }

    fn help(&self) -> Cow<'static, str> {
        "write a backslash before each of `. * + ? ( ) [ ] { } | ^ $` that stands for itself".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// A model that answers from a script.
#[derive(Debug)]
pub struct Scripted(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    reply: Reply,
    user: Option<Regex>,
}

impl Scripted {
    /// A model that answers from `script`.
    ///
    /// # Errors
    /// When a rule's `user` is not a regular expression.
    pub fn new(script: Script) -> Result<Self, ScriptError> {
        let rule = |(index, reply): (usize, Reply)| {
            let pattern = reply.when.as_ref().and_then(|when| when.user.clone());
            let compile = |pattern: String| {
                Regex::new(&pattern).map_err(|source| ScriptError { index, pattern, source })
            };
            Ok(Rule { user: pattern.map(compile).transpose()?, reply })
        };
        script.replies.into_iter().enumerate().map(rule).collect::<Result<_, _>>().map(Self)
    }

    fn play(&self, body: &[u8], attempt: u32) -> Result<Scene, ModelError> {
        let request = decode(body)?;
        let newest = Newest::of(&request);
        let found = self.0.iter().find_map(|rule| Some((rule, newest.matches(rule, attempt)?)));
        let Some((rule, matched)) = found else {
            return Err(ModelError::invalid(format!("script has no reply for {}", newest.quote())));
        };
        Ok(rule.reply.perform(&matched, &request, body))
    }
}

/// What a rule gives: pieces with a pause before each, then the end.
struct Scene {
    pieces: Vec<Result<Piece, ModelError>>,
    pause: Duration,
}

impl Reply {
    fn perform(&self, matched: &Match, request: &Request, body: &[u8]) -> Scene {
        let content = self.content(matched, request.messages.len());
        let chunk = self.chunk.unwrap_or(CHUNK);
        let usage = self.usage.unwrap_or_else(|| estimate(body, &content));
        let mut pieces: Vec<_> =
            deltas_of(&content, chunk).into_iter().map(|delta| Ok(Piece::Delta(delta))).collect();
        pieces.push(match self.error {
            Some(class) => {
                let error = ModelError::new(class, format!("the script fails here: {class}"));
                Err(ModelError { usage: self.usage, ..error })
            }
            None => {
                let done = if self.call.is_empty() { Stop::End } else { Stop::ToolUse };
                let stop = self.stop.unwrap_or(done);
                Ok(Piece::Done(Box::new(Answer { content, stop, usage, provider_id: None })))
            }
        });
        Scene { pieces, pause: self.delay.unwrap_or_default() }
    }

    fn content(&self, matched: &Match, turn: usize) -> Vec<Block> {
        let mut content = Vec::new();
        if let Some(think) = &self.think {
            content.push(View::Thinking { text: matched.fill(think), signature: None }.into());
        }
        if let Some(say) = &self.say {
            content.push(Block::text(matched.fill(say)));
        }
        content.extend(self.call.iter().enumerate().map(|(at, call)| {
            // The conversation only grows, so its length tells one answer's calls from the next one's.
            let id = format!("call_{turn}_{at}");
            View::ToolUse { id, name: call.tool.clone(), input: matched.fill_json(&call.input) }.into()
        }));
        content
    }
}

impl Model for Scripted {
    fn wire(&self) -> Wire {
        Wire::Scripted
    }

    fn encode(&self, request: &Request) -> Result<Bytes, ModelError> {
        encode(request)
    }

    fn stream(&self, body: Bytes, attempt: u32) -> BoxStream<'static, Result<Piece, ModelError>> {
        let scene = match self.play(&body, attempt) {
            Ok(scene) => scene,
            Err(error) => return ready(Err(error)),
        };
        if scene.pause.is_zero() {
            return stream::iter(scene.pieces).boxed();
        }
        let pause = scene.pause;
        let only = scene.pieces.len() == 1;
        let paused = stream::iter(scene.pieces).then(move |piece| async move {
            if only || matches!(piece, Ok(Piece::Delta(_))) {
                tokio::time::sleep(pause).await;
            }
            piece
        });
        paused.boxed()
    }
}

//! The words of a running session, as they come: the answer on standard output, everything else dim on standard error.
//!
//! A terminal sees the answer grow. When an attempt breaks off, what it said stays on the screen with a remark after it,
//! and the next attempt begins on a new line. Whoever reads a pipe cannot be told to forget, and gets whole answers only.

use std::collections::{BTreeMap, BTreeSet};

use unicode_width::UnicodeWidthStr;
use weir_engine::conversation::{self, Reader, What};
use weir_engine::{LiveDelta, amount, scope_words};
use weir_events::{About, Body, LeftOut, ModelFailed};
use weir_kernel::{Call, retries};
use weir_models::Channel;
use weir_types::{CallId, Event, Purpose, text_of};

use crate::asked;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{count, printable, printable_lines_after, shorten, thousands};
use crate::sign_of_life::SignOfLife;
use crate::wrap::Flow;

/// Columns for a remark where nobody says how many there are.
const REMARK_COLUMNS: usize = 100;

/// Columns for a call within a remark.
const CALL_COLUMNS: usize = 40;

/// Shows a session as it runs.
pub(crate) struct Live {
    me: String,
    /// Messages of our own that are still to come by; nobody needs to be shown what they typed.
    own_words: u32,
    conversation: Reader,
    /// What the current attempt has said on the screen.
    said: String,
    /// How that is broken into lines.
    flow: Flow,
    /// The block it was saying.
    block: Option<u32>,
    /// What the newest request is for.
    purpose: Purpose,
    /// How many messages the newest request left out.
    left_out: u64,
    /// Calls under way, in words.
    calls: BTreeMap<CallId, String>,
    /// The name before each answer, where people talk in turns.
    speaker: Option<String>,
    /// What is waited for.
    sign: SignOfLife,
}

impl Live {
    pub(crate) fn new(me: &str, speaker: Option<&str>, sign: SignOfLife) -> Self {
        Self {
            me: me.to_owned(),
            own_words: 0,
            conversation: Reader::default(),
            said: String::new(),
            flow: Flow::default(),
            block: None,
            purpose: Purpose::Turn,
            left_out: 0,
            calls: BTreeMap::new(),
            speaker: speaker.map(str::to_owned),
            sign,
        }
    }

    /// Time passes: whoever waits sees that something is at work.
    pub(crate) fn tick(&mut self) {
        if self.said.is_empty() || self.said.ends_with('\n') {
            self.sign.draw();
        }
    }

    /// The servers that were called, for the next turn.
    pub(crate) fn servers(&mut self) -> BTreeSet<String> {
        self.sign.servers()
    }

    /// What is shown follows these calls.
    pub(crate) fn follow(&mut self, calls: &[Call]) {
        self.conversation = Reader::after(calls);
        self.calls =
            calls.iter().map(|call| (call.id, asked::call(&call.tool, call.input_to_run()))).collect();
    }

    /// The next message of ours has been seen by whoever typed it.
    pub(crate) fn expect_own_words(&mut self) {
        self.own_words += 1;
    }

    /// A piece of an answer.
    pub(crate) fn piece(&mut self, piece: &LiveDelta, out: &mut Out) -> Outcome {
        if piece.delta.channel == Channel::Thinking {
            self.sign.thinks();
        }
        if out.json || !out.is_terminal() || piece.delta.channel != Channel::Text {
            return Ok(());
        }
        self.sign.clear();
        if self.said.is_empty() {
            self.flow = Flow::new(out.columns);
            self.name_speaker(out)?;
        }
        if self.block.is_some_and(|block| block != piece.delta.block) && !self.said.ends_with('\n') {
            self.end_line(out)?;
        }
        self.block = Some(piece.delta.block);
        let before = self.said.chars().next_back();
        self.said.push_str(&piece.delta.text);
        let shown = self.flow.feed(&printable_lines_after(before, &piece.delta.text));
        out.bytes(shown.as_bytes())?;
        out.flush()
    }

    /// A durable event.
    pub(crate) fn event(&mut self, event: &Event, out: &mut Out) -> Outcome {
        if out.json {
            return Ok(());
        }
        let body = Body::decode(&event.kind, &event.payload);
        if let Ok(Some(body)) = &body {
            self.sign.event(body);
        }
        match body {
            Ok(Some(Body::AssistantMessage(message))) => self.answered(&text_of(&message.content), out),
            Ok(Some(Body::ModelFailed(failed))) => {
                self.broken_off(out)?;
                if let Some(then) = after_failure(self.purpose, &failed) {
                    self.remark(
                        &format!("attempt {} failed: {}; {then}", failed.attempt, failed.message),
                        out,
                    );
                }
                Ok(())
            }
            Ok(Some(Body::ToolRequested(call))) => {
                self.calls.insert(call.call, asked::call(&call.tool, &call.input));
                self.others(event, out);
                Ok(())
            }
            Ok(Some(Body::ToolCompleted(done))) if done.stub => {
                let call = self.calls.remove(&done.call).unwrap_or_else(|| "a call".to_owned());
                let call = shorten(&call, CALL_COLUMNS);
                self.remark(
                    &format!("  dry run: nothing happened: {call}; `--live-writes` lets it happen"),
                    out,
                );
                self.others(event, out);
                Ok(())
            }
            Ok(Some(Body::SessionResumed(_))) => self.broken_off(out),
            // What was said is kept.
            Ok(Some(Body::RunCancelled(_))) => self.break_off_line(out),
            Ok(Some(Body::BudgetExceeded(short))) if short.waits_ms > 0 => {
                let (limit, spent) = (amount(short.which, short.limit), amount(short.which, short.spent));
                self.remark(
                    &format!(
                        "waiting for budget, up to {} s: of {limit} for {}, {spent} are spent or set aside for calls under way",
                        short.waits_ms.div_ceil(1_000),
                        scope_words(&short.scope),
                    ),
                    out,
                );
                Ok(())
            }
            Ok(Some(Body::ModelRequested(requested))) => {
                self.purpose = requested.params.purpose;
                match requested.params.purpose {
                    Purpose::Summary => self.remark("summarising the older part of the conversation", out),
                    Purpose::Turn => self.tell_left_out(requested.context, out),
                }
                Ok(())
            }
            Ok(Some(Body::UserMessage(said))) => {
                let own = About::decode(&event.meta).actor.as_deref() == Some(&self.me);
                if own && self.own_words > 0 {
                    self.own_words -= 1;
                } else {
                    self.remark(&format!("somebody said: {}", conversation::words(&said.content)), out);
                }
                Ok(())
            }
            _ => {
                self.others(event, out);
                Ok(())
            }
        }
    }

    /// Ends a line that something was said on.
    fn end_line(&mut self, out: &mut Out) -> Outcome {
        out.bytes(self.flow.rest().as_bytes())?;
        out.bytes(b"\n")
    }

    /// A remark follows on the screen: it begins on a line of its own, and the answer goes on below it.
    pub(crate) fn break_line(&mut self, out: &mut Out) -> Outcome {
        self.sign.clear();
        if !self.said.is_empty() && !self.said.ends_with('\n') {
            self.end_line(out)?;
        }
        out.flush()
    }

    /// What was said so far is all there will be.
    fn break_off_line(&mut self, out: &mut Out) -> Outcome {
        self.break_line(out)?;
        self.said.clear();
        self.block = None;
        Ok(())
    }

    /// The end of what there is to show.
    pub(crate) fn end(&mut self, out: &mut Out) -> Outcome {
        self.broken_off(out)?;
        out.flush()
    }

    fn answered(&mut self, text: &str, out: &mut Out) -> Outcome {
        self.sign.clear();
        let shown = std::mem::take(&mut self.said);
        self.block = None;
        if shown.is_empty() && !text.is_empty() {
            self.flow = Flow::new(out.columns);
            self.name_speaker(out)?;
        }
        // A screen that could not keep up has a part of it; the whole answer follows.
        if shown != text {
            if !shown.is_empty() {
                self.end_line(out)?;
            }
            let text = self.flow.feed(&out.shown(text));
            out.bytes(text.as_bytes())?;
        }
        out.bytes(self.flow.rest().as_bytes())?;
        if !text.is_empty() && !text.ends_with('\n') {
            out.bytes(b"\n")?;
        }
        out.flush()
    }

    /// What was said so far is not the answer.
    fn broken_off(&mut self, out: &mut Out) -> Outcome {
        self.block = None;
        if std::mem::take(&mut self.said).is_empty() {
            return Ok(());
        }
        self.end_line(out)?;
        out.flush()?;
        self.remark("the answer broke off", out);
        Ok(())
    }

    /// Warns when a request shows less of the conversation than the one before it.
    fn tell_left_out(&mut self, context: Option<LeftOut>, out: &Out) {
        let known = std::mem::replace(&mut self.left_out, context.map_or(0, |left_out| left_out.messages));
        if let Some(left_out) = context.filter(|left_out| left_out.messages > known) {
            out.warn(format_args!("{}", left_out_words(left_out)));
        }
    }

    fn others(&mut self, event: &Event, out: &Out) {
        let lines = self.conversation.read(event);
        for line in lines {
            let tool = line.tool.as_deref().unwrap_or("a tool");
            match line.what {
                What::Call => {
                    let input = line.input.as_ref().map_or("", |input| input.as_str());
                    self.remark(&format!("→ {tool} {input}"), out);
                }
                What::Failure => self.remark(&format!("✗ {tool}: {}", line.text), out),
                What::Signal => self.remark(&format!("signal {}", line.text), out),
                What::User | What::Assistant | What::Thinking | What::Result | What::Summary | What::Note => {
                }
            }
        }
    }

    fn name_speaker(&mut self, out: &mut Out) -> Outcome {
        let Some(speaker) = &self.speaker else { return Ok(()) };
        let name = printable(speaker);
        self.flow.after(name.width() + 3);
        let name = out.paint.bold(&name).into_owned();
        out.bytes(format!("{name} › ").as_bytes())
    }

    fn remark(&mut self, text: &str, out: &Out) {
        self.sign.clear();
        let line = printable(text);
        // On a narrow terminal it takes several lines.
        let line = shorten(&line, out.columns.unwrap_or(0).max(REMARK_COLUMNS));
        out.aside(format_args!("{}", out.err.dim(&line)));
    }
}

/// What follows a failed attempt; nothing, if the end of the run tells it.
fn after_failure(purpose: Purpose, failed: &ModelFailed) -> Option<String> {
    match (retries(purpose, failed.class, failed.attempt), purpose) {
        (true, _) => Some(match failed.delay_ms / 1_000 {
            0 => "trying again in less than a second".to_owned(),
            seconds => format!("trying again in {seconds} s"),
        }),
        (false, Purpose::Summary) => Some("going on without a summary".to_owned()),
        (false, Purpose::Turn) => None,
    }
}

/// What a request leaves out, in words.
pub(crate) fn left_out_words(left_out: LeftOut) -> String {
    let messages = count(left_out.messages, "older message");
    let tokens = thousands(left_out.tokens);
    format!(
        "{messages} (about {tokens} tokens) no longer fit: the model does not see them, and no summary replaces them"
    )
}

#[cfg(test)]
mod tests {
    use weir_types::FailureClass;

    use super::*;

    #[test]
    fn only_an_attempt_that_is_repeated_is_said_to_be() {
        let then = |purpose, class, attempt, delay_ms| {
            let (message, usage, cost) = Default::default();
            after_failure(purpose, &ModelFailed { class, attempt, delay_ms, message, usage, cost })
        };
        let (turn, summary, busy) = (Purpose::Turn, Purpose::Summary, FailureClass::Overloaded);
        assert_eq!(then(turn, busy, 1, 0).as_deref(), Some("trying again in less than a second"));
        assert_eq!(then(turn, busy, 4, 7_529).as_deref(), Some("trying again in 7 s"));
        assert_eq!(then(turn, busy, 5, 7_529), None, "the run fails, and says so");
        assert_eq!(then(turn, FailureClass::Auth, 1, 0), None);
        assert_eq!(then(summary, busy, 1, 0).as_deref(), Some("trying again in less than a second"));
        assert_eq!(then(summary, busy, 2, 0).as_deref(), Some("going on without a summary"));
        assert_eq!(then(summary, FailureClass::Invalid, 1, 0).as_deref(), Some("going on without a summary"));
    }
}

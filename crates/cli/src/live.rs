//! The words of a running session, as they come: the answer on standard output, everything else dim on standard error.
//!
//! A terminal sees the answer grow. When an attempt breaks off, what it said stays on the screen with a remark after it,
//! and the next attempt begins on a new line. Whoever reads a pipe cannot be told to forget, and gets whole answers only.

use weir_engine::LiveDelta;
use weir_engine::conversation::{self, Reader, What};
use weir_kernel::{About, Body, Call};
use weir_models::Channel;
use weir_types::{Event, Purpose, text_of};

use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, printable_lines, shorten};

/// Columns for a remark where nobody says how many there are.
const REMARK_COLUMNS: usize = 100;

/// Shows a session as it runs.
pub(crate) struct Live {
    me: String,
    /// Messages of our own that are still to come by; nobody needs to be shown what they typed.
    own_words: u32,
    conversation: Reader,
    /// What the current attempt has said on the screen.
    said: String,
    /// The block it was saying.
    block: Option<u32>,
}

impl Live {
    pub(crate) fn new(me: &str) -> Self {
        let conversation = Reader::default();
        Self { me: me.to_owned(), own_words: 0, conversation, said: String::new(), block: None }
    }

    /// What is shown follows these calls.
    pub(crate) fn follow(&mut self, calls: &[Call]) {
        self.conversation = Reader::after(calls);
    }

    /// The next message of ours has been seen by whoever typed it.
    pub(crate) fn expect_own_words(&mut self) {
        self.own_words += 1;
    }

    /// A piece of an answer.
    pub(crate) fn piece(&mut self, piece: &LiveDelta, out: &mut Out) -> Outcome {
        if out.json || !out.is_terminal() || piece.delta.channel != Channel::Text {
            return Ok(());
        }
        if self.block.is_some_and(|block| block != piece.delta.block) && !self.said.ends_with('\n') {
            out.bytes(b"\n")?;
        }
        self.block = Some(piece.delta.block);
        self.said.push_str(&piece.delta.text);
        out.bytes(printable_lines(&piece.delta.text).as_bytes())?;
        out.flush()
    }

    /// A durable event.
    pub(crate) fn event(&mut self, event: &Event, out: &mut Out) -> Outcome {
        if out.json {
            return Ok(());
        }
        match Body::decode(&event.kind, &event.payload) {
            Ok(Some(Body::AssistantMessage(message))) => self.answered(&text_of(&message.content), out),
            Ok(Some(Body::ModelFailed(failed))) => {
                self.broken_off(out)?;
                // What is not tried again ends the run, which tells it.
                if failed.class.is_transient() {
                    let again = match failed.delay_ms / 1_000 {
                        0 => "trying again".to_owned(),
                        seconds => format!("trying again in {seconds} s"),
                    };
                    self.remark(
                        &format!("attempt {} failed: {}; {again}", failed.attempt, failed.message),
                        out,
                    );
                }
                Ok(())
            }
            Ok(Some(Body::ToolCompleted(done))) if done.stub => {
                self.remark("  dry run: nothing happened; `--live-writes` lets it happen", out);
                self.others(event, out);
                Ok(())
            }
            Ok(Some(Body::SessionResumed(_))) => self.broken_off(out),
            Ok(Some(Body::ModelRequested(requested))) if requested.params.purpose == Purpose::Summary => {
                self.remark("summarising the older part of the conversation", out);
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

    /// A remark follows on the screen: it begins on a line of its own, and the answer goes on below it.
    pub(crate) fn break_line(&mut self, out: &mut Out) -> Outcome {
        if !self.said.is_empty() && !self.said.ends_with('\n') {
            out.bytes(b"\n")?;
        }
        out.flush()
    }

    /// The end of what there is to show.
    pub(crate) fn end(&mut self, out: &mut Out) -> Outcome {
        self.broken_off(out)?;
        out.flush()
    }

    fn answered(&mut self, text: &str, out: &mut Out) -> Outcome {
        let shown = std::mem::take(&mut self.said);
        self.block = None;
        // A screen that could not keep up has a part of it; the whole answer follows.
        if shown != text {
            if !shown.is_empty() {
                out.bytes(b"\n")?;
            }
            out.bytes(out.shown(text).as_bytes())?;
        }
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
        out.bytes(b"\n")?;
        out.flush()?;
        self.remark("the answer broke off", out);
        Ok(())
    }

    fn others(&mut self, event: &Event, out: &Out) {
        for line in self.conversation.read(event) {
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

    fn remark(&self, text: &str, out: &Out) {
        let line = printable(text);
        let line = shorten(&line, out.columns.unwrap_or(REMARK_COLUMNS));
        out.aside(format_args!("{}", out.err.dim(&line)));
    }
}

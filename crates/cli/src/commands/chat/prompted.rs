//! A chat line by line.

use std::collections::BTreeSet;

use weir_engine::{EngineError, StopReason};
use weir_kernel::{Lifecycle, Session};

use super::Chat;
use super::asking;
use super::editor::{self, Editor, Typed};
use super::slash::{self, Next};
use super::type_ahead::{Ahead, TypeAhead};
use crate::budget;
use crate::commands::Context;
use crate::exit::Exit;
use crate::history;
use crate::host::Host;
use crate::output::Out;
use crate::report::{Failure, Outcome};
use crate::show::{count, printable, printable_lines};
use crate::turn::Start;

/// How much of what was said before is shown when a chat goes on.
const REMINDER_LINES: usize = 12;

/// Talks until the person has had enough.
pub(super) async fn run<'h>(mut chat: Chat<'h>, host: &'h Host, context: &mut Context) -> Outcome {
    let out = &mut context.out;
    let agent = chat.args.agent.clone();
    let place = chat.args.project.elsewhere();
    out.aside(format_args!(
        "{}",
        out.err.dim(&format!("{agent} · {}{place} · /help for help, Ctrl-D to leave", chat.model))
    ));
    chat.talk.speaker = Some(agent);
    chat.ahead = Some(TypeAhead::new());
    if let Some(session) = chat.found.clone() {
        remind(&chat, &session, host, out).await?;
    }
    if chat.is_unfinished() {
        out.note(format_args!("something is still unanswered; that comes first"));
        chat.turn(Start::Finish, out).await?;
    } else if chat.found.as_ref().is_some_and(Session::is_waiting) {
        // What is asked is asked again: whoever is here now may know the answer.
        chat.turn(Start::Finish, out).await?;
    }
    let mut editor = Editor::new(&context.data_dir, out.paint.is_on());
    while let Some(text) = next_line(&mut chat, &mut editor, out).await? {
        match text.trim_end() {
            "" => {}
            // A space before it makes words of it.
            command if command.starts_with('/') => match slash::run(command, &mut chat, host, out).await {
                Ok(Next::Go) => {}
                Ok(Next::Quit) => break,
                Err(failure) => tell(&failure, out)?,
            },
            _ => {
                let start = chat.start(text.into());
                chat.turn(start, out).await?;
                out.aside(format_args!(""));
            }
        }
    }
    farewell(&chat, out);
    Ok(())
}

/// What is to be said next: what was typed ahead, or what is typed now. Nothing, if the person has had enough.
async fn next_line(chat: &mut Chat<'_>, editor: &mut Editor, out: &mut Out) -> Outcome<Option<String>> {
    out.flush()?;
    let begun = match &mut chat.ahead {
        Some(ahead) => match ahead.next() {
            Some(Ahead::Line(line)) => {
                out.aside(format_args!("{}{}", editor::PROMPT, printable_lines(&line)));
                return Ok(Some(line));
            }
            Some(Ahead::End) => return Ok(None),
            None => ahead.begun(),
        },
        None => String::new(),
    };
    Ok(match editor.next_from(&begun).await? {
        Ok(Typed::Text(text)) => Some(text),
        // A terminal that is gone has had enough, too.
        Ok(Typed::Quit) | Err(_) => None,
    })
}

/// What was said before, in short; then whatever a crash has left unfinished.
async fn remind(chat: &Chat<'_>, session: &Session, host: &Host, out: &mut Out) -> Outcome {
    let address = chat.talk.address.clone();
    history::print_last(&*host.journal, &address, &chat.args.agent, REMINDER_LINES, out).await?;
    if let Lifecycle::Closed(_) = session.lifecycle {
        return Err(EngineError::Closed(address).into());
    }
    Ok(())
}

impl Chat<'_> {
    /// Has a turn. What goes wrong with it is told, and does not end the chat.
    pub(super) async fn turn(&mut self, start: Start, out: &mut Out) -> Outcome {
        let (mut start, mut put_off) = (start, BTreeSet::new());
        loop {
            let turn = match self.talk.turn(start, out).await {
                Ok(turn) => turn,
                Err(failure) => return tell(&failure, out),
            };
            match turn.came.stop {
                StopReason::Cancelled => {
                    out.aside(format_args!("{}", out.err.dim("cancelled")));
                    return Ok(());
                }
                StopReason::Approval => {
                    // What was typed before the question is no answer to it.
                    if let Some(ahead) = &mut self.ahead {
                        ahead.take_in();
                    }
                    if !asking::decide(self, &turn.came.approvals, &mut put_off, out).await? {
                        let left = count(turn.came.approvals.len() as u64, "call");
                        out.note(format_args!(
                            "{left} must be approved; /approvals asks again, `weir approvals` lists them"
                        ));
                        return Ok(());
                    }
                    start = Start::Finish;
                }
                StopReason::Iterations | StopReason::Budget | StopReason::Halted => {
                    let message = turn.came.message.as_deref().unwrap_or_default();
                    let more = turn
                        .came
                        .budget
                        .map_or_else(String::new, |given| format!(" {}", budget::flag(&given)));
                    out.note(format_args!("{message}; go on with /resume{more}"));
                    return Ok(());
                }
                StopReason::Failed => return tell(&turn.failure("/resume".to_owned()), out),
                StopReason::End | StopReason::MaxTokens | StopReason::Refused => {
                    let concluded = turn.conclude(&self.talk.address, &self.again(), out);
                    return concluded.or_else(|failure| tell(&failure, out));
                }
            }
        }
    }
}

/// Tells what went wrong, unless nobody is left to be told.
pub(super) fn tell(failure: &Failure, out: &mut Out) -> Outcome {
    match failure {
        Failure::ClosedPipe => Err(Failure::ClosedPipe),
        Failure::Ended(Exit::Interrupted) => Err(Failure::Ended(Exit::Interrupted)),
        other => {
            let text = other.render(false, out.err);
            out.aside(format_args!("{}", text.trim_end()));
            Ok(())
        }
    }
}

fn farewell(chat: &Chat<'_>, out: &Out) {
    if chat.talk.begun {
        let (agent, address) = (&chat.args.agent, &chat.talk.address);
        let line = format!("go on later with `weir chat {} --session {address}`", printable(agent));
        out.aside(format_args!("{}", out.err.dim(&line)));
    }
}

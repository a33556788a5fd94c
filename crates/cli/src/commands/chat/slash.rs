//! What can be typed in a chat instead of words.

use std::borrow::Cow;

use weir_types::{Explain, Fault, Seq};

use super::Chat;
use crate::budget;
use crate::commands::budget::left as budget_left;
use crate::history::{self, Detail};
use crate::host::Host;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, thousands};
use crate::turn::{Start, Talk};
use crate::which::free_branch;

const HELP: &str = concat!(
    "  /help         this\n",
    "  /history      everything that was said, with the numbers that /fork takes\n",
    "  /fork [SEQ]   go on from an earlier event (or from here) on a branch of its own\n",
    "  /approvals    decide about the calls that must be approved\n",
    "  /resume       go on with a run that stopped at a limit or failed; /resume usd=5 puts more into its budget\n",
    "  /usage        tokens and money so far, and what is left\n",
    "  /quit         leave; Ctrl-D does, too\n",
    "Alt-Enter begins a new line. Ctrl-C stops the answer that is being given; what was said of it is kept. At an empty prompt, press it twice to leave.\n",
    "What is typed while an answer comes is said after it, line by line.",
);

/// What comes after a command.
pub(super) enum Next {
    Go,
    Quit,
}

/// What is wrong with a command.
#[derive(Debug, thiserror::Error)]
enum SlashError {
    /// There is none of that name.
    #[error("there is no command `{0}`")]
    Unknown(String),
    /// Not a number.
    #[error("`{0}` is not the number of an event")]
    NotASeq(String),
    /// Nothing was said yet.
    #[error("nothing was said yet")]
    Nothing,
}

impl Explain for SlashError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "cli::slash",
            Self::NotASeq(_) => "cli::seq",
            Self::Nothing => "cli::nothing-said",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unknown(_) => "see /help; a space before the `/` says it to the agent".into(),
            Self::NotASeq(_) => "/history shows the numbers, like `#7`".into(),
            Self::Nothing => "say something first".into(),
        }
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Does what was typed.
pub(super) async fn run<'h>(
    typed: &str,
    chat: &mut Chat<'h>,
    host: &'h Host,
    out: &mut Out,
) -> Outcome<Next> {
    let (command, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    match command {
        "/help" | "/?" => out.aside(format_args!("{HELP}")),
        "/quit" | "/exit" | "/q" => return Ok(Next::Quit),
        "/history" => {
            said(chat)?;
            history::print(&*host.journal, &chat.talk.address, Detail::Said, out).await?;
        }
        "/fork" => fork(chat, host, rest.trim(), out).await?,
        "/usage" => usage(chat, host, out).await?,
        "/approvals" => {
            said(chat)?;
            if !host.engine.state(&chat.talk.address, None).await?.is_waiting() {
                out.note(format_args!("nothing waits for approval"));
                return Ok(Next::Go);
            }
            chat.turn(Start::Finish, out).await?;
        }
        "/resume" => {
            said(chat)?;
            let more = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(budget::parse).transpose()?;
            chat.turn(Start::Resume(more), out).await?;
        }
        unknown => return Err(SlashError::Unknown(unknown.chars().take(40).collect()).into()),
    }
    Ok(Next::Go)
}

fn said(chat: &Chat<'_>) -> Result<(), SlashError> {
    if chat.talk.begun { Ok(()) } else { Err(SlashError::Nothing) }
}

/// Goes on from an event on a branch of its own.
async fn fork<'h>(chat: &mut Chat<'h>, host: &'h Host, at: &str, out: &Out) -> Outcome {
    said(chat)?;
    let from = chat.talk.address.clone();
    let at = match at.trim_start_matches('#') {
        "" => host.engine.state(&from, None).await?.seq,
        number => Seq(number.parse().map_err(|_| SlashError::NotASeq(number.chars().take(40).collect()))?),
    };
    let name = free_branch(&*host.journal, &from).await?;
    let (address, _) = host.engine.fork(&from, at, name).await?;
    let seen = host.engine.state(&address, None).await?.seq;
    out.note(format_args!("from here on this is branch `{}`, forked at #{}", address.branch, at.0));
    let speaker = chat.talk.speaker.take();
    chat.talk = Talk::after(host, address, seen);
    chat.talk.speaker = speaker;
    Ok(())
}

async fn usage(chat: &Chat<'_>, host: &Host, out: &Out) -> Outcome {
    said(chat)?;
    let session = host.engine.state(&chat.talk.address, None).await?;
    let spent = session.totals;
    let cached = match spent.usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({} from the cache)", thousands(cached)),
    };
    out.aside(format_args!(
        "{} tokens in{cached}, {} out, {}; {} model calls",
        thousands(spent.usage.input_tokens),
        thousands(spent.usage.output_tokens),
        spent.cost,
        thousands(spent.model_calls),
    ));
    for line in budget_left(host, &chat.talk.address).await? {
        out.aside(format_args!("{}", printable(&line)));
    }
    Ok(())
}

//! One turn of a session, from what sets it off to what comes of it, with its words shown as they come.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use weir_engine::{Address, Engine, New, Outcome as Came, Said, StopReason, Update, Updates};
use weir_events::Allowance;
use weir_journal::{Journal, now};
use weir_types::{Block, BranchName, Explain, FailureClass, Fault, Json, RunId, Seq, SessionId, Usage};

use crate::commands::fs::LeftOutView;
use crate::exit::Exit;
use crate::host::Host;
use crate::identity;
use crate::live::Live;
use crate::output::Out;
use crate::report::{Bug, Failure, Outcome};
use crate::show::size;
use crate::sign_of_life::{self, SignOfLife};
use crate::storage_watch::StorageWatch;
use crate::{asked, budget};

/// What sets a turn off.
pub(crate) enum Start {
    /// The first words of a new session.
    Begin(New, Words),
    /// More words.
    Say(Words),
    /// Someone wants it to go on, and may give it more than a limit had left.
    Resume(Option<Allowance>),
    /// A crash left something unfinished.
    Finish,
}

/// What a person says.
pub(crate) struct Words {
    pub(crate) text: String,
    /// What was piped in beside it.
    pub(crate) context: Option<String>,
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Self { text, context: None }
    }
}

impl Words {
    /// The context is a block of its own that says what it is.
    fn blocks(self) -> Vec<Block> {
        let context = self.context.map(|context| {
            Block::text(format!("[standard input, {}]\n{context}", size(context.len() as u64)))
        });
        std::iter::once(Block::text(self.text)).chain(context).collect()
    }
}

/// What programs are told about what was given to a session beside words.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Given {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<Vec<LeftOutView>>,
    /// `read`, or `silent` if it was open and nothing came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<&'static str>,
}

/// A session that a person talks to.
pub(crate) struct Talk<'h> {
    host: &'h Host,
    /// Which.
    pub(crate) address: Address,
    /// Whether its first words have been said.
    pub(crate) begun: bool,
    /// The newest event that was shown.
    seen: Seq,
    /// Who talks.
    me: String,
    /// The name before each answer, where people talk in turns.
    pub(crate) speaker: Option<String>,
    /// MCP servers that were called already.
    servers: BTreeSet<String>,
}

/// What came of a turn.
pub(crate) struct Turn {
    pub(crate) came: Came,
    /// Somebody pressed Ctrl-C.
    pub(crate) interrupted: bool,
}

impl<'h> Talk<'h> {
    /// A session that is about to begin.
    pub(crate) fn new(host: &'h Host, address: Address) -> Self {
        Self {
            host,
            address,
            begun: false,
            seen: Seq(0),
            me: identity::principal(),
            speaker: None,
            servers: BTreeSet::new(),
        }
    }

    /// A session from an event on; what came before has been seen.
    pub(crate) fn after(host: &'h Host, address: Address, seen: Seq) -> Self {
        Self { begun: true, seen, ..Self::new(host, address) }
    }

    /// The same for someone else who talks.
    pub(crate) fn by(self, me: String) -> Self {
        Self { me, ..self }
    }

    /// Who runs it.
    pub(crate) fn engine(&self) -> &'h Engine {
        &self.host.engine
    }

    /// Has a turn, and waits for its end. Ctrl-C cancels the run and waits for that; a second one waits for nothing.
    pub(crate) async fn turn(&mut self, start: Start, out: &mut Out) -> Outcome<Turn> {
        let engine = &self.host.engine;
        let mut updates = engine.watch(&self.address, self.seen);
        let mut sign = SignOfLife::new(out.shows_progress(), out.columns);
        sign.know(std::mem::take(&mut self.servers));
        let mut live = Live::new(&self.me, self.speaker.as_deref(), sign);
        if let Start::Resume(_) | Start::Finish = start {
            live.follow(engine.state(&self.address, Some(self.seen)).await?.calls());
        }
        let mut storage = StorageWatch::new(engine);
        match start {
            Start::Begin(new, text) => {
                live.expect_own_words();
                storage.during(engine.begin(&self.address, new, self.said(text)), out).await?;
                self.begun = true;
            }
            Start::Say(text) => {
                live.expect_own_words();
                storage.during(engine.say(&self.address, self.said(text)), out).await?;
            }
            Start::Resume(None) => {
                storage.during(engine.resume(&self.address), out).await?;
            }
            Start::Resume(Some(budget)) => {
                storage.during(engine.resume_with(&self.address, budget, &self.me), out).await?;
            }
            Start::Finish => {}
        }
        let turn = self.follow(engine, &mut updates, &mut storage, &mut live, out).await;
        live.end(out)?;
        if turn.is_ok() {
            storage.finish(out);
        }
        self.servers = live.servers();
        turn
    }

    async fn follow(
        &mut self,
        engine: &Engine,
        updates: &mut Updates,
        storage: &mut StorageWatch,
        live: &mut Live,
        out: &mut Out,
    ) -> Outcome<Turn> {
        let mut interrupts = signal(SignalKind::interrupt())
            .map_err(|error| Bug { what: format!("Ctrl-C cannot be heard: {error}") })?;
        let mut interrupted = false;
        let mut came: Option<(Came, Seq)> = None;
        let settle = engine.settle(&self.address);
        tokio::pin!(settle);
        let mut ticks = tokio::time::interval(sign_of_life::EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let is_watched = out.shows_progress();
        loop {
            if let Some((came, _)) = came.take_if(|(_, end)| *end <= self.seen) {
                return Ok(Turn { came, interrupted });
            }
            tokio::select! {
                update = updates.next() => match update? {
                    Some(Update::Event(event)) => {
                        self.seen = event.seq;
                        live.event(&event, out)?;
                    }
                    Some(Update::Delta(piece)) => live.piece(&piece, out)?,
                    None => return Err(Bug { what: "the session's events ended".to_owned() }.into()),
                },
                settled = &mut settle, if came.is_none() => {
                    let head = self.host.journal.head(&self.address.branch_id()).await?;
                    came = Some((settled?, head.map_or(self.seen, |head| head.seq)));
                }
                _ = ticks.tick(), if is_watched => live.tick(),
                () = storage.changed() => {
                    live.break_line(out)?;
                    storage.tell(out);
                }
                _ = interrupts.recv() => {
                    // While nothing can be stored, neither can a request to cancel.
                    if interrupted || storage.trouble().is_some() {
                        return Err(storage.stopped());
                    }
                    interrupted = true;
                    tokio::select! {
                        cancelled = engine.cancel(&self.address, &self.me) => { cancelled?; }
                        _ = interrupts.recv() => return Err(storage.stopped()),
                    }
                }
            }
        }
    }

    fn said(&self, words: Words) -> Said {
        // What changes from turn to turn travels with the message, so that the system prompt can be cached.
        let runtime = BTreeMap::from([("time".to_owned(), now().to_string())]);
        Said { content: words.blocks(), runtime, actor: self.me.clone() }
    }
}

/// What came of a turn, for programs: exactly the object that is promised.
#[derive(Serialize)]
struct View<'a> {
    session: SessionId,
    branch: &'a BranchName,
    run: Option<RunId>,
    answer: Option<&'a str>,
    stop: StopReason,
    usage: Usage,
    cost_usd: f64,
    approvals: Vec<ApprovalView<'a>>,
    #[serde(flatten)]
    given: &'a Given,
}

#[derive(Serialize)]
struct ApprovalView<'a> {
    id: String,
    tool: &'a str,
    input: &'a Json,
    why: &'a str,
}

/// A run that failed.
#[derive(Debug, thiserror::Error)]
#[error("the run failed: {message}")]
struct RunFailed {
    class: FailureClass,
    message: String,
    /// The command that tries again.
    again: String,
}

impl Explain for RunFailed {
    fn code(&self) -> &'static str {
        "engine::run-failed"
    }

    fn help(&self) -> std::borrow::Cow<'static, str> {
        let first = match self.class {
            FailureClass::Auth => "check the provider's key, then ",
            FailureClass::Quota => "add credit to the provider's account, then ",
            FailureClass::ContextOverflow => "use a model with a larger window, or a new session; or ",
            FailureClass::Invalid => "mend what the message says, then ",
            FailureClass::RateLimited
            | FailureClass::Overloaded
            | FailureClass::Refused
            | FailureClass::Transport
            | FailureClass::Truncated => "",
        };
        format!("{first}try again with `{}`", self.again).into()
    }

    fn fault(&self) -> Fault {
        // Whatever the provider said no to ran and failed; only a provider that was not there is unreachable.
        if self.class.is_transient() { Fault::Unreachable } else { Fault::Storage }
    }
}

impl Turn {
    /// Prints the object for programs, if one is wanted.
    pub(crate) fn print_json(&self, address: &Address, out: &mut Out) -> Outcome {
        self.print_json_with(address, &Given::default(), out)
    }

    /// The same, with what became of what was given.
    pub(crate) fn print_json_with(&self, address: &Address, given: &Given, out: &mut Out) -> Outcome {
        let Came { run, answer, stop, usage, cost, approvals, .. } = &self.came;
        let approvals = approvals.iter().map(|approval| ApprovalView {
            id: approval.id.to_string(),
            tool: &approval.tool,
            input: &approval.input,
            why: &approval.why,
        });
        out.object(&View {
            session: address.session,
            branch: &address.branch,
            run: *run,
            answer: answer.as_deref(),
            stop: *stop,
            usage: *usage,
            cost_usd: cost.as_usd(),
            approvals: approvals.collect(),
            given,
        })
    }

    /// Tells what came of it, unless it is an answer that everybody has seen; and how the command ends.
    /// `again` are flags that a command to paste needs.
    pub(crate) fn conclude(&self, address: &Address, again: &str, out: &Out) -> Outcome {
        let message = self.came.message.as_deref().unwrap_or_default();
        match self.came.stop {
            StopReason::End => Ok(()),
            StopReason::MaxTokens => {
                out.note(format_args!("the answer reached its limit of tokens"));
                Ok(())
            }
            StopReason::Refused => {
                out.note(format_args!("the model declined to answer"));
                Ok(())
            }
            StopReason::Iterations | StopReason::Budget | StopReason::Halted => {
                let more = self
                    .came
                    .budget
                    .map_or_else(String::new, |budget| format!(" --budget {}", budget::flag(&budget)));
                out.note(format_args!("{message}; go on with `weir session resume {address}{more}{again}`"));
                Err(Failure::Ended(Exit::Parked))
            }
            StopReason::Approval => {
                asked::tell(&self.came.approvals, address, again, out);
                Err(Failure::Ended(Exit::Parked))
            }
            StopReason::Cancelled if self.interrupted => {
                out.note(format_args!("cancelled; say something else with `--session {address}`"));
                Err(Failure::Ended(Exit::Interrupted))
            }
            StopReason::Cancelled => {
                out.note(format_args!("somebody cancelled the run"));
                Err(Failure::Ended(Exit::Failed))
            }
            StopReason::Failed => Err(self.failure(format!("weir session resume {address}{again}"))),
        }
    }

    /// Why the run failed, with the command that tries again.
    pub(crate) fn failure(&self, again: String) -> Failure {
        let class = self.came.class.unwrap_or(FailureClass::Invalid);
        let message = self.came.message.clone().unwrap_or_default();
        RunFailed { class, message, again }.into()
    }
}

//! Calls that must be approved, asked about in the chat itself.

use std::borrow::Cow;
use std::collections::BTreeSet;

use weir_engine::{Approval, Engine, Pretence};
use weir_events::{ApprovalDenied, ApprovalGranted, Scope};
use weir_types::{CallId, Explain, Fault, Json};

use super::Chat;
use super::editor::{Editor, Typed};
use super::prompted::tell;
use crate::asked;
use crate::output::Out;
use crate::report::{Failure, Outcome};
use crate::show::{printable, printable_lines};

/// Columns for arguments where nobody says how many there are.
const COLUMNS: usize = 80;

/// Arguments that need more lines are cut.
const LINES_MAX: usize = 40;

/// What can be answered.
const CHOICE: &str = "[y]es, [n]o, yes for this [s]ession, [e]dit, [l]ater › ";

/// The same about a call that would be a dry run.
const CHOICE_DRY: &str = "yes, for [r]eal, [d]ry run, [n]o, [e]dit, [l]ater › ";

/// What is wrong with an answer that another one can mend.
const AGAIN: [&str; 5] = [
    "cli::not-json",
    "cli::not-said",
    "engine::approval-edit",
    "engine::would-happen",
    "engine::would-pretend",
];

/// What is wrong with an answer to a question that nobody asks any more.
const OVER: [&str; 3] = ["engine::approval-decided", "engine::approval-expired", "engine::no-approval"];

/// What was typed makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("the arguments are not JSON")]
struct NotJson(#[source] serde_json::Error);

impl Explain for NotJson {
    fn code(&self) -> &'static str {
        "cli::not-json"
    }

    fn help(&self) -> Cow<'static, str> {
        "answer `e` to edit them again; the call still waits".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Whether it is to happen was not said.
#[derive(Debug, thiserror::Error)]
#[error("whether the call is to really happen was not said")]
struct NotSaid;

impl Explain for NotSaid {
    fn code(&self) -> &'static str {
        "cli::not-said"
    }

    fn help(&self) -> Cow<'static, str> {
        "answer `r` to let it happen, or `d` for a dry run; the call still waits".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Asks about calls one by one, except those that were put off before. Says whether anything was decided.
pub(super) async fn decide(
    chat: &Chat<'_>,
    approvals: &[Approval],
    put_off: &mut BTreeSet<CallId>,
    out: &mut Out,
) -> Outcome<bool> {
    let asker = Asker { chat, engine: chat.talk.engine(), by: chat.principal.clone() };
    let mut decided = false;
    for approval in approvals {
        if put_off.contains(&approval.id) {
            continue;
        }
        match asker.ask(approval, out).await? {
            Answer::Given => decided = true,
            Answer::Later => _ = put_off.insert(approval.id),
        }
    }
    Ok(decided)
}

/// What became of a question.
enum Answer {
    /// It was decided, here or elsewhere.
    Given,
    /// Not now.
    Later,
}

struct Asker<'a> {
    chat: &'a Chat<'a>,
    engine: &'a Engine,
    by: String,
}

impl Asker<'_> {
    /// Asks until there is an answer that holds.
    async fn ask(&self, approval: &Approval, out: &mut Out) -> Outcome<Answer> {
        let is_dry = self.is_dry(approval).await;
        self.show(approval, is_dry, out).await?;
        loop {
            let said = match line(if is_dry { CHOICE_DRY } else { CHOICE }, "").await? {
                Some(said) => said,
                None => return Ok(Answer::Later),
            };
            let given = match (said.trim().to_lowercase().as_str(), is_dry) {
                ("y" | "yes", false) => self.yes(approval, None, Scope::Once, Pretence::Refused).await,
                ("s" | "session", false) => self.yes(approval, None, Scope::Session, Pretence::Refused).await,
                ("r" | "real", true) => self.for_real(approval, None).await,
                ("d" | "dry" | "dry run", true) => {
                    self.yes(approval, None, Scope::Once, Pretence::Wanted).await
                }
                ("n" | "no", _) => match line("why not (may be left empty) › ", "").await? {
                    Some(why) => self.no(approval, why.trim()).await,
                    None => continue,
                },
                ("e" | "edit", _) => match line("arguments › ", approval.input.as_str()).await? {
                    Some(edited) => self.edited(approval, &edited, is_dry).await,
                    None => continue,
                },
                ("l" | "later", _) => return Ok(Answer::Later),
                _ => continue,
            };
            match given {
                Ok(()) => return Ok(Answer::Given),
                Err(failure) => {
                    tell(&failure, out)?;
                    match &failure {
                        Failure::Told(told) if AGAIN.contains(&told.code()) => {}
                        // Somebody was faster, or it is too late: whatever is left to ask is asked again.
                        Failure::Told(told) if OVER.contains(&told.code()) => return Ok(Answer::Given),
                        _ => return Ok(Answer::Later),
                    }
                }
            }
        }
    }

    /// Shows what is asked: by whom, for which tool, with which arguments, and why.
    async fn show(&self, approval: &Approval, is_dry: bool, out: &mut Out) -> Outcome {
        out.flush()?;
        let (agent, tool) = (printable(&approval.agent), printable(&approval.tool));
        let talk = &self.chat.talk;
        let asks = match approval.address == talk.address {
            true => format!("{agent} asks: may it call {tool}?"),
            // It is an agent that works for this one.
            false => {
                format!("{agent} asks on behalf of {}: may it call {tool}?", printable(&self.chat.args.agent))
            }
        };
        out.aside(format_args!("\n{}", out.err.bold(&asks)));
        for line in arguments(&approval.input, out.columns.unwrap_or(COLUMNS)) {
            out.aside(format_args!("  {line}"));
        }
        let why = printable(&approval.why);
        out.aside(format_args!("{}", out.err.dim(&format!("  {why}"))));
        if is_dry {
            out.aside(format_args!(
                "{}",
                out.err.dim("  it would be a dry run, unless you say that it is for real")
            ));
        }
        if let Some(expires) = approval.expires {
            let left = asked::left(Some(expires));
            out.aside(format_args!("{}", out.err.dim(&format!("  expires {left}"))));
        }
        Ok(())
    }

    /// Whether the call would be a dry run in this chat.
    async fn is_dry(&self, approval: &Approval) -> bool {
        let granted = self.grant(approval, None, Scope::Once);
        self.engine.would_pretend(&approval.address, &granted).await.unwrap_or(false)
    }

    fn grant(&self, approval: &Approval, input: Option<Json>, scope: Scope) -> ApprovalGranted {
        let (call, input_hash) = (approval.id, approval.input_hash);
        ApprovalGranted { call, by: self.by.clone(), groups: vec![], input_hash, input, scope, runs: None }
    }

    async fn yes(
        &self,
        approval: &Approval,
        input: Option<Json>,
        scope: Scope,
        pretence: Pretence,
    ) -> Outcome {
        let granted = self.grant(approval, input, scope);
        self.engine.approve(&approval.address, granted, pretence).await?;
        Ok(())
    }

    /// Lets this one call really happen, whatever else is a dry run here.
    async fn for_real(&self, approval: &Approval, input: Option<Json>) -> Outcome {
        self.chat.for_real.add(approval.id);
        let given = self.yes(approval, input, Scope::Once, Pretence::Refused).await;
        if given.is_err() {
            self.chat.for_real.remove(approval.id);
        }
        given
    }

    async fn edited(&self, approval: &Approval, text: &str, is_dry: bool) -> Outcome {
        let input = Json::parse(text.trim()).map_err(NotJson)?;
        let input = (input != approval.input).then_some(input);
        if !is_dry {
            return self.yes(approval, input, Scope::Once, Pretence::Refused).await;
        }
        match line("yes, for [r]eal, or [d]ry run › ", "").await?.as_deref().map(str::trim) {
            Some("r" | "real") => self.for_real(approval, input).await,
            Some("d" | "dry") => self.yes(approval, input, Scope::Once, Pretence::Wanted).await,
            _ => Err(NotSaid.into()),
        }
    }

    async fn no(&self, approval: &Approval, why: &str) -> Outcome {
        let message = (!why.is_empty()).then(|| why.to_owned());
        let denied = ApprovalDenied { call: approval.id, by: self.by.clone(), groups: vec![], message };
        self.engine.deny(&approval.address, denied).await?;
        Ok(())
    }
}

/// A line that is typed for this question alone; nothing, if the person would rather not.
async fn line(prompt: &str, text: &str) -> Outcome<Option<String>> {
    let mut editor = Editor::plain(prompt);
    match editor.next_from(text).await? {
        Ok(Typed::Text(text)) => Ok(Some(text)),
        Ok(Typed::Quit) | Err(_) => Ok(None),
    }
}

/// The arguments as they fit on a screen, on one line if they do.
fn arguments(input: &Json, columns: usize) -> Vec<String> {
    let short = printable(input.as_str());
    if short.chars().count() + 2 <= columns {
        return vec![short.into_owned()];
    }
    let pretty = serde_json::to_string_pretty(&input.to_value()).unwrap_or_else(|_| short.into_owned());
    let shown = printable_lines(&pretty).into_owned();
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    if more > 0 {
        lines.push(format!("… {more} more lines; `weir approvals --json` shows all of them"));
    }
    lines
}

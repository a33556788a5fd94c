//! The conversation of a session on paper: all of it, or the last few lines.

use weir_engine::Address;
use weir_engine::conversation::{Line, Reader, What};
use weir_events::Body;
use weir_journal::{Journal, PAGE_MAX};
use weir_types::{CallId, Event, Seq};

use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, shorten};
use crate::wrap::Flow;

/// Events that are looked through for the last few lines.
const REMINDER_EVENTS_MAX: usize = 500;

/// Columns for what a tool said, where nobody says how many there are.
const RESULT_COLUMNS: usize = 120;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What was said and done, tools in a line each.
    Said,
    /// That, in full, and thoughts, summaries and what became of runs.
    All,
}

/// Prints the whole conversation, page by page.
pub(crate) async fn print(
    journal: &impl Journal,
    address: &Address,
    detail: Detail,
    out: &mut Out,
) -> Outcome {
    let (branch, mut reader, mut after) = (address.branch_id(), Reader::default(), Seq(0));
    let mut paper = Paper { agent: "assistant".to_owned(), detail, speaker: None };
    let mut order = InCallOrder::default();
    loop {
        let page = journal.read(&branch, after, PAGE_MAX).await?;
        if let Some(agent) = page.first().and_then(agent_of) {
            paper.agent = agent;
        }
        for line in page.iter().flat_map(|event| reader.read(event)) {
            if detail == Detail::All || line.what.is_said() {
                // Programs get events as they came.
                let lines = if out.json { vec![line] } else { order.take(line) };
                lines.iter().try_for_each(|line| paper.print(line, out))?;
            }
        }
        match page.last() {
            Some(last) => after = last.seq,
            None => return order.end().iter().try_for_each(|line| paper.print(line, out)),
        }
    }
}

/// The agent's name, if the event is the one that tells it.
fn agent_of(event: &Event) -> Option<String> {
    match Body::decode(&event.kind, &event.payload) {
        Ok(Some(Body::SessionCreated(created))) => Some(created.agent),
        _ => None,
    }
}

/// Prints the last few lines, each in one.
pub(crate) async fn print_last(
    journal: &impl Journal,
    address: &Address,
    agent: &str,
    lines_max: usize,
    out: &Out,
) -> Outcome {
    let mut events = journal.read_back(&address.branch_id(), None, REMINDER_EVENTS_MAX).await?;
    events.reverse();
    let mut reader = Reader::default();
    let said = |line: &Line| matches!(line.what, What::User | What::Assistant);
    let lines: Vec<Line> = events.iter().flat_map(|event| reader.read(event)).filter(said).collect();
    let left_out = lines.len().saturating_sub(lines_max);
    if left_out > 0 || events.first().is_some_and(|event| event.seq > Seq(1)) {
        out.aside(format_args!("{}", out.err.dim("… (all of it: /history)")));
    }
    for line in &lines[left_out..] {
        let speaker = if line.what == What::User { "you" } else { agent };
        let text = format!("{speaker} › {}", line.text.split_whitespace().collect::<Vec<_>>().join(" "));
        let text = printable(&text);
        let columns = out.columns.unwrap_or(RESULT_COLUMNS);
        out.aside(format_args!("{}", out.err.dim(&shorten(&text, columns))));
    }
    Ok(())
}

/// A sheet of paper that knows who spoke last.
struct Paper {
    agent: String,
    detail: Detail,
    speaker: Option<String>,
}

/// Puts results in the order of their calls: whichever comes first waits for those before it.
#[derive(Default)]
struct InCallOrder {
    /// The calls of an answer, each with its result once that is there.
    calls: Vec<(CallId, Option<Line>)>,
}

impl InCallOrder {
    /// What can be told now.
    fn take(&mut self, line: Line) -> Vec<Line> {
        match (line.what, line.call) {
            (What::Call, Some(call)) => {
                self.calls.push((call, None));
                vec![line]
            }
            (What::Result | What::Failure, Some(call)) => {
                match self.calls.iter_mut().find(|(known, _)| *known == call) {
                    Some((_, result)) => *result = Some(line),
                    None => return vec![line],
                }
                let is_over = self.calls.iter().all(|(_, result)| result.is_some());
                if is_over { self.end() } else { Vec::new() }
            }
            // Asides of the run do not end the answer.
            (What::Note | What::Signal, _) => vec![line],
            _ => {
                let mut lines = self.end();
                lines.push(line);
                lines
            }
        }
    }

    /// The results that are still to be told; each names its tool if there are several.
    fn end(&mut self) -> Vec<Line> {
        let calls = std::mem::take(&mut self.calls);
        let is_one = calls.len() == 1;
        let labelled = |line: Line| match (&line.tool, line.what) {
            (Some(tool), What::Result) if !is_one => Line { text: format!("{tool}: {}", line.text), ..line },
            _ => line,
        };
        calls.into_iter().filter_map(|(_, result)| result).map(labelled).collect()
    }
}

impl Paper {
    fn print(&mut self, line: &Line, out: &mut Out) -> Outcome {
        if out.json {
            return out.object(line);
        }
        let tool = printable(line.tool.as_deref().unwrap_or("a tool")).into_owned();
        match line.what {
            What::User => {
                let actor = line.actor.clone().unwrap_or_else(|| "someone".to_owned());
                self.say(&actor, line, out)
            }
            What::Assistant => self.say(&self.agent.clone(), line, out),
            What::Thinking => {
                self.head(&self.agent.clone(), line, out)?;
                self.aside("thinks:", line, out)
            }
            What::Summary => self.aside("summary of all that came before:", line, out),
            What::Call => {
                let input = line.input.as_ref().map_or("", |input| input.as_str());
                self.tool(&format!("→ {tool} {input}"), out)
            }
            What::Result => self.tool(&format!("← {}", line.text), out),
            What::Failure => self.tool(&format!("✗ {tool}: {}", line.text), out),
            What::Signal => self.tool(&format!("! {}", line.text), out),
            What::Note => self.tool(&format!("· {}", line.text), out),
        }
    }

    /// Words under the name of whoever says them.
    fn say(&mut self, speaker: &str, line: &Line, out: &mut Out) -> Outcome {
        self.head(speaker, line, out)?;
        let text = out.shown(line.text.trim_end()).into_owned();
        out.line(format_args!("{}", Flow::whole(&text, out.columns)))
    }

    /// The name of whoever speaks, with the number that `fork --at` takes.
    fn head(&mut self, speaker: &str, line: &Line, out: &mut Out) -> Outcome {
        if self.speaker.as_deref() == Some(speaker) && line.what != What::User {
            return Ok(());
        }
        if self.speaker.is_some() {
            out.line(format_args!(""))?;
        }
        let (seq, name) = (format!("#{}", line.seq.0), printable(speaker));
        let heading = format!("{} {}", out.paint.dim(&seq), out.paint.bold(&name));
        self.speaker = Some(speaker.to_owned());
        out.line(format_args!("{heading}"))
    }

    fn aside(&mut self, label: &str, line: &Line, out: &mut Out) -> Outcome {
        let text = out.shown(line.text.trim_end()).into_owned();
        for text in std::iter::once(label).chain(text.lines()) {
            let dim = out.paint.dim(&format!("  {text}")).into_owned();
            out.prose(format_args!("{dim}"), 0)?;
        }
        Ok(())
    }

    /// What tools say has no end; a line of it will do, unless everything is wanted.
    fn tool(&mut self, text: &str, out: &mut Out) -> Outcome {
        let columns = out.columns.unwrap_or(RESULT_COLUMNS).saturating_sub(2);
        let text = printable(text);
        let text =
            if self.detail == Detail::All { text } else { shorten(&text, columns).into_owned().into() };
        let dim = out.paint.dim(&format!("  {text}")).into_owned();
        out.line(format_args!("{dim}"))
    }
}

#[cfg(test)]
mod tests {
    use weir_types::Timestamp;

    use super::*;

    fn line(what: What, call: u128, text: &str) -> Line {
        let call = (call > 0).then(|| CallId::from_u128(call));
        let tool = call.map(|_| "read".to_owned());
        let ts = Timestamp::from_micros(0).unwrap();
        Line { seq: Seq(1), ts, what, actor: None, tool, call, input: None, text: text.to_owned() }
    }

    #[test]
    fn results_come_in_the_order_of_their_calls_and_are_named_if_there_are_several() {
        let check = |lines: &[(What, u128, &str)], expected: &[&str]| {
            let mut order = InCallOrder::default();
            let mut told: Vec<Line> =
                lines.iter().flat_map(|(what, call, text)| order.take(line(*what, *call, text))).collect();
            told.extend(order.end());
            assert_eq!(told.iter().map(|line| &*line.text).collect::<Vec<_>>(), expected);
        };
        let (call, result) = (What::Call, What::Result);
        check(&[(call, 1, "a?"), (result, 1, "a!"), (What::Assistant, 0, "so")], &["a?", "a!", "so"]);
        check(
            &[(call, 1, "a?"), (call, 2, "b?"), (What::Note, 0, "n"), (result, 2, "b!"), (result, 1, "a!")],
            &["a?", "b?", "n", "read: a!", "read: b!"],
        );
        // One that never answers holds up none of the others.
        check(
            &[(call, 1, "a?"), (call, 2, "b?"), (result, 2, "b!"), (What::Assistant, 0, "so")],
            &["a?", "b?", "read: b!", "so"],
        );
        check(&[(result, 7, "late")], &["late"]);
    }
}

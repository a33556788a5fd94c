//! The conversation of a session on paper: all of it, or the last few lines.

use weir_engine::Address;
use weir_engine::conversation::{Line, Reader, What};
use weir_journal::{Journal, PAGE_MAX};
use weir_kernel::Body;
use weir_types::{Event, Seq};

use crate::output::Out;
use crate::report::Outcome;
use crate::show::{printable, shorten};

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
    loop {
        let page = journal.read(&branch, after, PAGE_MAX).await?;
        if let Some(agent) = page.first().and_then(agent_of) {
            paper.agent = agent;
        }
        for line in page.iter().flat_map(|event| reader.read(event)) {
            if detail == Detail::All || line.what.is_said() {
                paper.print(&line, out)?;
            }
        }
        match page.last() {
            Some(last) => after = last.seq,
            None => return Ok(()),
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
        out.line(format_args!("{text}"))
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
            out.line(format_args!("{dim}"))?;
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

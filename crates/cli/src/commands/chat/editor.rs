//! Where a person types: a line editor with history, on a thread of its own while it waits.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use reedline::{
    EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, Prompt, PromptEditMode,
    PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent, Signal, SimpleMatchHighlighter,
    default_emacs_keybindings,
};

use crate::report::Outcome;
use crate::store::blocking;

/// What was typed in earlier chats is in this file of the data directory.
const HISTORY: &str = "chat-history";

/// Lines that are remembered.
const HISTORY_LINES_MAX: usize = 1_000;

/// What stands before the words of the person.
pub(super) const PROMPT: &str = "you › ";

/// What is said about the first Ctrl-C on an empty line.
const LEAVING: &str = "press Ctrl-C again or Ctrl-D to leave";

/// What the editor calls Ctrl-C.
const INTERRUPT: &str = "interrupt";

/// A line editor.
pub(super) struct Editor {
    // Out only while it waits for a line.
    reedline: Option<Reedline>,
    prompt: String,
    on_interrupt: OnInterrupt,
}

/// What Ctrl-C on an empty line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnInterrupt {
    /// Says how to leave; a second one in a row leaves. It may have been meant for an answer that has just ended.
    Warn,
    Quit,
}

/// What a person did.
pub(super) enum Typed {
    /// Something was typed; it may have several lines.
    Text(String),
    /// Enough.
    Quit,
}

impl Editor {
    /// An editor for what a person says. Without a place for the history, there is none.
    pub(super) fn new(data_dir: &Path, colors: bool) -> Self {
        let mut reedline = editing(colors);
        if let Some(history) = history(data_dir) {
            reedline = reedline.with_history(Box::new(history));
        }
        Self { reedline: Some(reedline), prompt: PROMPT.to_owned(), on_interrupt: OnInterrupt::Warn }
    }

    /// An editor for the answer to one question, which nobody needs to be reminded of.
    pub(super) fn plain(prompt: &str) -> Self {
        Self { reedline: Some(editing(false)), prompt: prompt.to_owned(), on_interrupt: OnInterrupt::Quit }
    }

    /// Waits for the next line, which begins with a text to change.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) async fn next_from(&mut self, text: &str) -> Outcome<io::Result<Typed>> {
        let Some(mut reedline) = self.reedline.take() else { return Ok(Ok(Typed::Quit)) };
        let (prompt, text, on_interrupt) = (Name(self.prompt.clone()), text.to_owned(), self.on_interrupt);
        let (reedline, typed) = blocking(move || {
            if !text.is_empty() {
                reedline.run_edit_commands(&[EditCommand::InsertString(text)]);
            }
            let typed = read(&mut reedline, &prompt, on_interrupt);
            (reedline, typed)
        })
        .await?;
        self.reedline = Some(reedline);
        Ok(typed)
    }
}

/// An editor with our keys.
fn editing(colors: bool) -> Reedline {
    let mut keys = default_emacs_keybindings();
    // Its own Ctrl-C clears the line before anyone can look whether it was empty.
    let interrupt = ReedlineEvent::ExecuteHostCommand(INTERRUPT.to_owned());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('c'), interrupt);
    let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline);
    Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_ansi_colors(colors)
        // What is typed looks like everything else, whatever the background is.
        .with_highlighter(Box::new(SimpleMatchHighlighter::default()))
        .use_bracketed_paste(true)
}

/// Ctrl-C clears a line that has something in it.
fn read(reedline: &mut Reedline, prompt: &Name, on_interrupt: OnInterrupt) -> io::Result<Typed> {
    let mut is_warned = on_interrupt == OnInterrupt::Quit;
    loop {
        match reedline.read_line(prompt)? {
            Signal::Success(text) => return Ok(Typed::Text(text)),
            Signal::HostCommand(command) if command == INTERRUPT => {
                if !reedline.current_buffer_contents().is_empty() {
                    is_warned = on_interrupt == OnInterrupt::Quit;
                    reedline.run_edit_commands(&[EditCommand::Clear]);
                    continue;
                }
                // Ctrl-D leaves the line by itself; this does not.
                println!();
                if is_warned {
                    return Ok(Typed::Quit);
                }
                is_warned = true;
                println!("{LEAVING}");
            }
            Signal::CtrlC | Signal::CtrlD => return Ok(Typed::Quit),
            _ => {}
        }
    }
}

/// Only its owner may read what was typed.
fn history(data_dir: &Path) -> Option<FileBackedHistory> {
    let path = data_dir.join(HISTORY);
    OpenOptions::new().append(true).create(true).mode(0o600).open(&path).ok()?;
    FileBackedHistory::with_file(HISTORY_LINES_MAX, path).ok()
}

/// What stands before the cursor.
struct Name(String);

impl Prompt for Name {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("… ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "search",
            PromptHistorySearchStatus::Failing => "not found",
        };
        Cow::Owned(format!("({found}: {}) ", search.term))
    }
}

//! How the tour talks: steps, remarks, and commands that are really run.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_types::SessionId;

use super::DemoError;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{shell, shorten};
use crate::store::blocking;

/// How long the lines of a remark are.
const REMARK_COLUMNS: usize = 74;

/// How much of a line that a command prints is shown.
const LINE_COLUMNS: usize = 110;

/// The tour and where it takes place.
pub(super) struct Tour<'a> {
    /// This program.
    exe: PathBuf,
    /// The journal it is about.
    pub(super) data_dir: PathBuf,
    /// The world outside.
    pub(super) ledger: PathBuf,
    /// The session it is about.
    pub(super) session: SessionId,
    out: &'a mut Out,
    steps: u32,
}

impl<'a> Tour<'a> {
    pub(super) fn new(data_dir: &Path, ledger: &Path, session: SessionId, out: &'a mut Out) -> Outcome<Self> {
        let exe = std::env::current_exe().map_err(DemoError::from)?;
        let (data_dir, ledger) = (data_dir.to_owned(), ledger.to_owned());
        let mut tour = Self { exe, data_dir, ledger, session, out, steps: 0 };
        tour.print("An agent whose session cannot be lost, at work in a temporary directory.")?;
        tour.print("Lines with a $ are commands that run now, as you could type them.")?;
        Ok(tour)
    }

    /// The session's stream in the journal.
    pub(super) fn stream(&self) -> String {
        weir_engine::stream_of(self.session).to_string()
    }

    /// Runs the agent in a process of its own until its turn is over; without words it finishes what was interrupted.
    pub(super) async fn desk(&mut self, branch: &str, say: Option<&str>) -> Outcome {
        let mut command = self.desk_command(branch, say);
        if let Some(say) = say {
            self.line(&format!("you:  {say}"))?;
        }
        self.out.flush()?;
        let output = blocking(move || command.output()).await?.map_err(DemoError::from)?;
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            self.line(&format!("      {line}"))?;
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            self.line(&format!("desk: {line}"))?;
        }
        if !output.status.success() {
            return Err(DemoError::Surprise("the agent's process failed".to_owned()).into());
        }
        Ok(())
    }

    /// Starts the agent in a process of its own.
    pub(super) fn begin_desk(&mut self, branch: &str, say: &str) -> Outcome<Child> {
        self.line(&format!("you:  {say}"))?;
        self.out.flush()?;
        let mut command = self.desk_command(branch, Some(say));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.spawn().map_err(DemoError::from)?)
    }

    fn desk_command(&self, branch: &str, say: Option<&str>) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg("demo-desk").env("WEIR_DATA_DIR", &self.data_dir).stdin(Stdio::null());
        command
            .args(["--session", &self.session.to_string(), "--branch", branch, "--ledger"])
            .arg(&self.ledger);
        if let Some(say) = say {
            command.args(["--say", say]);
        }
        command.args(["--color", "never"]);
        command
    }

    /// Opens a step.
    pub(super) fn step(&mut self, title: &str, remark: &str) -> Outcome {
        self.steps += 1;
        let heading = self.out.paint.bold(&format!("{}. {title}", self.steps)).into_owned();
        self.print(&format!("\n{heading}"))?;
        self.say(remark)
    }

    /// A remark between commands, in lines that fit every terminal.
    pub(super) fn say(&mut self, remark: &str) -> Outcome {
        let mut text = String::from("\n ");
        let mut columns = 0;
        for word in remark.split(' ') {
            if columns + word.len() > REMARK_COLUMNS {
                text.push_str("\n ");
                columns = 0;
            }
            text = text + " " + word;
            columns += word.len() + 1;
        }
        self.print(&(text + "\n"))
    }

    /// Something that happened, beside the commands.
    pub(super) fn line(&mut self, line: &str) -> Outcome {
        self.print(&format!("    {line}"))
    }

    /// Runs a command that must succeed.
    pub(super) async fn succeed(&mut self, args: &[&str]) -> Outcome {
        if !self.command(args).await? {
            return Err(DemoError::Surprise(format!("`weir {}` failed", args.join(" "))).into());
        }
        Ok(())
    }

    /// Runs a command, shows it with what it printed, and says whether it succeeded.
    pub(super) async fn command(&mut self, args: &[&str]) -> Outcome<bool> {
        let words: Vec<_> = args.iter().map(|arg| shell(arg)).collect();
        let prompt = self.out.paint.hint(&format!("$ weir {}", words.join(" "))).into_owned();
        self.line(&prompt)?;
        // Shown at once, even if the command takes a while.
        self.out.flush()?;
        let output = self.output(args).await?;
        for text in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(text).lines() {
                let line = shorten(line, LINE_COLUMNS);
                self.line(&line)?;
            }
        }
        Ok(output.status.success())
    }

    /// The call that waits for approval.
    pub(super) async fn asked(&self) -> Outcome<String> {
        let listed = self.output(&["approvals", "--json"]).await?.stdout;
        let listed: serde_json::Value = serde_json::from_slice(&listed)
            .map_err(|error| DemoError::Surprise(format!("`weir approvals` printed no object: {error}")))?;
        Ok(listed["id"].as_str().unwrap_or_default().to_owned())
    }

    async fn output(&self, args: &[&str]) -> Outcome<std::process::Output> {
        let mut command = Command::new(&self.exe);
        command.args(args).env("WEIR_DATA_DIR", &self.data_dir).stdin(Stdio::null());
        if let Some(directory) = self.data_dir.parent() {
            command.current_dir(directory);
        }
        command.args(["--color", if self.out.paint.is_on() { "always" } else { "never" }]);
        Ok(blocking(move || command.output()).await?.map_err(DemoError::from)?)
    }

    /// Programs get one document at the end instead.
    fn print(&mut self, line: &str) -> Outcome {
        if self.out.json { Ok(()) } else { self.out.line(format_args!("{line}")) }
    }
}

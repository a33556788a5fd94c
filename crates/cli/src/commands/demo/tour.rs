//! How the tour talks: steps, remarks, and commands that are really run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::DemoError;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::shell;
use crate::store::blocking;

/// How long the lines of a remark are.
const REMARK_COLUMNS: usize = 74;

/// The tour and where it takes place.
pub(super) struct Tour<'a> {
    /// This program.
    pub(super) exe: PathBuf,
    /// The journal it is about.
    pub(super) data_dir: PathBuf,
    out: &'a mut Out,
    steps: u32,
}

/// What became of a command.
pub(super) struct Ran {
    pub(super) success: bool,
    /// The problems that `weir verify` found; null for other commands.
    pub(super) problems: serde_json::Value,
}

impl<'a> Tour<'a> {
    pub(super) fn new(data_dir: &Path, out: &'a mut Out) -> Outcome<Self> {
        let exe = std::env::current_exe().map_err(DemoError::from)?;
        let mut tour = Self { exe, data_dir: data_dir.to_owned(), out, steps: 0 };
        tour.print(
            "A journal keeps every step an agent takes. Here is one at work, in a temporary directory.",
        )?;
        tour.print("Lines with a $ are commands that run now, as you could type them.")?;
        Ok(tour)
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
        let ran = self.command(args).await?;
        if !ran.success {
            return Err(DemoError::Surprise(format!("`weir {}` failed", args.join(" "))).into());
        }
        Ok(())
    }

    /// Runs a command and shows it with what it printed.
    pub(super) async fn command(&mut self, args: &[&str]) -> Outcome<Ran> {
        let words: Vec<_> = args.iter().map(|arg| shell(arg)).collect();
        let prompt = self.out.paint.hint(&format!("$ weir {}", words.join(" "))).into_owned();
        self.line(&prompt)?;
        // Shown at once, even if the command takes a while.
        self.out.flush()?;
        let output = self.output(args).await?;
        for text in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(text).lines() {
                self.line(line)?;
            }
        }
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let problems = document.get("problems").cloned().unwrap_or_default();
        Ok(Ran { success: output.status.success(), problems })
    }

    async fn output(&self, args: &[&str]) -> Outcome<std::process::Output> {
        let mut command = Command::new(&self.exe);
        command.args(args).env("WEIR_DATA_DIR", &self.data_dir).stdin(Stdio::null());
        if self.out.json {
            command.arg("--json");
        }
        command.args(["--color", if self.out.paint.is_on() { "always" } else { "never" }]);
        Ok(blocking(move || command.output()).await?.map_err(DemoError::from)?)
    }

    /// Programs get one document at the end instead.
    fn print(&mut self, line: &str) -> Outcome {
        if self.out.json { Ok(()) } else { self.out.line(format_args!("{line}")) }
    }
}

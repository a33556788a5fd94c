//! Runs the measurements, round after round, each in a child process.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

use crate::Args;
use crate::payload::PAYLOAD_BYTES;
use crate::subject::{Column, Error};
use crate::table::{Group, Table};
use crate::work::{Job, Metrics, Work};
use weir_bench::system::{self, Machine};

/// Everything a run has found.
pub(crate) struct Measured {
    pub(crate) table: Table,
    pub(crate) machine: Machine,
    /// Where a number is not what its row says.
    pub(crate) notes: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Measured, Error> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let data = args.data.clone().unwrap_or_else(|| workspace.join("target/bench-data"));
    // Whatever is there was left by a run that was interrupted.
    let data = data.join("journal");
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir_all(&data)?;
    let groups = if args.only.is_empty() { Group::value_variants().to_vec() } else { args.only.clone() };
    let machine = Machine::of(&data)?;
    let mut run = Run { args, groups: &groups, table: Table::new(&groups), data: &data, notes: Vec::new() };
    if machine.file_system == "tmpfs" {
        run.note("the data directory is in memory (tmpfs): a sync costs nothing there, and the numbers mean nothing".into());
    }
    let done = run.all();
    let Run { table, notes, .. } = run;
    std::fs::remove_dir_all(&data)?;
    done.map(|()| Measured { table, machine, notes })
}

struct Run<'a> {
    args: &'a Args,
    groups: &'a [Group],
    table: Table,
    data: &'a Path,
    notes: Vec<String>,
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), Error> {
        if [Group::Read, Group::Open, Group::Disk].iter().any(|group| self.has(*group)) {
            for column in Column::ALL {
                self.load(column)?;
            }
        }
        (0..self.args.rounds).try_for_each(|round| self.round(round))
    }

    fn round(&mut self, round: usize) -> Result<(), Error> {
        for (group, sessions) in Group::APPENDS.into_iter().filter(|(group, _)| self.groups.contains(group)) {
            for column in Column::ALL {
                self.append(round, group, sessions, column)?;
            }
        }
        let readers = Column::ALL.into_iter().filter(|column| column.reads());
        if self.has(Group::Read) {
            for column in readers.clone() {
                let found = self.child(round, column, &self.large(column), Work::Read)?;
                self.table.add(Group::Read, column, &found);
            }
        }
        if self.has(Group::Open) {
            for column in readers {
                self.open(round, column)?;
            }
        }
        if self.has(Group::Fork) {
            for column in Column::ALL.into_iter().filter(|column| column.forks()) {
                let directory = self.data.join("fork");
                let found = self.child(round, column, &directory, Work::Fork)?;
                self.table.add(Group::Fork, column, &found);
                std::fs::remove_dir_all(directory)?;
            }
        }
        Ok(())
    }

    fn has(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }

    fn note(&mut self, note: String) {
        eprintln!("note: {note}");
        self.notes.push(note);
    }

    /// The large journal of a column.
    fn large(&self, column: Column) -> PathBuf {
        self.data.join(format!("large-{}", column.name()))
    }

    fn load(&mut self, column: Column) -> Result<(), Error> {
        let directory = self.large(column);
        let work = Work::Load { events: self.args.events, cap_seconds: self.args.load_cap };
        let found = self.child(0, column, &directory, work)?;
        let loaded = found.get("events").copied().unwrap_or_default();
        if loaded < self.args.events as f64 {
            let wanted = self.args.events;
            self.note(format!(
                "{}: the large journal has {loaded} events, not {wanted}: loading took too long",
                column.name()
            ));
        }
        let (length, allocated) = system::disk_usage(&directory)?;
        let per_byte = |bytes: u64| bytes as f64 / (loaded * PAYLOAD_BYTES as f64);
        let disk = [
            ("length_per_payload_byte", per_byte(length)),
            ("allocated_per_payload_byte", per_byte(allocated)),
        ];
        self.table.add(Group::Disk, column, &disk.map(|(name, value)| (name.to_owned(), value)).into());
        Ok(())
    }

    fn append(&mut self, round: usize, group: Group, sessions: usize, column: Column) -> Result<(), Error> {
        let directory = self.data.join(format!("append-{}", column.name()));
        let found =
            self.child(round, column, &directory, Work::Append { sessions, seconds: self.args.seconds })?;
        self.table.add(group, column, &found);
        std::fs::remove_dir_all(directory)?;
        Ok(())
    }

    fn open(&mut self, round: usize, column: Column) -> Result<(), Error> {
        let empty = self.data.join(format!("empty-{}", column.name()));
        if round == 0 {
            self.child(round, column, &empty, Work::Create)?;
        }
        let large = self.large(column);
        let mut found = Metrics::new();
        let mut open = |name: &str, directory: &Path| -> Result<(), Error> {
            let milliseconds = self.child(round, column, directory, Work::Open)?;
            found.extend(milliseconds.get("open_ms").map(|value| (name.to_owned(), *value)));
            Ok(())
        };
        open("empty_ms", &empty)?;
        open("clean_ms", &large)?;
        self.kill(round, column, &large)?;
        open("killed_ms", &large)?;
        self.table.add(Group::Open, column, &found);
        Ok(())
    }

    fn command(&self, round: usize, column: Column, directory: &Path, work: Work) -> Result<Command, Error> {
        let job = Job { column, directory: directory.to_owned(), seed: 0x5EED + round as u64, work };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--child").arg(serde_json::to_string(&job)?).stdin(Stdio::null());
        Ok(command)
    }

    /// Does `work` in a process of its own.
    fn child(&self, round: usize, column: Column, directory: &Path, work: Work) -> Result<Metrics, Error> {
        let what = format!("round {}, {}: {work:?}", round + 1, column.name());
        eprint!("{what} … ");
        std::io::stderr().flush()?;
        let output = self.command(round, column, directory, work)?.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{what}: {}", output.status).into());
        }
        let found: Metrics = serde_json::from_slice(&output.stdout)?;
        let shown: Vec<String> = found.iter().map(|(name, value)| format!("{name} {value:.1}")).collect();
        eprintln!("{}", shown.join(", "));
        Ok(found)
    }

    /// Kills a process in the middle of its appends.
    fn kill(&self, round: usize, column: Column, directory: &Path) -> Result<(), Error> {
        let mut victim =
            self.command(round, column, directory, Work::Victim)?.stdout(Stdio::piped()).spawn()?;
        let mut ready = String::new();
        let output = victim.stdout.take().ok_or("the victim's output is not a pipe")?;
        BufReader::new(output).read_line(&mut ready)?;
        // Another moment in every round.
        std::thread::sleep(Duration::from_millis(50 + 37 * round as u64));
        victim.kill()?;
        victim.wait()?;
        if ready.trim() != "ready" {
            return Err(format!("{}: the victim ended before it was killed", column.name()).into());
        }
        Ok(())
    }
}

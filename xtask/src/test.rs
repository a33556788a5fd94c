//! `cargo xtask test`: everything a fresh machine needs, and everything that CI asks for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{self, Ended};
use crate::tools::{self, DENY, FUZZ, NEXTEST};
use crate::{Outcome, fuzz, layers, real_clients, real_mcp, real_model, tidy};

/// What `cargo xtask test` is asked to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what needs programs that are not part of the toolchain, and the longest tests
    #[arg(long)]
    quick: bool,
}

/// How long each target is fuzzed: enough to notice a parser that breaks easily; `cargo xtask fuzz` goes on longer.
const FUZZ_TIME: Duration = Duration::from_secs(20);

/// One line of the summary.
struct Row {
    step: &'static str,
    result: String,
    time: Option<Duration>,
}

/// Runs step after step until one fails.
struct Suite<'a> {
    root: &'a Path,
    rows: Vec<Row>,
    has_failed: bool,
}

pub(crate) fn run(root: &Path, args: &Args) -> Outcome {
    let mut suite = Suite { root, rows: Vec::new(), has_failed: false };
    if args.quick {
        println!("{QUICK}");
    }
    let nextest = suite.set_up(args);
    let nextest = || nextest.clone().unwrap_or_else(|| PathBuf::from("cargo-nextest"));
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);

    suite.command("format", minutes(2), cargo(&["fmt", "--all", "--check"]));
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    suite.command("clippy", minutes(15), cargo(&clippy));
    // `--all-targets` leaves out the tests that are not part of `cargo test`.
    let mut real_tests = cargo(&["clippy", "--workspace", "--all-features"]);
    let targets = ["real_model", "real_mcp", "real_clients", "control_group"];
    real_tests.args(targets.iter().flat_map(|target| ["--test", target]));
    real_tests.args(["--", "-D", "warnings"]);
    suite.command("clippy: real", minutes(5), real_tests);
    suite.step("layers", || layers::run(root).map(|()| Ended::Well));
    suite.step("tidy", || tidy::run(root, false).map(|()| Ended::Well));
    // Compiling has a step of its own, so that the tests' time is the tests'. It makes the `weir` they start, too.
    let tests = ["nextest", "run", "--workspace", "--all-features"];
    let mut build = Command::new(nextest());
    build.args(tests).arg("--no-run");
    suite.command("build", minutes(20), build);
    let mut test = Command::new(nextest());
    test.args(tests).args(["--profile", if args.quick { "quick" } else { "default" }]);
    suite.command("tests", minutes(25), test);
    suite.real_model(args, &nextest());
    suite.real_mcp(args, &nextest());
    suite.real_clients(args, &nextest());
    suite.fuzz(args);
    suite.command("doctests", minutes(10), cargo(&["test", "--doc", "--workspace", "--all-features"]));
    let mut docs = cargo(&["doc", "--no-deps", "--workspace", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    suite.command("docs", minutes(5), docs);
    suite.deny(args);
    suite.finish(args)
}

const QUICK: &str = "
--quick: this is NOT what CI runs. Left out:
  - cargo deny (licences, bans, sources)
  - the model adapters against a real model
  - the MCP client against real servers and the conformance suite
  - the server against vendors' own SDKs
  - fuzzing
  - the tests that the nextest profile `quick` excludes (.config/nextest.toml)
";

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = process::cargo();
    cargo.args(arguments);
    cargo
}

impl Suite<'_> {
    /// Finds or installs what the other steps use; the answer is nextest.
    fn set_up(&mut self, args: &Args) -> Option<PathBuf> {
        let mut nextest = None;
        let root = self.root;
        self.step("set-up", || {
            tools::check_components()?;
            nextest = Some(NEXTEST.ensure(root)?);
            if !args.quick {
                DENY.ensure(root)?;
                FUZZ.ensure(root)?;
            }
            Ok(Ended::Well)
        });
        nextest
    }

    /// The model adapters against a real model, which is installed first if need be.
    fn real_model(&mut self, args: &Args, nextest: &Path) {
        if args.quick {
            return self.leave_out("real model");
        }
        let root = self.root;
        self.step("real model", || real_model::run(root, nextest));
    }

    /// The MCP client against servers that others wrote, which are installed first if need be.
    fn real_mcp(&mut self, args: &Args, nextest: &Path) {
        if args.quick {
            return self.leave_out("real mcp");
        }
        let root = self.root;
        self.step("real mcp", || real_mcp::run(root, nextest));
    }

    /// The server against the clients people already have, which are installed first if need be.
    fn real_clients(&mut self, args: &Args, nextest: &Path) {
        if args.quick {
            return self.leave_out("real clients");
        }
        let root = self.root;
        self.step("real clients", || real_clients::run(root, nextest, &[]));
    }

    /// The parsers against bytes that nobody would write, for a bounded time.
    fn fuzz(&mut self, args: &Args) {
        if args.quick {
            return self.leave_out("fuzz");
        }
        let root = self.root;
        self.step("fuzz", || fuzz::run(root, FUZZ_TIME));
    }

    fn leave_out(&mut self, step: &'static str) {
        self.rows.push(Row { step, result: "LEFT OUT (--quick)".into(), time: None });
    }

    fn deny(&mut self, args: &Args) {
        if args.quick {
            return self.leave_out("deny");
        }
        let root = self.root;
        self.step("deny", || {
            // Advisories would need a download; they are looked at when dependencies change, not on every run.
            let mut deny = Command::new(DENY.ensure(root)?);
            deny.args(["--all-features", "check", "licenses", "bans", "sources"]).current_dir(root);
            process::run(&mut deny, Duration::from_secs(5 * 60))
        });
    }

    fn command(&mut self, step: &'static str, cap: Duration, mut command: Command) {
        command.current_dir(self.root);
        self.step(step, || {
            println!("$ {}", process::shown(&command));
            process::run(&mut command, cap)
        });
    }

    fn step(&mut self, step: &'static str, run: impl FnOnce() -> Outcome<Ended>) {
        if self.has_failed {
            self.rows.push(Row { step, result: "not run".into(), time: None });
            return;
        }
        println!("\n── {step}");
        let started = Instant::now();
        let ended = run().unwrap_or_else(|error| Ended::Badly(error.to_string()));
        let time = started.elapsed();
        self.has_failed = ended != Ended::Well;
        println!("── {step}: {ended}, {:.1} s", time.as_secs_f64());
        self.rows.push(Row { step, result: ended.to_string(), time: Some(time) });
    }

    fn finish(self, args: &Args) -> Outcome {
        println!("\n{}", table(&self.rows));
        if args.quick {
            println!("{QUICK}");
        }
        if self.has_failed {
            return Err("a step failed; the table above says which".into());
        }
        Ok(())
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = format!("{:<12} {:>9}  result\n", "step", "time");
    for Row { step, result, time } in rows {
        let time = time.map(|time| format!("{:.1} s", time.as_secs_f64())).unwrap_or_default();
        table += &format!("{step:<12} {time:>9}  {result}\n");
    }
    let total: Duration = rows.iter().filter_map(|row| row.time).sum();
    table + &format!("{:<12} {:>9}", "total", format!("{:.1} s", total.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_but_not_the_table() {
        let mut suite = Suite { root: Path::new("."), rows: Vec::new(), has_failed: false };
        suite.step("one", || Ok(Ended::Well));
        suite.step("two", || Err("broken".into()));
        suite.step("three", || panic!("a step after a failure must not run"));
        let rows: Vec<_> = suite.rows.iter().map(|row| (row.step, row.result.as_str())).collect();
        assert_eq!(rows, [("one", "ok"), ("two", "failed (broken)"), ("three", "not run")]);
        assert!(suite.finish(&Args { quick: false }).is_err());
    }

    #[test]
    fn a_step_that_overruns_is_a_failure() {
        let mut suite = Suite { root: Path::new("."), rows: Vec::new(), has_failed: false };
        let mut sleep = Command::new("sleep");
        sleep.arg("600");
        suite.command("long", Duration::from_millis(100), sleep);
        assert_eq!(suite.rows[0].result, "ended: not done after its cap of 0 s");
        assert!(suite.has_failed);
    }

    #[test]
    fn the_table_shows_every_step() {
        let rows = [
            Row { step: "format", result: "ok".into(), time: Some(Duration::from_millis(1_250)) },
            Row { step: "deny", result: "not run".into(), time: None },
        ];
        let expected = "step              time  result\nformat           1.2 s  ok\ndeny                    not run\ntotal            1.2 s";
        assert_eq!(table(&rows), expected);
    }
}

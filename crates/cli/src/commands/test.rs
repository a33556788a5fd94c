//! `weir test`: the scenarios of `tests/*.yaml`, each a session of its own on a model that answers the same each time.

mod judge;
mod play;

use std::time::{Duration, Instant};

use serde::Serialize;
use weir_spec::{Diagnostic, Scenario, TestSpec};
use weir_types::NanoUsd;

use self::play::Stage;
use crate::commands::Context;
use crate::exit::Exit;
use crate::output::Out;
use crate::problems::Problems;
use crate::project::ProjectArgs;
use crate::report::{Failure, Outcome};
use crate::show::{count, printable};

const EXAMPLES: &str = "\
Examples:
  weir test
  weir test clock                only scenarios and files with `clock` in their names
  weir test --json | jq 'select(.passed | not)'

A recorded session is tested with `model: recorded/NAME`; record one with
  weir export --stream session:ID -o tests/recordings/NAME.jsonl";

/// The arguments of `weir test`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only scenarios and files with this in their names.
    filter: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

/// What came of a scenario.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: &'a str,
    scenario: &'a str,
    passed: bool,
    cost_usd: f64,
    duration_ms: u64,
    problems: &'a [Diagnostic],
}

/// Runs the tests.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let tested = args.project.build_tested().await?;
    let began = Instant::now();
    let (mut passed, mut failed, mut cost) = (0_u64, 0_u64, NanoUsd(0));
    for test in tested.sources.tests.values() {
        let scenarios: Vec<_> = test.scenarios.iter().filter(|scenario| args.wants(test, scenario)).collect();
        if scenarios.is_empty() {
            continue;
        }
        if !context.out.json {
            context.out.line(format_args!("{}", context.out.paint.bold(&printable(&test.file))))?;
        }
        let stage = Stage::new(test, &tested, &args.project.directory).await?;
        for scenario in scenarios {
            let began = Instant::now();
            let played = stage.play(scenario).await?;
            cost.0 = cost.0.saturating_add(played.cost.0);
            let report = Report {
                file: &test.file,
                scenario: &scenario.name.value,
                passed: played.problems.is_empty(),
                cost_usd: played.cost.as_usd(),
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                problems: &played.problems,
            };
            *(if report.passed { &mut passed } else { &mut failed }) += 1;
            show(&report, tested.content(&test.file), &mut context.out)?;
        }
    }
    conclude(passed, failed, cost, began.elapsed(), args, &mut context.out)
}

impl Args {
    fn wants(&self, test: &TestSpec, scenario: &Scenario) -> bool {
        let filter = self.filter.as_deref().unwrap_or_default();
        test.file.contains(filter) || scenario.name.value.contains(filter)
    }
}

fn show(report: &Report<'_>, content: &[u8], out: &mut Out) -> Outcome {
    if out.json {
        return out.object(report);
    }
    let name = printable(report.scenario);
    if report.passed {
        return out.line(format_args!("  {} {name}", out.paint.ok("✓")));
    }
    out.line(format_args!("  {} {name}", out.paint.error("✗")))?;
    let mut problems = Problems::default();
    problems.add(report.problems.to_vec(), content);
    let text = problems.to_text(out.paint);
    out.bytes(text.as_bytes())
}

fn conclude(passed: u64, failed: u64, cost: NanoUsd, took: Duration, args: &Args, out: &mut Out) -> Outcome {
    if passed + failed == 0 {
        return Err(nothing(args).into());
    }
    if !out.json {
        let all = count(passed + failed, "scenario");
        let outcome = match failed {
            0 => out.paint.ok("all passed").into_owned(),
            failed => out.paint.error(&format!("{failed} failed")).into_owned(),
        };
        let money = if cost.0 > 0 { format!(", ${:.4}", cost.as_usd()) } else { String::new() };
        out.line(format_args!("{all}: {outcome} ({:.1} s{money})", took.as_secs_f64()))?;
    }
    if failed > 0 { Err(Failure::Ended(Exit::Failed)) } else { Ok(()) }
}

/// There is nothing to run.
#[derive(Debug, thiserror::Error)]
enum NoTests {
    #[error("no scenario and no file in tests/ has `{0}` in its name")]
    Filtered(String),
    #[error("there are no tests: `{}` has no .yaml file with scenarios", .0.join("tests").display())]
    None(std::path::PathBuf),
}

impl weir_types::Explain for NoTests {
    fn code(&self) -> &'static str {
        "cli::no-tests"
    }

    fn help(&self) -> std::borrow::Cow<'static, str> {
        match self {
            Self::Filtered(_) => "run all of them with `weir test`".into(),
            Self::None(_) => {
                "`weir init DIR` makes a project that has some; `weir schema tests` says what to write".into()
            }
        }
    }

    fn fault(&self) -> weir_types::Fault {
        weir_types::Fault::Missing
    }
}

fn nothing(args: &Args) -> NoTests {
    match &args.filter {
        Some(filter) => NoTests::Filtered(printable(filter).into_owned()),
        None => NoTests::None(args.project.directory.clone()),
    }
}

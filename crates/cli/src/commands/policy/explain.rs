//! `weir policy explain`: the decision about one call, through the very gate of a run.

use std::borrow::Cow;

use serde::Serialize;
use weir_journal::{mint_call, mint_session};
use weir_spec::Principal;
use weir_tools::{Asked, Decision, Toolbox};
use weir_types::{Effect, Explain, Fault, GateStep, Json, Risk, Saw, Verdict};

use crate::agents::check_enforced;
use crate::commands::Context;
use crate::output::Out;
use crate::project::{self, ProjectArgs};
use crate::report::Outcome;
use crate::show::{pad, printable};
use crate::workbench::{ToolArgs, Workbench};

const EXAMPLES: &str = r#"Examples:
  weir policy explain --agent helper --tool bash --input '{"command":"ls"}'
  weir policy explain --principal user:bob --agent helper --tool http --input '{"url":"https://example.com/"}'
  weir policy explain --agent helper --tool bash --json | jq -r .outcome"#;

/// The arguments of `weir policy explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// On whose behalf; whoever asks, if left out.
    #[arg(long, value_name = "PRINCIPAL", value_parser = principal)]
    principal: Option<Principal>,
    /// The agent that would make the call.
    #[arg(long)]
    agent: String,
    /// The tool, by the name the model knows.
    #[arg(long)]
    tool: String,
    /// The arguments; if left out, whether they fit the tool's schema is not asked.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    project: ProjectArgs,
}

fn principal(text: &str) -> Result<Principal, String> {
    match text.parse() {
        Ok(Principal::Group(_)) | Err(_) => Err("write `user:NAME` or `serviceaccount:NAME`".to_owned()),
        Ok(principal) => Ok(principal),
    }
}

/// The arguments of the call are no JSON.
#[derive(Debug, thiserror::Error)]
#[error("the arguments are not JSON: {0}")]
struct NotJson(serde_json::Error);

impl Explain for NotJson {
    fn code(&self) -> &'static str {
        "cli::not-json"
    }

    fn help(&self) -> Cow<'static, str> {
        r#"write them like '{"city":"Lisbon"}'; `weir tools list AGENT --json` shows what a tool takes"#
            .into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// What came of it, and how.
#[derive(Serialize)]
struct Document<'a> {
    outcome: Verdict,
    principal: &'a str,
    agent: &'a str,
    tool: &'a str,
    /// The arguments; null if none were given.
    input: Option<&'a Json>,
    effect: Option<Effect>,
    risk: Option<Risk>,
    /// The step that decided; null if nothing was said against the call, nor for it by name.
    step: Option<&'static str>,
    /// The rule that decided, or the step.
    rule: Option<&'a str>,
    because: &'a str,
    /// What would allow it.
    remedy: Option<String>,
    /// Whether it would only pretend.
    stub: bool,
    steps: Vec<Taken>,
    saw: &'a Saw,
}

/// One step of the pipeline.
#[derive(Serialize)]
struct Taken {
    step: &'static str,
    answer: Said,
    why: String,
}

/// What a step said.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Yes,
    No,
    Ask,
    NotChecked,
    NotReached,
}

impl Said {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Ask => "ask",
            Self::NotChecked | Self::NotReached => "–",
        }
    }
}

/// Explains a decision.
pub(crate) async fn run(args: &Args, context: &mut Context) -> Outcome {
    let given = args.input.as_deref().map(|input| Json::parse(input.trim())).transpose().map_err(NotJson)?;
    let input = given.clone().unwrap_or_else(Json::empty_object);
    let built = args.project.build().await?;
    let agent = project::agent(&built.manifest, &args.agent, &args.project.directory)?;
    // A run would not begin either.
    check_enforced(&built.manifest)?;
    let bench = Workbench::new(&args.tools, &args.project.directory, &context.data_dir);
    let toolbox = bench.equip(&built.manifest, agent).toolbox;
    let named = args.principal.as_ref().map(ToString::to_string);
    let principal = named.as_deref().unwrap_or_else(|| context.identity.principal()).to_owned();
    let asked = Asked {
        call: mint_call(),
        tool: &args.tool,
        input: &input,
        session: mint_session(),
        depth: 0,
        agent: &args.agent,
        principal: &principal,
        groups: &[],
        approved_by: None,
    };
    let explained = explain(&toolbox, &asked, given.is_some());
    let (effect, risk) = toolbox.strictness(&args.tool, &input).unzip();
    let Explained { decision, decided_by, steps } = explained;
    let document = Document {
        outcome: decision.verdict,
        principal: &principal,
        agent: &args.agent,
        tool: &args.tool,
        input: given.as_ref(),
        effect,
        risk,
        step: decided_by,
        rule: decided_by.filter(|step| *step == ACL).or(decision.rule.as_deref()),
        because: &decision.because,
        remedy: remedy(&decision, &asked),
        stub: decision.stub,
        steps,
        saw: &decision.saw,
    };
    if context.out.json {
        return context.out.document(&document);
    }
    print(&document, &mut context.out)
}

struct Explained {
    decision: Decision,
    decided_by: Option<&'static str>,
    steps: Vec<Taken>,
}

/// The step before all others: whether someone may talk to the agent.
const ACL: &str = "acl";

/// Asks the gate what it asks itself in a run: whether someone may talk to the agent, and whether the call may run.
fn explain(toolbox: &Toolbox, asked: &Asked<'_>, with_arguments: bool) -> Explained {
    let admitted = toolbox.admit(asked.principal, asked.agent);
    let is_admitted = admitted.verdict == Verdict::Allow;
    let decision = if with_arguments { toolbox.authorize(asked) } else { toolbox.authorize_any(asked) };
    let said = |step: GateStep| match decision.step {
        _ if !is_admitted => Said::NotReached,
        Some(at) if step > at => Said::NotReached,
        _ if step == GateStep::Schema && !with_arguments => Said::NotChecked,
        Some(at) if step == at && decision.verdict == Verdict::Ask => Said::Ask,
        Some(at) if step == at && decision.verdict == Verdict::Deny => Said::No,
        Some(_) | None => Said::Yes,
    };
    let admission = Taken {
        step: ACL,
        answer: if is_admitted { Said::Yes } else { Said::No },
        why: admitted.reason.clone(),
    };
    let step = |step: GateStep| {
        let answer = said(step);
        let why = match answer {
            Said::No | Said::Ask => decision.reason.clone(),
            Said::NotReached => "not reached".to_owned(),
            Said::NotChecked => "not checked: no `--input` is given".to_owned(),
            Said::Yes => why(step, &decision, asked),
        };
        Taken { step: step.as_str(), answer, why }
    };
    let steps = [GateStep::Allowlist, GateStep::Schema, GateStep::Grant, GateStep::Rules].map(step);
    let mut steps: Vec<Taken> = std::iter::once(admission).chain(steps).collect();
    // Who says yes to a call says yes to what it would do then.
    let is_reached = is_admitted && decision.verdict != Verdict::Deny;
    let stub = GateStep::Stub;
    steps.push(match is_reached {
        true => Taken { step: stub.as_str(), answer: Said::Yes, why: why(stub, &decision, asked) },
        false => Taken { step: stub.as_str(), answer: Said::NotReached, why: "not reached".to_owned() },
    });
    if is_admitted {
        return Explained { decided_by: decision.step.map(GateStep::as_str), decision, steps };
    }
    let decision = Decision { saw: decision.saw, ..admitted };
    Explained { decision, decided_by: Some(ACL), steps }
}

/// Why a step has nothing against the call.
fn why(step: GateStep, decision: &Decision, asked: &Asked<'_>) -> String {
    match step {
        GateStep::Allowlist => format!("agent `{}` lists it", asked.agent),
        GateStep::Schema => "the arguments fit".to_owned(),
        GateStep::Grant if decision.rule.is_none() => decision.because.clone(),
        GateStep::Grant => format!("`{}` may use it", asked.principal),
        GateStep::Rules if decision.rule.is_some() => decision.because.clone(),
        GateStep::Rules => "no rule is about it".to_owned(),
        GateStep::Stub if decision.stub => {
            format!("it would only pretend; `--live-writes={}` lets it happen", asked.tool)
        }
        GateStep::Stub => "it would really happen".to_owned(),
        GateStep::Budget | GateStep::Credentials => String::new(),
    }
}

/// What would allow it.
fn remedy(decision: &Decision, asked: &Asked<'_>) -> Option<String> {
    match (decision.verdict, &decision.rule, decision.step) {
        (Verdict::Allow, ..) => None,
        (Verdict::Ask, ..) => Some(format!(
            "the yes of somebody who may approve what `{}` does: it parks the run, and `weir approvals` lists it",
            asked.agent
        )),
        (Verdict::Deny, Some(rule), Some(GateStep::Rules)) => {
            Some(format!("the rule `{rule}` would have to say something else, or another one before it"))
        }
        (Verdict::Deny, ..) => decision.remedy.clone(),
    }
}

fn print(document: &Document<'_>, out: &mut Out) -> Outcome {
    let word = document.outcome.as_str();
    let word = match document.outcome {
        Verdict::Allow => out.paint.bold(word).into_owned(),
        Verdict::Ask => out.paint.warn(word).into_owned(),
        Verdict::Deny => out.paint.error(word).into_owned(),
    };
    let rule = document.rule.map_or_else(String::new, |rule| format!(" by `{}`", printable(rule)));
    out.line(format_args!(
        "{word}{rule}: {} → {} → {}",
        printable(document.principal),
        printable(document.agent),
        printable(document.tool)
    ))?;
    for taken in &document.steps {
        let (answer, step) = (pad(taken.answer.word(), 3), pad(taken.step, 9));
        let line = format!("  {answer}  {step}  {}", printable(&taken.why));
        let line = match taken.answer {
            Said::NotChecked | Said::NotReached => out.paint.dim(&line).into_owned(),
            Said::No => out.paint.error(&line).into_owned(),
            Said::Ask => out.paint.warn(&line).into_owned(),
            Said::Yes => line,
        };
        out.line(format_args!("{line}"))?;
    }
    out.line(format_args!("looked at: {}", printable(&looked_at(document))))?;
    for observed in &document.saw.observed {
        let (rule, outcome) = (printable(&observed.rule), observed.outcome.as_str());
        out.line(format_args!("observed: rule `{rule}` would have said {outcome}"))?;
    }
    if let Some(remedy) = &document.remedy {
        out.line(format_args!("help: {}", printable(remedy)))?;
    }
    Ok(())
}

/// What the decision depended on, beside the call.
fn looked_at(document: &Document<'_>) -> String {
    let saw = document.saw;
    let mut words = vec![document.principal.to_owned()];
    words.push(match saw.groups.as_slice() {
        [] => "no groups".to_owned(),
        groups => groups.join(", "),
    });
    words.extend(saw.access.map(|access| format!("access {}", access.as_str())));
    words.extend(document.effect.map(|effect| format!("effect {}", effect.as_str())));
    words.extend(document.risk.map(|risk| format!("risk {}", risk.as_str())));
    words.push(
        document.input.map_or_else(|| "no input".to_owned(), |input| format!("input {}", input.as_str())),
    );
    words.join(" · ")
}

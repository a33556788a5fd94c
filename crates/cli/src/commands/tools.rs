//! `weir tools`: which tools an agent has, and what one of them does when it is called.

mod call;

use serde::Serialize;
use weir_engine::provision;
use weir_tools::{Builtin, Decision, Gate, Kind, Level, Live, Offer, Request};
use weir_types::{Effect, Json, Risk, Verdict};

use crate::commands::Context;
use crate::identity::admins;
use crate::project::{self, ProjectArgs};
use crate::report::Outcome;
use crate::show::printable;
use crate::table;
use crate::workbench::ToolArgs;

pub(crate) use self::call::CallArgs;

/// What to do with tools.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the tools of an agent, with who may use them and what a call would do.
    List(ListArgs),
    /// Call one of them, through the same gate as the agent does.
    Call(CallArgs),
}

/// The arguments of `weir tools list`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir tools list helper\n  weir tools list helper --as serviceaccount:digest-bot --json"
)]
pub(crate) struct ListArgs {
    /// The agent.
    agent: String,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    kind: &'static str,
    access: &'static str,
    effect: Effect,
    risk: Risk,
    /// The highest level that the principal holds on it, whatever rules say; none, if they hold nothing.
    grant: Option<&'static str>,
    /// Whether calls really happen: they are neither denied nor stubbed.
    live: bool,
    /// What denies calls without arguments: `grant`, or a rule; nothing, if they may happen.
    denied_by: Option<String>,
    source: &'a str,
    description: &'a str,
    parameters: &'a Json,
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Call(args) => call::run(args, context).await,
    }
}

async fn list(args: &ListArgs, context: &mut Context) -> Outcome {
    let built = args.project.build().await?;
    let agent = project::agent(&built.manifest, &args.agent, &args.project.directory)?;
    args.tools.warn_unmatched(&built.manifest, &context.out);
    let offers = provision::offers(&built.manifest, agent);
    let gate = provision::gate(&built.manifest, admins(&context.data_dir));
    let (principal, out) = (context.identity.principal(), &mut context.out);
    let live = args.tools.live();
    let asker = Asker { gate: &*gate, principal, agent: &args.agent };
    let views = offers.iter().map(|offer| view(offer, &asker, &live));
    if out.json {
        return views.into_iter().try_for_each(|view| out.object(&view));
    }
    if offers.is_empty() {
        out.note(format_args!("`{}` has no tools; list some under `tools` in its spec", args.agent));
        return Ok(());
    }
    let rows: Vec<[String; 8]> = views.map(|view| row(&view)).collect();
    table::print(["NAME", "KIND", "ACCESS", "EFFECT", "RISK", "GRANT", "CALLS", "SOURCE"], &rows, out)
}

fn view<'a>(offer: &'a Offer, asker: &Asker<'_>, live: &Live) -> View<'a> {
    let (name, source) = (offer.definition.name.as_str(), offer.source.as_str());
    let writes = offer.effect != Effect::Read;
    let denied_by = asker.denied_by(offer);
    View {
        name,
        kind: offer.kind.as_str(),
        access: offer.access.as_str(),
        effect: offer.effect,
        risk: offer.risk,
        grant: asker.grant(offer).map(Level::as_str),
        live: denied_by.is_none() && (!writes || offer.is_contained() || live.covers(name, source)),
        denied_by,
        source,
        description: &offer.definition.description,
        parameters: &offer.definition.schema,
    }
}

fn row(view: &View<'_>) -> [String; 8] {
    [
        printable(view.name).into_owned(),
        view.kind.to_owned(),
        view.access.to_owned(),
        view.effect.as_str().to_owned(),
        view.risk.as_str().to_owned(),
        view.grant.unwrap_or("none").to_owned(),
        match (&view.denied_by, view.live) {
            (Some(_), _) => "denied",
            (None, true) => "live",
            (None, false) => "stubbed",
        }
        .to_owned(),
        printable(view.source).into_owned(),
    ]
}

/// Whose calls are looked at.
struct Asker<'a> {
    gate: &'a dyn Gate,
    principal: &'a str,
    agent: &'a str,
}

impl Asker<'_> {
    /// The highest level that they hold on a tool, whatever rules say.
    fn grant(&self, offer: &Offer) -> Option<Level> {
        if let Kind::Builtin(Builtin::ResultRead) = offer.kind {
            // It comes with the results themselves.
            return Some(Level::Read);
        }
        let holds = |effect| !lacks_access(&self.decide(offer, effect));
        match (holds(Effect::Write), holds(Effect::Read)) {
            (true, _) => Some(Level::Write),
            (false, true) => Some(Level::Read),
            (false, false) => None,
        }
    }

    /// What denies a call without arguments.
    fn denied_by(&self, offer: &Offer) -> Option<String> {
        let denial = |effect| {
            let decision = self.decide(offer, effect);
            (decision.verdict == Verdict::Deny).then(|| decision.rule.unwrap_or_default())
        };
        match offer.kind {
            Kind::Builtin(Builtin::ResultRead) => None,
            // What a request does is in its method.
            Kind::Builtin(Builtin::Http) => denial(offer.effect).filter(|_| denial(Effect::Read).is_some()),
            Kind::Builtin(_) | Kind::Script(_) | Kind::Server { .. } | Kind::Agent(_) => denial(offer.effect),
        }
    }

    fn decide(&self, offer: &Offer, effect: Effect) -> Decision {
        let input = Json::empty_object();
        self.gate.decide(&Request {
            principal: self.principal,
            agent: self.agent,
            tool: &offer.definition.name,
            source: &offer.source,
            callee: offer.callee(),
            input: &input,
            effect,
            risk: offer.risk,
            access: offer.access,
            groups: &[],
            approved_by: None,
        })
    }
}

/// Whether it was access that denied, and not a rule that happens to be called `grant`.
fn lacks_access(decision: &Decision) -> bool {
    decision.verdict == Verdict::Deny && decision.step == Some(weir_types::GateStep::Grant)
}

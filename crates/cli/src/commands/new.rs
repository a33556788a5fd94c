//! `weir new`: one more agent, loop or tool, which builds at once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_spec::Diagnostic;
use weir_types::{Catalog, Explain, Fault};

use crate::commands::Context;
use crate::output::Out;
use crate::problems::Problems;
use crate::project::{self, ProjectArgs};
use crate::report::{Failure, Outcome};
use crate::scaffold::{NewFile, ScaffoldError, check_name, make};
use crate::store::blocking;

/// The file that declares service accounts.
const PROJECT: &str = "weir.yaml";

/// What is told about files that do not fit together. Only one of them is read here; `weir build` reads them all.
const BETWEEN_FILES: [&str; 3] = ["spec::unknown-agent", "spec::no-file", "spec::undeclared-account"];

/// What to make.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// An agent: agents/NAME/spec.yaml.
    #[command(
        after_help = "Examples:\n  weir new agent reviewer\n  weir new agent reviewer --project my-agents"
    )]
    Agent(Args),
    /// A loop: loops/NAME.yaml.
    #[command(
        after_help = "Examples:\n  weir new loop nightly\n  weir new loop nightly --agent reviewer --run-as clock-bot"
    )]
    Loop(LoopArgs),
    /// A script tool: tools/NAME.ts.
    #[command(
        after_help = "Examples:\n  weir new tool lookup_order\n  weir new tool lookup_order --json | jq -r '.files[]'"
    )]
    Tool(Args),
}

/// The arguments of `weir new agent` and `weir new tool`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its name: letters, digits, `-` and `_`.
    name: String,
    #[command(flatten)]
    project: ProjectArgs,
}

/// The arguments of `weir new loop`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoopArgs {
    /// Its name: letters, digits, `-` and `_`.
    name: String,
    /// The agent it talks to; the first one, if left out.
    #[arg(long)]
    agent: Option<String>,
    /// The service account it runs as; the first one of weir.yaml, if left out.
    #[arg(long, value_name = "ACCOUNT")]
    run_as: Option<String>,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
enum NewError {
    #[error(transparent)]
    Scaffold(#[from] ScaffoldError),
    /// There is no agent to talk to.
    #[error("a loop needs an agent, and `{}` has none", .0.display())]
    NoAgent(PathBuf),
    /// There is no account to run as.
    #[error("a loop runs as a service account, and weir.yaml declares none")]
    NoAccount,
}

impl Explain for NewError {
    fn code(&self) -> &'static str {
        match self {
            Self::Scaffold(error) => error.code(),
            Self::NoAgent(_) => "cli::no-agent",
            Self::NoAccount => "cli::no-account",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Scaffold(error) => error.help(),
            Self::NoAgent(_) => "make one first: `weir new agent helper`".into(),
            Self::NoAccount => "add `service_accounts: [{ name: clock-bot }]` to weir.yaml".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Scaffold(error) => error.fault(),
            Self::NoAgent(_) | Self::NoAccount => Fault::Missing,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    files: Vec<&'a str>,
}

/// Makes it.
pub(crate) async fn run(command: Command, context: &mut Context) -> Outcome {
    let (file, next) = match command {
        Command::Agent(Args { name, project }) => {
            let path = format!("agents/{name}/spec.yaml");
            let template = include_str!("../../templates/new/agent.yaml");
            let next = format!("weir chat {name} -m hello");
            (save(&name, &path, template, vec![], project.directory).await?, next)
        }
        Command::Tool(Args { name, project }) => {
            let path = format!("tools/{name}.ts");
            let template = include_str!("../../templates/new/tool.ts");
            let file = save(&name, &path, template, vec![], project.directory).await?;
            let entry = format!("{{ name: tools/{name}, access: read }}");
            context.out.note(format_args!("give it to an agent with `tools: [{entry}]` in its spec.yaml"));
            (file, "weir build".to_owned())
        }
        Command::Loop(args) => {
            let (file, agent, account) = add_loop(args).await?;
            let entry = format!("{{ principal: \"serviceaccount:{account}\", role: execute }}");
            context.out.note(format_args!(
                "it runs as serviceaccount:{account}, which needs `{entry}` in the `acl` of agents/{agent}/spec.yaml"
            ));
            (file, "weir build".to_owned())
        }
    };
    tell(&file, &next, &mut context.out)
}

async fn save(
    name: &str,
    path: &str,
    template: &str,
    mut values: Vec<(&str, &str)>,
    directory: PathBuf,
) -> Outcome<NewFile> {
    check_name(name)?;
    values.push(("name", name));
    let file = NewFile::from_template(path, template, &values);
    let made = blocking(move || make(&directory, std::slice::from_ref(&file)).map(|()| file)).await?;
    Ok(made?)
}

/// Makes a loop; with it comes who talks to whom.
async fn add_loop(args: LoopArgs) -> Outcome<(NewFile, String, String)> {
    let LoopArgs { name, agent, run_as, project } = args;
    let directory = project.directory.clone();
    let known = blocking(move || Known::read(&directory)).await??;
    let agent = agent.or(known.agent).ok_or_else(|| NewError::NoAgent(project.directory.clone()))?;
    let account = run_as.or(known.account).ok_or(NewError::NoAccount)?;
    let account = account.strip_prefix("serviceaccount:").unwrap_or(&account).to_owned();
    check_name(&agent)?;
    check_name(&account)?;
    let template = include_str!("../../templates/new/loop.yaml");
    let values = vec![("agent", agent.as_str()), ("account", account.as_str())];
    let file = save(&name, &format!("loops/{name}.yaml"), template, values, project.directory).await?;
    Ok((file, agent, account))
}

/// What a loop can be made of.
struct Known {
    agent: Option<String>,
    account: Option<String>,
}

impl Known {
    /// Looks at the project. Blocks.
    fn read(directory: &Path) -> Outcome<Self> {
        let agent = project::agents(directory).into_iter().next();
        let Ok(content) = std::fs::read(directory.join(PROJECT)) else {
            return Ok(Self { agent, account: None });
        };
        let files = BTreeMap::from([(PROJECT.to_owned(), content)]);
        let mut reading = weir_spec::read(&files, &Catalog::default());
        let stands_in_the_way =
            |problem: &Diagnostic| problem.is_error() && !BETWEEN_FILES.contains(&problem.code);
        reading.diagnostics.retain(stands_in_the_way);
        if !reading.diagnostics.is_empty() {
            let mut problems = Problems::default();
            problems.add(reading.diagnostics, &files[PROJECT]);
            return Err(Failure::Problems(Box::new(problems)));
        }
        let account = reading.sources.project.service_accounts.into_iter().next();
        Ok(Self { agent, account: account.map(|account| account.value) })
    }
}

fn tell(file: &NewFile, next: &str, out: &mut Out) -> Outcome {
    if out.json {
        return out.document(&Document { files: vec![&file.path] });
    }
    out.line(format_args!("made {}", out.paint.bold(&file.path)))?;
    out.line(format_args!("next: {}", out.paint.bold(next)))
}

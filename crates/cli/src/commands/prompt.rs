//! `weir prompt`.

use serde::Serialize;
use weir_compiler::Built;
use weir_kernel::system::{self, Section};
use weir_kernel::tokens;
use weir_types::Hash;

use crate::agents;
use crate::commands::Context;
use crate::output::Out;
use crate::project::{self, ProjectArgs};
use crate::report::Outcome;
use crate::show::{pad, printable_lines, thousands};

/// What to do with prompts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print an agent's system prompt, and what it is made of.
    Show(ShowArgs),
}

/// The arguments of `weir prompt show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir prompt show helper\n  weir prompt show helper 2>/dev/null | wc -w")]
pub(crate) struct ShowArgs {
    /// The agent.
    agent: String,
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    agent: &'a str,
    model: &'a str,
    hash: Hash,
    tokens: u64,
    context_window: u64,
    sections: Vec<Part<'a>>,
    /// What the definitions of its tools take, which go into every request beside the prompt.
    tools_tokens: u64,
    prompt: &'a str,
}

#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    tokens: u64,
}

/// Runs one of them.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    match command {
        Command::Show(args) => show(args, &mut context.out).await,
    }
}

async fn show(args: &ShowArgs, out: &mut Out) -> Outcome {
    let Built { manifest, .. } = args.project.build().await?;
    let found = project::agent(&manifest, &args.agent, &args.project.directory)?;
    let sources = agents::prompt_sources(&manifest, found);
    let (sections, prompt) = (system::sections(&sources), system::prompt(&sources));
    let tools_tokens = tokens::of_tools(&agents::definitions(&manifest, found));
    if out.json {
        let parts = sections.iter().map(|section| Part { name: &section.name, tokens: section.tokens });
        return out.document(&Document {
            agent: &args.agent,
            model: &found.model,
            hash: Hash::of(prompt.as_bytes()),
            tokens: sections.iter().map(|section| section.tokens).sum(),
            context_window: manifest.models.get(&found.model).map_or(0, |card| card.context_window),
            sections: parts.collect(),
            tools_tokens,
            prompt: &prompt,
        });
    }
    if prompt.is_empty() {
        out.note(format_args!("the system prompt is empty: add a `description`, or a file such as SOUL.md"));
        return Ok(());
    }
    out.line(format_args!("{}", printable_lines(&prompt)))?;
    out.flush()?;
    table(&sections, tools_tokens, out);
    Ok(())
}

/// What the prompt is made of, beside it and not in it.
fn table(sections: &[Section], tools_tokens: u64, out: &Out) {
    const TOOLS: &str = "(tool definitions)";
    let names = sections.iter().map(|section| section.name.len());
    let columns = names.chain([TOOLS.len()]).max().unwrap_or(0);
    let line = |name: &str, tokens: &str| out.aside(format_args!("{}  {tokens:>8}", pad(name, columns)));
    out.aside(format_args!(""));
    line("section", "tokens");
    for section in sections {
        line(&section.name, &thousands(section.tokens));
    }
    line(TOOLS, &thousands(tools_tokens));
    let total: u64 = sections.iter().map(|section| section.tokens).sum();
    line("total", &thousands(total + tools_tokens));
}

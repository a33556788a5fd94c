//! `weir completions`.

use clap::CommandFactory;
use clap_complete::Shell;
use serde::Serialize;

use crate::args::Cli;
use crate::output::Out;
use crate::report::Outcome;

const EXAMPLES: &str = "\
Examples:
  weir completions bash > ~/.local/share/bash-completion/completions/weir
  weir completions zsh > ~/.zfunc/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// The arguments of `weir completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

#[derive(Serialize)]
struct View {
    shell: String,
    script: String,
}

/// Prints the script.
pub(crate) fn run(args: &Args, out: &mut Out) -> Outcome {
    // Into memory first: the generator panics when its writer fails, and a pipe may close.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weir", &mut script);
    if out.json {
        let script = String::from_utf8_lossy(&script).into_owned();
        return out.document(&View { shell: args.shell.to_string(), script });
    }
    out.bytes(&script)
}

//! `weir schema`: what can be written in a project's files, as JSON Schema.

use crate::commands::Context;
use crate::report::Outcome;
use crate::schemas;

const HELP: &str = "\
Examples:
  weir schema agent > agent.schema.json
  weir schema loop | jq '.properties | keys'

`weir build` keeps all of them in .weir/schema/. Editors that use the YAML language server find one by the first line
of a file, such as:
  # yaml-language-server: $schema=../../.weir/schema/agent.json";

/// The arguments of `weir schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Of which file.
    #[arg(value_enum)]
    document: Which,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Which {
    /// `weir.yaml`.
    Project,
    /// `agents/NAME/spec.yaml`.
    Agent,
    /// `loops/NAME.yaml`.
    Loop,
    /// `models/NAME.yaml`.
    Script,
    /// `tests/NAME.yaml`.
    Tests,
}

impl From<Which> for weir_spec::Document {
    fn from(which: Which) -> Self {
        match which {
            Which::Project => Self::Project,
            Which::Agent => Self::Agent,
            Which::Loop => Self::Loop,
            Which::Script => Self::Script,
            Which::Tests => Self::Tests,
        }
    }
}

/// Prints one.
pub(crate) fn run(args: &Args, context: &mut Context) -> Outcome {
    context.out.bytes(schemas::text(args.document.into()).as_bytes())
}

//! `weir schema`: what can be written in a project's files, as JSON Schema.

use weir_spec::Document;

use crate::commands::Context;
use crate::report::Outcome;
use crate::schemas;

const HELP: &str = "\
Examples:
  weir schema agent > agent.schema.json
  weir schema loop | jq '.properties | keys'
  weir schema types > weir.d.ts

`weir build` keeps all of them in .weir/schema/, where the tsconfig.json of `weir init` finds the types. Editors that use the YAML language server find one by the first line
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
    /// `tools/NAME.ts`: what TypeScript tools have, as TypeScript declarations.
    Types,
}

/// Prints one.
pub(crate) fn run(args: &Args, context: &mut Context) -> Outcome {
    let text = match args.document {
        Which::Project => schemas::text(Document::Project),
        Which::Agent => schemas::text(Document::Agent),
        Which::Loop => schemas::text(Document::Loop),
        Which::Script => schemas::text(Document::Script),
        Which::Tests => schemas::text(Document::Tests),
        Which::Types => schemas::TYPES.to_owned(),
    };
    context.out.bytes(text.as_bytes())
}

//! One module: TypeScript in, JavaScript and a source map out. The only place that calls `oxc`'s passes.

use oxc::allocator::Allocator;
use oxc::ast::ast::{Program, Statement, StringLiteral};
use oxc::codegen::{Codegen, CodegenOptions};
use oxc::diagnostics::{LabeledSpan, OxcDiagnostic};
use oxc::parser::{Parser, ParserReturn};
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};
use std::path::Path;
use weir_spec::{Diagnostic, Span};

use super::Resolved;
use super::define::{Defined, Mistake, defined};
use crate::place;

/// A module that can run.
pub(super) struct Compiled {
    /// JavaScript. Its imports are the paths of modules, or `weir`.
    pub(super) code: String,
    /// The way back from it to the TypeScript.
    pub(super) map: String,
    /// The modules it imports, by path.
    pub(super) imports: Vec<String>,
    /// The tool it defines; only for a module right in `tools/`.
    pub(super) defined: Option<Defined>,
}

/// A module, and what is wrong with it.
pub(super) struct Found {
    pub(super) compiled: Option<Compiled>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Names that other runtimes have and a script has not.
const FOREIGN: [&str; 8] =
    ["require", "process", "Buffer", "module", "__dirname", "__filename", "Deno", "Bun"];

/// Compiles one module. `stem` is the name of the tool that it has to define, if any; `resolve` says what its imports
/// stand for.
pub(super) fn compile(
    path: &str,
    stem: Option<&str>,
    text: &str,
    resolve: &mut dyn FnMut(&str) -> Resolved,
) -> Found {
    let mut problems = Problems { path, text, found: Vec::new() };
    let compiled = passes(stem, resolve, &mut problems);
    Found { compiled, diagnostics: problems.found }
}

fn passes(
    stem: Option<&str>,
    resolve: &mut dyn FnMut(&str) -> Resolved,
    problems: &mut Problems<'_>,
) -> Option<Compiled> {
    let (path, text) = (problems.path, problems.text);
    let allocator = Allocator::default();
    let kind = if path.ends_with(".js") { SourceType::mjs() } else { SourceType::ts() };
    let ParserReturn { mut program, module_record, diagnostics, panicked, .. } =
        Parser::new(&allocator, text, kind).parse();
    problems.syntax(diagnostics);
    if panicked || !problems.found.is_empty() {
        return None;
    }
    let dynamic = module_record.dynamic_imports.iter().map(|import| import.span);
    let required = program.body.iter().filter_map(|statement| match statement {
        Statement::TSImportEqualsDeclaration(import) => Some(import.span),
        _ => None,
    });
    for span in dynamic.chain(required) {
        let message = "a script imports at its top, with `import … from`";
        problems.add("build::script-import", span, message, "write `import … from './file.ts'`");
    }
    let (definition, mistakes) = stem.map_or((None, Vec::new()), |stem| defined(stem, &program));
    mistakes.into_iter().for_each(|mistake| problems.mistake(mistake));

    let semantic = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    problems.syntax(semantic.diagnostics);
    let scoping = semantic.semantic.into_scoping();
    foreign(&scoping, text, problems);
    let transformed = Transformer::new(&allocator, Path::new(path), &TransformOptions::default())
        .build_with_scoping(scoping, &mut program);
    problems.syntax(transformed.diagnostics);
    let imports = rewrite_imports(&mut program, &allocator, resolve, problems);
    let options = CodegenOptions { source_map_path: Some(path.into()), ..CodegenOptions::default() };
    let printed = Codegen::new().with_options(options).build(&program);
    let map = printed.map.map(|map| without_contents(&map.to_json_string()))?;
    Some(Compiled { code: printed.code, map, imports, defined: definition })
}

/// Replaces what modules are called by what they are: whoever runs the script needs no rules to find them.
fn rewrite_imports<'a>(
    program: &mut Program<'a>,
    allocator: &'a Allocator,
    resolve: &mut dyn FnMut(&str) -> Resolved,
    problems: &mut Problems<'_>,
) -> Vec<String> {
    let mut imports = Vec::new();
    for statement in &mut program.body {
        let source: &mut StringLiteral<'a> = match statement {
            Statement::ImportDeclaration(import) => &mut import.source,
            Statement::ExportAllDeclaration(export) => &mut export.source,
            Statement::ExportFromDeclaration(export) => &mut export.source,
            _ => continue,
        };
        let path = match resolve(&source.value) {
            Resolved::Runtime => "weir".to_owned(),
            Resolved::Module(path) => {
                imports.push(path.clone());
                path
            }
            Resolved::Refused(message, help) => {
                problems.add("build::script-import", source.span, message, help);
                continue;
            }
        };
        source.value = oxc::str::Str::from_str_in(path.as_str(), &allocator);
        source.raw = None;
    }
    imports
}

/// Warns of names that only exist elsewhere.
fn foreign(scoping: &oxc::semantic::Scoping, text: &str, problems: &mut Problems<'_>) {
    let mut names: Vec<&str> =
        scoping.root_unresolved_references().keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    for name in names.into_iter().filter(|name| FOREIGN.contains(name)) {
        // The place of the first use is good enough for a warning.
        let at = text.find(name).unwrap_or_default();
        let span = oxc::span::Span::sized(
            u32::try_from(at).unwrap_or_default(),
            u32::try_from(name.len()).unwrap_or_default(),
        );
        let message = format!("there is no `{name}` where scripts run");
        let help = "scripts have the language, `fetch` and `weir`; for more, write an MCP server".to_owned();
        problems.mistake(Mistake { code: "build::script-global", span, message, help, is_error: false });
    }
}

/// The map without the text it maps to, which is in the project.
fn without_contents(map: &str) -> String {
    let Ok(mut map) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(map) else {
        return map.to_owned();
    };
    map.remove("sourcesContent");
    map.remove("x_google_ignoreList");
    serde_json::Value::Object(map).to_string()
}

struct Problems<'t> {
    path: &'t str,
    text: &'t str,
    found: Vec<Diagnostic>,
}

impl Problems<'_> {
    fn add(
        &mut self,
        code: &'static str,
        at: oxc::span::Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let span = place::span(self.text, at.start as usize, at.end as usize);
        self.found.push(Diagnostic::error(code, self.path, span, message, help));
    }

    fn mistake(&mut self, mistake: Mistake) {
        let Mistake { code, span, message, help, is_error } = mistake;
        self.add(code, span, message, help);
        if !is_error && let Some(last) = self.found.pop() {
            self.found.push(last.warning());
        }
    }

    fn labelled(&self, label: &LabeledSpan) -> Span {
        let start = label.offset() as usize;
        place::span(self.text, start, start + label.len() as usize)
    }

    /// What the parser says, in its words but our form.
    fn syntax(&mut self, diagnostics: impl IntoIterator<Item = OxcDiagnostic>) {
        for diagnostic in diagnostics {
            // The last one is where it goes wrong; those before say why.
            let mut spans: Vec<Span> = diagnostic.labels.iter().map(|label| self.labelled(label)).collect();
            let span = spans.pop().unwrap_or(Span::START);
            let mut message = diagnostic.message.trim_end_matches('.').to_owned();
            if let Some(first) = message.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            let help = diagnostic.help.as_deref().unwrap_or("correct it here, or on the lines before");
            let problem = Diagnostic::error("build::script-syntax", self.path, span, message, help);
            let related = |problem: Diagnostic, span| problem.related(self.path, span, "together with this");
            self.found.push(spans.into_iter().fold(problem, related));
        }
    }
}

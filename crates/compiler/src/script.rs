//! Script tools: TypeScript of the project, checked, freed of its types and put together with what it imports.
//!
//! What a tool is called and which arguments it takes is read from the text of `defineTool({…})`, never by running it:
//! building a cloned project runs none of its code.

mod define;
mod literal;
mod module;

use std::collections::{BTreeMap, BTreeSet};

use weir_spec::manifest::{Module, ScriptTool};
use weir_spec::{Diagnostic, Span, check_secrets};
use weir_types::Json;

use self::define::Defined;
use self::module::Compiled;
use crate::tree::Tree;

/// Deepest nesting of brackets. What comes after recurses.
const DEPTH_MAX: usize = 200;

/// The largest file of TypeScript. A tool is a page or two.
const BYTES_MAX: usize = 512 * 1024;

/// Scripts are compiled on a thread with this much stack: what limits nesting of brackets does not limit `!!!!…`.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Most modules of one tool.
const MODULES_MAX: usize = 500;

/// The scripts of a project that can run.
#[derive(Default)]
pub(crate) struct Read {
    /// Tools, by their stems.
    pub(crate) tools: BTreeMap<String, ScriptTool>,
    /// Hooks, by what the project calls them.
    pub(crate) hooks: BTreeMap<String, ScriptTool>,
}

/// Compiles every script right in `tools/`, used or not, for a mistake in one that no agent lists yet is a mistake; and the
/// hooks. What is wrong is told, and what looks like a key.
pub(crate) fn read(tree: &mut Tree, hooks: &[String], problems: &mut Vec<Diagnostic>) -> Read {
    let entries: Vec<String> = tree.files().keys().filter(|path| stem(path).is_some()).cloned().collect();
    if entries.is_empty() && hooks.is_empty() {
        return Read::default();
    }
    let mut work = || {
        let mut scripts = Scripts::default();
        let mut read = Read::default();
        for entry in &entries {
            let tool = scripts.tool(entry, tree);
            read.tools.extend(tool.and_then(|tool| Some((stem(entry)?.to_owned(), tool))));
        }
        for hook in hooks {
            read.hooks.extend(scripts.hook(hook, tree).map(|script| (hook.clone(), script)));
        }
        for path in scripts.modules.keys() {
            let text = tree.files().get(path).and_then(|bytes| std::str::from_utf8(bytes).ok());
            problems.extend(text.into_iter().flat_map(|text| check_secrets(path, text)));
        }
        problems.extend(scripts.diagnostics);
        read
    };
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("scripts".to_owned()).stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, &mut work).ok()?;
        Some(running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Without room for such a stack, the usual one is enough for what people write.
    done.unwrap_or_else(work)
}

/// What the tool in a file is called, if there is one: `tools/<stem>.ts`, but no mere declaration of types.
fn stem(path: &str) -> Option<&str> {
    let stem = path.strip_prefix("tools/")?.strip_suffix(".ts")?;
    (!stem.contains('/') && !stem.ends_with(".d")).then_some(stem)
}

/// The scripts of a project, each module read once however many tools import it.
#[derive(Default)]
struct Scripts {
    modules: BTreeMap<String, Option<Compiled>>,
    diagnostics: Vec<Diagnostic>,
}

impl Scripts {
    /// The tool that `tools/<stem>.ts` defines; `None` when something is wrong with it, which is then told.
    fn tool(&mut self, entry: &str, tree: &mut Tree) -> Option<ScriptTool> {
        let modules = self.bundle(entry, tree);
        let Defined { name, description, parameters } = self.defined(entry)?;
        Some(ScriptTool { name, description, parameters, entry: entry.to_owned(), modules: modules? })
    }

    /// A script that runs around appends. It is nobody's tool, and takes what hooks take.
    fn hook(&mut self, name: &str, tree: &mut Tree) -> Option<ScriptTool> {
        let entry = join("weir.yaml", name)?;
        if !entry.ends_with(".ts") && !entry.ends_with(".js") {
            let message = format!("`{entry}` is no script that can be run here");
            let help = "write it in TypeScript or JavaScript, or start it as a program with `run`";
            self.diagnostics.push(Diagnostic::error(
                "build::script-text",
                &entry,
                Span::START,
                message,
                help,
            ));
            return None;
        }
        let modules = self.bundle(&entry, tree)?;
        let (name, description) = (name.to_owned(), String::new());
        Some(ScriptTool { name, description, parameters: Json::empty_object(), entry, modules })
    }

    /// A module with all that it imports.
    fn bundle(&mut self, entry: &str, tree: &mut Tree) -> Option<BTreeMap<String, Module>> {
        let mut paths = BTreeSet::from([entry.to_owned()]);
        let mut waiting = vec![entry.to_owned()];
        let mut whole = true;
        while let Some(path) = waiting.pop() {
            let Some(module) = self.module(&path, tree) else {
                whole = false;
                continue;
            };
            for import in &module.imports {
                if paths.len() < MODULES_MAX && paths.insert(import.clone()) {
                    waiting.push(import.clone());
                }
            }
        }
        if paths.len() >= MODULES_MAX {
            let message = format!("`{entry}` needs {MODULES_MAX} modules or more");
            let help = "a tool is a page or two; put services behind an MCP server";
            self.diagnostics.push(Diagnostic::error("build::script-size", entry, Span::START, message, help));
            return None;
        }
        let modules = paths.into_iter().filter_map(|path| {
            let Compiled { code, map, .. } = self.modules.get(&path)?.as_ref()?;
            Some((path, Module { code: code.clone(), map: Some(map.clone()) }))
        });
        whole.then(|| modules.collect())
    }

    fn defined(&self, entry: &str) -> Option<Defined> {
        self.modules.get(entry)?.as_ref()?.defined.clone()
    }

    fn module(&mut self, path: &str, tree: &mut Tree) -> Option<&Compiled> {
        if !self.modules.contains_key(path) {
            let compiled = self.compile(path, tree);
            self.modules.insert(path.to_owned(), compiled);
        }
        self.modules.get(path)?.as_ref()
    }

    fn compile(&mut self, path: &str, tree: &mut Tree) -> Option<Compiled> {
        let bytes = tree.load(path)?.to_owned();
        let text = match readable(path, &bytes) {
            Ok(text) => text,
            Err(problem) => {
                self.diagnostics.push(*problem);
                return None;
            }
        };
        let found = module::compile(path, stem(path), text, &mut |specifier| resolve(path, specifier, tree));
        let failed = found.diagnostics.iter().any(Diagnostic::is_error);
        self.diagnostics.extend(found.diagnostics);
        found.compiled.filter(|_| !failed)
    }
}

/// Text that a recursive parser can be trusted with.
fn readable<'b>(path: &str, bytes: &'b [u8]) -> Result<&'b str, Box<Diagnostic>> {
    let refuse = |span, message: String, help: &str| {
        Err(Box::new(Diagnostic::error("build::script-text", path, span, message, help)))
    };
    if bytes.len() > BYTES_MAX {
        let message = format!("the script has more than {BYTES_MAX} bytes");
        return refuse(Span::START, message, "keep data out of scripts");
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let span = crate::place::span(valid, valid.len(), valid.len());
            return refuse(span, "the script is not UTF-8 text".to_owned(), "save the file as UTF-8");
        }
    };
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            let span = crate::place::span(text, at, at + 1);
            return refuse(span, "brackets are nested too deep".to_owned(), "split the expression up");
        }
    }
    Ok(text)
}

/// What an import stands for.
enum Resolved {
    /// The runtime's own module.
    Runtime,
    /// A module of the project.
    Module(String),
    /// Nothing; the message and the help.
    Refused(String, String),
}

/// The names under which a script finds `defineTool`.
const RUNTIME: [&str; 2] = ["weir", "@lush-agents/runtime"];

fn resolve(from: &str, specifier: &str, tree: &mut Tree) -> Resolved {
    if RUNTIME.contains(&specifier) {
        return Resolved::Runtime;
    }
    if !specifier.starts_with("./") && !specifier.starts_with("../") {
        let message = format!("`{specifier}` cannot be imported: a script has no packages");
        let help =
            "import `weir`, or a file of the project such as `./lib.ts`; for packages, write an MCP server";
        return Resolved::Refused(message, help.to_owned());
    }
    let Some(path) = join(from, specifier) else {
        let message = format!("`{specifier}` is outside of the project");
        return Resolved::Refused(message, "copy the file into the project".to_owned());
    };
    // As TypeScript has it: a name without its ending, or with the ending it will have after compilation.
    let stem = path.strip_suffix(".js").unwrap_or(&path);
    let candidates = [path.clone(), format!("{stem}.ts"), format!("{path}.js"), format!("{path}/index.ts")];
    let scripts =
        candidates.iter().filter(|candidate| candidate.ends_with(".ts") || candidate.ends_with(".js"));
    for candidate in scripts {
        if tree.load(candidate).is_some() {
            return Resolved::Module(candidate.clone());
        }
    }
    if tree.root().join(&path).is_file() {
        let message = format!("`{specifier}` is no script");
        let help = "import `.ts` or `.js`; data can be in one, as `export default { … }`";
        return Resolved::Refused(message, help.to_owned());
    }
    let message = format!("there is no module `{specifier}`");
    Resolved::Refused(
        message,
        format!("create `{stem}.ts`, or correct the path", stem = stem.trim_end_matches(".ts")),
    )
}

/// A path relative to a file, unless it leaves the project.
fn join(from: &str, specifier: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part if part.contains(['\\', '\0']) => return None,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests;

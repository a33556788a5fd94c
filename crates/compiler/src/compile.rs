//! The passes, in order. Each goes on with what the ones before could find, so that one run tells everything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_spec::manifest::ScriptTool;
use weir_spec::{
    Diagnostic, HookAction, Lock, Manifest, Reading, SkillRef, Sources, Span, check_secrets, sort,
};
use weir_types::{Catalog, Hash};

use crate::approve::Approve;
use crate::assemble::{Found, assemble};
use crate::script::{STACK_BYTES, Scripts};
use crate::skill::Package;
use crate::tree::Tree;
use crate::{lock, secrets, servers, skills};

/// What a build may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Looks only: nothing is started or fetched, nothing is meant to be written.
    Check,
    /// Nothing is started or fetched; weir.lock says what is elsewhere.
    Offline,
    /// Servers are asked and skills fetched, and held against weir.lock.
    Online,
}

/// How to build.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the build may do.
    pub mode: Mode,
    /// Whether what is found elsewhere now is accepted, whatever weir.lock says.
    pub update_lock: bool,
    /// How long each server has; by default as long as its kind needs.
    pub timeout: Option<Duration>,
    /// Where this user's approvals are kept; without it every command is asked about each time.
    pub approvals: Option<PathBuf>,
    /// The variables from which `env:NAME` is looked up. Servers see only those that the project declares for them.
    pub environment: BTreeMap<String, String>,
}

impl Options {
    /// As strict as can be: nothing but looking.
    pub fn check() -> Self {
        let (mode, environment) = (Mode::Check, BTreeMap::new());
        Self { mode, update_lock: false, timeout: None, approvals: None, environment }
    }
}

/// What a build is doing, for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A server is asked for its tools.
    Asking {
        /// Its address.
        server: &'e str,
    },
    /// It has answered, or it never will.
    Answered {
        /// Its address.
        server: &'e str,
        /// How many tools it has; `None` when it failed.
        tools: Option<usize>,
    },
    /// A skill is fetched.
    Fetching {
        /// As agents list it.
        skill: &'e str,
    },
}

/// Somebody who is told what a build is doing.
pub trait Progress: Send + Sync {
    /// Something begins or has ended. Called from several tasks; must not block.
    fn on(&self, event: Event<'_>);
}

/// Nobody wants to know.
impl Progress for () {
    fn on(&self, _event: Event<'_>) {}
}

/// What a build came to.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Every problem of every file, by file and place.
    pub diagnostics: Vec<Diagnostic>,
    /// The content of files that problems point at, to show their lines. See [`weir_spec::mask`] before showing any.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the files say, as far as they could be read.
    pub sources: Sources,
    /// The manifest, if there is no error.
    pub built: Option<Built>,
    /// The new text of weir.lock, if there is no error and it has to change.
    pub lock: Option<String>,
    /// Skills that were fetched, to be kept.
    pub(crate) fetched: Vec<Package>,
}

/// A manifest, its one spelling and what identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The manifest.
    pub manifest: Manifest,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The hash of them.
    pub hash: Hash,
}

/// Builds the project in a directory. Nothing is written: see [`crate::save`].
///
/// # Cancel safety
/// Servers that were started are killed.
pub async fn compile(
    directory: &Path,
    catalog: &Catalog,
    options: &Options,
    approve: &dyn Approve,
    progress: &dyn Progress,
) -> Compiled {
    let (directory, catalog, mode) = (directory.to_owned(), catalog.clone(), options.mode);
    let update = mode == Mode::Online && options.update_lock;
    let local = blocking(move || read(&directory, &catalog, update)).await;
    let root = local.tree.root();
    let (answers, told) = match mode {
        Mode::Online => servers::ask(&local.servers, root, options, approve, progress).await,
        Mode::Check | Mode::Offline => (servers::Answers::new(), Vec::new()),
    };
    let fetched = skills::fetch(&local.skills.wanted, options, progress).await;
    let elsewhere = Elsewhere { answers, told, fetched };
    blocking(move || finish(local, elsewhere, mode, update)).await
}

/// Runs what reads files or computes away from the threads that must not wait.
async fn blocking<T: Send + Default + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            // A bug of ours is not to look like an empty project.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => T::default(),
        },
    }
}

/// What the disk has.
#[derive(Default)]
struct Local {
    tree: Tree,
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    lock: lock::Known,
    scripts: BTreeMap<String, ScriptTool>,
    skills: skills::Local,
    servers: Vec<servers::Wanted>,
}

/// What is elsewhere.
struct Elsewhere {
    answers: servers::Answers,
    told: Vec<Diagnostic>,
    fetched: skills::Fetched,
}

fn read(directory: &Path, catalog: &Catalog, update: bool) -> Local {
    let mut tree = Tree::read(directory);
    let Reading { sources, mut diagnostics } = read_language(&mut tree, catalog);
    let lock = match tree.files().get(lock::FILE) {
        // Whoever accepts everything anew need not mend the old one first.
        Some(bytes) if !update => {
            let (lock, problems) = lock::Known::read(bytes);
            diagnostics.extend(problems);
            lock
        }
        _ => lock::Known::default(),
    };
    let scripts = read_scripts(&mut tree, &mut diagnostics);
    let skills = skills::read(&sources, &mut tree, &mut diagnostics);
    let servers = servers::wanted(&sources);
    diagnostics.extend(tree.take_diagnostics());
    Local { tree, sources, diagnostics, lock, scripts, skills, servers }
}

/// Reads the files of the language. Some name others that may be anywhere in the project; with those it is read again.
fn read_language(tree: &mut Tree, catalog: &Catalog) -> Reading {
    let reading = weir_spec::read(tree.files(), catalog);
    let skills = reading.sources.agents.values().flat_map(|agent| &agent.spec.skills);
    let skills = skills.filter_map(|skill| match &skill.source {
        SkillRef::Local(path) => Some(format!("{path}/{}", crate::skill::FILE)),
        SkillRef::Registry { .. } => None,
    });
    let hooks = &reading.sources.project.hooks;
    let hooks = hooks.pre_append.iter().chain(&hooks.post_append).filter_map(|hook| match &hook.action {
        HookAction::Script(path) => Some(path.trim_start_matches("./").to_owned()),
        HookAction::Run(_) => None,
    });
    let unread = skills.chain(hooks).filter(|path| !tree.files().contains_key(path));
    let unread: Vec<String> = unread.collect();
    let found = unread.into_iter().filter(|path| tree.load(path).is_some()).count();
    if found > 0 { weir_spec::read(tree.files(), catalog) } else { reading }
}

/// Compiles every script in `tools/`, used or not: a mistake in one that no agent lists yet is a mistake.
fn read_scripts(tree: &mut Tree, diagnostics: &mut Vec<Diagnostic>) -> BTreeMap<String, ScriptTool> {
    let is_tool = |path: &&String| {
        path.starts_with("tools/") && path.ends_with(".ts") && path.matches('/').count() == 1
    };
    let entries: Vec<String> =
        tree.files().keys().filter(is_tool).filter(|path| !path.ends_with(".d.ts")).cloned().collect();
    if entries.is_empty() {
        return BTreeMap::new();
    }
    let mut work = || {
        let mut scripts = Scripts::default();
        let mut tools = BTreeMap::new();
        for entry in &entries {
            let stem = entry.trim_start_matches("tools/").trim_end_matches(".ts").to_owned();
            tools.extend(scripts.tool(entry, tree).map(|tool| (stem, tool)));
        }
        let (paths, problems) = scripts.into_problems();
        for path in paths {
            let text = tree.files().get(&path).and_then(|bytes| std::str::from_utf8(bytes).ok());
            diagnostics.extend(text.into_iter().flat_map(|text| check_secrets(&path, text)));
        }
        diagnostics.extend(problems);
        tools
    };
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("scripts".to_owned()).stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, &mut work).ok()?;
        Some(running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Without room for such a stack, the usual one is enough for what people write.
    done.unwrap_or_else(work)
}

fn finish(local: Local, elsewhere: Elsewhere, mode: Mode, update: bool) -> Compiled {
    let Local { tree, sources, mut diagnostics, lock, scripts, skills, servers: wanted } = local;
    let Elsewhere { answers, told, fetched } = elsewhere;
    let mut pinned = BTreeMap::new();
    for server in &wanted {
        let answer = answers.get(&server.address).map(Vec::as_slice);
        // A server that was asked in vain was told about; its pins would only hide that.
        if mode == Mode::Online && answer.is_none() {
            continue;
        }
        let pins = servers::pin(server, &lock, answer, update, &mut diagnostics);
        pinned.extend(pins.map(|offered| (server.address.clone(), offered)));
    }
    diagnostics.extend(told);
    let mut places = skills.places;
    places.extend(wanted.iter().map(|server| (server.address.clone(), (server.file.clone(), server.span))));
    let mut found = Found {
        servers: Found::servers(wanted, pinned),
        scripts,
        skills: skills.skills,
        skill_names: skills.names,
    };
    let mut packages = BTreeMap::new();
    for skill in &skills.wanted {
        let check = skills::Check { lock: &lock, fetched: &fetched, root: tree.root(), mode, update };
        if let Some((package, checked)) = check.run(skill, &mut diagnostics) {
            found.skills.insert(skill.name.clone(), checked);
            packages.insert(skill.name.clone(), package);
        }
    }
    diagnostics.extend(fetched.problems);

    let manifest = assemble(&sources, &found, tree.files(), &mut diagnostics);
    diagnostics.extend(secrets::check(&manifest, &packages, &places));
    let new_lock = Lock {
        skills: packages.iter().map(|(name, package)| (name.clone(), package.digest())).collect(),
        mcp: found.servers.into_iter().map(|(address, (_, offered))| (address, offered.pins)).collect(),
    };
    let mut compiled = Compiled {
        diagnostics,
        files: tree.into_files(),
        sources,
        built: None,
        lock: None,
        fetched: packages.into_values().collect(),
    };
    if !compiled.diagnostics.iter().any(Diagnostic::is_error) {
        conclude(&mut compiled, manifest, &new_lock, mode);
    }
    sort(&mut compiled.diagnostics);
    compiled.diagnostics.dedup();
    compiled
}

/// Nothing is wrong: the manifest and the lock get their one spelling.
fn conclude(compiled: &mut Compiled, manifest: Manifest, lock: &Lock, mode: Mode) {
    let bytes = manifest.to_bytes().map_err(|error| error.to_string());
    let text = lock.to_text().map_err(|error| error.to_string());
    match (bytes, text) {
        (Ok(bytes), Ok(text)) => {
            compiled.built = Some(Built { hash: Hash::of(&bytes), manifest, bytes });
            let known = compiled.files.get(lock::FILE);
            // Whoever has asked nobody has nothing to add, and no reason to take anything away.
            let is_needed = mode == Mode::Online && (known.is_some() || *lock != Lock::default());
            let is_new = known.is_none_or(|known| known != text.as_bytes());
            compiled.lock = Some(text).filter(|_| is_needed && is_new);
        }
        (Err(why), _) | (_, Err(why)) => compiled.diagnostics.push(too_deep(&why)),
    }
}

fn too_deep(why: &str) -> Diagnostic {
    let help = "leave tools with such schemas out with `only`";
    Diagnostic::error(
        "build::too-deep",
        "weir.yaml",
        Span::START,
        format!("the manifest cannot be written: {why}"),
        help,
    )
}

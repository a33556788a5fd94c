//! The passes, in order. Each goes on with what the ones before could find, so that one run tells everything.

use std::collections::BTreeMap;
use std::path::Path;

use weir_spec::manifest::ManifestError;
use weir_spec::{Diagnostic, HookAction, Lock, Manifest, McpServer, Reading, SkillRef, Sources, Span, sort};
use weir_types::{Catalog, Hash};

use crate::approve::Approve;
use crate::assemble::{Found, assemble};
use crate::skill::Package;
use crate::tree::Tree;
use crate::{Mode, Options, Progress, lock, policy, script, secrets, servers, skills};

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
        Mode::Online => {
            let (answers, mut told) = servers::ask(&local.servers, root, options, approve, progress).await;
            told.extend(servers::approve_hooks(&local.sources, root, options, approve).await);
            (answers, told)
        }
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
    scripts: script::Read,
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
    let scripts = script::read(&mut tree, &hooks(&sources), &mut diagnostics);
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
    let hooks = hooks(&reading.sources).into_iter().map(|path| path.trim_start_matches("./").to_owned());
    let unread = skills.chain(hooks).filter(|path| !tree.files().contains_key(path));
    let unread: Vec<String> = unread.collect();
    let found = unread.into_iter().filter(|path| tree.load(path).is_some()).count();
    if found > 0 { weir_spec::read(tree.files(), catalog) } else { reading }
}

/// The scripts that run around appends, as the project names them.
fn hooks(sources: &Sources) -> Vec<String> {
    let hooks = &sources.project.hooks;
    let scripts = hooks.pre_append.iter().chain(&hooks.post_append).filter_map(|hook| match &hook.action {
        HookAction::Script(path) => Some(path.clone()),
        HookAction::Run(_) => None,
    });
    scripts.collect()
}

/// Holds what is elsewhere against what is pinned, and puts everything together.
fn finish(local: Local, elsewhere: Elsewhere, mode: Mode, update: bool) -> Compiled {
    let Local { tree, sources, mut diagnostics, lock, scripts, skills, servers } = local;
    let Elsewhere { answers, told, fetched } = elsewhere;
    let mut places = skills.places;
    places.extend(servers.iter().map(|server| (server.address.clone(), (server.file.clone(), server.span))));
    let servers = pin_servers(servers, &lock, answers, mode, update, &mut diagnostics);
    diagnostics.extend(told);
    let mut found = Found { servers, scripts, skills: skills.skills, skill_names: skills.names };
    let mut packages = BTreeMap::new();
    let check = skills::Check { lock: &lock, fetched: &fetched, root: tree.root(), mode, update };
    for skill in &skills.wanted {
        if let Some((package, checked)) = check.run(skill, &mut diagnostics) {
            found.skills.insert(skill.name.clone(), checked);
            packages.insert(skill.name.clone(), package);
        }
    }
    diagnostics.extend(fetched.problems);

    let mut manifest = assemble(&sources, &found, tree.files(), &mut diagnostics);
    manifest.policy = policy::compile(&manifest, &sources, &mut diagnostics);
    diagnostics.extend(secrets::check(&manifest, &packages, &places));
    let lock = Lock {
        skills: packages.iter().map(|(name, package)| (name.clone(), package.digest())).collect(),
        mcp: found.servers.into_iter().map(|(address, (_, offered))| (address, offered.pins)).collect(),
    };
    let (files, fetched) = (tree.into_files(), packages.into_values().collect());
    let mut compiled = Compiled { diagnostics, files, sources, built: None, lock: None, fetched };
    if !compiled.diagnostics.iter().any(Diagnostic::is_error) {
        conclude(&mut compiled, &manifest, &lock, mode);
    }
    sort(&mut compiled.diagnostics);
    compiled.diagnostics.dedup();
    compiled
}

/// The servers whose tools are known, by address.
fn pin_servers(
    wanted: Vec<servers::Wanted>,
    lock: &lock::Known,
    mut answers: servers::Answers,
    mode: Mode,
    update: bool,
    problems: &mut Vec<Diagnostic>,
) -> BTreeMap<String, (McpServer, servers::Offered)> {
    let mut pinned = BTreeMap::new();
    for server in wanted {
        let answer = answers.remove(&server.address);
        // A server that was asked in vain was told about; its pins would only hide that.
        if mode == Mode::Online && answer.is_none() {
            continue;
        }
        if let Some(offered) = servers::pin(&server, lock, answer.as_deref(), update, problems) {
            pinned.insert(server.address, (server.server, offered));
        }
    }
    pinned
}

/// Nothing is wrong: the manifest and the lock get their one spelling.
fn conclude(compiled: &mut Compiled, manifest: &Manifest, lock: &Lock, mode: Mode) {
    let spelled = spell(manifest).map_err(|error| error.to_string());
    let text = lock.to_text().map_err(|error| error.to_string());
    match (spelled, text) {
        (Ok((manifest, bytes)), Ok(text)) => {
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

/// Whoever runs a build at once runs what its bytes say, down to the order of keys that a model is shown.
fn spell(manifest: &Manifest) -> Result<(Manifest, Vec<u8>), ManifestError> {
    let bytes = manifest.to_bytes()?;
    Ok((Manifest::from_bytes(&bytes)?, bytes))
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

//! The skills of all agents: which ones they need, where they are, and whether they are still what was pinned.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use weir_spec::{Diagnostic, SkillRef, Sources, Span, check_secrets, manifest};
use weir_types::Hash;

use crate::skill::{self, Package, Registry, RegistryError};
use crate::tree::Tree;
use crate::{Event, Mode, Options, Progress, difference, lock, save};

/// How long a registry has for one skill.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Skills that are fetched at once.
const FETCHED_AT_ONCE: usize = 4;

/// A skill of a registry that some agent lists.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// As agents list it.
    pub(crate) name: String,
    registry: Result<Registry, RegistryError>,
    /// `namespace/name/version`.
    path: String,
    pub(crate) file: String,
    pub(crate) span: Span,
}

/// What was found in the project itself.
#[derive(Default)]
pub(crate) struct Local {
    /// Skills by their names in the manifest.
    pub(crate) skills: BTreeMap<String, manifest::Skill>,
    /// The names in the manifest of the skills of agents, by agent and by how it lists them.
    pub(crate) names: BTreeMap<(String, String), String>,
    /// Where the first agent lists each.
    pub(crate) places: BTreeMap<String, (String, Span)>,
    /// Skills that are elsewhere.
    pub(crate) wanted: Vec<Wanted>,
}

/// Reads the skills of the project, and says which others agents need.
pub(crate) fn read(sources: &Sources, tree: &mut Tree, problems: &mut Vec<Diagnostic>) -> Local {
    let mut local = Local::default();
    let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
    for (agent, source) in &sources.agents {
        for listed in &source.spec.skills {
            let name = match &listed.source {
                SkillRef::Local(path) => path.clone(),
                SkillRef::Registry { .. } => listed.name.value.clone(),
            };
            local.names.insert((agent.clone(), listed.name.value.clone()), name.clone());
            if local.places.contains_key(&name) {
                continue;
            }
            let place = (source.spec.file.clone(), listed.name.span);
            local.places.insert(name.clone(), place.clone());
            match &listed.source {
                SkillRef::Local(path) => {
                    let read = read_local(path, &place, tree, problems);
                    local.skills.extend(read.map(|skill| (name, skill)));
                }
                SkillRef::Registry { registry, path, version } => {
                    let base = sources.project.registries.get(registry).map(|base| base.value.as_str());
                    let registry = Registry::of(registry, base, tree.root());
                    let path = format!("{path}/{version}");
                    let (file, span) = place;
                    wanted.insert(&listed.name.value, Wanted { name, registry, path, file, span });
                }
            }
        }
    }
    local.wanted = wanted.into_values().collect();
    local
}

fn read_local(
    path: &str,
    (file, span): &(String, Span),
    tree: &mut Tree,
    problems: &mut Vec<Diagnostic>,
) -> Option<manifest::Skill> {
    let skill_file = format!("{path}/{}", skill::FILE);
    // That it is not there was told by the spec.
    tree.load(&skill_file)?;
    let package = match Package::of_directory(&tree.root().join(path)) {
        Ok(package) => package,
        Err(why) => {
            let message = format!("the skill in `{path}` cannot be used: {why}");
            let help = "keep in its directory only what belongs to it";
            problems.push(Diagnostic::error("build::skill-files", file, *span, message, help));
            return None;
        }
    };
    for (name, bytes) in &package.files {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        problems.extend(check_secrets(&format!("{path}/{name}"), text));
    }
    match skill::read(&skill_file, &package) {
        Ok((skill, warnings)) => {
            problems.extend(warnings);
            Some(skill)
        }
        Err(found) => {
            problems.extend(found);
            None
        }
    }
}

/// What became of the skills that are elsewhere.
#[derive(Default)]
pub(crate) struct Fetched {
    pub(crate) packages: BTreeMap<String, Package>,
    pub(crate) problems: Vec<Diagnostic>,
}

/// Fetches the skills that are elsewhere. Without the network, those that are in a directory; the others are taken from
/// what was kept, later.
pub(crate) async fn fetch<'a>(
    wanted: &'a [Wanted],
    options: &Options,
    progress: &'a dyn Progress,
) -> Fetched {
    let mut fetched = Fetched::default();
    let timeout = options.timeout.unwrap_or(TIMEOUT);
    let mut ready = Vec::new();
    for wanted in wanted {
        match &wanted.registry {
            Ok(registry) if registry.is_local() || options.mode == Mode::Online => {
                ready.push((wanted, registry));
            }
            Ok(_) => {}
            Err(error) => fetched.problems.push(refused(wanted, error)),
        }
    }
    let fetch_one = |(wanted, registry): (&'a Wanted, &'a Registry)| {
        async move {
            progress.on(Event::Fetching { skill: &wanted.name });
            (wanted, registry.fetch(&wanted.path, timeout).await)
        }
        .boxed()
    };
    let fetching: Vec<_> = ready.into_iter().map(fetch_one).collect();
    let mut fetching = futures_util::stream::iter(fetching).buffer_unordered(FETCHED_AT_ONCE);
    while let Some((wanted, result)) = fetching.next().await {
        match result {
            Ok(package) => {
                fetched.packages.insert(wanted.name.clone(), package);
            }
            Err(error) => fetched.problems.push(refused(wanted, &error)),
        }
    }
    fetched
}

fn refused(wanted: &Wanted, error: &RegistryError) -> Diagnostic {
    let message = format!("the skill `{}` cannot be had: {error}", wanted.name);
    let help = match error {
        RegistryError::Missing { .. } => {
            "check its name and version; `registries` in weir.yaml says where registries are"
        }
        RegistryError::Unreachable { .. } => {
            "check `registries` in weir.yaml and the network; `weir build --offline` uses what was kept"
        }
        RegistryError::Refused { .. } => "tell whoever keeps the registry",
    };
    Diagnostic::error("build::no-skill", &wanted.file, wanted.span, message, help)
}

/// What a skill is held against.
pub(crate) struct Check<'c> {
    pub(crate) lock: &'c lock::Known,
    pub(crate) fetched: &'c Fetched,
    pub(crate) root: &'c Path,
    pub(crate) mode: Mode,
    pub(crate) update: bool,
}

impl Check<'_> {
    /// The skill, if it is what was pinned; `None` when there is a problem, which is told. Blocks: what was kept is read.
    pub(crate) fn run(
        &self,
        wanted: &Wanted,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<(Package, manifest::Skill)> {
        let Self { lock: known, fetched, root, mode, update } = *self;
        if known.is_broken
            || fetched.problems.iter().any(|told| (&told.file, told.span) == (&wanted.file, wanted.span))
        {
            return None;
        }
        let refuse = |code, message: String, help: &str| {
            Diagnostic::error(code, &wanted.file, wanted.span, message, help)
        };
        let pin = known.lock.skills.get(&wanted.name).copied().filter(|_| !update);
        if pin.is_none() && mode != Mode::Online {
            let message = format!("`{}` is not pinned in weir.lock", wanted.name);
            let help = "run `weir build` once without `--offline`: it fetches the skill and pins it";
            problems.push(refuse("build::not-pinned", message, help));
            return None;
        }
        let package = match (fetched.packages.get(&wanted.name), pin) {
            (Some(package), _) => package.clone(),
            (None, Some(pin)) => match kept(root, pin) {
                Some(package) => package,
                None => {
                    let message = format!("`{}` is pinned, but was never fetched here", wanted.name);
                    problems.push(refuse(
                        "build::not-fetched",
                        message,
                        "run `weir build` once without `--offline`",
                    ));
                    return None;
                }
            },
            (None, None) => return None,
        };
        let digest = package.digest();
        if let Some(pin) = pin.filter(|pin| *pin != digest) {
            let span = known.places.skills.get(&wanted.name).copied().unwrap_or_default();
            problems.push(drift(wanted, span, kept(root, pin).as_ref(), &package));
            return None;
        }
        match skill::read(&format!("{}/{}", name_of(wanted), skill::FILE), &package) {
            Ok((skill, _)) => Some((package, skill)),
            Err(found) => {
                let why = found.first().map(|problem| problem.message.clone()).unwrap_or_default();
                let message = format!("what the registry has as `{}` is no skill: {why}", wanted.name);
                problems.push(refuse("build::no-skill", message, "tell its author"));
                None
            }
        }
    }
}

/// `namespace/name` without a version: what its directory would be called.
fn name_of(wanted: &Wanted) -> &str {
    wanted.path.rsplit_once('/').map_or(&wanted.path, |(name, _)| name)
}

/// A skill as it was when it was pinned, if it was kept and nobody changed it since.
fn kept(root: &Path, pin: Hash) -> Option<Package> {
    let package = Package::of_directory(&root.join(save::SKILLS).join(pin.to_string())).ok()?;
    (package.digest() == pin).then_some(package)
}

fn drift(wanted: &Wanted, span: Span, before: Option<&Package>, now: &Package) -> Diagnostic {
    let message = format!("the skill `{}` is not what weir.lock pins", wanted.name);
    let help = "if you accept the change, run `weir lock --update`";
    let problem = Diagnostic::error("build::drift", &wanted.file, wanted.span, message, help);
    let Some(before) = before else {
        let words = format!("pinned here; it is now sha256:{}", now.digest());
        return problem.related(lock::FILE, span, words);
    };
    let mut differences = Vec::new();
    for path in before.files.keys().filter(|path| !now.files.contains_key(*path)) {
        differences.push(format!("`{path}` is gone"));
    }
    for (path, bytes) in &now.files {
        match before.files.get(path) {
            None => differences.push(format!("`{path}` is new")),
            Some(old) if old == bytes => {}
            Some(old) => match (std::str::from_utf8(old), std::str::from_utf8(bytes)) {
                (Ok(old), Ok(new)) => {
                    let changes = difference::of_texts(old, new);
                    differences.extend(changes.into_iter().map(|change| format!("`{path}`: {change}")));
                }
                _ => differences.push(format!("`{path}` has other bytes")),
            },
        }
    }
    differences.into_iter().fold(problem, |problem, words| problem.related(lock::FILE, span, words))
}

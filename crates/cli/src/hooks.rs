//! Who is asked before `weir append` writes: the hooks of the build that the data directory serves, and those of the project
//! that the command is run for. Where it is run from makes no difference.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_engine::{Deployments, Hooks, ProjectHooks};
use weir_journal_sqlite::SqliteJournal;
use weir_spec::manifest::Source;
use weir_spec::{HookAction, Manifest};

use crate::agents::{AgentError, may_have_hooks, refuse_later};
use crate::builds;
use crate::project;
use crate::report::Outcome;
use crate::store::blocking;
use crate::workbench::{ToolArgs, Workbench};

/// A build, and where its project is, as far as that is known.
struct Sourced {
    manifest: Manifest,
    directory: Option<PathBuf>,
}

/// The hooks to ask, in order. The same hooks are asked once.
///
/// # Errors
/// When a build or project cannot be read, or has hooks that cannot be asked from here.
pub(crate) async fn before_append(
    directory: &Path,
    data_dir: &Path,
    journal: Option<&SqliteJournal>,
) -> Outcome<Vec<Arc<dyn Hooks>>> {
    let home = home_of(data_dir).filter(|home| has_project(home));
    let given = has_project(directory).then(|| directory.to_owned());
    let mut sources: Vec<Sourced> = Vec::new();
    if let Some(manifest) = served(data_dir, journal, home.is_some()).await? {
        sources.push(Sourced { manifest, directory: home.clone().or_else(|| given.clone()) });
    }
    // The project that is named is read as it is now, and so is the one that the data directory belongs to.
    let mut projects: Vec<PathBuf> = given.into_iter().chain(home).collect();
    projects.dedup_by(|one, other| is_same(one, other));
    for project in projects {
        if may_have_hooks(&project::within(&project, "weir.yaml")).await {
            let manifest = project::build(&project).await.map_err(project::failure)?.manifest;
            sources.push(Sourced { manifest, directory: Some(project) });
        }
    }
    let mut hooks: Vec<Arc<dyn Hooks>> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        refuse_later(&source.manifest)?;
        let is_known = sources[..index].iter().any(|known| asks_the_same(&known.manifest, &source.manifest));
        if !is_known {
            hooks.extend(of(source, directory, data_dir)?);
        }
    }
    Ok(hooks)
}

fn of(source: &Sourced, given: &Path, data_dir: &Path) -> Result<Option<Arc<dyn Hooks>>, AgentError> {
    let runs = |action: &HookAction| matches!(action, HookAction::Run(_));
    // A program is approved for a project's directory, and started there.
    if source.directory.is_none() && source.manifest.hooks.pre_append.iter().any(|hook| runs(&hook.action)) {
        return Err(AgentError::NoHooks(given.to_owned()));
    }
    let directory = source.directory.as_deref().unwrap_or(given);
    let bench = Workbench::new(&ToolArgs::default(), directory, data_dir);
    Ok(ProjectHooks::of(&source.manifest, bench.hook_means()))
}

/// The build that new sessions begin with; the newest one, where nothing is deployed and the project is elsewhere.
async fn served(
    data_dir: &Path,
    journal: Option<&SqliteJournal>,
    is_at_home: bool,
) -> Outcome<Option<Manifest>> {
    if let Some(journal) = journal
        && let Some(current) = Deployments::read(journal).await?.current()
    {
        return Ok(Some(builds::find(data_dir, &current.to_string()).await?.manifest));
    }
    let data_directory = data_dir.to_owned();
    if is_at_home || blocking(move || weir_compiler::latest(&data_directory)).await?.is_err() {
        return Ok(None);
    }
    Ok(Some(builds::find(data_dir, "latest").await?.manifest))
}

/// The directory that a data directory is in.
fn home_of(data_dir: &Path) -> Option<PathBuf> {
    std::path::absolute(data_dir).ok()?.parent().map(Path::to_owned)
}

fn has_project(directory: &Path) -> bool {
    project::within(directory, "weir.yaml").exists()
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Whether two builds ask the same hooks, word for word.
fn asks_the_same(one: &Manifest, other: &Manifest) -> bool {
    let script =
        |manifest: &Manifest, path: &String| -> Option<Source> { manifest.sources.get(path).cloned() };
    let same_script = |action: &HookAction| match action {
        HookAction::Run(_) => true,
        HookAction::Script(path) => script(one, path) == script(other, path),
    };
    one.hooks.pre_append == other.hooks.pre_append
        && one.hooks.pre_append.iter().all(|hook| same_script(&hook.action))
}

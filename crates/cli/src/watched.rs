//! The files of a project: their fingerprints, and a watch that says when something may have changed.
//!
//! The system's notifications say quickly that it is worth looking; the fingerprints say what changed. A look every few seconds
//! catches what is not notified: files behind links, network file systems, and systems without room for more watches.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How often a project is looked at without a notification.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Directories with files of the language; the rest of a project changes nothing about its agents.
const DIRECTORIES: [&str; 8] =
    ["agents", "loops", "models", "policies", "projections", "skills", "tests", "tools"];

/// Deepest directory, as in a build.
const DEPTH_MAX: usize = 12;

/// Most files that are looked at, as in a build.
const FILES_MAX: usize = 100_000;

/// The fingerprints of a project's files at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprints(BTreeMap<String, Fingerprint>);

/// What changes when a file does: an editor may replace it, a tool may write it within the same second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    modified: (i64, i64),
    bytes: u64,
    inode: u64,
}

impl Fingerprints {
    /// Fingerprints at a project. What cannot be looked at is not there. Blocks.
    pub(crate) fn of(project: &Path) -> Self {
        let mut looks = Self::default();
        for (name, path) in entries(project) {
            if path.is_dir() {
                if DIRECTORIES.contains(&name.as_str()) {
                    looks.walk(&path, &name, 1);
                }
            } else if name.starts_with("weir.") {
                looks.add(&path, name);
            }
        }
        looks
    }

    fn walk(&mut self, directory: &Path, name: &str, depth: usize) {
        for (entry, path) in entries(directory) {
            if depth > DEPTH_MAX || self.0.len() >= FILES_MAX {
                return;
            }
            let name = format!("{name}/{entry}");
            if path.is_dir() {
                self.walk(&path, &name, depth + 1);
            } else {
                self.add(&path, name);
            }
        }
    }

    fn add(&mut self, path: &Path, name: String) {
        let Ok(metadata) = path.metadata() else { return };
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        self.0.insert(name, Fingerprint { modified, bytes: metadata.len(), inode: metadata.ino() });
    }

    /// The files that are there now and were not, that look different, or that are gone.
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<String> {
        let differs = |name: &&String| self.0.get(*name) != before.0.get(*name);
        let mut names: Vec<String> = self.0.keys().filter(differs).cloned().collect();
        names.extend(before.0.keys().filter(|name| !self.0.contains_key(*name)).cloned());
        names.sort_unstable();
        names
    }
}

/// Says when a project may have changed.
pub(crate) struct ProjectWatch {
    project: PathBuf,
    /// None, if the system notifies nobody: too many watches, or a file system that cannot.
    watcher: Option<RecommendedWatcher>,
    /// The directories that are watched with everything in them.
    watched: Vec<PathBuf>,
    changed: Arc<Notify>,
}

impl ProjectWatch {
    /// Watches a project. Blocks.
    pub(crate) fn new(project: PathBuf) -> Self {
        let changed = Arc::new(Notify::new());
        let wake = Arc::clone(&changed);
        // The fingerprints tell what an event means. An overflow wakes, too.
        let watcher = watcher(&project, move |event| {
            if !event.is_ok_and(|event| event.kind.is_access()) {
                wake.notify_one();
            }
        });
        let mut watch = Self { project, watcher, watched: Vec::new(), changed };
        watch.refresh();
        watch
    }

    /// Watches directories that are new, and forgets those that are gone. Blocks.
    pub(crate) fn refresh(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        self.watched.retain(|directory| directory.is_dir());
        for directory in DIRECTORIES.map(|name| self.project.join(name)) {
            if directory.is_dir()
                && !self.watched.contains(&directory)
                && watcher.watch(&directory, RecursiveMode::Recursive).is_ok()
            {
                self.watched.push(directory);
            }
        }
    }

    /// Waits until something may have changed.
    ///
    /// # Cancel safety
    /// A notification that comes while nobody waits is kept.
    pub(crate) async fn wait(&self) {
        let _ = tokio::time::timeout(LOOK_EVERY, self.changed.notified()).await;
    }
}

/// Watches a directory without those in it.
fn watcher(
    directory: &Path,
    tell: impl Fn(notify::Result<Event>) + Send + 'static,
) -> Option<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(tell).ok()?;
    watcher.watch(directory, RecursiveMode::NonRecursive).is_ok().then_some(watcher)
}

/// What is in a directory, without what is hidden and what editors leave lying about.
fn entries(directory: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let listed = std::fs::read_dir(directory).into_iter().flatten().flatten();
    listed.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let left_over = name.starts_with(['.', '#']) || name.ends_with(['~', '#']) || name.ends_with(".swp");
        (!left_over).then(|| (name, entry.path()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_and_named() {
        let project = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = project.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for name in ["weir.yaml", "agents/a/spec.yaml", "tools/t.ts"] {
            write(name, "one");
        }
        let first = Fingerprints::of(project.path());
        assert_eq!(Fingerprints::of(project.path()).changed_since(&first), [""; 0]);
        // The same length within the same moment; a new one; one that is gone; and what is none of ours.
        let replacing = project.path().join("tools/.new");
        std::fs::write(&replacing, "two").unwrap();
        std::fs::rename(&replacing, project.path().join("tools/t.ts")).unwrap();
        write("models/m.yaml", "one");
        std::fs::remove_file(project.path().join("agents/a/spec.yaml")).unwrap();
        for name in
            ["README.md", "src/main.rs", "agents/a/.spec.yaml.swp", "agents/a/spec.yaml~", ".weir/journal.db"]
        {
            write(name, "noise");
        }
        let changed = Fingerprints::of(project.path()).changed_since(&first);
        assert_eq!(changed, ["agents/a/spec.yaml", "models/m.yaml", "tools/t.ts"]);
    }

    #[test]
    fn everything_that_a_build_reads_is_looked_at() {
        let project = tempfile::tempdir().unwrap();
        let files = [
            "weir.yaml",
            "weir.lock",
            "agents/a/SOUL.md",
            "loops/l.yaml",
            "models/m.yaml",
            "policies/p.cedar",
            "skills/s/SKILL.md",
            "tests/t.yaml",
            "tools/lib/deep.ts",
        ];
        for name in files {
            let before = Fingerprints::of(project.path());
            let path = project.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "one").unwrap();
            assert_eq!(Fingerprints::of(project.path()).changed_since(&before), [name]);
        }
    }

    #[tokio::test]
    async fn a_change_is_notified_also_in_a_directory_that_is_new() {
        let project = tempfile::tempdir().unwrap();
        let (told, mut events) = tokio::sync::mpsc::unbounded_channel();
        let watcher = watcher(project.path(), move |event| told.send(event.unwrap()).unwrap_or_default());
        let (project_dir, changed) = (project.path().to_owned(), Arc::new(Notify::new()));
        let mut watch = ProjectWatch { project: project_dir, watcher, watched: Vec::new(), changed };
        for name in ["weir.yaml", "tools", "tools/t.ts", "tools/lib", "tools/lib/deep.ts"] {
            let path = project.path().join(name);
            match path.extension() {
                Some(_) => std::fs::write(&path, "one").unwrap(),
                None => std::fs::create_dir(&path).unwrap(),
            }
            while !events.recv().await.unwrap().paths.contains(&path) {}
            watch.refresh();
        }
    }
}

//! The files of a project, as far as can be seen without reading them, and what has become of them since.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Directories with files of the language; the rest of a project changes nothing about its agents.
const DIRECTORIES: [&str; 8] =
    ["agents", "loops", "models", "policies", "projections", "skills", "tests", "tools"];

/// Deepest directory, as in a build.
const DEPTH_MAX: usize = 12;

/// Most files that are looked at, as in a build.
const FILES_MAX: usize = 100_000;

/// How the files of a project looked at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks(BTreeMap<String, Look>);

/// What changes when a file does: an editor may replace it, a tool may write it within the same second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    modified: (i64, i64),
    bytes: u64,
    inode: u64,
}

impl Looks {
    /// Looks at a project. What cannot be looked at is not there. Blocks.
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
        self.0.insert(name, Look { modified, bytes: metadata.len(), inode: metadata.ino() });
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

/// What is in a directory, without what is hidden and what editors leave lying about.
fn entries(directory: &Path) -> impl Iterator<Item = (String, std::path::PathBuf)> {
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
        let first = Looks::of(project.path());
        assert_eq!(Looks::of(project.path()).changed_since(&first), [""; 0]);
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
        let changed = Looks::of(project.path()).changed_since(&first);
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
            let before = Looks::of(project.path());
            let path = project.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "one").unwrap();
            assert_eq!(Looks::of(project.path()).changed_since(&before), [name]);
        }
    }
}

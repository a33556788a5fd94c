//! Where a command works: which project it uses, and where its data is.
//!
//! The project is the one that `--project` or `WEIR_PROJECT` names; else the current directory, if it is a project; else
//! the nearest directory above it that has a `weir.yaml`. The search ends at the home directory and where another file
//! system begins, and a project of another user is not used. The data is in `.weir` of that project, or of the current
//! directory where there is no project.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that makes a directory a project.
pub(crate) const PROJECT_FILE: &str = "weir.yaml";

/// The data directory of a project, or of a directory without one.
pub(crate) const DATA: &str = ".weir";

/// Where a command was started.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The current directory.
    pub(crate) here: PathBuf,
    /// The user's home, which the search does not leave.
    pub(crate) home: Option<PathBuf>,
    /// The user.
    pub(crate) user: u32,
}

/// How a project was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A flag or a variable names it.
    Named,
    /// It is the current directory, or there is none.
    Here,
    /// It is a directory above the current one.
    Above,
}

/// What the search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovery {
    /// The project as a path from the current directory.
    pub(crate) directory: PathBuf,
    pub(crate) found: Found,
    /// A project on the way up that belongs to another user.
    pub(crate) foreign: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        Self {
            here: std::env::current_dir().unwrap_or_default(),
            home: std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
            user: rustix::process::geteuid().as_raw(),
        }
    }

    /// Looks for a project from the current directory upwards.
    pub(crate) fn discover(&self) -> Discovery {
        let nothing = |foreign| Discovery { directory: PathBuf::from("."), found: Found::Here, foreign };
        if is_project(&self.here) {
            return nothing(None);
        }
        let device = |place: &Path| std::fs::metadata(place).ok().map(|metadata| metadata.dev());
        let border = device(&self.here);
        let (mut place, mut way) = (self.here.as_path(), PathBuf::new());
        loop {
            if self.home.as_deref() == Some(place) {
                return nothing(None);
            }
            let Some(parent) = place.parent() else { return nothing(None) };
            (place, way) = (parent, way.join(".."));
            if device(place) != border {
                return nothing(None);
            }
            let Ok(file) = std::fs::metadata(place.join(PROJECT_FILE)) else { continue };
            if !file.is_file() {
                continue;
            }
            // Who may write above us must not decide what we run, as in git.
            if file.uid() != self.user && file.uid() != 0 {
                return nothing(Some(place.to_owned()));
            }
            return Discovery { directory: way, found: Found::Above, foreign: None };
        }
    }
}

/// Whether a directory is a project: it has a `weir.yaml`, or an agent.
fn is_project(directory: &Path) -> bool {
    directory.join(PROJECT_FILE).is_file() || !crate::project::agents(directory).is_empty()
}

/// Whether there is anything in a directory that could be meant as a project.
pub(crate) fn has_project(directory: &Path) -> bool {
    directory.join(PROJECT_FILE).is_file() || directory.join("agents").is_dir()
}

/// The data directory: the one that was named, else that of the project.
pub(crate) fn data_dir(named: Option<PathBuf>, project: &Path) -> PathBuf {
    named.unwrap_or_else(|| crate::project::within(project, DATA))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the files, looks from a directory below, and compares the way to the project.
    fn check(files: &[&str], here: &str, home: Option<&str>, expected: (&str, Found)) {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(here)).unwrap();
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let user = rustix::process::geteuid().as_raw();
        let home = Some(root.join(home.unwrap_or("")));
        let found = Surroundings { here: root.join(here), home, user }.discover();
        assert_eq!((found.directory.to_str().unwrap(), found.found), expected, "{files:?} from {here}");
    }

    #[test]
    fn the_nearest_project_above_is_used() {
        check(&["weir.yaml"], "", None, (".", Found::Here));
        check(&["p/weir.yaml"], "p", None, (".", Found::Here));
        check(&["p/weir.yaml"], "p/agents", None, ("..", Found::Above));
        check(&["p/weir.yaml"], "p/agents/helper/deep", None, ("../../..", Found::Above));
        check(&["p/weir.yaml", "p/q/weir.yaml"], "p/q/r", None, ("..", Found::Above));
        // Without a weir.yaml, a directory with an agent is a project for those who stand in it.
        check(&["p/weir.yaml", "p/q/agents/a/spec.yaml"], "p/q", None, (".", Found::Here));
        check(&["q/agents/a/spec.yaml"], "q/agents/a", None, (".", Found::Here));
        check(&[], "a/b", None, (".", Found::Here));
        // A directory of that name is no project.
        check(&["p/weir.yaml/x"], "p/q", None, (".", Found::Here));
    }

    #[test]
    fn the_search_does_not_leave_home() {
        check(&["weir.yaml"], "home/ada/work", Some("home/ada"), (".", Found::Here));
        check(&["home/ada/weir.yaml"], "home/ada/work", Some("home/ada"), ("..", Found::Above));
        check(&["weir.yaml"], "home/ada", Some("home/ada"), (".", Found::Here));
        // Who works elsewhere is not bound by it.
        check(&["srv/weir.yaml"], "srv/work", Some("home/ada"), ("..", Found::Above));
    }

    #[test]
    fn a_project_of_another_user_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("mine")).unwrap();
        std::fs::write(root.join(PROJECT_FILE), "").unwrap();
        let owner = std::fs::metadata(root.join(PROJECT_FILE)).unwrap().uid();
        let found = Surroundings { here: root.join("mine"), home: None, user: owner + 1 }.discover();
        let foreign = (owner != 0).then(|| root.clone());
        assert_eq!(found.foreign, foreign, "root may hand out projects");
    }

    #[test]
    fn the_data_is_beside_the_project() {
        let check = |named: Option<&str>, project: &str, expected: &str| {
            assert_eq!(data_dir(named.map(PathBuf::from), Path::new(project)), Path::new(expected));
        };
        check(None, ".", ".weir");
        check(None, "../..", "../../.weir");
        check(None, "my-agents", "my-agents/.weir");
        check(Some("data"), "my-agents", "data");
    }
}

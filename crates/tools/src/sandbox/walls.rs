//! What a confined program may reach.

use std::path::PathBuf;

use super::plan::Plan;

/// What a confined program may reach. Everything else is closed to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Walls {
    /// The directories that it may write, if files are confined; without them, it has all files of its user.
    pub(super) files: Option<Files>,
    /// Whether it may use IPv4 and IPv6. Other families of sockets are closed to everything that is confined.
    pub(super) network: bool,
}

/// The files of a program whose files are confined.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    pub(super) writable: Vec<PathBuf>,
    /// The one of them that is found at `/dev/shm`.
    pub(super) shared: PathBuf,
    /// What may be read beside the system's programs.
    pub(super) readable: Vec<PathBuf>,
    /// What may not be read, should it be below something that is readable.
    pub(super) hidden: Vec<PathBuf>,
    /// A program's own code, which may be read even if what holds it is hidden. What is hidden *in* it stays so.
    pub(super) own: Vec<PathBuf>,
    /// Directories whose names may be listed, with those of everything in them.
    pub(super) listed: Vec<PathBuf>,
}

impl Walls {
    /// Those of a command: four directories to write, and no network.
    pub(super) fn of_command(plan: &Plan) -> Self {
        let paths = |texts: &[String]| texts.iter().map(PathBuf::from).collect();
        let files = Files {
            writable: [&plan.files, &plan.home, &plan.temporary, &plan.shared].map(PathBuf::from).into(),
            shared: PathBuf::from(&plan.shared),
            readable: paths(&plan.readable),
            hidden: paths(&plan.hidden),
            ..Files::default()
        };
        Self { files: Some(files), network: false }
    }
}

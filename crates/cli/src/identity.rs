//! Who asks. The system says who runs this process, not the environment: a name that anyone can set proves nothing. Whoever
//! owns the data directory is its admin, and may try to be somebody else.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, geteuid};
use weir_engine::provision;
use weir_spec::Principal;
use weir_types::{Explain, Fault};

use crate::project::{self, within};
use crate::report::Outcome;

/// The group whose members hold every role and grant.
pub(crate) const ADMINS: &str = "group:admin";

/// `user:<os user>`, or the number of a user that has no name.
pub(crate) fn principal() -> String {
    named(geteuid())
}

fn named(uid: Uid) -> String {
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| format!("user:{uid}"), |user| format!("user:{}", user.name))
}

/// Who holds every role and grant over a data directory: its owner, and the group of that name.
pub(crate) fn admins(data_dir: &Path) -> Vec<String> {
    vec![if owns(data_dir) { principal() } else { named(owner(data_dir)) }, ADMINS.to_owned()]
}

/// Whether the data directory is of whoever runs this process. One that is not there yet will be.
fn owns(data_dir: &Path) -> bool {
    is_owner(geteuid(), owner(data_dir))
}

fn owner(data_dir: &Path) -> Uid {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(data_dir).map_or_else(|_| geteuid(), |metadata| Uid::from_raw(metadata.uid()))
}

/// Nothing is kept from root in any case, and in a container it often works on somebody's files.
fn is_owner(me: Uid, owner: Uid) -> bool {
    me == owner || me.is_root()
}

/// Who asks, for one command.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Whoever runs this process.
    real: String,
    /// Who it tries to be.
    tried: Option<String>,
    data_dir: PathBuf,
}

/// Why someone cannot be somebody else.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// Not the owner.
    #[error("`{real}` may not act as `{tried}`: the data directory is `{owner}`'s")]
    NotAdmin {
        /// Who asks.
        real: String,
        /// Who it tries to be.
        tried: String,
        /// Who may.
        owner: String,
    },
    /// A group is nobody.
    #[error("`{0}` is a group, and nobody is one")]
    Group(Principal),
    /// The command does not ask who asks.
    #[error("`--as` means nothing here: this command works on the journal itself")]
    Meaningless,
}

impl Explain for IdentityError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotAdmin { .. } => "cli::not-admin",
            Self::Group(_) => "cli::as",
            Self::Meaningless => "cli::as-meaningless",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotAdmin { .. } => {
                "leave `--as` out, or use a data directory of your own with `--data-dir DIR`"
            }
            Self::Group(_) => "name one of its members: `--as user:NAME` or `--as serviceaccount:NAME`",
            Self::Meaningless => "leave it out; `weir whoami --help` says where it means something",
        }
        .into()
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotAdmin { .. } => Fault::Denied,
            Self::Group(_) | Self::Meaningless => Fault::Input,
        }
    }
}

/// Which sessions someone sees. Those of others do not exist, as far as they can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// All.
    Everything,
    /// Those that act on behalf of this one.
    Only(String),
}

impl Identity {
    /// Whoever runs this process, or whom it tries to be.
    pub(crate) fn new(tried: Option<&Principal>, data_dir: &Path) -> Result<Self, IdentityError> {
        let real = principal();
        if let Some(group @ Principal::Group(_)) = tried {
            return Err(IdentityError::Group(group.clone()));
        }
        let tried = tried.map(ToString::to_string);
        if let (Some(tried), false) = (&tried, owns(data_dir)) {
            let owner = named(owner(data_dir));
            return Err(IdentityError::NotAdmin { real, tried: tried.clone(), owner });
        }
        Ok(Self { real, tried, data_dir: data_dir.to_owned() })
    }

    /// Whoever runs this process: what is written down as who did something.
    pub(crate) fn real(&self) -> &str {
        &self.real
    }

    /// On whose behalf things are done.
    pub(crate) fn principal(&self) -> &str {
        self.tried.as_deref().unwrap_or(&self.real)
    }

    /// Who holds every role and grant over its data directory.
    pub(crate) fn admins(&self) -> Vec<String> {
        admins(&self.data_dir)
    }

    /// Whether it is tried to be somebody else.
    pub(crate) fn is_tried(&self) -> bool {
        self.tried.is_some()
    }

    /// Whether it is the owner of the data directory who asks, as such.
    pub(crate) fn is_owner(&self) -> bool {
        owns(&self.data_dir) && self.principal() == self.real
    }

    /// Which sessions it sees. What the project says about groups counts, where there is a project.
    pub(crate) async fn sees(&self, directory: &Path) -> Outcome<Sees> {
        if self.is_owner() {
            return Ok(Sees::Everything);
        }
        let only = Sees::Only(self.principal().to_owned());
        if !within(directory, "weir.yaml").exists() {
            return Ok(only);
        }
        let built = project::build(directory).await.map_err(project::failure)?;
        let gate = provision::gate(&built.manifest, admins(&self.data_dir));
        Ok(if gate.is_admin(self.principal().into()) { Sees::Everything } else { only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_has_one_owner() {
        let (me, other, root) = (Uid::from_raw(1000), Uid::from_raw(1001), Uid::from_raw(0));
        assert!(is_owner(me, me) && is_owner(root, me));
        assert!(!is_owner(other, me) && !is_owner(me, root));
    }
}

//! Who runs this process. The system says so, not the environment: a name that anyone can set proves nothing.

use nix::unistd::{User, geteuid};

/// `user:<os user>`, or the number of a user that has no name.
pub(crate) fn principal() -> String {
    let uid = geteuid();
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| format!("user:{uid}"), |user| format!("user:{}", user.name))
}

//! What this user may not read. Root may read everything, so a thread gives that up first, which only Linux can do.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Runs `look` as a user that owns nothing, on a thread of its own: only that thread changes.
fn as_nobody<T: Send>(look: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            nix::unistd::setfsgid(nix::unistd::Gid::from_raw(65534));
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            look()
        });
        looking.join().unwrap()
    })
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_it() {
    for (unreadable, expected) in [("d/file", "d/file"), ("d", "d")] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(directory.path().join("d")).unwrap();
        fs::write(directory.path().join("d/file"), "secret").unwrap();
        fs::set_permissions(directory.path().join(unreadable), Permissions::from_mode(0o000)).unwrap();

        let mut base = Files::new();
        let entry = crate::Entry { hash: Hash::of(b"public"), size: 6, mode: crate::Mode::Regular };
        base.apply(&crate::Change::Written { path: "d/file".parse().unwrap(), entry });
        let root = Directory::open(directory.path()).unwrap();
        let error =
            as_nobody(|| Survey::take((&root, directory.path()), &base, &Scan::default())).unwrap_err();
        let ChangesError::Unreadable { path, source } = error else { panic!("{error:?}") };
        assert_eq!((path.as_str(), source.kind()), (expected, io::ErrorKind::PermissionDenied));
    }
}

//! What the tests share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path as Place;

use weir_blobs::Blobs;
use weir_types::Hash;
use weir_workspace::{Change, ChangesError, Entry, Files, Found, Mode, Scan, changes_in};

pub(crate) fn entry(content: &str) -> Entry {
    Entry { hash: Hash::of(content.as_bytes()), size: content.len() as u64, mode: Mode::Regular }
}

pub(crate) fn written(path: &str, content: &str) -> Change {
    Change::Written { path: path.parse().unwrap(), entry: entry(content) }
}

pub(crate) fn deleted(path: &str) -> Change {
    Change::Deleted { path: path.parse().unwrap() }
}

/// Writes a file and the directories it is in.
pub(crate) fn write(directory: &Place, path: &str, content: &str) {
    let place = directory.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, content).unwrap();
}

pub(crate) fn set_mode(place: &Place, bits: u32) {
    fs::set_permissions(place, Permissions::from_mode(bits)).unwrap();
}

pub(crate) fn apply(files: &Files, changes: &[Change]) -> Files {
    let mut files = files.clone();
    changes.iter().for_each(|change| files.apply(change));
    files
}

/// All of `directory`, compared with `base`.
pub(crate) async fn look(directory: &Place, base: &Files, blobs: &dyn Blobs) -> Result<Found, ChangesError> {
    changes_in(directory, base, &Scan::default(), blobs).await
}

/// The files of a directory, stored.
pub(crate) async fn import(directory: &Place, blobs: &dyn Blobs) -> Files {
    let found = look(directory, &Files::new(), blobs).await.unwrap();
    apply(&Files::new(), &found.changes)
}

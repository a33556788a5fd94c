//! Whatever a program does to a checkout, the changes say it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path as Place;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::tempdir;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_types::Hash;
use weir_workspace::{Entry, Files, Mode, checkout};

use crate::support::{apply, import, look, set_mode};

/// One thing a program does.
#[derive(Clone, Debug)]
enum Act {
    Write(String, String),
    Remove(String),
    /// Makes one of the files that are there a program, or no program.
    Run(Index, bool),
}

/// Few names and short contents, so that acts meet.
fn acts() -> impl Strategy<Value = Vec<Act>> {
    let part = prop::sample::select(vec!["a", "b", "a-", ".h"]);
    let path = || vec(part.clone(), 1..4).prop_map(|parts| parts.join("/"));
    let act = prop_oneof![
        3 => (path(), "[xy]{0,2}").prop_map(|(path, content)| Act::Write(path, content)),
        1 => path().prop_map(Act::Remove),
        1 => any::<(Index, bool)>().prop_map(|(file, run)| Act::Run(file, run)),
    ];
    vec(act, 0..12)
}

fn perform(directory: &Place, acts: &[Act]) {
    for act in acts {
        match act {
            Act::Write(path, content) => {
                let place = directory.join(path);
                for above in place.ancestors().skip(1).filter(|above| above.is_file()) {
                    fs::remove_file(above).unwrap();
                }
                if place.is_dir() {
                    fs::remove_dir_all(&place).unwrap();
                }
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, content).unwrap();
            }
            Act::Remove(path) if directory.join(path).is_dir() => {
                fs::remove_dir_all(directory.join(path)).unwrap();
            }
            Act::Remove(path) => drop(fs::remove_file(directory.join(path))),
            Act::Run(file, run) => {
                let files = on_disk(directory);
                if !files.is_empty() {
                    let path = file.get(&files.keys().collect::<Vec<_>>()).as_str();
                    set_mode(&directory.join(path), if *run { 0o750 } else { 0o600 });
                }
            }
        }
    }
}

/// What is on the disk, read another way.
fn on_disk(directory: &Place) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(place) = waiting.pop() {
        if place.is_dir() {
            waiting.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let content = fs::read(&place).unwrap();
        let run = fs::metadata(&place).unwrap().permissions().mode() & 0o100 != 0;
        let mode = if run { Mode::Executable } else { Mode::Regular };
        let path = place.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
        found.insert(path, Entry { hash: Hash::of(&content), size: content.len() as u64, mode });
    }
    found
}

fn listed(files: &Files) -> BTreeMap<String, Entry> {
    files.iter().map(|(path, entry)| (path.to_string(), *entry)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_checkout_and_what_is_done_to_it_come_back(before in acts(), after in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let place = tempdir().unwrap();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        fs::create_dir(&source).unwrap();
        let blobs = MemoryBlobs::new();

        perform(&source, &before);
        let files = runtime.block_on(import(&source, &blobs));
        prop_assert_eq!(listed(&files), on_disk(&source));

        runtime.block_on(checkout(&files, &target, &blobs)).unwrap();
        prop_assert_eq!(on_disk(&target), on_disk(&source));
        prop_assert_eq!(runtime.block_on(look(&target, &files, &blobs)).unwrap().changes, []);

        perform(&target, &after);
        let found = runtime.block_on(look(&target, &files, &blobs)).unwrap();
        let files = apply(&files, &found.changes);
        prop_assert_eq!(listed(&files), on_disk(&target));
        for (_, entry) in files.iter() {
            let content = runtime.block_on((&blobs as &dyn Blobs).get_bytes(entry.hash, 2)).unwrap();
            prop_assert_eq!(content.len() as u64, entry.size);
        }
    }
}

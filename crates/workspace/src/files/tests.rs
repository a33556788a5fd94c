//! What wins when two files cannot both be there, and where a directory begins and ends.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn path(path: &str) -> Path {
    path.parse().unwrap()
}

fn entry(content: &str) -> Entry {
    Entry { hash: Hash::of(content.as_bytes()), size: content.len() as u64, mode: Mode::Regular }
}

fn written(at: &str, content: &str) -> Change {
    Change::Written { path: path(at), entry: entry(content) }
}

fn deleted(at: &str) -> Change {
    Change::Deleted { path: path(at) }
}

fn fold(changes: &[Change]) -> Files {
    let mut files = Files::new();
    changes.iter().for_each(|change| files.apply(change));
    files
}

fn check(changes: &[Change], expected: &[&str]) {
    let files = fold(changes);
    assert_eq!(files.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected, "{changes:?}");
}

#[test]
fn the_newest_content_is_there() {
    let files = fold(&[written("a", "1"), written("b", "2"), written("a", "33"), deleted("b")]);
    assert_eq!(files.iter().collect::<Vec<_>>(), [(&path("a"), &entry("33"))]);
    assert_eq!((files.get("a"), files.get("b"), files.len()), (Some(&entry("33")), None, 1));
}

#[test]
fn the_newer_of_a_file_and_a_directory_wins() {
    check(&[written("a", ""), written("a/b/c", "")], &["a/b/c"]);
    check(&[written("a/b", ""), written("a/b/c", "")], &["a/b/c"]);
    let around = [written("a", ""), written("a-b", ""), written("a0", ""), written("b", "")];
    check(
        &[&around[1..], &[written("a/b", ""), written("a/c/d", "")], &around[..1]].concat(),
        &["a", "a-b", "a0", "b"],
    );
}

#[test]
fn deleting_what_is_no_file_changes_nothing() {
    check(&[written("a/b", ""), deleted("a"), deleted("c"), deleted("a/b/c")], &["a/b"]);
}

#[test]
fn a_directory_has_what_is_below_it() {
    let files = fold(&["a-b", "a/b", "a/c/d", "a0", "aa/b"].map(|path| written(path, "")));
    let under = |directory| files.under(directory).map(|(path, _)| path.as_str()).collect::<Vec<_>>();
    assert_eq!(under("a"), ["a/b", "a/c/d"]);
    assert_eq!(under("a/c"), ["a/c/d"]);
    assert_eq!(under("a/b"), [""; 0]);
    assert_eq!(under(""), ["a-b", "a/b", "a/c/d", "a0", "aa/b"]);
}

#[test]
fn a_difference_names_what_ends_first() {
    let (from, to) = (
        fold(&[written("a", "1"), written("b/c", ""), written("z", "")]),
        [written("a", "2"), written("b", "")],
    );
    let expected = [deleted("b/c"), deleted("z"), written("a", "2"), written("b", "")];
    assert_eq!(diff(&from, &fold(&to)), expected);
}

#[test]
fn every_number_is_a_mode() {
    let modes = [0, 0o644, 0o100_644, 0o666, 0o011, 0o100, 0o755, 0o100_755, u32::MAX].map(Mode::from_bits);
    assert_eq!(modes, [[Mode::Regular; 5].as_slice(), &[Mode::Executable; 4]].concat()[..]);
    assert_eq!([Mode::Regular, Mode::Executable].map(Mode::bits), [0o644, 0o755]);
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let part = prop::sample::select(vec!["a", "b", "a-"]);
    let path = vec(part, 1..4).prop_map(|parts| path(&parts.join("/")));
    let mode = prop::sample::select(vec![Mode::Regular, Mode::Executable]);
    let change = (path, 0..6_u8, mode).prop_map(|(path, content, mode)| match content {
        0 => Change::Deleted { path },
        _ => Change::Written { path, entry: Entry { mode, ..entry(&content.to_string()) } },
    });
    vec(change, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fold_of_a_difference_is_the_target(from in changes(), to in changes()) {
        let (mut from, to) = (fold(&from), fold(&to));
        let difference = diff(&from, &to);
        difference.iter().for_each(|change| from.apply(change));
        prop_assert_eq!(&from, &to);
        prop_assert_eq!(diff(&from, &to), []);
    }

    #[test]
    fn no_path_is_a_file_and_a_directory(changes in changes()) {
        let files = fold(&changes);
        for (path, _) in files.iter() {
            prop_assert_eq!(files.under(path.as_str()).count(), 0);
        }
    }
}

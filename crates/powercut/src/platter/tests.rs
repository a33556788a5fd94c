use std::collections::BTreeSet;

use super::*;

/// All that a power cut may leave of `a` and `b`, over many seeds; a file that is not there is `-`.
fn leftovers(platter: &Platter) -> BTreeSet<[String; 2]> {
    let images = (0..2000).map(|seed| platter.image(Loss::Random { seed }));
    images.map(|image| ["a", "b"].map(|name| describe(&image, name))).collect()
}

fn describe(image: &Image, name: &str) -> String {
    image.files().find(|(file, _)| *file == name).map_or("-".to_owned(), |(_, content)| runs(content))
}

/// Contents in short: the distinct bytes of each sector.
fn runs(content: &[u8]) -> String {
    let sector = |sector: &[u8]| {
        let mut bytes = sector.to_vec();
        bytes.dedup();
        String::from_utf8(bytes).unwrap().replace('\0', "0")
    };
    content.chunks(SECTOR).map(sector).collect::<Vec<_>>().join(" ")
}

fn set<const N: usize>(pairs: [[&str; 2]; N]) -> BTreeSet<[String; 2]> {
    pairs.into_iter().map(|pair| pair.map(str::to_owned)).collect()
}

fn platter_with(name: &str, content: &[u8]) -> (Platter, FileId) {
    let mut platter = Platter::default();
    let id = platter.create(Some(name));
    platter.write(id, 0, content);
    platter.sync(id);
    (platter, id)
}

#[test]
fn a_synced_file_is_the_same_after_every_cut() {
    let (platter, _) = platter_with("a", b"x");
    assert_eq!(leftovers(&platter), set([["x", "-"]]));
    assert_eq!(describe(&platter.image(Loss::Everything), "a"), "x");
}

#[test]
fn sectors_of_a_write_are_kept_or_lost_one_by_one() {
    let (mut platter, id) = platter_with("a", &[b'x'; 2 * SECTOR]);
    platter.write(id, SECTOR / 2, &[b'y'; SECTOR]);
    assert_eq!(
        leftovers(&platter),
        set([["x x", "-"], ["xy x", "-"], ["x yx", "-"], ["xy yx", "-"]]),
        "a write of one sector's length over the middle of two"
    );
}

#[test]
fn a_file_may_have_grown_without_its_data() {
    let (mut platter, id) = platter_with("a", &[b'x'; SECTOR]);
    platter.write(id, SECTOR, &[b'y'; 2 * SECTOR]);
    let expected = ["x", "x y", "x 0 y", "x y y", "x 0 0", "x y 0"];
    assert_eq!(leftovers(&platter), set(expected.map(|content| [content, "-"])));
}

#[test]
fn a_truncation_is_kept_or_lost() {
    let (mut platter, id) = platter_with("a", &[b'x'; 2 * SECTOR]);
    platter.truncate(id, SECTOR);
    assert_eq!(leftovers(&platter), set([["x", "-"], ["x x", "-"]]));
    platter.sync(id);
    assert_eq!(leftovers(&platter), set([["x", "-"]]));
}

#[test]
fn a_name_may_stand_for_any_file_it_had_since_the_directory_was_synced() {
    let (mut platter, _) = platter_with("a", b"x");
    platter.delete("a", Directory::Pending);
    let second = platter.create(Some("a"));
    assert_eq!(leftovers(&platter), set([["x", "-"], ["-", "-"], ["", "-"]]));

    platter.sync(second);
    assert_eq!(leftovers(&platter), set([["", "-"]]));
    platter.delete("a", Directory::Synced);
    assert_eq!(leftovers(&platter), set([["-", "-"]]));
}

#[test]
fn the_first_sync_of_a_new_file_settles_every_name_but_no_other_contents() {
    let (mut platter, a) = platter_with("a", b"x");
    let gone = platter.create(Some("gone"));
    platter.sync(gone);
    platter.delete("gone", Directory::Pending);
    platter.write(a, 0, b"y");
    let b = platter.create(Some("b"));
    platter.sync(b);
    assert_eq!(leftovers(&platter), set([["x", ""], ["y", ""]]));
    assert_eq!(describe(&platter.image(Loss::Random { seed: 1 }), "gone"), "-");
    assert_eq!(platter.names.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_deleted_file_is_readable_while_open_and_freed_afterwards() {
    let (mut platter, id) = platter_with("a", b"x");
    platter.open(id);
    platter.delete("a", Directory::Synced);
    assert_eq!(platter.content(id), b"x");
    assert_eq!(platter.find("a"), None);
    platter.close(id);
    assert!(platter.files.is_empty());
}

#[test]
fn a_disk_from_an_image_does_not_change_the_image() {
    let (platter, _) = platter_with("a", b"x");
    let image = platter.image(Loss::Everything);
    let mut restarted = Platter::from_image(&image);
    let id = restarted.find("a").unwrap();
    restarted.write(id, 0, b"y");
    restarted.sync(id);
    assert_eq!(describe(&image, "a"), "x");
    assert_eq!(describe(&restarted.image(Loss::Everything), "a"), "y");
}

use proptest::prelude::*;

use super::*;
use crate::render::fit::fit;
use crate::render::piece::{Piece, tokens_of};

fn shown(content: &[Block], share_tokens: u64) -> Vec<Block> {
    fit(content, share_tokens).into_iter().map(Piece::into_block).collect()
}

fn image() -> Block {
    View::Image { media_type: "image/png".into(), source: Source::Base64("A".into()) }.into()
}

#[test]
fn what_fits_is_shown_whole() {
    let content = vec![words("abcd"), image(), words("efgh")];
    let tokens = tokens::of_blocks(&content);
    assert_eq!(shown(&content, tokens), content);
    assert_ne!(shown(&content, tokens - 1), content);
}

#[test]
fn a_text_that_is_cut_keeps_its_ends_and_names_the_whole() {
    let text = format!("{}{}", "b".repeat(1_000), "e".repeat(1_000));
    let note = format!(
        "\n[… cut: this is the beginning and the end of 2000 characters; the whole has SHA-256 {} …]\n",
        Hash::of(text.as_bytes())
    );
    let [block] = shown(&[words(&text)], 104).try_into().unwrap();
    // A hundred tokens without what every block costs, less the note; three parts of the rest from the beginning.
    let room = 400 - note.chars().count();
    let (head, tail) = (room - room / 4, room / 4);
    assert_eq!(block, words(&format!("{}{note}{}", "b".repeat(head), "e".repeat(tail))));
    assert_eq!(tokens::of_blocks(&[block]), 104);
}

#[test]
fn a_share_that_is_too_small_for_the_note_gets_a_hint() {
    let text = "x".repeat(1_000);
    assert_eq!(shown(&[words(&text)], 14), [words(&format!("{}[… cut …]", "x".repeat(31)))]);
    assert_eq!(shown(&[words(&text)], 0), [words("[… cut …]")]);
}

#[test]
fn several_texts_are_cut_as_one() {
    let [block] = shown(&[words(&"a".repeat(500)), words(&"b".repeat(500))], 60).try_into().unwrap();
    let text = text_of(&[block]);
    assert!(
        text.starts_with("aaa") && text.ends_with("bbb") && text.contains("of 1000 characters"),
        "{text}"
    );
}

#[test]
fn attachments_stay_as_long_as_there_is_room() {
    let content = vec![words("what is this? "), image(), image(), image()];
    let of_one = tokens::of_blocks(&[image()]);
    let note = |count: usize| words(&format!("[… attachments left out for want of room: {count} …]"));
    assert_eq!(shown(&content, 2 * of_one + 60), [image(), image(), words("what is this? "), note(1)]);
    assert_eq!(shown(&content, 60), [words("what is this? "), note(3)]);
    // Words get half of the share, if they need it.
    let kept = shown(&[words(&"w".repeat(20_000)), image(), image()], 4_000);
    assert_eq!((&kept[0], &kept[2], kept.len()), (&image(), &note(1), 3));
    assert!(kept[1].as_text().is_some_and(|text| text.len() > 4 * 2_000));
    assert_eq!(shown(&[image()], 60), [note(1)]);
}

#[test]
fn results_of_one_answer_share_alike() {
    let (mut story, [first, second]) = Story::of_calls(["read", "read"]);
    story.completed(first, &"a".repeat(100_000));
    story.completed(second, "b");
    let unit = units(&story.session)[1];
    let Unit::Assistant(entry) = unit else { panic!() };
    let pieces = results(entry, Cut { share_tokens: 200 });
    let tokens: Vec<u64> = pieces.iter().map(Piece::tokens).collect();
    // A hundred for the content, and the frame around it.
    let frame = tokens::OVERHEAD_TOKENS + 1 + 1;
    assert_eq!(tokens, [100 + frame, tokens::OVERHEAD_TOKENS + 1 + frame]);
}

fn content() -> impl Strategy<Value = Vec<Block>> {
    let text = prop_oneof!["[a-zé日 ]{0,40}", "[x日\u{1F600}]{0,2000}"].prop_map(|text| words(&text));
    let media = Just(image());
    let odd = Just(Block::from(View::Unknown));
    proptest::collection::vec(prop_oneof![6 => text, 1 => media, 1 => odd], 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is counted is what is made, it stays within its share, and it is cut between characters.
    #[test]
    fn content_stays_within_its_share(content in content(), share in 0..3_000u64) {
        let pieces = fit(&content, share);
        let counted = tokens_of(&pieces);
        let whole = text_of(&content);
        let blocks: Vec<Block> = pieces.into_iter().map(Piece::into_block).collect();
        prop_assert_eq!(counted, tokens::of_blocks(&blocks));
        // A note about words and one about attachments are always there, if they must be.
        prop_assert!(counted <= share.max(7 + 17), "{} in {}", counted, share);
        if let Some(text) = blocks.iter().find_map(Block::as_text) {
            let beginning: String = text.chars().take_while(|c| *c != '\n' && *c != '[').collect();
            prop_assert!(whole.replace(char::is_whitespace, "").starts_with(&beginning.replace(char::is_whitespace, "")));
        }
    }
}

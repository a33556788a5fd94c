//! Which notes fit a question best: BM25 over titles, tags and texts.

use std::collections::{BTreeMap, BTreeSet};

use super::naming::tag_of;
use super::words::words;
use crate::memory::Remembered;

/// How soon more of the same word stops counting, and how much a long note is held back: the usual values.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// What a word counts for where it is.
const IN_TITLE: f64 = 3.0;
const IN_TAGS: f64 = 2.0;
const IN_TEXT: f64 = 1.0;

/// What a longer word counts for that only begins with the one looked for; shorter ones than this begin too many.
const AS_BEGINNING: f64 = 0.5;
const BEGINNING_CHARACTERS_MIN: usize = 3;

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    words: BTreeSet<String>,
    tags: BTreeSet<String>,
}

impl Query {
    /// Reads a question: words, and `tag:…`.
    pub(super) fn new(text: &str) -> Self {
        let mut query = Self::default();
        for piece in text.split_whitespace() {
            match piece.strip_prefix("tag:").map(tag_of) {
                Some(tag) if !tag.is_empty() => {
                    query.tags.insert(tag);
                }
                Some(_) => {}
                None => query.words.extend(words(piece)),
            }
        }
        query
    }

    /// Whether there is nothing to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.tags.is_empty()
    }

    /// Whether a text has one of the words.
    pub(super) fn is_in(&self, text: &str) -> bool {
        words(text).iter().any(|word| self.words.iter().any(|sought| likeness(sought, word) > 0.0))
    }
}

/// How much of a word another one is.
fn likeness(sought: &str, word: &str) -> f64 {
    if sought == word {
        return 1.0;
    }
    let is_beginning = word.starts_with(sought) && sought.chars().count() >= BEGINNING_CHARACTERS_MIN;
    if is_beginning { AS_BEGINNING } else { 0.0 }
}

/// What counts of one note.
struct Counted {
    length: f64,
    weights: Vec<f64>,
}

/// The notes that fit, the best first; of those that fit as well, the newest. Notes come newest first.
pub(super) fn ranked<'n>(notes: &'n [Remembered], query: &Query) -> Vec<&'n Remembered> {
    let all: Vec<Counted> = notes.iter().map(|known| counted(known, query)).collect();
    let average = all.iter().map(|note| note.length).sum::<f64>() / (all.len().max(1) as f64);
    // Rare words say more.
    let rarity: Vec<f64> = (0..query.words.len())
        .map(|word| {
            let having = all.iter().filter(|note| note.weights[word] > 0.0).count() as f64;
            (1.0 + (all.len() as f64 - having + 0.5) / (having + 0.5)).ln()
        })
        .collect();
    let score = |note: &Counted| {
        let held_back = SATURATION * (1.0 - LENGTH + LENGTH * note.length / average.max(1.0));
        let words = note.weights.iter().zip(&rarity);
        words.map(|(weight, rarity)| rarity * weight * (SATURATION + 1.0) / (weight + held_back)).sum::<f64>()
    };
    let mut found: Vec<(f64, usize)> = all
        .iter()
        .enumerate()
        .filter(|(index, _)| has_tags(&notes[*index], query))
        .map(|(index, note)| (score(note), index))
        .filter(|(score, _)| *score > 0.0 || query.words.is_empty())
        .collect();
    found.sort_by(|(one, i), (other, j)| other.total_cmp(one).then_with(|| i.cmp(j)));
    found.into_iter().map(|(_, index)| &notes[index]).collect()
}

fn has_tags(known: &Remembered, query: &Query) -> bool {
    query.tags.iter().all(|tag| known.note.tags.iter().any(|own| tag_of(own) == *tag))
}

fn counted(known: &Remembered, query: &Query) -> Counted {
    let note = &known.note;
    let tags = note.tags.join(" ");
    let fields = [(IN_TITLE, words(&note.title)), (IN_TAGS, words(&tags)), (IN_TEXT, words(&note.text))];
    let length = fields.iter().map(|(_, words)| words.len()).sum::<usize>() as f64;
    // A text has each word many times; each is compared once.
    let mut occurrences: BTreeMap<&str, f64> = BTreeMap::new();
    for (weight, words) in &fields {
        words.iter().for_each(|word| *occurrences.entry(word).or_default() += weight);
    }
    let weigh = |sought: &String| {
        let same =
            occurrences.range(sought.as_str()..).take_while(|(word, _)| word.starts_with(sought.as_str()));
        same.map(|(word, weight)| likeness(sought, word) * weight).sum()
    };
    Counted { length, weights: query.words.iter().map(weigh).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Note;
    use weir_types::Timestamp;

    fn note(title: &str, tags: &[&str], text: &str) -> Remembered {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let note = Note { doc: title.to_lowercase(), title: title.into(), tags, text: text.into() };
        Remembered { note, at: Timestamp::default() }
    }

    fn find(notes: &[Remembered], query: &str) -> Vec<String> {
        ranked(notes, &Query::new(query)).iter().map(|known| known.note.title.clone()).collect()
    }

    #[test]
    fn titles_and_tags_count_more_and_rare_words_most() {
        let notes = [
            note("Lunch", &[], "The deploy went well, then lunch."),
            note("Deploy", &["ops"], "Run the script."),
            note("Script", &["deploy"], "It lives in tools."),
            note("Long", &[], &format!("deploy {}", "and so on ".repeat(200))),
        ];
        assert_eq!(find(&notes, "deploy"), ["Deploy", "Script", "Lunch", "Long"]);
        assert_eq!(find(&notes, "DEPLOY lunch"), ["Lunch", "Deploy", "Script", "Long"]);
        assert_eq!(find(&notes, "depl"), ["Deploy", "Script", "Lunch", "Long"]);
        assert!(find(&notes, "de").is_empty() && find(&notes, "nothing").is_empty());
    }

    #[test]
    fn tags_admit_and_the_newest_wins_a_tie() {
        let notes =
            [note("New", &["Rust"], "x"), note("Old", &["rust", "ops"], "x"), note("Other", &[], "x")];
        assert_eq!(find(&notes, "tag:rust"), ["New", "Old"]);
        assert_eq!(find(&notes, "tag:rust tag:OPS"), ["Old"]);
        assert_eq!(find(&notes, "x tag:#rust"), ["New", "Old"]);
        assert_eq!(find(&notes, "x tag:none"), [""; 0]);
        let same = [note("B", &[], "x"), note("A", &[], "x")];
        assert_eq!(find(&same, "x"), ["B", "A"]);
        assert!(Query::new("tag: ... !").is_empty());
        assert!(find(&[], "x").is_empty());
    }
}

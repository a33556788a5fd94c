//! Which notes are near a note: by links and by tags, step by step.

use std::collections::{BTreeMap, BTreeSet};

use super::naming::doc_of;
use crate::memory::Remembered;

/// A tag on more notes than this says nothing about any two of them.
const TAGGED_MAX: usize = 1_000;

/// A note, and how it was reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Near {
    /// Where it is among the notes.
    pub(super) note: usize,
    /// From the note one began at, such as `a → tag:rust → b → links to → c`.
    pub(super) path: String,
}

/// The notes within so many steps of one, the nearest first; of those as near, the one with more ways to it, then the newest.
pub(super) fn near(notes: &[Remembered], start: usize, depth: usize) -> Vec<Near> {
    let ways = Ways::of(notes);
    let mut reached: BTreeSet<usize> = BTreeSet::from([start]);
    let mut found = Vec::new();
    let mut frontier = vec![(start, notes[start].note.doc.clone())];
    for _ in 0..depth {
        let mut next: BTreeMap<usize, (usize, String)> = BTreeMap::new();
        for (from, path) in &frontier {
            for (to, how) in ways.from(notes, *from) {
                if reached.contains(&to) {
                    continue;
                }
                let way = || format!("{path} → {how} → {}", notes[to].note.doc);
                next.entry(to).and_modify(|(ways, _)| *ways += 1).or_insert_with(|| (1, way()));
            }
        }
        let mut step: Vec<(usize, (usize, String))> = next.into_iter().collect();
        step.sort_by(|(i, (one, _)), (j, (other, _))| other.cmp(one).then_with(|| i.cmp(j)));
        frontier = step.into_iter().map(|(note, (_, path))| (note, path)).collect();
        reached.extend(frontier.iter().map(|(note, _)| *note));
        found.extend(frontier.iter().map(|(note, path)| Near { note: *note, path: path.clone() }));
    }
    found
}

/// Everything that leads from one note to another.
struct Ways {
    tagged: BTreeMap<String, Vec<usize>>,
    links: Vec<Vec<usize>>,
    linked_from: Vec<Vec<usize>>,
}

impl Ways {
    fn of(notes: &[Remembered]) -> Self {
        let by_doc: BTreeMap<&str, usize> =
            notes.iter().enumerate().map(|(index, known)| (known.note.doc.as_str(), index)).collect();
        let mut tagged: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let (mut links, mut linked_from) = (vec![Vec::new(); notes.len()], vec![Vec::new(); notes.len()]);
        for (from, known) in notes.iter().enumerate() {
            for tag in &known.note.tags {
                tagged.entry(tag.clone()).or_default().push(from);
            }
            for target in links_in(&known.note.text) {
                let to = by_doc.get(target).or_else(|| by_doc.get(doc_of(target).as_str()));
                if let Some(&to) = to.filter(|to| **to != from && !links[from].contains(*to)) {
                    links[from].push(to);
                    linked_from[to].push(from);
                }
            }
        }
        Self { tagged, links, linked_from }
    }

    /// Links first: whoever wrote them meant them.
    fn from<'w>(
        &'w self,
        notes: &'w [Remembered],
        from: usize,
    ) -> impl Iterator<Item = (usize, String)> + 'w {
        let links = self.links[from].iter().map(|to| (*to, "links to".to_owned()));
        let back = self.linked_from[from].iter().map(|to| (*to, "is linked from".to_owned()));
        let tags = notes[from].note.tags.iter().flat_map(move |tag| {
            let sharing = self.tagged.get(tag).filter(|sharing| sharing.len() <= TAGGED_MAX);
            sharing.into_iter().flatten().map(move |to| (*to, format!("tag:{tag}")))
        });
        links.chain(back).chain(tags)
    }
}

/// What a text links to: `[[title]]` or `[[title|shown so]]`.
fn links_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("[[").skip(1).filter_map(|rest| {
        let (inside, _) = rest.split_once("]]")?;
        let target = inside.split(['|', '#']).next().unwrap_or_default().trim();
        (!target.is_empty() && !target.contains('\n')).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Note;
    use weir_types::Timestamp;

    fn notes(all: &[(&str, &[&str], &str)]) -> Vec<Remembered> {
        let note = |(title, tags, text): &(&str, &[&str], &str)| Note {
            doc: doc_of(title),
            title: (*title).to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            text: (*text).to_owned(),
        };
        all.iter().map(|each| Remembered { note: note(each), at: Timestamp::default() }).collect()
    }

    fn paths(notes: &[Remembered], start: usize, depth: usize) -> Vec<String> {
        near(notes, start, depth).into_iter().map(|near| near.path).collect()
    }

    #[test]
    fn links_and_tags_lead_from_note_to_note() {
        let notes = notes(&[
            ("A", &["x"], "see [[B note]] and [[nowhere]] and [[ ]] and [[A]]"),
            ("B note", &["x"], "see [[c|that one]]"),
            ("C", &["y"], ""),
            ("D", &["y"], "[[A"),
            ("E", &[], ""),
        ]);
        assert_eq!(paths(&notes, 0, 1), ["a → links to → b-note"]);
        assert_eq!(paths(&notes, 1, 1), ["b-note → is linked from → a", "b-note → links to → c"]);
        assert_eq!(
            paths(&notes, 0, 3),
            [
                "a → links to → b-note",
                "a → links to → b-note → links to → c",
                "a → links to → b-note → links to → c → tag:y → d"
            ]
        );
        assert!(paths(&notes, 4, 3).is_empty());
    }

    #[test]
    fn more_ways_come_first_and_circles_end() {
        let notes = notes(&[("A", &["x", "y"], ""), ("B", &["x"], "[[C]]"), ("C", &["x", "y"], "[[B]]")]);
        assert_eq!(paths(&notes, 0, 3), ["a → tag:x → c", "a → tag:x → b"]);
        let crowd: Vec<(String, &[&str], &str)> =
            (0..=TAGGED_MAX).map(|n| (n.to_string(), &["all"][..], "")).collect();
        let crowd: Vec<(&str, &[&str], &str)> =
            crowd.iter().map(|(title, tags, text)| (title.as_str(), *tags, *text)).collect();
        assert!(paths(&self::notes(&crowd), 0, 1).is_empty());
    }
}

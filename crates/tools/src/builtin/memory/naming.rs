//! Under which name a note is kept.

use weir_types::Hash;

/// The longest name, in characters.
const DOC_CHARACTERS_MAX: usize = 60;

/// The name of a note with this title. Titles that differ only in case, white space and punctuation have the same name; others
/// do not, because a title that a name cannot show in full has a part of its hash in it.
pub(super) fn doc_of(title: &str) -> String {
    let folded = title.trim().to_lowercase();
    let slug = slug(&folded, |_| true);
    let short: String = slug.chars().take(DOC_CHARACTERS_MAX).collect();
    let is_lossy = folded.chars().any(|c| !c.is_alphanumeric() && !is_plain(c)) || short.is_empty();
    if !is_lossy && short == slug {
        return slug;
    }
    // What sets it apart: everything but what never does.
    let telling: String = folded.chars().filter(|c| !is_plain(*c)).collect();
    let hash = Hash::of(telling.as_bytes()).to_string();
    let short = short.trim_end_matches('-');
    if short.is_empty() { format!("note-{}", &hash[..8]) } else { format!("{short}-{}", &hash[..8]) }
}

/// A tag as it is kept: lower case, in one piece, without `#`.
pub(super) fn tag_of(tag: &str) -> String {
    slug(&tag.trim().trim_start_matches('#').to_lowercase(), |c| {
        !matches!(c, '+' | '#' | '.' | '/' | ':' | '_')
    })
}

/// Letters and digits, with one `-` for each run of what `breaks`.
fn slug(text: &str, breaks: impl Fn(char) -> bool) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || !breaks(c) {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

/// What does not set two titles apart.
fn is_plain(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '-' | '_' | '.' | ',' | ':' | ';' | '!' | '?' | '\'' | '"' | '’' | '(' | ')' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_one_name() {
        for (title, doc) in [
            ("Deploy steps", "deploy-steps"),
            ("  deploy   STEPS! ", "deploy-steps"),
            ("Anna's birthday: June", "anna-s-birthday-june"),
            ("Größe", "größe"),
            ("日本 語", "日本-語"),
        ] {
            assert_eq!(doc_of(title), doc, "{title}");
        }
    }

    #[test]
    fn titles_that_differ_have_names_that_differ() {
        let titles = ["C", "C++", "C#", "+++", "???", "a & b", "a b", &"x".repeat(100), &"x".repeat(101)];
        let mut names: Vec<String> = titles.iter().map(|title| doc_of(title)).collect();
        assert!(names[1].starts_with("c-") && names[3].starts_with("note-"), "{names:?}");
        assert!(names.iter().all(|name| name.chars().count() <= DOC_CHARACTERS_MAX + 9));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), titles.len(), "{names:?}");
    }

    #[test]
    fn tags_are_one_piece() {
        for (tag, kept) in
            [("#Rust", "rust"), (" to do ", "to-do"), ("C++", "c++"), ("a/b:c", "a/b:c"), ("##", "")]
        {
            assert_eq!(tag_of(tag), kept, "{tag}");
        }
    }
}

//! The words of a text, as they are compared.

/// The words of a text: runs of letters and digits, in lower case. Scripts without spaces between words count each character
/// as one.
pub(super) fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    for c in text.chars() {
        if c.is_alphanumeric() && !stands_alone(c) {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if stands_alone(c) {
            words.push(c.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Han, kana and hangul.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{2ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded() {
        for (text, expected) in [
            ("The Quick-brown fox_2", &["the", "quick", "brown", "fox", "2"][..]),
            ("STRASSE Straße", &["strasse", "straße"]),
            ("東京 x", &["東", "京", "x"]),
            (" .,! ", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}

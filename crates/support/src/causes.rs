//! An error and its causes.

use std::error::Error;

/// The error and all its causes in one line. A cause whose words are already there is left out: some errors repeat
/// their source's message.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// The last cause alone: `connection refused` says more than that a request could not be sent.
pub fn innermost(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|layer| layer as &dyn Error)
        }
    }

    fn layers(words: &[&'static str]) -> Layer {
        let (first, rest) = words.split_first().unwrap();
        Layer(first, (!rest.is_empty()).then(|| Box::new(layers(rest))))
    }

    #[test]
    fn every_cause_is_named_once() {
        let check = |words: &[&'static str], expected: &str| assert_eq!(causes(&layers(words)), expected);
        check(&["no answer"], "no answer");
        check(&["no answer", "connection refused"], "no answer: connection refused");
        check(&["no answer: connection refused", "connection refused"], "no answer: connection refused");
        check(&["no answer", "tls: bad record", "bad record"], "no answer: tls: bad record");
    }

    #[test]
    fn the_innermost_cause_is_the_last() {
        assert_eq!(innermost(&layers(&["a", "b", "c"])), "c");
        assert_eq!(innermost(&layers(&["a"])), "a");
    }
}

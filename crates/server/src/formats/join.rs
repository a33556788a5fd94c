//! Several answers in one message.

/// The texts of several answers, one after the other in one message: a blank line keeps them apart.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// The request whose answer came last; 0 for a remark of ours.
    request: Option<u64>,
    /// Line breaks at the end.
    breaks: usize,
}

impl Joiner {
    /// What has to come before a piece of text, if anything.
    pub(crate) fn gap(&mut self, request: u64, text: &str) -> Option<&'static str> {
        let is_new = self.request.is_some_and(|before| before != request);
        let gap = if is_new { ["\n\n", "\n"].get(self.breaks).copied() } else { None };
        let trailing = text.len() - text.trim_end_matches('\n').len();
        self.breaks = if trailing == text.len() { self.breaks + trailing } else { trailing };
        self.request = Some(request);
        gap
    }

    /// The same before something that is no answer.
    pub(crate) fn gap_before_remark(&mut self, text: &str) -> Option<&'static str> {
        // Two remarks are kept apart like two answers.
        let gap = self.gap(0, text);
        self.request = Some(u64::MAX);
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_line_keeps_answers_apart() {
        let joined = |pieces: &[(u64, &str)]| {
            let mut joiner = Joiner::default();
            pieces.iter().fold(String::new(), |text, (request, piece)| {
                let gap = match request {
                    0 => joiner.gap_before_remark(piece),
                    _ => joiner.gap(*request, piece),
                };
                text + gap.unwrap_or_default() + piece
            })
        };
        assert_eq!(joined(&[(1, "a"), (1, "b"), (2, "c")]), "ab\n\nc");
        assert_eq!(joined(&[(1, "a\n"), (2, "b\n"), (2, "\n"), (3, "c")]), "a\n\nb\n\nc");
        assert_eq!(joined(&[(0, "asks"), (0, "asks again"), (3, "c")]), "asks\n\nasks again\n\nc");
    }
}

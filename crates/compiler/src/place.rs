//! From bytes of a text to lines and columns.

use weir_spec::Span;

/// The part of a text between two bytes.
pub(crate) fn span(text: &str, start: usize, end: usize) -> Span {
    let start = floor(text, start);
    let end = floor(text, end).max(start);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    Span {
        start,
        end,
        line: text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
    }
}

fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_by_characters() {
        let text = "é\nab";
        assert_eq!(span(text, 0, 2), Span { start: 0, end: 2, line: 1, column: 1 });
        assert_eq!(span(text, 4, 5), Span { start: 4, end: 5, line: 2, column: 2 });
        assert_eq!(span(text, 1, 99), Span { start: 0, end: 5, line: 1, column: 1 });
    }
}

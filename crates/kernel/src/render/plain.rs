//! The conversation in plain words, for a summariser.

use std::fmt::Write;

use weir_types::{View, text_of};

use super::answer::results;
use super::fit::{fit, shorten};
use super::piece::Piece;
use super::{Cut, Unit};

/// Tokens of the arguments of one call.
const INPUT_TOKENS_MAX: u64 = 500;

/// One unit in plain words. Reasoning, and what only its provider understands, is left out.
pub(crate) fn plain(unit: Unit<'_>, cut: Cut) -> String {
    match unit {
        Unit::User(entry) => {
            format!("USER: {}\n", words(fit(&entry.content, cut.message_tokens())))
        }
        Unit::Assistant(entry) => {
            let said = shorten(&text_of(&entry.content), cut.message_tokens());
            let mut text = format!("ASSISTANT: {said}\n");
            for ((_, name, input), result) in entry.uses().zip(results(entry, cut)) {
                let input = shorten(input.as_str(), INPUT_TOKENS_MAX.min(cut.share_tokens));
                // Writing to a string cannot fail.
                let _ = writeln!(text, "CALL {name}: {input}");
                if let Piece::ToolResult { content, failed, .. } = result {
                    let outcome = if failed { "FAILED" } else { "RESULT" };
                    let _ = writeln!(text, "{outcome} {name}: {}", words(content));
                }
            }
            text
        }
    }
}

fn words(pieces: Vec<Piece<'_>>) -> String {
    let word = |piece: Piece<'_>| match piece {
        Piece::Shown(View::Image { .. }) => "[image]".to_owned(),
        Piece::Shown(View::Document { title, .. }) => {
            format!("[document {}]", title.as_deref().unwrap_or_default())
        }
        other => other.into_block().as_text().unwrap_or_default().to_owned(),
    };
    pieces.into_iter().map(word).collect()
}

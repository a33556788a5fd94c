//! Results of any length: what is too long for a request goes to a blob, and the model gets the beginning, the size and
//! the way to the rest. Whoever writes the result down stores the blob.

use bytes::Bytes;
use weir_types::{Block, View, text_of};

use crate::call::{Done, Failed, Whole};

/// Most text of one result that a request shows as it is. About eight thousand tokens; more is read in parts.
pub(crate) const SHOWN_BYTES_MAX: usize = 32 * 1024;

/// How much of a longer result is shown.
const HEAD_BYTES: usize = 8 * 1024;

/// The largest result that is kept. What a tool has to say beyond it must be asked for in parts.
pub(crate) const WHOLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most pictures and documents of one result, and their bytes in base64: what providers take in one message.
const MEDIA_MAX: usize = 20;
const MEDIA_BYTES_MAX: usize = 5 * 1024 * 1024;

/// Most of what a call wrote to its console that is kept: for a person who looks into what went wrong.
const LOG_LINES_MAX: usize = 200;
const LOG_LINE_BYTES_MAX: usize = 2 * 1024;

/// Bounds what is shown of a result. The whole of its text goes along.
pub(crate) fn bound(done: Done) -> Done {
    let mut done = without_surplus_media(done);
    bound_log(&mut done.log);
    let text = text_of(&done.content);
    if text.len() <= SHOWN_BYTES_MAX || done.whole.is_some() {
        return done;
    }
    let kept = head(&text, WHOLE_BYTES_MAX);
    let whole = Whole::new(Bytes::copy_from_slice(kept.as_bytes()));
    let (hash, shown) = (whole.hash(), head(&text, HEAD_BYTES));
    let lost = match text.len() - kept.len() {
        0 => String::new(),
        lost => format!(" The last {lost} bytes were not kept."),
    };
    let note = format!(
        "\n[the first {} of {} bytes; read on with result_read {{\"result\": \"{hash}\", \"offset\": {}}}.{lost}]",
        shown.len(),
        text.len(),
        shown.len()
    );
    let mut content = vec![Block::text(format!("{shown}{note}"))];
    content.extend(done.content.into_iter().filter(|block| block.as_text().is_none()));
    Done { content, whole: Some(whole), ..done }
}

/// Bounds what is said of a failure. Nothing of it is kept elsewhere: the beginning says what went wrong.
pub(crate) fn bound_failure(mut failed: Failed) -> Failed {
    bound_log(&mut failed.log);
    let shown = head(&failed.message, HEAD_BYTES).len();
    if shown < failed.message.len() {
        let left = failed.message.len() - shown;
        failed.message.truncate(shown);
        failed.message.push_str(&format!("\n[{left} more bytes left out]"));
    }
    failed
}

fn bound_log(log: &mut Vec<String>) {
    let surplus = log.len().saturating_sub(LOG_LINES_MAX);
    log.truncate(LOG_LINES_MAX);
    for line in log.iter_mut() {
        line.truncate(head(line, LOG_LINE_BYTES_MAX).len());
    }
    if surplus > 0 {
        log.push(format!("[{surplus} more lines left out]"));
    }
}

fn without_surplus_media(mut done: Done) -> Done {
    let (mut count, mut bytes, mut dropped) = (0, 0, 0);
    done.content.retain(|block| {
        let size = match &block.view {
            View::Image { source, .. } | View::Document { source, .. } => match source {
                weir_types::Source::Base64(data) => data.len(),
                weir_types::Source::Url(_) => 0,
            },
            _ => return true,
        };
        let fits = count < MEDIA_MAX && bytes + size <= MEDIA_BYTES_MAX;
        if fits {
            (count, bytes) = (count + 1, bytes + size);
        } else {
            dropped += 1;
        }
        fits
    });
    if dropped > 0 {
        done.content
            .push(Block::text(format!("[{dropped} pictures or documents left out: too many or too large]")));
    }
    done
}

/// The beginning of a text, cut between two characters.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_types::Source;

    #[test]
    fn what_fits_is_shown_and_what_does_not_is_kept() {
        let short = Done::text("x".repeat(SHOWN_BYTES_MAX));
        assert_eq!(bound(short.clone()), short);
        let text = "é".repeat(SHOWN_BYTES_MAX / 2 + 1);
        let long = bound(Done::text(text.clone()));
        let words = long.words();
        let whole = long.whole.unwrap();
        let hash = whole.hash();
        assert_eq!(whole.into_content(), text.as_bytes());
        assert!(words.contains(&format!("the first 8192 of {} bytes", text.len())), "{}", &words[8192..]);
        assert!(words.contains(&hash.to_string()) && words.len() < 2 * HEAD_BYTES);
    }

    #[test]
    fn pictures_are_bounded() {
        let image = |bytes: usize| {
            Block::from(View::Image {
                media_type: "image/png".into(),
                source: Source::Base64("A".repeat(bytes)),
            })
        };
        let many = Done { content: (0..30).map(|_| image(4)).collect(), ..Done::default() };
        let many = bound(many);
        assert_eq!(many.content.len(), MEDIA_MAX + 1);
        assert!(many.words().contains("10 pictures or documents left out"));
        let large = Done { content: vec![image(MEDIA_BYTES_MAX + 1)], ..Done::default() };
        assert_eq!(bound(large).content.len(), 1);
    }

    #[test]
    fn failures_and_logs_are_bounded() {
        let log = || (0..1_000).map(|_| "é".repeat(5_000)).collect::<Vec<_>>();
        let failed = Failed { log: log(), ..Failed::unknown("x", "é".repeat(1_000_000)) };
        let bounded = bound_failure(failed);
        assert!(bounded.message.ends_with("\n[1991808 more bytes left out]"), "{}", bounded.message.len());
        assert_eq!((bounded.message.len(), bounded.outcome), (HEAD_BYTES + 30, weir_types::Outcome::Unknown));
        let done = bound(Done { log: log(), ..Done::text("short") });
        for log in [bounded.log, done.log] {
            assert_eq!((log.len(), log[0].len()), (LOG_LINES_MAX + 1, LOG_LINE_BYTES_MAX));
            assert_eq!(log[LOG_LINES_MAX], "[800 more lines left out]");
        }
        assert_eq!(bound_failure(Failed::new("x", "short")), Failed::new("x", "short"));
    }
}

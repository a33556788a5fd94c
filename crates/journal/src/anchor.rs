//! Anchors: the heads of all chains as text, to be kept where whoever can rewrite the journal cannot reach it.
//!
//! Each chain commits to everything before it, so an anchor taken earlier finds a journal that was rewritten, cut or
//! exchanged since, even one whose own chains agree. A journal that has only grown passes.

use std::borrow::Cow;

use serde::Deserialize;
use weir_types::{BranchId, BranchName, Explain, Fault, Hash, Seq, StreamName};

use crate::error::ReadError;
use crate::lines::Object;
use crate::port::{Journal, PAGE_MAX};
use crate::verify::Problem;

/// The version of the format written, and the newest that is read.
const VERSION: u64 = 1;

/// Why an anchor could not be compared with the journal.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// Not an anchor at all.
    #[error("this is not an anchor: its first line is not {{\"weir_anchor\":{VERSION}}}")]
    NotAnAnchor,
    /// Written by a newer Weir.
    #[error("the anchor has format {found}; this version reads formats up to {VERSION}")]
    Newer {
        /// The format it names.
        found: u64,
    },
    /// A line that anchors nothing.
    #[error("line {line} of the anchor is wrong")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Explain for AnchorError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotAnAnchor | Self::Line { .. } => "journal::bad-anchor",
            Self::Newer { .. } => "journal::newer-anchor",
            Self::Read(error) => error.code(),
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NotAnAnchor | Self::Line { .. } => {
                "pass the file that `weir verify --print-anchor` printed, unchanged".into()
            }
            Self::Newer { .. } => "use the version of weir that wrote the anchor, or a newer one".into(),
            Self::Read(error) => error.help(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NotAnAnchor | Self::Newer { .. } | Self::Line { .. } => Fault::Input,
            Self::Read(error) => error.fault(),
        }
    }
}

#[derive(Deserialize)]
struct Header {
    weir_anchor: u64,
}

#[derive(Deserialize)]
struct Anchored {
    stream: StreamName,
    branch: BranchName,
    seq: Seq,
    chain: Hash,
}

/// The newest event of every branch, one JSON line each, after a header.
///
/// # Errors
/// When the journal cannot be read.
pub async fn take(journal: &dyn Journal) -> Result<String, ReadError> {
    let mut text = Object::default().json("weir_anchor", &VERSION.to_string()).end();
    text.push('\n');
    let mut after = None;
    loop {
        let page = journal.streams(after.take(), PAGE_MAX).await?;
        for summary in &page {
            for branch in journal.branches(&summary.stream).await? {
                let line = Object::default()
                    .text("stream", summary.stream.as_str())
                    .text("branch", branch.name.as_str())
                    .json("seq", &branch.head.seq.to_string())
                    .text("chain", &branch.head.chain.to_string());
                text.push_str(&line.end());
                text.push('\n');
            }
        }
        match page.into_iter().next_back() {
            Some(last) => after = Some(last.stream),
            None => return Ok(text),
        }
    }
}

/// Compares the journal with an anchor taken earlier: every anchored event must still be there, with the same chain.
///
/// # Errors
/// When `anchor` is none, or the journal cannot be read. What differs is not an error but the answer.
pub async fn check(journal: &dyn Journal, anchor: &str) -> Result<Vec<Problem>, AnchorError> {
    let mut lines = anchor.lines().enumerate();
    let header = lines.next().and_then(|(_, line)| serde_json::from_str::<Header>(line).ok());
    match header.ok_or(AnchorError::NotAnAnchor)?.weir_anchor {
        1..=VERSION => {}
        0 => return Err(AnchorError::NotAnAnchor),
        found => return Err(AnchorError::Newer { found }),
    }
    let mut problems = Vec::new();
    for (index, line) in lines {
        let anchored: Anchored =
            serde_json::from_str(line).map_err(|source| AnchorError::Line { line: index + 1, source })?;
        if let Some(what) = compare(journal, &anchored).await? {
            let Anchored { stream, branch, seq, .. } = anchored;
            problems.push(Problem::at_event(&BranchId { stream, branch }, seq, what));
        }
    }
    Ok(problems)
}

/// What is wrong with an anchored event.
async fn compare(journal: &dyn Journal, anchored: &Anchored) -> Result<Option<String>, ReadError> {
    let branch = BranchId { stream: anchored.stream.clone(), branch: anchored.branch.clone() };
    let found = match journal.read(&branch, Seq(anchored.seq.0.saturating_sub(1)), 1).await {
        Ok(found) => found,
        Err(ReadError::Storage(error)) => return Err(error.into()),
        Err(error) => return Ok(Some(format!("the anchored event cannot be read: {error}"))),
    };
    Ok(match found.first() {
        None => Some("the anchored event is missing".to_owned()),
        Some(event) if event.chain != anchored.chain => Some("the chain is not the anchored one".to_owned()),
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_blobs::MemoryBlobs;

    use super::*;
    use crate::{Fork, MemoryJournal, NewEvent, Part};

    async fn append(journal: &MemoryJournal, stream: &str, branch: &str, payloads: &[&'static str]) {
        let branch = BranchId { stream: stream.parse().unwrap(), branch: branch.parse().unwrap() };
        let events = payloads.iter().map(|text| NewEvent::new("k".parse().unwrap(), *text)).collect();
        journal.append(vec![Part::new(branch, events)]).await.unwrap();
    }

    async fn sample() -> MemoryJournal {
        let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        append(&journal, "a", "main", &["1", "2", "3"]).await;
        append(&journal, "b", "main", &["1"]).await;
        let from = BranchId::main("a".parse().unwrap());
        journal.fork(Fork { from, at: Seq(2), name: "side".parse().unwrap() }).await.unwrap();
        journal
    }

    fn problem(stream: &str, branch: &str, seq: u64, what: &str) -> Problem {
        let branch = BranchId { stream: stream.parse().unwrap(), branch: branch.parse().unwrap() };
        Problem::at_event(&branch, Seq(seq), what)
    }

    #[tokio::test]
    async fn a_journal_that_has_grown_passes() {
        let journal = sample().await;
        let anchor = take(&journal).await.unwrap();
        assert_eq!(anchor.lines().count(), 4);
        append(&journal, "a", "side", &["more"]).await;
        append(&journal, "c", "main", &["more"]).await;
        assert_eq!(check(&journal, &anchor).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_rewritten_journal_is_found_even_if_its_own_chains_agree() {
        let anchor = take(&sample().await).await.unwrap();
        let rewritten = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        append(&rewritten, "a", "main", &["1", "forged"]).await;
        assert_eq!(
            check(&rewritten, &anchor).await.unwrap(),
            [
                problem("a", "main", 3, "the anchored event is missing"),
                problem("a", "side", 2, "the anchored event cannot be read: stream `a` has no branch `side`"),
                problem("b", "main", 1, "the anchored event cannot be read: there is no stream `b`"),
            ]
        );
        append(&rewritten, "a", "main", &["3"]).await;
        let problems = check(&rewritten, &anchor).await.unwrap();
        assert_eq!(problems[0], problem("a", "main", 3, "the chain is not the anchored one"));
    }

    #[tokio::test]
    async fn what_is_no_anchor_is_refused() {
        let journal = sample().await;
        let not = "this is not an anchor: its first line is not {\"weir_anchor\":1}";
        for (text, expected) in [
            ("", not),
            ("hello", not),
            ("{\"weir_export\":1}", not),
            ("{\"weir_anchor\":0}", not),
            ("{\"weir_anchor\":2}", "the anchor has format 2; this version reads formats up to 1"),
            ("{\"weir_anchor\":1}\n{\"stream\":\"a\"}", "line 2 of the anchor is wrong"),
        ] {
            assert_eq!(check(&journal, text).await.unwrap_err().to_string(), expected);
        }
    }
}

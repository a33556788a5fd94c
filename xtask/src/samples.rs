//! The corpus that dictionary 1 is trained on: made-up events of every kind, the same on every machine.
//!
//! What matters is not that they are true but that they look like what a session leaves behind: the members of each
//! payload and of meta, the blocks of each provider, and enough varied English, code and listings that the
//! dictionary holds what texts have in common rather than these texts.

mod blocks;
mod events;
mod json;
mod random;
mod words;

use std::fmt::Write as _;

use self::json::{Json, object};
use self::random::Random;

/// Events of one kind appear in the corpus in this proportion.
const WEIGHTS: &[(&str, usize)] = &[
    ("session.created", 12),
    ("session.updated", 6),
    ("session.resumed", 6),
    ("session.halted", 6),
    ("session.closed", 6),
    ("branch.forked", 6),
    ("branch.merged", 6),
    ("user.message", 90),
    ("external.signal", 15),
    ("run.started", 10),
    ("iteration.started", 10),
    ("model.requested", 40),
    ("model.failed", 12),
    ("text.delta", 70),
    ("assistant.message", 190),
    ("state.patched", 25),
    ("context.compacted", 12),
    ("run.finished", 25),
    ("run.errored", 8),
    ("run.cancel_requested", 4),
    ("run.cancelled", 4),
    ("run.parked", 6),
    ("tool.requested", 70),
    ("tool.decided", 35),
    ("tool.started", 35),
    ("tool.completed", 170),
    ("tool.failed", 20),
    ("approval.requested", 12),
    ("approval.granted", 10),
    ("approval.denied", 8),
    ("approval.expired", 4),
    ("memory.stored", 12),
    ("memory.retrieved", 12),
    ("file.written", 20),
    ("file.deleted", 6),
    ("snapshot.taken", 6),
    ("budget.reserved", 12),
    ("budget.settled", 12),
    ("budget.released", 6),
    ("budget.exceeded", 6),
    ("lane.chosen", 6),
    ("lane.rolled_back", 4),
    ("loop.fired", 8),
    ("loop.skipped", 6),
    ("loop.finished", 6),
    ("finance.invoice", 20),
    ("sensor.reading", 20),
];

/// The corpus, one `{"kind","meta","payload"}` a line.
pub(crate) fn corpus(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut lines = String::new();
    for &(kind, weight) in WEIGHTS {
        for _ in 0..weight {
            let meta = meta(kind, &mut random);
            let payload = events::payload(kind, &mut random);
            // Writing to a string cannot fail.
            let _ = writeln!(lines, r#"{{"kind":"{kind}","meta":{meta},"payload":{payload}}}"#);
        }
    }
    lines
}

fn meta(kind: &str, random: &mut Random) -> Json {
    let outside = ["finance.", "sensor.", "loop.", "budget."].iter().any(|area| kind.starts_with(area));
    let in_run = !outside && !kind.starts_with("session.") && !kind.starts_with("branch.");
    let timed = matches!(kind, "assistant.message" | "tool.completed" | "tool.failed" | "run.finished");
    let trace = format!("00-{}-{}-01", random.hex(32), random.hex(16));
    object! {
        actor: events::principal(random),
        run: in_run.then(|| random.ulid()),
        iteration: in_run.then(|| 1 + random.below(12)),
        causation: (!random.one_in(4)).then(|| random.ulid()),
        trace: Some(trace).filter(|_| !random.one_in(4)),
        duration_ms: timed.then(|| 3 + random.below(20_000)),
        manifest: random.one_in(12).then(|| random.hex(64)),
        key: random.one_in(8).then(|| random.ulid()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_is_an_event_and_every_kind_is_there() {
        let corpus = corpus(1);
        let mut kinds = BTreeSet::new();
        for line in corpus.lines() {
            let event: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(event["meta"].is_object() && event["payload"].is_object(), "{line}");
            kinds.insert(event["kind"].as_str().unwrap().to_owned());
        }
        assert_eq!(kinds, WEIGHTS.iter().map(|(kind, _)| kind.to_string()).collect());
    }

    #[test]
    fn the_corpus_depends_on_the_seed_alone() {
        // Not `assert_eq!`, which would print both.
        assert!(corpus(1) == corpus(1));
        assert!(corpus(1) != corpus(2));
    }
}
